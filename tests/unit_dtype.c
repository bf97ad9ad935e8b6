/* unit_dtype.c - fp16, bf16 and E4M3, every code and every rounding decision, against a slow reference that
 * knows the formats only as ordered lists of values. */
#include "dtype.h"
#include "unit.h"

#include <math.h>

/* A format: the value of each non-negative code, in ascending order up to the largest finite one. */
typedef struct format {
  fa_dtype_t dtype;
  int largest, exponent_bits, mantissa_bits, bias, sign;
  bool has_infinity;
} format_t;
static const format_t formats[] = {{FA_FP16, 0x7bff, 5, 10, 15, 0x8000, true},
                                   {FA_BF16, 0x7f7f, 8, 7, 127, 0x8000, true},
                                   {FA_E4M3, 0x7e, 4, 3, 7, 0x80, false}};

/* Also for the code after the largest, as if the format went on: rounding to it means overflow. */
static double value_of(const format_t *f, int code) {
  int e = code >> f->mantissa_bits, m = code & ((1 << f->mantissa_bits) - 1);
  if (e == 0) return ldexp(m, 1 - f->bias - f->mantissa_bits);
  return ldexp((1 << f->mantissa_bits) + m, e - f->bias - f->mantissa_bits);
}

/* Room for one element of any type. */
typedef union cell {
  float any;
  uint16_t wide;
  uint8_t narrow;
} cell_t;

static float decode(const format_t *f, int code) {
  cell_t cell = {0};
  if (f->dtype == FA_E4M3)
    cell.narrow = (uint8_t)code;
  else
    cell.wide = (uint16_t)code;
  return fa_load(f->dtype, &cell, 0);
}

static int encode(const format_t *f, float x) {
  cell_t cell = {0};
  fa_store(f->dtype, &cell, 0, x);
  return f->dtype == FA_E4M3 ? cell.narrow : cell.wide;
}

/* Nearest value, ties to the even code, by search among all values. */
static int reference(const format_t *f, float x) {
  int sign = signbit(x) ? f->sign : 0, low = 0, high = f->largest + 1;
  double magnitude = fabs((double)x);
  if (magnitude >= value_of(f, f->largest + 1))
    low = f->largest + 1;
  else
    while (high - low > 1) {
      int middle = (low + high) / 2;
      if (value_of(f, middle) <= magnitude)
        low = middle;
      else
        high = middle;
    }
  if (low <= f->largest) {
    double below = magnitude - value_of(f, low), above = value_of(f, low + 1) - magnitude;
    if (above < below || (above == below && (low & 1))) low++;
  }
  if (low > f->largest) low = f->has_infinity ? f->largest + 1 : f->largest;
  return sign | low;
}

static void must_round(const format_t *f, float x) {
  int ours = encode(f, x), right = reference(f, x);
  ck_assert_msg(ours == right, "%s: %a becomes 0x%x, must be 0x%x", fa_dtype_name(f->dtype), (double)x,
                (unsigned)ours, (unsigned)right);
  float back = decode(f, right), rounded = fa_round_to(f->dtype, x);
  ck_assert_msg(rounded == back && signbit(rounded) == signbit(back), "%s: fa_round_to(%a) is %a",
                fa_dtype_name(f->dtype), (double)x, (double)rounded);
}

START_TEST(every_code_decodes) {
  for (int n = 0; n < 3; n++) {
    const format_t *f = &formats[n];
    for (int code = 0; code <= f->largest; code++)
      for (int sign = 0; sign < 2; sign++) {
        float x = decode(f, code | (sign ? f->sign : 0));
        double right = sign ? -value_of(f, code) : value_of(f, code);
        ck_assert_msg((double)x == right && (signbit(x) != 0) == sign, "%s 0x%x is %a, must be %a",
                      fa_dtype_name(f->dtype), (unsigned)code, (double)x, right);
      }
  }
}
END_TEST

START_TEST(every_code_comes_back) {
  for (int n = 0; n < 3; n++) {
    const format_t *f = &formats[n];
    for (int code = 0; code <= f->largest; code++) {
      ck_assert_int_eq(encode(f, decode(f, code)), code);
      ck_assert_int_eq(encode(f, decode(f, code | f->sign)), code | f->sign);
    }
  }
}
END_TEST

