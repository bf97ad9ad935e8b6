#!/bin/sh
# cli.sh - the programs as a user meets them: every option, every kind of bad input, exit statuses, messages.
#   FA_CLI_PROGRAMS   the stages' programs          FA_CLI_DEMO      the demo, or empty
#   VALGRIND=1        each command under valgrind   FA_CLI_SANITIZE  set in sanitizer builds
# POSIX sh and the usual small tools; python3, where there is one, reads the JSON a second time.
set -u
here=$(dirname "$0")
: "${FA_CLI_PROGRAMS:=build/01_naive build/02_tiled_cpu}" "${FA_CLI_DEMO=}" "${FA_CLI_SANITIZE=}"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
. "$here/cli_lib.sh"

first=yes
for program in $FA_CLI_PROGRAMS; do
  program_name=$(basename "$program")
  # The first device that this stage runs on here, so that the same test fits every stage.
  if ! "$program" --list --csv - >"$tmp/list" 2>"$tmp/err"; then
    : >"$tmp/out"
    bad "--list --csv -: the program does not run"
    continue
  fi
  device=$(awk -F, 'NR == 2 { print $4 }' "$tmp/list")
  if [ -z "$device" ]; then
    echo "$program_name: not run: no device for it here"
    continue
  fi
  small="--device $device --heads 2 --seq 40 --head-dim 16"
  try $small --quiet
  if [ $status -eq 3 ]; then
    . "$here/cli_narrow.sh"
    continue
  fi
  . "$here/cli_options.sh"
  . "$here/cli_output.sh"
  # What these two test is the same code in every program: valgrind, which is slow, sees it once.
  if [ -z "${VALGRIND:-}" ] || [ $first = yes ]; then
    . "$here/cli_usage.sh"
    . "$here/cli_files.sh"
  fi
  first=no
done

if [ -n "$FA_CLI_DEMO" ]; then
  program=$FA_CLI_DEMO program_name=demo
  . "$here/cli_demo.sh"
fi

# Short runs, all below the limit that ends a step's curve, and a program that cannot list its steps.
if command -v gnuplot >/dev/null 2>&1 && [ -z "${VALGRIND:-}" ] && [ -n "$FA_CLI_PROGRAMS" ]; then
  program_name=plot
  plot() { LENGTHS=16 HEADS=1 HEAD_DIM=8 LIMIT=60 sh "$here/../common/plot.sh" "$tmp/plots" "$@" >"$tmp/out" 2>"$tmp/err"; }
  plot "${FA_CLI_PROGRAMS%% *}"
  if [ $? -eq 3 ]; then # without a GPU, a stage for GPUs has no times
    holds "a plot of nothing says so" grep -q "nothing to draw" "$tmp/err"
  else
    holds "a plot of one program" plot "${FA_CLI_PROGRAMS%% *}"
    for kind in speed memory; do holds "$kind.svg is drawn" grep -q "</svg>" "$tmp/plots/$kind.svg"; done
  fi
  if plot false; then bad "a program that cannot list its steps: status 0"; else good; fi
fi

[ -n "${FA_TOTALS:-}" ] && echo "cli $((passed + failed)) 1 $failed 0" >>"$FA_TOTALS"
echo "command line: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
