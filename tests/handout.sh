#!/bin/sh
# handout.sh - every stage's handout must compile and fail its checks cleanly: failed checks, no crash, no
# time-out. Prints "N passed, N failed".
set -u
passed=0 failed=0

# Every relative link of a README leads to something.
no_dead_links() (
  for page in README.md "$stage/README.md"; do
    cd "$1/$(dirname "$page")" || exit 1
    for link in $(sed -n 's/](\([^)#]*\)[^)]*)/\n](\1\n/gp' "$(basename "$page")" | sed -n 's/^](//p' | grep -v '^http'); do
      [ -e "$link" ] || { echo "dead link in $page: $link"; exit 1; }
    done
  done
)
# A source whose markers do not pair, or a file that is missing, ends it: nothing is written, the first line says what is wrong.
refused() { # WHAT PATTERN
  if (cd "$copy" && sh common/handout.sh "$stage" "$copy/out") > "$copy/log" 2>&1; then
    what="$1: status 0"
  elif [ -e "$copy/out" ]; then
    what="$1: something was written"
  elif ! head -n 1 "$copy/log" | grep -q "$2"; then
    what="$1: it does not say so: $(head -n 1 "$copy/log")"
  else
    passed=$((passed + 1))
    return
  fi
  failed=$((failed + 1))
  echo "handout $stage: $what"
}
for stage in ${STAGE:?which stages}; do
  copy=$(mktemp -d)
  cp -R Makefile README.md AGENTS.md LICENSE .clang-format .gitignore common tests notes "$stage" "$copy"
  source=$(grep -rl 'END SOLUTION' "$stage" | sort | sed -n 1p)
  awk '/END SOLUTION/ { last = FNR } { line[FNR] = $0 } END { for (i = 1; i <= FNR; i++) if (i != last) print line[i] }' \
    "$source" > "$copy/$source"
  refused "a solution that never ends" "$source:[0-9]*: this solution is never closed"
  awk '/BEGIN SOLUTION/ && !n++ { next } { print }' "$source" > "$copy/$source"
  refused "a solution that never begins" "$source:[0-9]*: END SOLUTION without a beginning"
  awk '/END SOLUTION/ && !n++ { next } { print } END { print "BEGIN SOLUTION" }' "$source" > "$copy/$source"
  refused "a solution inside a solution" "$source:[0-9]*: BEGIN SOLUTION inside a solution"
  cp "$source" "$copy/$source"
  rm "$copy/LICENSE"
  refused "a file that is not there" LICENSE
  rm -rf "$copy"
done

for stage in $STAGE; do
  out="$(mktemp -d)/a student's" log=$(mktemp)
  if sh common/handout.sh "$stage" "$out" > "$log" 2>&1 &&
    ! grep -rq -e 'BEGIN SOLUTION' -e 'STUB:' "$out/$stage" &&
    no_dead_links "$out" &&
    hint=$(tail -n 1 "$log") && eval "$hint -n" > "$log" 2>&1 && # the command that it ends with
    [ -f "$out/AGENTS.md" ] && [ ! -e "$out/notes/answers" ] && [ ! -e "$out/tests/mutants" ] &&
    make -C "$out" --no-print-directory all "build/tests/check_$stage" STAGE="$stage" WERROR=1 >> "$log" 2>&1; then
    # The forward and backward suites suffice to see that the missing parts are missed.
    (cd "$out" && FA_FAIL_FAST=1 "build/tests/check_$stage") > "$log" 2>&1
    status=$?
    if [ $status -ne 0 ] && grep -q 'Failures: [1-9]' "$log" && ! grep -q 'Errors: [1-9]' "$log"; then
      passed=$((passed + 1))
      echo "handout $stage: compiles, and fails its checks cleanly"
    else
      failed=$((failed + 1))
      echo "handout $stage: the student's tree does not fail its checks cleanly (status $status):"
      tail -n 5 "$log"
    fi
  else
    failed=$((failed + 1))
    echo "handout $stage: the student's tree does not build:"
    tail -n 15 "$log"
  fi
  rm -rf "$(dirname "$out")" "$log"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
