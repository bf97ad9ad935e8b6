# cli_demo.sh - the ladder on a small problem. Read by cli.sh.
ok "^usage: build/demo" --help
ok "^demo [0-9]" --version
ok "^demo: [1-9][0-9]* steps right, [0-9]+ not run" --heads 2 --seq 64 --head-dim 16
exact() { tr '\n' ' ' <"$tmp/out" | grep -q "Every step that ran computes the same attention"; }
holds "all right: the demo says that attention is exact" exact
holds "the demo's last line is its verdict" sh -c "tail -n 1 '$tmp/out' | grep -q '^demo: '"
ok "^demo: .* right" --quick --heads 1 --head-dim 8 --threads 1 --batch 2
try --seq 100000 --head-dim 2000000000
holds "no step fits: status 3, not $status" [ $status -eq 3 ]
holds "no step fits: the last line says so" sh -c "tail -n 1 '$tmp/out' | grep -q '^demo: 0 steps right, '"
if exact; then bad "no step ran: it says what every step computes"; else good; fi
if [ -n "$FA_CLI_DEMO_WRONG" ]; then
  program=$FA_CLI_DEMO_WRONG
  try --heads 1 --seq 16 --head-dim 8
  holds "a wrong step: status 1, not $status" [ $status -eq 1 ]
  holds "a wrong step: the last line says so" sh -c "tail -n 1 '$tmp/out' | grep -Eq '^demo: [1-9] steps? right, 2 WRONG, '"
  holds "a wrong step: they are named" grep -q "Not every step .* Wrong above: 99_wrong lazy, 99_wrong idle\.$" "$tmp/out"
  if exact; then bad "a wrong step: it says that every step computes the same"; else good; fi
  program=$FA_CLI_DEMO
fi
program_run=$run
run="$run env FA_ISA=avx1024"
refuses 3 "FA_ISA is baseline" --quick
run=$program_run
refuses 2 "no option --causal" --causal
refuses 2 "seq takes a whole number" --seq x
refuses 2 "heads is 0" --heads 0
refuses 2 "too large" --seq 99999999999
refuses 2 "must be at least 1" --batch 0
