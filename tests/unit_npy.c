/* unit_npy.c - .npy files: round trips, NumPy's own variants, and every way in which a file can be damaged. */
#define _GNU_SOURCE
#include "npy.h"
#include "dtype.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static void make_folder(void) {
  strcpy(folder, "/tmp/fa_npy_XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/x.npy", folder);
}

static void remove_folder(void) {
  unlink(path);
  rmdir(folder);
}

static void write_file(const void *data, size_t bytes) {
  FILE *f = fopen(path, "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
  ck_assert_int_eq(fclose(f), 0);
}

/* A file with this version and header text and `bytes` bytes of data. */
static void write_npy(int version, const char *header, const void *data, size_t bytes) {
  unsigned char file[8192] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
  size_t length = strlen(header), n = 8;
  for (int k = 0; k < (version == 1 ? 2 : 4); k++) file[n++] = (unsigned char)(length >> 8 * k);
  memcpy(file + n, header, length);
  if (bytes) memcpy(file + n + length, data, bytes);
  write_file(file, n + length + bytes);
}

static fa_status_t load(int64_t shape[4], float **data, fa_reason_t *why) {
  *data = NULL;
  why->text[0] = 0;
  return fa_npy_load(path, data, shape, NULL, why);
}

/* Refused as input, with the path and `part` in one line; nothing is returned. */
static void rejected(const char *what, const char *part) {
  float *data;
  int64_t shape[4];
  fa_reason_t why;
  fa_status_t status = load(shape, &data, &why);
  ck_assert_msg(status == FA_INVALID, "%s: status %d, \"%s\"", what, (int)status, why.text);
  ck_assert_msg(strstr(why.text, path) && (!part || strstr(why.text, part)) && !strchr(why.text, '\n'),
                "%s: \"%s\", wanted \"%s\"", what, why.text, part ? part : "");
  ck_assert_ptr_null(data);
}

#define GOOD "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n"
static const float six[6] = {1, -2, 3.5f, 0, 1e30f, -1e-30f};

static void bad_header(const char *header, const char *part) {
  write_npy(1, header, six, sizeof six);
  rejected(header, part);
}

START_TEST(round_trip) {
  float data[120];
  int64_t shape[4] = {2, 3, 4, 5}, loaded[4];
  float *back;
  fa_reason_t why;
  for (int k = 0; k < 120; k++) data[k] = (float)k / 7 - 3;
  data[5] = NAN, data[6] = INFINITY, data[7] = -0.0f;
  ck_assert_int_eq(fa_npy_save(path, data, 4, shape, &why), FA_OK);
  ck_assert_int_eq(load(loaded, &back, &why), FA_OK);
  ck_assert_int_eq(memcmp(shape, loaded, sizeof shape), 0);
  ck_assert_int_eq(memcmp(data, back, sizeof data), 0);
  free(back);
  struct stat info;
  ck_assert_int_eq(stat(path, &info), 0);
  ck_assert_int_eq((info.st_size - (long)sizeof data) % 64, 0);     /* data aligned as NumPy does it */
  ck_assert_int_eq(fa_npy_save(path, data, 3, shape, &why), FA_OK); /* replaced, as LSE: 3 dimensions */
  rejected("3 dimensions", "3 dimensions");
}
END_TEST

START_TEST(numpy_variants) {
  static const char *const headers[] = {
      GOOD, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3)}\n",
      "{\"shape\": (1,1,2,3,), \"fortran_order\": False, \"descr\": \"<f4\"}          \n",
      "{'descr':'<f4','fortran_order':False,'shape':(1,1,2,3)}"};
  for (int version = 1; version <= 3; version++)
    for (size_t n = 0; n < sizeof headers / sizeof *headers; n++) {
      float *data;
      int64_t shape[4];
      fa_reason_t why;
      write_npy(version, headers[n], six, sizeof six);
      ck_assert_msg(!load(shape, &data, &why), "version %d: %s: %s", version, headers[n], why.text);
      ck_assert_int_eq(shape[2], 2);
      ck_assert_int_eq(shape[3], 3);
      ck_assert_int_eq(memcmp(data, six, sizeof six), 0);
      free(data);
    }
}
END_TEST

