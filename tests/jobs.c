/* jobs.c - from properties, steps, devices and cases to the tests that Check runs. */
#define _GNU_SOURCE
#include "jobs.h"
#include "clock.h"
#include "runner.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what this machine has, found out in a child ---------------------------------------------------- */

typedef struct probe {
  bool done, open[FA_DEVICES];
  char name[FA_DEVICES][128];
  fa_reason_t why[FA_DEVICES];
  unsigned char supports[]; /* [device][step][instance][pass] */
} probe_t;

static probe_t *probe;
static const instance_t *instances;
static int instance_count, step_count;

static unsigned char *supports(int device, int step, int instance, int pass) {
  return &probe->supports[((device * step_count + step) * instance_count + instance) * FA_PASSES + pass];
}

static void look(void) {
  const fa_stage_t *stage = fa_stages[0];
  for (int d = 0; d < FA_DEVICES; d++) {
    probe->open[d] = fa_machine((fa_device_t)d)->open(probe->name[d], &probe->why[d]) == FA_OK;
    for (int s = 0; s < step_count && probe->open[d]; s++)
      for (int i = 0; i < instance_count; i++)
        for (int pass = 0; pass < FA_PASSES; pass++) {
          fa_problem_t p = instance_problem(&instances[i]);
          fa_reason_t why;
          *supports(d, s, i, pass) =
              fa_stage_supports(stage, &stage->steps[s], &p, (fa_pass_t)pass, (fa_device_t)d, &why) == FA_OK;
        }
  }
  probe->done = true;
}

void jobs_probe(void) {
  instances = all_instances(&instance_count);
  while (fa_stages[0]->steps[step_count].name) step_count++;
  probe = shared_memory(sizeof *probe + (size_t)(FA_DEVICES * step_count * instance_count * FA_PASSES));
  pid_t child = fork();
  if (child == 0) {
    look();
    _exit(0);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || !probe->done) {
    fprintf(stderr, "%s: asking each step what it supports ended with status %d\n", fa_stages[0]->name,
            status);
    exit(EXIT_FAILURE);
  }
}

void jobs_absent(void) {
  for (int d = 0; d < FA_DEVICES; d++) {
    char steps[256] = "";
    bool has_code = false, other_device = !env_allows("FA_DEVICE", fa_device_name((fa_device_t)d));
    for (int s = 0; s < step_count; s++) {
      const fa_step_t *step = &fa_stages[0]->steps[s];
      bool gpu_code_missing = d == FA_GPU && !FA_HAVE_GPU && !step->on[FA_CPU] && !step->on[FA_EMU];
      if (!step->on[d] && !gpu_code_missing) continue;
      has_code = true;
      if (probe->open[d] && !other_device && env_allows("FA_STEP", step->name)) continue;
      snprintf(steps + strlen(steps), sizeof steps - strlen(steps), " %s", step->name);
    }
    if (steps[0])
      printf("%s: not run on device %s:%s (%s)\n", fa_stages[0]->name, fa_device_name((fa_device_t)d), steps,
             probe->open[d] ? "FA_DEVICE or FA_STEP names another" : probe->why[d].text);
    else if (has_code && probe->open[d] && !other_device)
      printf("%s: ran on device %s: %s\n", fa_stages[0]->name, fa_device_name((fa_device_t)d),
             probe->name[d]);
  }
}

/* --- jobs ------------------------------------------------------------------------------------------- */

/* What a test tells the program about itself while it runs, in shared memory. */
typedef struct slot {
  enum { IDLE, RUNNING, ENDED } state;
  int current; /* instance */
  double seconds;
  char note[256];
} slot_t;

/* One test loops over the whole table there, and the oracle still runs on the host. */
#define GPU_TIMEOUT (10 * TEST_TIMEOUT)

/* Largest batch * heads * queries * keys * (d + dv) that is emulated in the quick tier, and with SLOW=1. */
#define EMULATED_WORK 2400000
#define EMULATED_WORK_SLOW (2 * EMULATED_WORK)

enum { MOST_JOBS = 4096 };
typedef struct job {
  TTest test;
  char name[160];
  subject_t subject;
  const property_t *property;
  int *list, count; /* instances */
} job_t;
static job_t *jobs[MOST_JOBS];
static slot_t *slots;
static int job_count;

void wrong(report_t *r, const char *format, ...) {
  if (r->failures++ >= 3 || r->length + 2 > sizeof r->text) return;
  va_list args;
  va_start(args, format);
  if (r->length) r->text[r->length++] = '\n';
  vsnprintf(r->text + r->length, sizeof r->text - r->length, format, args);
  va_end(args);
  r->length += strlen(r->text + r->length);
}

