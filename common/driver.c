/* driver.c - the program of every stage, from its arguments to its exit status. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"
#include "input.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_help(const fa_stage_t *stage, FILE *out) {
  const char *name = stage->name;
  fprintf(out, "%s - %s\n\nusage: build/%s [options]\n", name, stage->title, name);
  fa_options_print(out, FA_PROGRAM_STAGE);
  fprintf(out, "\nDistributions\n");
  for (const fa_dist_t *d = fa_dists; d->name; d++) fprintf(out, "  %-15s %s\n", d->name, d->what);
  fprintf(out, "\nExamples\n");
  fprintf(out, "  build/%s --list\n", name);
  fprintf(out, "  build/%s --seq 1000 --causal --backward\n", name);
  fprintf(out, "  build/%s --batch 2 --heads 8 --heads-kv 2 --seq-q 1 --seq-k 512 --kv-len 100,512\n", name);
  fprintf(out, "  build/%s --seq 4096 --head-dim 128 --bench --csv result.csv\n", name);
  fprintf(out, "  build/%s --load q.npy k.npy v.npy --save out\n", name);
  fprintf(out, "\nExit status: 0 done; 1 a check failed; 2 wrong usage or input; 3 refused here.\n");
}

/* One file under two names. /dev/null and its like take whatever comes. */
static bool same_file(FILE *a, FILE *b) {
  struct stat x, y;
  if (!a || !b || fstat(fileno(a), &x) || fstat(fileno(b), &y)) return false;
  return x.st_dev == y.st_dev && x.st_ino == y.st_ino && (!S_ISCHR(x.st_mode) || isatty(fileno(a)));
}

/* A place for a record: standard output for "-", or under whatever name. Opened before the work, so that hours
 * are not lost; what a file holds stays until empty_record. */
static fa_status_t open_record(const char *path, FILE **f, fa_reason_t *why) {
  if (!path) return FA_OK;
  *f = strcmp(path, "-") ? fopen(path, "a") : stdout;
  if (!*f) return fa_say(why, FA_INVALID, "cannot write %.200s: is its folder there and writable?", path);
  if (*f != stdout && same_file(*f, stdout)) {
    fclose(*f);
    *f = stdout;
  }
  return FA_OK;
}

static fa_status_t empty_record(const char *path, FILE *f, fa_reason_t *why) {
  struct stat info;
  if (!f || f == stdout || fstat(fileno(f), &info) || !S_ISREG(info.st_mode)) return FA_OK;
  return ftruncate(fileno(f), 0) ? fa_say(why, FA_INVALID, "cannot write %.200s", path) : FA_OK;
}

static fa_status_t open_records(const fa_options_t *o, FILE **csv, FILE **json, fa_reason_t *why) {
  fa_status_t status = open_record(o->csv, csv, why);
  if (!status) status = open_record(o->json, json, why);
  if (!status && same_file(*csv, *json))
    status = fa_say(why, FA_INVALID, "--csv %.80s and --json %.80s are one file: give one another", o->csv,
                    o->json);
  if (!status) status = fa_files_apart(o, "csv", *csv, why);
  if (!status) status = fa_files_apart(o, "json", *json, why);
  if (!status) status = empty_record(o->csv, *csv, why);
  if (!status) status = empty_record(o->json, *json, why);
  return status;
}

/* False if anything that was written did not arrive (a full disk, for example). */
static bool close_record(FILE *f) {
  if (!f) return true;
  bool ok = !ferror(f) && fflush(f) == 0;
  return (f == stdout || fclose(f) == 0) && ok;
}