START_TEST(element_types) {
  float *data;
  int64_t shape[4];
  fa_reason_t why;
  fp16_t half[2] = {fa_to_fp16(0.1f), fa_to_fp16(-65504.0f)};
  write_npy(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 1, 2), }\n", half, sizeof half);
  ck_assert_int_eq(load(shape, &data, &why), FA_OK);
  ck_assert_float_eq(data[0], fa_from_fp16(half[0]));
  ck_assert_float_eq(data[1], -65504.0f);
  free(data);
  const double wide[2] = {0.1, 1e300};
  write_npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1, 2), }\n", wide, sizeof wide);
  ck_assert_int_eq(load(shape, &data, &why), FA_OK);
  ck_assert_float_eq(data[0], 0.1f);
  ck_assert(isinf(data[1]));
  free(data);
}
END_TEST

START_TEST(empty_dimension) {
  float *data;
  int64_t shape[4];
  fa_reason_t why;
  write_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0, 9223372036854775807, 4), }\n", NULL,
            0);
  fa_status_t status = load(shape, &data, &why);
  ck_assert(status == FA_OK || (status == FA_INVALID && strlen(why.text) > 12));
  free(data);
}
END_TEST

START_TEST(not_npy_at_all) {
  write_file("", 0);
  rejected("an empty file", "not a .npy");
  write_file("\x93NUMPY", 6);
  rejected("only the magic", "not a .npy");
  write_file("PK\3\4 this is an .npz archive", 28);
  rejected("an archive", "not a .npy");
  write_file("\x93NUMPX\1\0\20\0{}              ", 26);
  rejected("another magic", "not a .npy");
}
END_TEST

START_TEST(bad_versions_and_lengths) {
  write_npy(9, GOOD, six, sizeof six);
  rejected("version 9", "version");
  write_npy(0, GOOD, six, sizeof six);
  rejected("version 0", "version");
  write_file("\x93NUMPY\1\1\20\0{}              ", 26);
  rejected("version 1.1", "version");
  write_file("\x93NUMPY\1\0\xff\xff{'descr'", 18);
  rejected("a header longer than the file", NULL);
  write_file("\x93NUMPY\1\0\x70\0{'descr'", 18);
  rejected("a header cut off", "ends inside its header");
  write_file("\x93NUMPY\2\0\x70\0", 10);
  rejected("a length cut off", "ends inside its header");
  write_file("\x93NUMPY\2\0\xff\xff\xff\xff{'descr'", 20);
  rejected("a header of 4 GB", NULL);
  write_file("\x93NUMPY\1\0\0\0", 10);
  rejected("no header", NULL);
}
END_TEST

START_TEST(bad_headers) {
  static const char *const descr[] = {">f4", "<i4", "<f16", "|u1", "<c8", "<U3", "O", "f4", "", "<f4 "};
  for (size_t n = 0; n < sizeof descr / sizeof *descr; n++) {
    char header[128];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n",
             descr[n]);
    bad_header(header, descr[n][0] == '>' ? "big-endian" : "float16, float32 or float64");
  }
  bad_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1, 2, 3), }\n", "Fortran");
  bad_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 1, 2, 3), }\n", "fortran_order");
  bad_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n", "records");
  bad_header("{'descr': '<f4', 'fortran_order': False, }\n", "without");
  bad_header("{'descr': '<f4', 'shape': (1, 1, 2, 3), }\n", "without");
  bad_header("{'fortran_order': False, 'shape': (1, 1, 2, 3), }\n", "without");
  bad_header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n",
             "malformed");
  bad_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), 'x': 1}\n", "malformed");
  bad_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3)\n", NULL);
  bad_header("{'descr: '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n", NULL);
  bad_header("{'descr' '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n", "malformed");
  bad_header("{}\n", "without");
  bad_header("rubbish\n", "malformed");
  bad_header(GOOD "more", "malformed");
  bad_header("{'a_key_that_is_longer_than_any_other': 1}\n", "malformed");
}
END_TEST

