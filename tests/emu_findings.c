/* emu_findings.c - every faulty kernel is found, in every order, with its code, its file and its lines; every right one
 * passes in silence. */
#include "emu_check.h"
#include "emu_faults.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const orders[] = {"late", "early", "1", "2", "3"};
static const int sms[] = {1, 4};
int fault_line[4];
void fault_mark(int n, int line) {
  fault_line[n] = line;
}

static const char *said; /* by the emulator, of the last launch */
enum { ORDERS = sizeof orders / sizeof *orders, SMS = sizeof sms / sizeof *sms };

static fa_status_t launch(const fault_t *f, bool wrong, fa_reason_t *why) {
  const fa_machine_t *m = &fa_machine_emu;
  size_t bytes = FAULT_WORDS * sizeof(uint32_t);
  uint32_t *words = calloc(FAULT_WORDS, sizeof *words);
  void *filled, *blank, *freed;
  ck_assert_ptr_nonnull(words);
  ck_assert(!m->alloc(&freed, bytes, why) && !m->alloc(&filled, bytes, why) && !m->alloc(&blank, bytes, why));
  ck_assert(!m->upload(freed, words, bytes, why) && !m->upload(filled, words, bytes, why));
  m->release(freed);
  memset(fault_line, 0, 4 * sizeof *fault_line);
  fault_memory_t memory = {filled, blank, freed, words, NULL};
  quiet_begin();
  fa_status_t status = f->run(&memory, wrong, why);
  said = quiet_end();
  m->release(filled);
  m->release(blank);
  free(words);
  return status;
}

/* FILE:LINE, and not the beginning of a longer number. */
static bool names_place(const char *text, const char *file, int line) {
  char place[80];
  snprintf(place, sizeof place, "%s:%d", file, line);
  for (const char *at = strstr(text, place); at; at = strstr(at + 1, place))
    if (!isdigit((unsigned char)at[strlen(place)])) return true;
  return false;
}

/* The findings that were printed: they begin with the code in brackets. */
static bool some_finding_says_it_all(const fault_t *f, const char *file) {
  static char one[QUIET_ROOM];
  const char *begin = "emulator: [";
  for (const char *at = strstr(said, begin); at;) {
    const char *next = strstr(at + 1, begin);
    snprintf(one, sizeof one, "%.*s", (int)(next ? next - at : (long)strlen(at)), at);
    bool all = !strncmp(one + strlen(begin), f->codes, 3) && (!f->text || strstr(one, f->text));
    for (int n = 0; n < f->places; n++)
      all = all && fault_line[n] > 0 && names_place(one, file, fault_line[n]);
    if (all) return true;
    at = next;
  }
  return false;
}

static void no_other_code(const fault_t *f, const char *how) {
  for (const char *at = strstr(said, ": [E"); at; at = strstr(at + 1, ": [E")) {
    char code[4] = {at[3], at[4], at[5], 0};
    ck_assert_msg(strstr(f->codes, code) != NULL, "%s, %s: also %s:\n%s", f->name, how, code, said);
  }
}

static void check_fault(const fault_t *f, const char *file) {
  for (int o = 0; o < ORDERS; o++)
    for (int s = 0; s < SMS; s++) {
      char how[64], code[8];
      fa_reason_t why = {""};
      snprintf(how, sizeof how, "EMU_ORDER=%s EMU_SMS=%d", orders[o], sms[s]);
      snprintf(code, sizeof code, "[%.3s]", f->codes);
      fa_emu_order(orders[o]);
      fa_emu_gpu(f->arch, sms[s]);
      fa_status_t status = launch(f, true, &why);
      ck_assert_msg(status == FA_FAILED, "%s, %s: nothing was found", f->name, how);
      ck_assert_msg(strstr(why.text, code) != NULL, "%s, %s: %s", f->name, how, why.text);
      ck_assert_msg(some_finding_says_it_all(f, file), "%s, %s: must name lines %d and %d:\n%s", f->name, how,
                    fault_line[0], fault_line[1], said);
      no_other_code(f, how);
      status = launch(f, false, &why);
      ck_assert_msg(status == FA_OK && !*said, "%s, %s, the right kernel: %s\n%s", f->name, how, why.text,
                    said);
      count_ran(1);
    }
}

static int rows(const fault_t *f) {
  int n = 0;
  while (f[n].name) n++;
  return n;
}

static const struct {
  const fault_t *rows;
  const char *file;
} tables[] = {
    {faults_barrier, "emu_faults_barrier.cu"},
    {faults_race, "emu_faults_race.cu"},
    {faults_copy, "emu_faults_copy.cu"},
    {faults_memory, "emu_faults_memory.cu"},
};
enum { TABLES = sizeof tables / sizeof *tables };

/* Row _i of all tables together. */
START_TEST(fault) {
  int row = _i, k = 0;
  while (row >= rows(tables[k].rows)) row -= rows(tables[k++].rows);
  check_fault(&tables[k].rows[row], tables[k].file);
}
END_TEST

Suite *emu_finding_suite(void) {
  int all = 0;
  for (int k = 0; k < TABLES; k++) all += rows(tables[k].rows);
  Suite *suite = suite_create("findings");
  TCase *each = tcase_create("each on its kernel");
  tcase_set_timeout(each, TEST_TIMEOUT);
  tcase_add_loop_test(each, fault, 0, all);
  suite_add_tcase(suite, each);
  return suite;
}
