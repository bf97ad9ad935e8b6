/* emu_requests.c - sectors of global memory and passes over the banks of shared memory, against counts by hand. A sector
 * has 32 bytes; a pass serves 32 banks of 4 bytes. */
#include "emu_requests.h"
#include "count.h"
#include "emu_check.h"

#include <stdlib.h>

static uint32_t *memory(void) {
  fa_reason_t why = {""};
  static uint32_t zeros[REQUEST_WORDS];
  void *p;
  ck_assert(!fa_machine_emu.alloc(&p, sizeof zeros, &why) &&
            !fa_machine_emu.upload(p, zeros, sizeof zeros, &why));
  return p;
}

static void begin(void) {
  fa_emu_order("late");
  fa_emu_gpu(90, 1);
  fa_emu_count_requests(true);
  fa_count_reset();
}

static void counted(const char *what, double sectors, double least, double passes, double conflicts) {
  const fa_count_t c = fa_count_total();
  ck_assert_msg(c.sectors == sectors && c.sectors_least == least && c.shared_waves == passes &&
                    c.conflicts == conflicts,
                "%s: sectors %g (at least %g), passes %g, conflicts %g", what, c.sectors, c.sectors_least,
                c.shared_waves, c.conflicts);
  count_ran(1);
}

START_TEST(sectors_of_words) {
  static const struct {
    int stride;
    double sectors;
  } of[] = {{1, 4}, {2, 8}, {3, 12}, {8, 32}, {100, 32}};
  uint32_t *x = memory();
  for (size_t n = 0; n < sizeof of / sizeof *of; n++) {
    fa_reason_t why = {""};
    begin();
    ck_assert_msg(!run_global_words(of[n].stride, x, &why), "%s", why.text);
    counted("words in global memory", of[n].sectors, 4, 0, 0);
  }
  fa_machine_emu.release(x);
}
END_TEST

START_TEST(passes_of_words) {
  static const struct {
    int stride;
    bool wide;
    double passes, conflicts;
  } of[] = {{1, false, 1, 0},    {2, false, 2, 1},  {3, false, 1, 0}, {4, false, 4, 3},
            {32, false, 32, 31}, {33, false, 1, 0}, {1, true, 4, 0}, /* four times 8 lanes */
            {2, true, 8, 4},     {8, true, 32, 28}, {17, true, 4, 0}};
  for (size_t n = 0; n < sizeof of / sizeof *of; n++) {
    fa_reason_t why = {""};
    begin();
    ck_assert_msg(!run_shared_words(of[n].stride, of[n].wide, &why), "%s", why.text);
    counted("words in shared memory", 0, 0, of[n].passes, of[n].conflicts);
  }
}
END_TEST

/* 16 lanes read 16 bytes each, every other 16 bytes: a sector holds two such. Both lines write 512 bytes: 4 passes each. */
START_TEST(neighbouring_lines) {
  fa_reason_t why = {""};
  uint32_t *x = memory();
  begin();
  ck_assert_msg(!run_two_lines(x, &why), "%s", why.text);
  counted("a copy and a store", 16, 8, 8, 0);
  fa_machine_emu.release(x);
}
END_TEST

START_TEST(sectors_of_additions) {
  fa_reason_t why = {""};
  uint32_t *x = memory();
  begin();
  ck_assert_msg(!run_additions(x, &why), "%s", why.text);
  counted("atomic additions", 4, 4, 0, 0);
  fa_machine_emu.release(x);
}
END_TEST

/* What a launch that was given up had gathered is not counted in the next. */
START_TEST(after_a_fault) {
  fa_reason_t why = {""};
  uint32_t *x = memory();
  begin();
  quiet_begin();
  ck_assert_int_eq(run_given_up(x, &why), FA_FAILED);
  quiet_end();
  begin();
  ck_assert_msg(!run_global_words(1, x, &why), "%s", why.text);
  counted("words after a fault", 4, 4, 0, 0);
  fa_machine_emu.release(x);
}
END_TEST

Suite *emu_request_suite(void) {
  const TTest *const tests[] = {sectors_of_words,     passes_of_words, neighbouring_lines,
                                sectors_of_additions, after_a_fault,   NULL};
  return suite_of("requests", tests);
}