START_TEST(bad_shapes) {
  static const struct {
    const char *shape, *part;
  } bad[] = {{"(1, 2, 3)", "3 dimensions"},
             {"(6,)", "1 dimension;"},
             {"()", "0 dimensions"},
             {"(1, 1, 1, 2, 3)", "more than 4"},
             {"(1, 1, -2, 3)", "shape"},
             {"(1, 1, 2.0, 3)", "shape"},
             {"(1, 1, 2 3)", "shape"},
             {"(1, 1, , 3)", "shape"},
             {"[1, 1, 2, 3]", "shape"},
             {"1", "shape"},
             {"(1, 1, 2, 0x3)", "shape"},
             {"(1, 1, 2, 99999999999999999999999)", "too large"},
             {"(4294967296, 4294967296, 1, 1)", "too large"},
             {"(2147483648, 2147483648, 2147483648, 3)", "too large"},
             {"(1, 1, 2, 9223372036854775807)", "too large"},
             {"(1, 1, 2, 4)", "damaged"},
             {"(1, 1, 2, 2)", "damaged"},
             {"(1, 1, 1000000, 1000000)", "damaged"},
             {"(1, 1, 0, 3)", "damaged"}};
  for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
    char header[160];
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n",
             bad[n].shape);
    bad_header(header, bad[n].part);
  }
}
END_TEST

/* Every length of a good file but the right one, and every single bit of its header flipped: no crash, and
 * whatever loads has the right size. */
START_TEST(cut_and_flipped) {
  unsigned char file[256];
  size_t bytes = 10 + strlen(GOOD) + sizeof six;
  write_npy(1, GOOD, six, sizeof six);
  FILE *f = fopen(path, "rb");
  ck_assert(f && fread(file, 1, bytes, f) == bytes);
  fclose(f);
  for (size_t n = 0; n < bytes; n++) {
    write_file(file, n);
    rejected("a file cut off", NULL);
  }
  file[bytes] = 0;
  write_file(file, bytes + 1);
  rejected("a byte too many", "damaged");
  for (size_t bit = 0; bit < 8 * (bytes - sizeof six); bit++) {
    float *data;
    int64_t shape[4];
    fa_reason_t why;
    file[bit / 8] ^= (unsigned char)(1u << bit % 8);
    write_file(file, bytes);
    fa_status_t status = load(shape, &data, &why);
    if (status)
      ck_assert(data == NULL && strlen(why.text) > 12);
    else
      ck_assert_int_le(shape[0] * shape[1] * shape[2] * shape[3], 12);
    free(data);
    file[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
}
END_TEST

START_TEST(no_such_file_and_no_file) {
  float *data = NULL;
  int64_t shape[4];
  fa_reason_t why = {""};
  unlink(path);
  rejected("a missing file", "cannot open");
  ck_assert_int_eq(fa_npy_load(folder, &data, shape, NULL, &why), FA_INVALID);
  ck_assert_ptr_nonnull(strstr(why.text, "not a regular file"));
  ck_assert_int_eq(fa_npy_load("/dev/zero", &data, shape, NULL, &why), FA_INVALID);
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  rejected("a pipe that nobody writes", "not a regular file"); /* and does not hang */
}
END_TEST

START_TEST(saving_where_nobody_can) {
  float data[1] = {1};
  int64_t shape[4] = {1, 1, 1, 1};
  fa_reason_t why = {""};
  char target[160];
  snprintf(target, sizeof target, "%s/no/such/folder.npy", folder);
  ck_assert_int_ne(fa_npy_save(target, data, 4, shape, &why), FA_OK);
  ck_assert_ptr_nonnull(strstr(why.text, target));
  ck_assert_int_ne(fa_npy_save(folder, data, 4, shape, &why), FA_OK); /* a folder cannot be replaced */
  snprintf(target, sizeof target, "%s.%ld.part", folder, (long)getpid());
  ck_assert_int_ne(access(target, F_OK), 0); /* nothing stays behind */
  if (access("/dev/full", W_OK) == 0) {
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    ck_assert_int_eq(fa_npy_save(path, data, 4, shape, &why), FA_OK); /* the link is replaced, not followed */
    struct stat info;
    ck_assert(lstat(path, &info) == 0 && S_ISREG(info.st_mode));
  }
}
END_TEST

Suite *unit_npy(void) {
  const TTest *const tests[] = {round_trip,
                                numpy_variants,
                                element_types,
                                empty_dimension,
                                not_npy_at_all,
                                bad_versions_and_lengths,
                                bad_headers,
                                bad_shapes,
                                cut_and_flipped,
                                no_such_file_and_no_file,
                                saving_where_nobody_can,
                                NULL};
  Suite *suite = suite_create(".npy files");
  TCase *cases = tcase_create(".npy files");
  tcase_set_timeout(cases, TEST_TIMEOUT);
  tcase_add_checked_fixture(cases, make_folder, remove_folder);
  for (int n = 0; tests[n]; n++) tcase_add_test(cases, tests[n]);
  suite_add_tcase(suite, cases);
  return suite;
}
