/* emu_orders.c - the scheduler: every thread runs once and to its end, in every order, on few and many SMs; and what an
 * order promises. */
#include "emu_check.h"
#include "emu_orders.h"

#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static const char *const orders[] = {"late", "early", "1", "2", "3"};
enum { ORDERS = sizeof orders / sizeof *orders };

static uint32_t *zeros(size_t words) {
  fa_reason_t why = {""};
  void *p, *host = calloc(words + 1, 4);
  ck_assert_ptr_nonnull(host);
  ck_assert_msg(!fa_machine_emu.alloc(&p, words * 4, &why) &&
                    !fa_machine_emu.upload(p, host, words * 4, &why),
                "%s", why.text);
  free(host);
  return p;
}

START_TEST(everybody_runs_once) {
  static const int sms[] = {1, 2, 4, 7}, blocks[] = {0, 1, 3, 4, 5, 17}, threads[] = {32, 64, 96, 1024};
  fa_reason_t why = {""};
  fa_emu_order(orders[_i]);
  for (int s = 0; s < 4; s++)
    for (int b = 0; b < 6; b++)
      for (int n = 0; n < 4; n++) {
        fa_emu_gpu(80, sms[s]);
        uint32_t *out = zeros((size_t)(blocks[b] * threads[n]));
        fa_status_t status = run_everybody(blocks[b], threads[n], out, &why);
        ck_assert_msg(!status, "EMU_ORDER=%s EMU_SMS=%d: %s", orders[_i], sms[s], why.text);
        for (int block = 0; block < blocks[b]; block++)
          for (int t = 0; t < threads[n]; t++)
            ck_assert_uint_eq(out[block * threads[n] + t], everybody_adds(block, t, threads[n]));
        fa_machine_emu.release(out);
        count_ran(1);
      }
}
END_TEST

/* Threads in the order in which they came, of 6 blocks of 64. */
enum { BLOCKS = 6, THREADS = 64, TICKETS = 2 * BLOCKS * THREADS };
static void come(const char *order, int sms, uint32_t came[TICKETS]) {
  fa_reason_t why = {""};
  uint32_t *counter = zeros(1), *out = zeros(TICKETS);
  fa_emu_order(order);
  fa_emu_gpu(80, sms);
  ck_assert_msg(!run_tickets(BLOCKS, THREADS, counter, out, &why), "%s", why.text);
  ck_assert_uint_eq(*counter, TICKETS);
  memcpy(came, out, TICKETS * sizeof *came);
  int times[BLOCKS * THREADS] = {0};
  for (int n = 0; n < TICKETS; n++) {
    ck_assert_uint_lt(came[n], BLOCKS * THREADS);
    times[came[n]]++;
  }
  for (int n = 0; n < BLOCKS * THREADS; n++) ck_assert_int_eq(times[n], 2);
  fa_machine_emu.release(counter);
  fa_machine_emu.release(out);
}

/* How often the next ticket belongs to another block. */
static int changes_of_block(const uint32_t came[TICKETS]) {
  int changes = 0;
  for (int n = 1; n < TICKETS; n++) changes += came[n] / THREADS != came[n - 1] / THREADS;
  return changes;
}

START_TEST(a_seed_is_an_order) {
  uint32_t first[TICKETS], again[TICKETS], other[TICKETS];
  for (int sms = 1; sms <= 4; sms += 3) {
    come("1", sms, first);
    come("1", sms, again);
    come("2", sms, other);
    ck_assert_mem_eq(first, again, sizeof first);
    ck_assert_mem_ne(first, other, sizeof first);
  }
}
END_TEST

/* Blocks are started in order and stay until they end; as many as there are SMs share the time. */
START_TEST(blocks_are_resident) {
  uint32_t came[TICKETS];
  for (int o = 0; o < ORDERS; o++) {
    come(orders[o], 1, came);
    ck_assert_int_eq(changes_of_block(came), BLOCKS - 1);
    for (int n = 1; n < TICKETS; n++) ck_assert_uint_ge(came[n] / THREADS, came[n - 1] / THREADS);
  }
  come("1", 4, came);
  ck_assert_int_gt(changes_of_block(came), 2 * BLOCKS);
}
END_TEST

/* Each atomic operation lets the others go first: who asks again and again is answered in the end, and work that is taken
 * from a counter is shared. On one worker: two would run side by side anyway. */
START_TEST(atomics_take_turns) {
  enum { TILES = 64, TAKERS = 4 };
  static const char *const seeds[] = {"late", "early", "1", "2", "3", "4", "5", "6", "7", "8"};
  for (size_t o = 0; o < sizeof seeds / sizeof *seeds; o++) {
    fa_reason_t why = {""};
    uint32_t *counter = zeros(1), *out = zeros(TILES);
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
    fa_emu_order(seeds[o]);
    fa_emu_gpu(80, TAKERS);
    ck_assert_msg(!run_waiting(counter, out, &why), "%s", why.text);
    ck_assert_uint_eq(out[0], 1);
    *counter = 0;
    ck_assert_msg(!run_queue(TAKERS, TILES, counter, out, &why), "%s", why.text);
    int taken[TAKERS] = {0};
    for (int n = 0; n < TILES; n++) taken[out[n]]++;
    for (int b = 0; b < TAKERS; b++)
      ck_assert_msg(taken[b] > 0, "EMU_ORDER=%s: block %d got nothing", seeds[o], b);
    fa_machine_emu.release(counter);
    fa_machine_emu.release(out);
    count_ran(1);
  }
}
END_TEST