void not_run(report_t *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->text, sizeof r->text, format, args);
  va_end(args);
  r->not_run = true;
}

static void run_job(int index) {
  const job_t *job = jobs[index];
  slot_t *slot = &slots[index];
  slot->state = RUNNING;
  slot->current = -1;
  double began = fa_seconds_now();
  char name[128];
  fa_reason_t why;
  ck_assert_msg(job->subject.machine->open(name, &why) == FA_OK, "%s: %s", job->name, why.text);
  report_t report = {0};
  if (job->property->once) job->property->once(&job->subject, &report);
  for (int n = 0; n < job->count; n++) {
    slot->current = job->list[n];
    job->property->each(&job->subject, &instances[job->list[n]], &report);
    if (!job->property->unsupported && !report.not_run) count_ran(1);
  }
  slot->seconds = fa_seconds_now() - began;
  slot->state = ENDED;
  if (report.not_run && !report.failures) snprintf(slot->note, sizeof slot->note, "%.200s", report.text);
  if (report.failures == 1) ck_abort_msg("%s", report.text);
  if (report.failures) ck_abort_msg("%d failures, the first:\n%s", report.failures, report.text);
}

static job_t *new_job(const suite_t *suite, const property_t *property, const subject_t *subject,
                      const char *group, TCase *cases) {
  job_t *job = calloc(1, sizeof *job);
  int *list = calloc((size_t)instance_count, sizeof *list);
  if (!job || !list || job_count == MOST_JOBS) {
    fprintf(stderr, "no room for the tests of %s\n", suite->name);
    exit(2);
  }
  job->subject = *subject;
  job->property = property;
  job->list = list;
  snprintf(job->name, sizeof job->name, "%s.%s.%s%s%s%s%s", subject->stage->name, property->name,
           subject->step->name, subject->device == FA_CPU ? "" : "@",
           subject->device == FA_CPU ? "" : fa_device_name(subject->device), group ? "/" : "",
           group ? group : "");
  job->test = (TTest){job->name, run_job, suite->name, 1};
  jobs[job_count] = job;
  _tcase_add_test(cases, &job->test, 0, 0, job_count, job_count + 1);
  job_count++;
  return job;
}

/* FA_CASE: is `text` a part of stage.property.step/group/instance? */
static bool asked_for(const subject_t *s, const property_t *property, const instance_t *i) {
  const char *text = getenv("FA_CASE");
  if (!text || !*text) return true;
  char path[256];
  snprintf(path, sizeof path, "%s.%s.%s/%s/%s", s->stage->name, property->name, s->step->name,
           i ? i->row->group : "", i ? i->name : "");
  return strstr(path, text) != NULL;
}

static bool tier_runs(tier_t tier, fa_device_t device) {
  if ((tier == SLOW || tier == SLOW_ON_CARD) && !env_set("FA_SLOW")) return false;
  return device == FA_GPU || (tier != ON_CARD && tier != SLOW_ON_CARD);
}

/* In the emulator a step takes some microseconds for each query, key and column. Steps that are not main differ from
 * one that is in a number only; in scalar ones each operand is an access to be checked; and properties with inputs of
 * their own run a case some twenty times. */
static bool emulated_in_time(const property_t *property, const subject_t *s, const instance_t *i) {
  fa_problem_t p = instance_problem(i);
  int64_t work = p.batch * p.heads_q * p.seq_q * p.seq_k * (p.head_dim + p.head_dim_v);
  int64_t most = env_set("FA_SLOW") ? EMULATED_WORK_SLOW : EMULATED_WORK;
  if (!s->step->main) most /= 4;
  if (s->step->scalar && !env_set("FA_SLOW")) most /= 2;
  if (property->wants) most /= 2;
  if (i->row->devices & BIT(FA_EMU) && !i->row->use && !i->row->expect)
    most *= 2; /* made for it, run by few properties, and as small as what it shows can be */
  return work <= most;
}

/* Of a row's types that the step supports, one has its turn, another for the next row. */
static bool its_turn(const property_t *property, const subject_t *s, int step, int n) {
  int first = n, count = 0, place = 0;
  while (first > 0 && instances[first - 1].row == instances[n].row) first--;
  for (int k = first; k < instance_count && instances[k].row == instances[n].row; k++)
    if (*supports((int)s->device, step, k, (int)property->pass)) {
      if (k == n) place = count;
      count++;
    }
  return (int)(instances[n].row->seed + (uint64_t)first) % count == place;
}

