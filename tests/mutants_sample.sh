#!/bin/sh
# mutants_sample.sh - the few bugs of tests/mutants that `make check` tries, in the stages $FA_MUTANTS.
bad=0
for stage in $FA_MUTANTS; do
  sh tests/mutants.sh "$stage" --sample || bad=1
done
exit $bad