/* Between each pair of neighbours: just above the lower, the tie and its two sides, just below the upper. */
START_TEST(ties_go_to_even) {
  for (int n = 0; n < 3; n++) {
    const format_t *f = &formats[n];
    for (int code = 0; code <= f->largest; code++) {
      float low = (float)value_of(f, code), high = (float)value_of(f, code + 1);
      float tie = (float)((value_of(f, code) + value_of(f, code + 1)) / 2);
      const float points[] = {low, nextafterf(low, high), nextafterf(tie, low),
                              tie, nextafterf(tie, high), nextafterf(high, low)};
      for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
        must_round(f, points[k]);
        must_round(f, -points[k]);
      }
    }
  }
}
END_TEST

START_TEST(overflow) {
  for (int n = 0; n < 3; n++) {
    const format_t *f = &formats[n];
    float largest = (float)value_of(f, f->largest);
    const float far[] = {
        nextafterf(largest, INFINITY), largest * 1.5f, 1e30f, 3.4e38f, 0x1.fffffep127f, INFINITY};
    for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
      if (!isfinite(far[k])) continue;
      must_round(f, far[k]);
      must_round(f, -far[k]);
    }
    float up = decode(f, encode(f, INFINITY)), down = decode(f, encode(f, -INFINITY));
    ck_assert_float_eq(up, f->has_infinity ? INFINITY : 448.0f);
    ck_assert_float_eq(down, f->has_infinity ? -INFINITY : -448.0f);
  }
  ck_assert_float_eq(fa_from_e4m3(fa_to_e4m3(480.0f)), 448.0f); /* bl47: 480 has no code */
  ck_assert_float_eq(fa_from_fp16(fa_to_fp16(65519.99f)), 65504.0f);
  ck_assert(isinf(fa_from_fp16(fa_to_fp16(65520.0f))));
}
END_TEST

/* NaN stays NaN whatever its bits are, and infinity codes decode to infinity. */
START_TEST(nan_stays_nan) {
  static const uint32_t nans[] = {0x7fc00000u, 0x7f800001u, 0xff800001u,
                                  0x7fffffffu, 0xffc00000u, 0x7f80ffffu};
  for (int n = 0; n < 3; n++) {
    const format_t *f = &formats[n];
    for (size_t k = 0; k < sizeof nans / sizeof *nans; k++) {
      ck_assert(isnan(decode(f, encode(f, fa_bits_float(nans[k])))));
      ck_assert(isnan(fa_round_to(f->dtype, fa_bits_float(nans[k]))));
    }
    int all = f->sign - 1, first_nan = f->has_infinity ? f->largest + 2 : f->largest + 1;
    for (int code = f->largest + 1; code <= all; code++)
      for (int sign = 0; sign < 2; sign++) {
        float x = decode(f, code | (sign ? f->sign : 0));
        if (code >= first_nan)
          ck_assert(isnan(x));
        else
          ck_assert(isinf(x) && (x < 0) == (sign == 1));
      }
  }
}
END_TEST

/* 300,000 floats from all binades, subnormal ones too. */
START_TEST(random_floats) {
  uint64_t state = 88172645463325252u;
  for (int k = 0; k < 300000; k++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    float x = fa_bits_float((uint32_t)(state >> 16));
    if (k % 2)
      x = ldexpf((float)(state >> 40) / 0x1p24f, (int)(state & 63) - 40); /* more in the useful range */
    if (!isfinite(x)) continue;
    must_round(&formats[k % 3], x);
  }
}
END_TEST

START_TEST(fp32_is_kept) {
  float x = 0.1f, stored = 0;
  fa_store(FA_FP32, &stored, 0, x);
  ck_assert_float_eq(stored, x);
  ck_assert_float_eq(fa_load(FA_FP32, &x, 0), x);
  ck_assert_float_eq(fa_round_to(FA_FP32, x), x);
  ck_assert_uint_eq(fa_dtype_size(FA_FP32), 4);
  ck_assert_uint_eq(fa_dtype_size(FA_FP16), 2);
  ck_assert_uint_eq(fa_dtype_size(FA_BF16), 2);
  ck_assert_uint_eq(fa_dtype_size(FA_E4M3), 1);
  ck_assert_uint_eq(fa_dtype_size((fa_dtype_t)9), 0);
}
END_TEST

Suite *unit_dtype(void) {
  const TTest *const tests[] = {every_code_decodes, every_code_comes_back, ties_go_to_even, overflow,
                                nan_stays_nan,      random_floats,         fp32_is_kept,    NULL};
  return suite_of("number formats", tests);
}
