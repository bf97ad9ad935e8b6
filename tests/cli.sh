#!/bin/sh
# cli.sh - the programs as a user meets them: every option, every kind of bad input, exit statuses, messages.
#   FA_CLI_PROGRAMS   the stages' programs          FA_CLI_DEMO      the demo, or empty; FA_CLI_DEMO_WRONG: with wrong steps
#   VALGRIND=1        each command under valgrind   FA_CLI_SANITIZE  set in sanitizer builds
# POSIX sh and the usual small tools; python3, where there is one, reads the JSON a second time.
set -u
here=$(dirname "$0")
: "${FA_CLI_PROGRAMS:=build/01_naive build/02_tiled_cpu}" "${FA_CLI_DEMO=}" "${FA_CLI_DEMO_WRONG=}" "${FA_CLI_SANITIZE=}"
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

# `make bench`, with programs that only say how they end: no time is taken.
program_name=bench
fake() { # NAME WHAT-STEP-a-DOES
  cat >"$tmp/$1" <<END
#!/bin/sh
echo "$1 \$*" >>"$tmp/calls"
case "\$*" in
--list) printf '%s\n' '* a: first' '  b: not a main one' '* c: last' '* without --step, the last of these' ;;
*"--step a"*) $2 ;;
esac
END
  chmod +x "$tmp/$1"
}
bench() { : >"$tmp/calls"; sh "$here/../common/bench.sh" "$@" >"$tmp/out" 2>"$tmp/err"; }
fake 98_good 'echo PASS'
fake 98_refuses 'echo "98_refuses: no GPU here" >&2; exit 3'
fake 98_fails 'echo "98_fails: wrong" >&2; exit 1'
fake 98_dies 'kill -9 $$'
holds "bench: a step that is refused does not fail" bench "$tmp/98_refuses" "$tmp/98_good"
holds "bench: the reason is said" grep -qx "98_refuses a: not run: no GPU here" "$tmp/out"
holds "bench: the last line counts" sh -c "tail -n 1 '$tmp/out' | grep -qx 'bench: 3 main steps timed, 1 not run'"
printf '%s\n' "98_refuses --list" "98_refuses --step a --bench" "98_refuses --step c --bench" "98_good --list" \
  "98_good --step a --bench" "98_good --step c --bench" >"$tmp/wanted"
holds "bench: every main step of every program is timed, and no other" cmp "$tmp/wanted" "$tmp/calls"
for fault in fails dies; do
  if bench "$tmp/98_$fault" "$tmp/98_good"; then bad "bench: a step that $fault: status 0"; else good; fi
  holds "bench: goes on after a step that $fault" grep -qx "98_good --step c --bench" "$tmp/calls"
  holds "bench: names the step that $fault" sh -c "tail -n 1 '$tmp/out' | grep -q 'FAILED: 98_$fault:a$'"
done
if bench false "$tmp/98_good"; then bad "bench: a program that cannot list its steps: status 0"; else good; fi
holds "make bench runs that script" sh -c "make -n CUDA=0 bench 2>/dev/null | grep -q '^sh common/bench.sh '"

# Short runs, all below the limit that ends a step's curve, and a program that cannot list its steps.
if command -v gnuplot >/dev/null 2>&1 && [ -z "${VALGRIND:-}" ] && [ -n "$FA_CLI_PROGRAMS" ]; then
  program_name=plot
  plot() { LENGTHS=16 HEADS=1 HEAD_DIM=8 LIMIT=60 sh "$here/../common/plot.sh" "$tmp/plots" "$@" >"$tmp/out" 2>"$tmp/err"; }
  plot "${FA_CLI_PROGRAMS%% *}"
  if [ $? -eq 3 ]; then # without a GPU, a stage for GPUs has no times
    holds "a plot of nothing says so" grep -q "nothing to draw" "$tmp/err"
  else
    holds "a plot of one program" plot "${FA_CLI_PROGRAMS%% *}"
    for kind in speed memory; do
      holds "$kind.svg is drawn" grep -q "</svg>" "$tmp/plots/$kind.svg"
      holds "$kind.svg is of no type" sh -c "! grep -q 'head dim 8, fp' '$tmp/plots/$kind.svg'"
      for curve in "$tmp"/plots/*.dat; do
        curve=$(basename "$curve" .dat)
        holds "$kind.svg names the type of $curve" grep -Eq "$curve</text>" "$tmp/plots/$kind.svg"
        holds "$curve ends in its type" sh -c "echo '$curve' | grep -Eq '_(fp32|fp16|bf16|e4m3)\$'"
      done
    done
    # A program whose records are of two types, as of one step on two devices.
    fake=$tmp/99_two_types
    cat >"$fake" <<'END'
#!/bin/sh
case "$*" in
*--list*) printf '%s\n' stage,step,main,device,pass,dtype,head_dim 99,a,1,cpu,forward,fp32,8 99,b,1,gpu,forward,fp16,8 ;;
*"--step a"*) printf '%s\n' dtype,forward_median_s,peak_bytes,forward_flop_per_s fp32,1,1,1 ;;
*) printf '%s\n' dtype,forward_median_s,peak_bytes,forward_flop_per_s fp16,1,1,1 ;;
esac >"$(for file; do :; done; echo "$file")"
END
    chmod +x "$fake"
    holds "a plot of two types" plot "$fake"
    for curve in 99_two_types_a_fp32 99_two_types_b_fp16; do
      holds "a plot of two types has $curve" grep -q "$curve</text>" "$tmp/plots/speed.svg"
    done
  fi
  if plot false; then bad "a program that cannot list its steps: status 0"; else good; fi
fi

[ -n "${FA_TOTALS:-}" ] && echo "cli $((passed + failed)) 1 $failed 0" >>"$FA_TOTALS"
echo "command line: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
