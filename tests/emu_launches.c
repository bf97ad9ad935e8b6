/* emu_launches.c - launches that are refused, a machine without memory, and paths in the way of a finding's place. */
#define _GNU_SOURCE
#include "emu_check.h"
#include "emu_faults.h"
#include "emu_orders.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t *one_word(uint32_t x) {
  fa_reason_t why = {""};
  void *p;
  ck_assert(!fa_machine_emu.alloc(&p, 4, &why) && !fa_machine_emu.upload(p, &x, 4, &why));
  return p;
}

/* Nothing runs, nothing is printed, one line says why. */
static void must_be_refused(int64_t blocks, int threads, size_t bytes, const char *says) {
  fa_reason_t why = {""};
  uint32_t *out = one_word(1);
  quiet_begin();
  fa_status_t status = run_filling(blocks, threads, bytes, out, &why);
  const char *said = quiet_end();
  ck_assert_msg(status == FA_FAILED, "%lld blocks, %d threads, %zu bytes", (long long)blocks, threads, bytes);
  ck_assert_msg(strstr(why.text, says) && strstr(why.text, "filling"), "%s", why.text);
  ck_assert_str_eq(said, "");
  ck_assert_uint_eq(*out, 1);
  fa_machine_emu.release(out);
}

START_TEST(sizes_of_a_launch) {
  static const int threads[] = {0, -32, 1, 31, 33, 1023, 1056};
  for (size_t n = 0; n < sizeof threads / sizeof *threads; n++)
    must_be_refused(1, threads[n], 4, "multiple of 32 up to 1024");
  must_be_refused(-1, 32, 4, "2^31 - 1");
  must_be_refused(INT64_C(1) << 31, 32, 4, "2^31 - 1");
  must_be_refused(INT64_MAX, 32, 4, "2^31 - 1");
}
END_TEST

/* CUDA C++ Programming Guide, Technical Specifications per Compute Capability. */
START_TEST(shared_memory_of_each_architecture) {
  static const struct {
    int sm;
    size_t kb;
  } most[] = {{75, 64}, {80, 163}, {86, 99}, {89, 99}, {90, 227}, {100, 227}, {120, 99}};
  for (size_t n = 0; n < sizeof most / sizeof *most; n++) {
    fa_reason_t why = {""};
    uint32_t *out = one_word(1);
    char says[32];
    snprintf(says, sizeof says, "sm_%d has %zu", most[n].sm, most[n].kb * 1024);
    fa_emu_gpu(most[n].sm, 4);
    must_be_refused(1, 32, most[n].kb * 1024 + 4, says);
    must_be_refused(1, 32, (size_t)1 << 40, says);
    ck_assert_msg(!run_filling(5, 1024, most[n].kb * 1024, out, &why), "%s", why.text);
    ck_assert_uint_eq(*out, 7);
    fa_machine_emu.release(out);
  }
}
END_TEST

START_TEST(no_blocks) {
  fa_reason_t why = {""};
  uint32_t *out = one_word(1);
  ck_assert(!run_filling(0, 32, 4, out, &why));
  ck_assert_uint_eq(*out, 1);
  fa_machine_emu.release(out);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

#if !ADDRESS_SANITIZER /* which cannot live in a limited address space */
START_TEST(no_memory_for_stacks) {
  fa_reason_t why = {""};
  uint32_t *out = one_word(1);
  struct rlimit limit = {0, 0};
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%lu", &pages) != 1) pages = 0;
  if (f) fclose(f);
  if (!pages) return; /* no Linux */
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur =
      (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)24 << 20); /* 1024 stacks: 70 MB */
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
  void *more = mmap(NULL, (size_t)64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (more != MAP_FAILED) {
    printf("no_memory_for_stacks: not run: limits of memory are not kept here (qemu)\n");
    return;
  }
  quiet_begin();
  fa_status_t status = run_filling(1, 1024, 4, out, &why);
  const char *said = quiet_end();
  ck_assert_int_eq(status, FA_FAILED);
  ck_assert_msg(strstr(why.text, "[E12]") && strstr(why.text, "1024 threads"), "%s", why.text);
  ck_assert_ptr_nonnull(strstr(said, "[E12]"));
  fa_machine_emu.release(out);
}
END_TEST
#endif

/* --- places ------------------------------------------------------------------------------------------------ */

int run_one_fault(void) {
  fa_reason_t why = {""};
  void *filled;
  fault_memory_t m = {0};
  fa_status_t status = FA_INVALID;
  if (fa_machine_emu.alloc(&filled, FAULT_WORDS * 4, &why)) return FA_REFUSED;
  m.filled = filled;
  m.blank = filled;
  for (const fault_t *f = faults_memory; f->name; f++)
    if (!strcmp(f->name, "global memory never written")) status = f->run(&m, true, &why);
  fa_machine_emu.release(filled);
  return status;
}

/* What this program prints with --fault, called as argv[0] from that folder. */
static const char *fault_printed_by(const char *path, const char *name, const char *folder) {
  quiet_begin();
  pid_t child = fork();
  if (child == 0) {
    if (chdir(folder) == 0) execl(path, name, "--fault", (char *)NULL);
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const char *said = quiet_end();
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == FA_FAILED, "%s: status %d", path, status);
  return said;
}

/* Quotes, spaces and brackets in the program's path, and a program that was found through PATH. (The sources' folder has
 * them too: see tests.mk.) */
START_TEST(places_behind_odd_paths) {
  char real[PATH_MAX] = "", folder[] = "/tmp/fa it's \"$(false)\" `a (test); XXXXXX", link[PATH_MAX];
  ck_assert(readlink("/proc/self/exe", real, sizeof real - 1) > 0);
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(link, sizeof link, "%s/check emu", folder);
  ck_assert_int_eq(symlink(real, link), 0);
  const char *said = fault_printed_by(link, link, "/");
  bool named = strstr(said, "at emu_faults_memory.cu:") != NULL;
  unlink(link);
  rmdir(folder);
  ck_assert_msg(named, "%s", said);
  said = fault_printed_by(real, "check_emu", "/");
  ck_assert_msg(strstr(said, "at emu_faults_memory.cu:") != NULL, "%s", said);
}
END_TEST

/* A program that uses a library alone is told too. */
START_TEST(settings_that_are_wrong) {
  static const char *const settings[] = {"EMU_ARCH=81", "EMU_SMS=0", "EMU_ORDER=soon", "EMU_RACES=2"};
  for (size_t n = 0; n < sizeof settings / sizeof *settings; n++) {
    quiet_begin();
    pid_t child = fork();
    if (child == 0) {
      putenv((char *)(uintptr_t)settings[n]);
      execl("/proc/self/exe", "check_emu", "--fault", (char *)NULL);
      _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const char *said = quiet_end();
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == FA_REFUSED, "%s: %d", settings[n], status);
    ck_assert_str_eq(said, "");
  }
}
END_TEST

Suite *emu_launch_suite(void) {
  const TTest *const tests[] = {
    sizes_of_a_launch,
    shared_memory_of_each_architecture,
    no_blocks,
    places_behind_odd_paths,
    settings_that_are_wrong,
#if !ADDRESS_SANITIZER
    no_memory_for_stacks,
#endif
    NULL
  };
  return suite_of("launches", tests);
}