/* A lane runs as far as it can: nobody passes the barrier before the last has come to it. */
START_TEST(a_barrier_is_one) {
  uint32_t came[TICKETS];
  for (int o = 0; o < ORDERS; o++) {
    come(orders[o], 4, came);
    int seen[BLOCKS] = {0};
    bool second[BLOCKS * THREADS] = {false};
    for (int n = 0; n < TICKETS; n++) {
      int block = (int)came[n] / THREADS;
      ck_assert_msg(second[came[n]] == (seen[block] >= THREADS), "EMU_ORDER=%s", orders[o]);
      second[came[n]] = true;
      seen[block]++;
    }
  }
}
END_TEST

/* Every order's words of run_peeking, with or without the wait where it belongs. */
static void peek(const char *order, bool waits, uint32_t found[PEEKS]) {
  fa_reason_t why = {""};
  uint32_t *in = zeros(32), *out = zeros(PEEKS);
  for (int n = 0; n < 32; n++) in[n] = 100 + (uint32_t)n;
  fa_emu_order(order);
  quiet_begin();
  fa_status_t status = run_peeking(waits, in, out, &why);
  const char *said = quiet_end();
  ck_assert_msg(status == (waits ? FA_OK : FA_FAILED), "EMU_ORDER=%s: %s", order, why.text);
  ck_assert_msg(waits ? !*said : strstr(why.text, "[E05]") != NULL, "EMU_ORDER=%s: %s", order, said);
  memcpy(found, out, PEEKS * sizeof *found);
  fa_machine_emu.release(in);
  fa_machine_emu.release(out);
}

/* Has copy n come at this moment? What is there otherwise is what was there before. */
static bool has_come(const uint32_t found[PEEKS], int moment, int n) {
  uint32_t x = found[16 * moment + n];
  if (x != 100 + 4 * ((uint32_t)n % 8)) ck_assert_uint_eq(x, 0xffffffffu);
  return x != 0xffffffffu;
}

/* Before the wait a copy has not come where it is late, and has where it is early; after the wait it has. */
START_TEST(copies_late_and_early) {
  uint32_t found[PEEKS];
  for (int o = 0; o < 2; o++) {
    peek(orders[o], false, found);
    for (int n = 0; n < 16; n++)
      for (int moment = 0; moment < MOMENTS; moment++)
        ck_assert_int_eq(has_come(found, moment, n), moment == 2 || !strcmp(orders[o], "early"));
  }
}
END_TEST

/* In seeded orders each comes when it likes: at once, while threads change, or with the wait; and the second group may
 * be before the first. Once it has come it stays. */
START_TEST(copies_at_any_moment) {
  enum { SEEDS = 20 };
  int since[MOMENTS] = {0}, second_before_first = 0;
  uint32_t found[PEEKS], again[PEEKS];
  for (int seed = 1; seed <= SEEDS; seed++) {
    char order[16];
    snprintf(order, sizeof order, "%d", seed);
    peek(order, false, found);
    peek(order, false, again);
    ck_assert_mem_eq(found, again, sizeof found);
    for (int n = 0; n < 16; n++) {
      int first = 0;
      ck_assert(has_come(found, MOMENTS - 1, n));
      while (!has_come(found, first, n)) first++;
      for (int moment = first; moment < MOMENTS; moment++) ck_assert(has_come(found, moment, n));
      since[first]++;
      for (int moment = 0; moment < 2; moment++)
        second_before_first += n >= 8 && has_come(found, moment, n) && !has_come(found, moment, n - 8);
    }
  }
  for (int moment = 0; moment < MOMENTS; moment++)
    ck_assert_msg(since[moment] >= SEEDS, "%d of %d copies came at moment %d", since[moment], 16 * SEEDS,
                  moment);
  ck_assert_int_ge(second_before_first, SEEDS);
}
END_TEST

/* With the wait where it belongs no order shows. */
START_TEST(copies_that_are_waited_for) {
  uint32_t late[PEEKS], found[PEEKS];
  peek("late", true, late);
  for (int seed = -1; seed < 20; seed++) {
    char order[16] = "early";
    if (seed >= 0) snprintf(order, sizeof order, "%d", seed);
    peek(order, true, found);
    ck_assert_mem_eq(late, found, sizeof late);
    for (int n = 0; n < 16; n++) ck_assert(has_come(found, 0, n));
  }
}
END_TEST

/* One launch happens before the next, whatever its threads did. */
START_TEST(launches_are_in_order) {
  fa_reason_t why = {""};
  for (int o = 0; o < ORDERS; o++) {
    uint32_t *between = zeros(64), *out = zeros(64);
    fa_emu_order(orders[o]);
    ck_assert_msg(!run_two_launches(between, out, &why), "%s", why.text);
    for (unsigned t = 0; t < 64; t++) ck_assert_uint_eq(out[t], 64 - t);
    fa_machine_emu.release(between);
    fa_machine_emu.release(out);
  }
}
END_TEST

Suite *emu_order_suite(void) {
  const TTest *const tests[] = {a_seed_is_an_order,         blocks_are_resident,   atomics_take_turns,
                                a_barrier_is_one,           copies_late_and_early, copies_at_any_moment,
                                copies_that_are_waited_for, launches_are_in_order, NULL};
  Suite *suite = suite_of("orders", tests);
  TCase *each = tcase_create("each order");
  tcase_set_timeout(each, TEST_TIMEOUT);
  tcase_add_loop_test(each, everybody_runs_once, 0, ORDERS);
  suite_add_tcase(suite, each);
  return suite;
}
