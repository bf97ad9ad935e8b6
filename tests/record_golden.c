/* record_golden.c - `make record-golden`: runs every vector on the GPU and writes its words to tests/golden. Says at once
 * whether the GPU does what the definitions say; what differs is written all the same, for that is what is so. */
#include "emu_vectors.h"

#include <stdlib.h>
#include <string.h>

const fa_stage_t *const fa_stages[] = {NULL};

#if FA_HAVE_GPU
static int differing; /* vectors whose words are not the definition's */

static fa_status_t record(const vector_t *v, const fa_machine_t *gpu, const char *device, fa_reason_t *why) {
  size_t count, outs = vector_out(v);
  int64_t most = 0;
  uint32_t *in = vector_inputs(v), *out = malloc(outs * sizeof *out);
  uint32_t *defined = in ? vector_defined(v, in) : NULL, *words = NULL;
  if (!in || !out || !defined) return fa_say(why, FA_REFUSED, "%s: not enough memory", v->name);
  fa_status_t s = vector_run(v, gpu, run_wrapper_gpu, in, out, why);
  if (!s && !(words = golden_words(v, out, &count))) s = fa_say(why, FA_REFUSED, "not enough memory");
  if (!s) s = golden_write(v, digest_of(WORDS, in, vector_in(v)), words, count, device, why);
  if (!s) {
    int64_t at = words_differ(wrappers[v->kernel].kind, v->ulps, out, defined, outs, &most);
    printf("tests/golden/%s.txt: %zu words", v->name, count);
    if (v->ulps) printf(", %lld ulp from the definition", (long long)most);
    if (at >= 0) {
      int per_block = wrappers[v->kernel].out;
      printf("; NOT AS DEFINED: block %lld word %lld is %08x, defined %08x", (long long)at / per_block,
             (long long)at % per_block, (unsigned)out[at], (unsigned)defined[at]);
      differing++;
    }
    printf("\n");
  }
  free(in), free(out), free(defined), free(words);
  return s;
}
#endif

int main(void) {
  fa_reason_t why = {""};
  char device[128] = "";
  const fa_machine_t *gpu = fa_machine(FA_GPU);
  if (gpu->open(device, &why)) {
    fprintf(stderr, "record-golden: %s\n", why.text);
    return FA_REFUSED;
  }
#if FA_HAVE_GPU
  for (int i = 0; i < vector_count; i++) {
    fa_status_t s = record(&vectors[i], gpu, device, &why);
    if (!s) continue;
    fprintf(stderr, "record-golden: %s: %s\n", vectors[i].name, why.text);
    return s;
  }
  if (differing) {
    fprintf(stderr, "record-golden: %d vectors are not what tests/emu_definitions.c says\n", differing);
    return FA_FAILED;
  }
#endif
  return FA_OK;
}
