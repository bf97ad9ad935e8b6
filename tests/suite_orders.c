/* suite_orders.c - the emulator's order of threads and copies does not show: late, early and seeded orders give the
 * same bits, and no finding. FA_ORDERS=20 is how many seeds `make check-orders` tries, on every case. */
#include "run_case.h"
#include "runner.h"

#include <stdlib.h>

enum { QUICK_SEEDS = 2, MOST_SEEDS = 1000 };

static int seeds(void) {
  const char *text = getenv("FA_ORDERS");
  int n = text && *text ? atoi(text) : QUICK_SEEDS;
  return n < 1 ? 1 : n > MOST_SEEDS ? MOST_SEEDS : n;
}

/* In the quick tier one shape says enough; its lengths cross the edges of blocks. */
static bool worth_it(const instance_t *i) {
  return env_set("FA_ORDERS") || (i->row->use & SHAPE);
}

static void orders(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  int arrays[5], count = output_arrays(backward, arrays);
  copy_t late[5] = {{0}};
  fa_tensors_t t;
  if (!make_instance(s, i, backward, &t, r)) return;
  bool ok = true;
  for (int n = -2; n < seeds() && ok; n++) {
    char order[24], what[96];
    snprintf(order, sizeof order, "%d", n + 1);
    const char *name = n == -2 ? "late" : n == -1 ? "early" : order;
    snprintf(what, sizeof what, "%s, EMU_ORDER=%s", i->name, name);
    fa_emu_order(name);
    ok = run(s, &t, what, r);
    for (int a = 0; a < count && ok; a++) {
      copy_t now = copy_of(&t, arrays[a]);
      if (n == -2) {
        late[a] = now;
        continue;
      }
      ok = same_bits(&late[a], &now, arrays[a], what, r);
      free_copy(&now);
    }
  }
  fa_emu_order("late");
  for (int a = 0; a < count; a++) free_copy(&late[a]);
  fa_tensors_free(&t);
}

static void orders_forward(const subject_t *s, const instance_t *i, report_t *r) {
  orders(s, i, false, r);
}

static void orders_backward(const subject_t *s, const instance_t *i, report_t *r) {
  orders(s, i, true, r);
}

static const property_t properties[] = {
    {.name = "orders", .each = orders_forward, .wants = worth_it, .one_test = true, .devices = BIT(FA_EMU)},
    {.name = "orders_backward",
     .pass = FA_BACKWARD,
     .each = orders_backward,
     .wants = worth_it,
     .one_test = true,
     .devices = BIT(FA_EMU)},
    {.name = NULL}};
const suite_t suite_orders = {"orders of threads and copies", properties};