/* Blocks are computed whole, so that small cases cost a scalar step as much as larger ones. Where a property repeats a case
 * with inputs of its own, each row has its turn with one property of two. */
static bool its_property(const property_t *property, const fa_case_t *row) {
  return !property->wants || property->sanitized || (row->seed + strlen(property->name)) % 2 == 0;
}

int every(const subject_t *s, int stride) {
  return s->device == FA_EMU ? stride : 1;
}

static bool instance_runs(const property_t *property, const subject_t *s, int step, int n) {
  const instance_t *i = &instances[n];
  bool offered = *supports((int)s->device, step, n, (int)property->pass);
  if (offered == property->unsupported) return false;
  if (i->row->devices && !(i->row->devices & BIT(s->device))) return false;
  if (!tier_runs(i->row->tier, s->device)) return false;
  if (s->device == FA_EMU && !property->unsupported && !emulated_in_time(property, s, i)) return false;
  if (s->device == FA_EMU && !env_set("FA_SLOW") && !property->unsupported && !i->row->expect &&
      !its_turn(property, s, step, n))
    return false;
  if (property->wants && !property->wants(i)) return false;
  if (property->fits && !property->fits(s, i)) return false;
  if (s->device == FA_EMU && s->step->scalar && !env_set("FA_SLOW") && !its_property(property, i->row))
    return false;
  return asked_for(s, property, i);
}

static void add_each(const suite_t *suite, const property_t *property, const subject_t *s, int step,
                     TCase *cases) {
  bool one_test = s->device == FA_GPU || property->one_test;
  job_t *job = NULL;
  const char *group = NULL;
  for (int n = 0; n < instance_count; n++) {
    if (!instance_runs(property, s, step, n)) continue;
    const char *its = instances[n].row->group;
    if (!job || (!one_test && strcmp(group, its)))
      job = new_job(suite, property, s, one_test ? NULL : its, cases);
    group = its;
    job->list[job->count++] = n;
  }
}

static bool property_runs(const property_t *property, const subject_t *s) {
  if (property->step && strcmp(property->step, s->step->name)) return false;
  if (property->devices && !(property->devices & BIT(s->device))) return false;
  if (env_set("FA_SAN") && !property->sanitized) return false;
  if (property->once && property->fits && !property->fits(s, NULL)) return false;
  return tier_runs(property->tier, s->device);
}

Suite *jobs_suite(const suite_t *suite) {
  if (!slots) slots = shared_memory(sizeof *slots * MOST_JOBS);
  const fa_stage_t *stage = fa_stages[0];
  int before = job_count;
  Suite *result = suite_create(suite->name);
  for (int d = 0; d < FA_DEVICES; d++) {
    TCase *cases = tcase_create(fa_device_name((fa_device_t)d));
    tcase_set_timeout(cases, d == FA_CPU ? TEST_TIMEOUT : GPU_TIMEOUT);
    suite_add_tcase(result, cases);
    for (int step = 0; step < step_count; step++) {
      subject_t s = {stage, &stage->steps[step], (fa_device_t)d, fa_machine((fa_device_t)d)};
      const fa_kernels_t *kernels = s.step->on[d];
      if (!probe->open[d] || !kernels || !env_allows("FA_DEVICE", fa_device_name(s.device))) continue;
      if (!env_allows("FA_STEP", s.step->name)) continue;
      for (const property_t *property = suite->properties; property->name; property++) {
        if (!property_runs(property, &s)) continue;
        if (property->each)
          add_each(suite, property, &s, step, cases);
        else if ((property->pass == FA_FORWARD || kernels->backward) && asked_for(&s, property, NULL))
          new_job(suite, property, &s, NULL, cases);
      }
    }
  }
  if (job_count > before) return result;
  SRunner *unused = srunner_create(result); /* the only way to free a suite */
  srunner_free(unused);
  return NULL;
}

void jobs_after_suite(void) {
  for (int n = 0; n < job_count; n++) {
    slot_t *slot = &slots[n];
    if (slot->state != IDLE && slot->note[0]) printf("%s: not run: %s\n", jobs[n]->name, slot->note);
    if (slot->state == ENDED && env_set("FA_TIMES")) printf("%7.3f s  %s\n", slot->seconds, jobs[n]->name);
    if (slot->state == RUNNING)
      printf("%s: ended abnormally%s%s\n", jobs[n]->name, slot->current >= 0 ? " in case " : "",
             slot->current >= 0 ? instances[slot->current].name : "");
    slot->state = IDLE;
  }
}