/* Everything between the setup and the last line. */
static fa_status_t work(fa_run_t *run, fa_reason_t *why) {
  const fa_options_t *o = run->options;
  if (run->detail) {
    fa_report_header(&run->report, run->detail);
    if (run->step->show && !fa_options_shape_given(o)) {
      fputc('\n', run->detail);
      run->step->show(run->detail);
    }
  }
  fa_status_t status = fa_run_once(run, why);
  if (!status && o->count && !run->report.counted[FA_FORWARD] && !fa_run_is_empty(run))
    return fa_say(why, FA_REFUSED, "%s, step %s does not count on device %s; leave --count out",
                  run->stage->name, run->step->name, fa_device_name(run->machine->kind));
  if (status) return status;
  if (o->save) status = fa_files_save(run, why);
  if (!status && o->check) status = fa_run_check(run, why);
  if (!status && o->count && run->detail) fa_report_count(&run->report, run->detail);
  if (!status && o->bench) status = fa_run_bench(run, why);
  return status;
}

/* *told: the last line of the report has said what failed. */
static fa_status_t run_all(fa_run_t *run, bool *told, fa_reason_t *why) {
  const fa_options_t *o = run->options;
  if (o->model)
    return fa_say(why, FA_REFUSED, "the bottleneck model comes with a later stage: leave --model out");
  fa_status_t status = o->save ? fa_files_folder(o, why) : FA_OK;
  if (!status) status = fa_setup(run, why);
  if (status) return status;
  status = work(run, why);
  run->report.status = status;
  if (status) run->report.reason = *why;
  if (status == FA_OK || status == FA_FAILED) {
    if (run->detail) fputc('\n', run->detail);
    fa_report_last(&run->report, run->text);
    *told = status == FA_FAILED;
  }
  return status;
}

static fa_status_t run_and_record(fa_run_t *run, bool *told, fa_reason_t *why) {
  const fa_options_t *o = run->options;
  FILE *csv = NULL, *json = NULL;
  fa_status_t status = open_records(o, &csv, &json, why);
  if (!status) {
    run->text = csv == stdout || json == stdout ? stderr : stdout;
    run->detail = o->quiet ? NULL : run->text;
    run->report.stage = run->stage;
    run->report.backward = o->backward;
    run->report.dist = o->load[0] ? "files" : o->dist;
    run->report.seed = o->seed;
    status = run_all(run, told, why);
    run->report.status = status;
    if (status) run->report.reason = *why;
    if (csv) fa_report_csv(&run->report, csv);
    if (json) fa_report_json(&run->report, json);
    fa_setup_free(run);
  }
  bool written = close_record(csv);
  written = close_record(json) && written;
  if (!written && !status)
    status = fa_say(why, FA_FAILED, "a record could not be written: is the disk full?");
  return status;
}

static fa_status_t list(const fa_stage_t *stage, const fa_options_t *o, fa_reason_t *why) {
  if (o->json) return fa_say(why, FA_INVALID, "--list is text, or a table with --csv; it has no --json");
  if (!o->csv) {
    fa_list(stage, stdout);
    return FA_OK;
  }
  FILE *f = NULL, *none = NULL;
  fa_status_t status = open_records(o, &f, &none, why);
  if (status) return status;
  fa_list_csv(stage, f);
  return close_record(f) ? FA_OK : fa_say(why, FA_FAILED, "cannot write %.200s", o->csv);
}

int fa_driver_main(const fa_stage_t *stage, int argc, char **argv) {
  fa_options_t o;
  fa_reason_t why = {""};
  fa_status_t status = fa_options_parse(&o, FA_PROGRAM_STAGE, argc, argv, &why);
  bool told = false;
  if (!status && o.help)
    print_help(stage, stdout);
  else if (!status && o.version)
    printf("%s %s\n", stage->name, FA_VERSION);
  else if (!status && o.list)
    status = list(stage, &o, &why);
  else if (!status) {
    fa_run_t run = {.options = &o, .stage = stage};
    status = run_and_record(&run, &told, &why);
  }
  fa_progress(NULL);
  /* A stage's own refusal begins with its name. */
  bool named = !strncmp(why.text, stage->name, strlen(stage->name));
  if (status && !told) fprintf(stderr, "%s%s%s\n", named ? "" : stage->name, named ? "" : ": ", why.text);
  if (fflush(stdout) || ferror(stdout)) {
    fprintf(stderr, "%s: standard output could not be written\n", stage->name);
    if (!status) status = FA_FAILED;
  }
  return (int)status;
}
