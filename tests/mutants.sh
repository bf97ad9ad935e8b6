#!/bin/sh
# mutants.sh STAGE [NAME | --sample] - tests the tests: every bug of tests/mutants/STAGE.mut is put into a
# copy of the tree, built, and must make the stage's tests fail. A bug that does not build, or whose line is
# no longer there, is an error too: it would prove nothing. mutants.py does the same and more, with Python.
#
# A .mut file holds blocks of five to seven lines (blank lines and lines with # between them):
#   name: tiled-not-rescaled
#   file: 02_tiled_cpu/tiled.c
#   what: O keeps its weight when a later block raises the maximum
#   try: forward.tiled/oblong     FA_CASE text of the tests that run first; without it all run
#   sample: yes                   part of `make check`, which leaves it out where its line was changed
#   old: the line, without its indentation; it must be in the file exactly once
#   new: what takes its place (may be empty)
set -u
stage=$1 only=${2:-${MUTANT:-}}
list=tests/mutants/$stage.mut
tree=build/mutants/$stage
sample=
[ "$only" = --sample ] && sample=yes only= tree=$tree.sample
[ -f "$list" ] || { echo "mutants: $list does not exist" >&2; exit 2; }
rm -rf "$tree"
mkdir -p "$tree/build"
cp -a Makefile common tests "$stage" "$tree/"
# Objects with their times, so that only the changed file is compiled again.
for part in build/obj build/tests build/flags build/check.cflags build/check.libs build/registry_"$stage".*; do
  [ -e "$part" ] && cp -a "$part" "$tree/build/"
done

# A bug is killed by a check that passes without it.
if [ -z "$only$sample" ]; then
  log=$tree/log
  make -C "$tree" --no-print-directory "build/tests/check_$stage" > "$log" 2>&1 &&
    (cd "$tree" && FA_FAIL_FAST=1 "build/tests/check_$stage") > "$log" 2>&1 || {
    echo "mutants: the tests of $stage fail without any bug; mend that first:" >&2
    tail -n 5 "$log" >&2
    exit 1
  }
fi

killed=0 survived=0 broken=0
field() { printf '%s\n' "$block" | sed -n "s/^$1: \{0,1\}//p"; }

# Do the tests with this text in their name pass?
passes() (
  cd "$tree" && unset FA_TOTALS FA_STEP FA_DEVICE FA_SLOW FA_SAN &&
    FA_CASE=$1 FA_FAIL_FAST=1 timeout 600 "build/tests/check_$stage" > log 2>&1
)

run_mutant() {
  name=$(field name) file=$(field file) what=$(field what)
  [ -z "$only" ] || [ "$only" = "$name" ] || return 0
  [ "$sample" = "$(field sample)" ] || [ -z "$sample" ] || return 0
  cp -p "$file" "$tree/$file.good"
  OLD=$(field old) NEW=$(field new) awk '
    BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
    { line = $0; sub(/^[ \t]+/, "", line); indent = substr($0, 1, length($0) - length(line)) }
    line == old { print indent new; found++; next }
    { print }
    END { exit found != 1 }' "$file" > "$tree/$file" || {
    mv "$tree/$file.good" "$tree/$file"
    [ -z "$sample" ] || { echo "$name: not run: $file is not as it was"; return 0; }
    broken=$((broken + 1))
    printf '%-34s BROKEN    its line is not exactly once in %s\n' "$name" "$file"
    return 0
  }
  log=$tree/log
  if ! make -C "$tree" --no-print-directory WERROR=0 "build/tests/check_$stage" > "$log" 2>&1; then
    broken=$((broken + 1))
    printf '%-34s BROKEN    does not build: %s\n' "$name" "$(grep -m1 error "$log")"
  elif { [ -z "$(field try)" ] || passes "$(field try)"; } && passes ''; then
    survived=$((survived + 1))
    printf '%-34s SURVIVED  %s\n' "$name" "$what"
  else
    by=$(sed -n 's/^[^:]*:[0-9]*:[FE]:[^:]*:\([^:]*\):.*/\1/p' "$log" | head -n 1)
    if [ -n "$by" ]; then
      killed=$((killed + 1))
      printf '%-34s killed    %s (by %s)\n' "$name" "$what" "$by"
    else
      broken=$((broken + 1))
      printf '%-34s BROKEN    the tests stopped, but no check failed: %s\n' "$name" "$(tail -n 1 "$log")"
    fi
  fi
  mv "$tree/$file.good" "$tree/$file"
  touch "$tree/$file"
}

block=
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
  '' | '#'*) continue ;;
  esac
  block="$block$line
"
  case $line in
  new:*) run_mutant; block= ;;
  esac
done < "$list"
echo "mutants of $stage: $killed killed, $survived survived, $broken broken"
if [ -n "$sample" ] && [ -n "${FA_TOTALS:-}" ]; then
  echo "mutants_$stage $((killed + survived + broken)) 1 $((survived + broken)) 0" >> "$FA_TOTALS"
fi
[ "$survived" = 0 ] && [ "$broken" = 0 ] && { [ -n "$sample" ] || [ "$killed" -gt 0 ]; }
