#!/bin/sh
# build_rules.sh - what the build itself promises. Run by `make check`, which sets CC and CFLAGS_ALL.
checks=0 bad=0
verdict() { # verdict STATUS WHAT
  checks=$((checks + 1))
  [ "$1" = 0 ] || { bad=$((bad + 1)); echo "build_rules: $2"; }
}
CC=${CC:-cc}

# With -ffast-math the compiler may drop the tests for infinity and NaN that empty rows rely on, so such a
# build must stop with a message that says why.
for flag in -ffast-math -Ofast -ffinite-math-only; do
  ! message=$(printf '#include "fa.h"\nint main(void) { return 0; }\n' |
    $CC -std=c11 -Icommon $flag -x c -fsyntax-only - 2>&1) &&
    echo "$message" | grep -q 'do not build with -ffast-math'
  verdict $? "fa.h was accepted with $flag, or refused without saying why"
done
# Our own flags do not ask for it.
# shellcheck disable=SC2086 # a list of flags
macros=$(echo | $CC $CFLAGS_ALL -x c -E -dM - -MF /dev/null 2>/dev/null)
[ -n "$macros" ] && ! echo "$macros" | grep -q '__FAST_MATH__\|__FINITE_MATH_ONLY__ 1'
verdict $? "the project's own flags turn fast-math on"

echo "build_rules: $checks checks, $bad failed"
[ -n "$FA_TOTALS" ] && echo "build_rules $checks 1 $bad 0" >> "$FA_TOTALS"
[ $bad = 0 ]
