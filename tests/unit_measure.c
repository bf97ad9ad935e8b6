/* unit_measure.c - counting from many threads, instruction sets, the FMA peak, the host as a device. */
#define _GNU_SOURCE
#include "count.h"
#include "peak.h"
#include "simd.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

START_TEST(counts_add_up) {
  fa_count_reset();
#ifdef _OPENMP
#pragma omp parallel for num_threads(4)
#endif
  for (int n = 0; n < 10000; n++) {
    fa_count_t c = {
        .hbm_read = 1, .hbm_written = 2, .matmul_flop = 3, .other_flop = 4, .exp = 5, .rescales = 6};
    fa_count_add(&c);
  }
  fa_count_t total = fa_count_total();
  ck_assert_double_eq(total.hbm_read, 10000);
  ck_assert_double_eq(total.hbm_written, 20000);
  ck_assert_double_eq(total.matmul_flop, 30000);
  ck_assert_double_eq(total.other_flop, 40000);
  ck_assert_double_eq(total.exp, 50000);
  ck_assert_double_eq(total.rescales, 60000);
  fa_count_reset();
  total = fa_count_total();
  ck_assert_double_eq(total.hbm_read + total.matmul_flop + total.exp, 0);
}
END_TEST

START_TEST(instruction_sets) {
  unsetenv("FA_ISA");
  fa_isa_t widest = fa_isa();
  setenv("FA_ISA", "baseline", 1);
  ck_assert_int_eq(fa_isa(), FA_BASELINE);
  setenv("FA_ISA", "avx512", 1);
  ck_assert_int_eq(fa_isa(), widest); /* never more than there is */
  setenv("FA_ISA", "no such set", 1);
  ck_assert_int_eq(fa_isa(), widest);
  ck_assert_ptr_nonnull(fa_isa_wrong());
  static const char *const names[] = {"baseline", "avx2", "avx512"};
  for (int i = FA_BASELINE; i <= FA_AVX512; i++) {
    setenv("FA_ISA", names[i], 1);
    ck_assert_msg((fa_isa_wrong() == NULL) == (i <= (int)widest), "%s", names[i]);
  }
  setenv("FA_ISA", "", 1);
  ck_assert_ptr_null(fa_isa_wrong());
  ck_assert_uint_ge(strlen(fa_isa_name()), 4);
}
END_TEST

START_TEST(fma_peak_is_a_rate) {
  double peak = fa_fma_peak(0.05);
  ck_assert_msg(isfinite(peak) && peak > 1e8 && peak < 1e15, "%g FLOP/s", peak);
}
END_TEST

START_TEST(host_is_a_device) {
  const fa_machine_t *m = fa_machine(FA_CPU);
  char name[128] = "";
  fa_reason_t why = {""};
  double seconds = -1;
  ck_assert_int_eq(m->kind, FA_CPU);
  ck_assert_int_eq(m->open(name, &why), FA_OK);
  ck_assert_ptr_nonnull(strstr(name, "thread"));
  ck_assert_uint_gt(m->memory_free(), 1 << 20);
  char from[64] = "some bytes", to[64] = "";
  ck_assert_int_eq(m->upload(to, from, sizeof from, &why), FA_OK);
  ck_assert_str_eq(to, "some bytes");
  ck_assert_int_eq(m->sync(&why), FA_OK);
  ck_assert_int_eq(m->timer_start(&why), FA_OK);
  ck_assert_int_eq(m->timer_stop(&seconds, &why), FA_OK);
  ck_assert(seconds >= 0 && seconds < TEST_TIMEOUT);
  ck_assert_int_eq(m->flush_cache(&why), FA_OK);
}
END_TEST

static void put(const char *folder, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  ck_assert_msg(f != NULL, "%s", path);
  fputs(text, f);
  fclose(f);
}

/* A container's limit, in either version, of its own group or of one around it. */
START_TEST(control_groups) {
  char top[] = "/tmp/fa_groups_XXXXXX", at[5][128], groups[128];
  ck_assert_ptr_nonnull(mkdtemp(top));
  static const char *const folders[5] = {"", "/a", "/a/b", "/memory", "/memory/c"};
  for (int i = 0; i < 5; i++) {
    snprintf(at[i], sizeof at[i], "%s%s", top, folders[i]);
    if (i) ck_assert_int_eq(mkdir(at[i], 0700), 0);
  }
  snprintf(groups, sizeof groups, "%s/groups", top);
  ck_assert_uint_eq(fa_cgroup_free(top, groups), SIZE_MAX); /* no control groups at all */
  put(top, "groups", "5:cpu:/c\n0::/a/b\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), SIZE_MAX); /* or none of memory */
  put(at[2], "memory.max", "max\n");
  put(at[2], "memory.current", "70000\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), SIZE_MAX);
  put(at[2], "memory.max", "100000\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 30000);
  put(at[2], "memory.stat", "file 60000\ninactive_file 5000\nactive_file 9\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 35000);
  put(at[1], "memory.max", "90000\n");
  put(at[1], "memory.current", "80000\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 10000); /* the group around it has less */
  put(at[1], "memory.current", "95000\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 0);
  put(top, "groups", "5:cpu:/c\n4:hugetlb,memory:/c\n0::/\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), SIZE_MAX);
  put(at[4], "memory.limit_in_bytes", "9223372036854771712\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 9223372036854771712u);
  put(at[4], "memory.limit_in_bytes", "5000\n");
  put(at[4], "memory.usage_in_bytes", "2000\n");
  put(at[4], "memory.stat", "inactive_file 999\ntotal_inactive_file 100\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 3100);
  put(top, "groups", "4:memory:/only/the/host/sees/it\n");
  ck_assert_uint_eq(fa_cgroup_free(top, groups), SIZE_MAX);
  put(at[3], "memory.limit_in_bytes", "777\n"); /* a container sees its own group at the top */
  ck_assert_uint_eq(fa_cgroup_free(top, groups), 777);
  char remove[256];
  snprintf(remove, sizeof remove, "rm -rf '%s'", top);
  ck_assert_int_eq(system(remove), 0);
}
END_TEST

/* A device that this build or this machine lacks says why, and is not a null pointer. */
START_TEST(absent_devices) {
  for (int d = 0; d < FA_DEVICES; d++) {
    const fa_machine_t *m = fa_machine((fa_device_t)d);
    char name[128] = "";
    fa_reason_t why = {""};
    ck_assert_ptr_nonnull(m);
    ck_assert_int_eq((int)m->kind, d);
    fa_status_t status = m->open(name, &why);
    ck_assert(status == FA_OK ? strlen(name) > 3 : status == FA_REFUSED && strlen(why.text) > 12);
  }
}
END_TEST

Suite *unit_measure(void) {
  const TTest *const tests[] = {
      counts_add_up, instruction_sets, fma_peak_is_a_rate, host_is_a_device, control_groups, absent_devices,
      NULL};
  return suite_of("counts, peak, devices", tests);
}
