#!/bin/sh
# run.sh DIR PROGRAM... - runs every test program, whatever the ones before it did, and says in the last line
# how it ended. With FA_FAIL_FAST set it stops at the first that fails.
dir=$1
shift
FA_TOTALS=$dir/totals
export FA_TOTALS
mkdir -p "$dir"
: > "$FA_TOTALS"
began=$(date +%s)
failed=
for program; do
  case $program in
  *.sh) sh "$program" ;;
  *) "$program" ;;
  esac
  status=$?
  if [ $status != 0 ]; then
    name=${program##*/}
    # A program that ends by itself says what failed; one that is killed may not.
    [ $status -gt 1 ] && echo "$name ended with status $status"
    failed="$failed $name"
    [ -n "$FA_FAIL_FAST" ] && break
  fi
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
