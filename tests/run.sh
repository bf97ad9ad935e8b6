#!/bin/sh
# run.sh DIR PROGRAM... - runs every test program, whatever the ones before it did, and says in the last line
# how it ended. With FA_FAIL_FAST set it stops at the first that fails.
dir=$1
shift
FA_TOTALS=$dir/totals
export FA_TOTALS
mkdir -p "$dir"
: > "$FA_TOTALS"
rm -f "$dir"/*.status
began=$(date +%s)
# One program after another on a GPU, which they would share; elsewhere as many at a time as there are processors, each
# with its output in one piece at its end.
lanes=$(nproc 2> /dev/null || sysctl -n hw.ncpu 2> /dev/null || echo 1)
[ -n "$FA_FAIL_FAST" ] || [ -e /dev/nvidia0 ] && lanes=1
failed=
if [ "$lanes" -gt 1 ] && [ $# -gt 1 ]; then
  printf '%s\n' "$@" | xargs -P "$lanes" -I{} sh tests/run_one.sh {} "$dir" print
else
  for program; do
    sh tests/run_one.sh "$program" "$dir" || [ -z "$FA_FAIL_FAST" ] || break
  done
fi
for program; do
  name=${program##*/}
  [ "$(cat "$dir/$name.status" 2> /dev/null)" = 0 ] || failed="$failed $name"
done
seconds=$(($(date +%s) - began))
# shellcheck disable=SC2046 # four numbers become $1 .. $4
set -- $(awk '{c += $2; s += $3; f += $4; r += $5} END {print c + 0, s + 0, f + 0, r + 0}' "$FA_TOTALS")
refused=
[ "$4" -gt 0 ] && refused=" ($4 unsupported cases were refused as they should be)"
if [ -n "$failed" ]; then
  echo "FAILED:$failed: $3 of $1 checks failed, $seconds s"
  exit 1
fi
if [ "$1" = 0 ]; then
  echo "FAILED: nothing was checked"
  exit 1
fi
echo "all checks passed: $1 checks in $2 suites, $seconds s$refused"
