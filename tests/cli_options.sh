# cli_options.sh - every option, used as it should be. Read by cli.sh, once for each program.

# --- what runs without a problem
ok "^usage: build/$program_name" --help
ok "^usage: build/$program_name" -h
ok "^$program_name [0-9]+\.[0-9]+\.[0-9]+$" --version
for option in batch heads heads-kv seq seq-q seq-k head-dim head-dim-v kv-len dtype dtype-out causal scale \
  backward seed dist load step list deterministic splits device threads check bench count model save csv json \
  quiet help version; do
  ok "^  --$option " --help
done
ok "^stage,step,main,device,pass,dtype,head_dim$" --list --csv -
steps=$(awk -F, -v d="$device" '$4 == d && $5 == "forward" && !seen[$2]++ { print $2 }' "$tmp/out")
ok "^$program_name: " --list
for step in $steps; do
  holds "--list lacks step $step" grep -Eq "^[* ] $step: " "$tmp/out"
done

# --device auto takes the first device that can, in the order that --help names.
order=$("$program" --help | sed -n 's/^  --device .*auto, \([a-z, ]*\) or \([a-z]*\) (auto: the first of these that can)$/\1 \2/p' | tr -d ,)
holds "--help names three devices in their order" [ "$(echo $order | wc -w)" -eq 3 ]
for nearest in $order; do
  "$program" $small --device $nearest --count --quiet >/dev/null 2>&1 && break
done
ok "^DONE" --heads 2 --seq 40 --head-dim 16 --count --json "$tmp/auto.json"
holds "--device auto is $nearest, the first of $order" grep -q "\"device\": \"$nearest\"" "$tmp/auto.json"

# --- the default problem, and each step by name
ok "^PASS $program_name "
ok "^PASS $program_name " --device auto --check
for step in $steps; do
  ok "^PASS $program_name $step: o, lse right" $small --step "$step"
  holds "the first line names the step, the shape and the machine" \
    grep -Eq "^$program_name, step $step: batch 1, heads 2, seq 40, head dim 16, .* on $device: ." "$tmp/out"
done

# --- the shape
ok "batch 3, heads 2, seq 17, head dim 8" --device "$device" --batch 3 --heads 2 --seq 17 --head-dim 8
ok "heads 6 \(kv 2\)" $small --heads 6 --heads-kv 2
ok "queries 5, keys 70" $small --seq-q 5 --seq-k 70
ok "queries 40, keys 9," $small --seq-k 9
ok "seq 33, head" --device "$device" --seq-q 33
ok "seq 34, head" --device "$device" --seq-k 34
ok "head dim 16 \(values 24\)" $small --head-dim-v 24
ok "kv-len given" $small --kv-len 7
ok "^PASS" $small --batch 3 --kv-len 0,40,13
ok "^PASS" $small --heads=2 --seq=19
ok "seq 12, head" $small --seq 11 --seq 12 # the last one counts
ok "causal" $small --causal --seq-q 9 --seq-k 5
ok "^PASS" $small --seq 1
ok "^PASS" $small --seq-k 0
ok "nothing to compare" $small --batch 0
ok "nothing to compare" $small --seq 0

# --- problem and input
for scale in 0 0e-400 1e-44 -0.5 1 1e-3 0x1p-3 .125; do ok "^PASS" $small --scale "$scale"; done
for dist in normal outliers large tiny uniform ones ramp; do ok "input $dist" $small --dist "$dist"; done
ok "^PASS" $small --seed 0
ok "^PASS" $small --seed 18446744073709551615
ok "^PASS" $small --deterministic
ok "^PASS" $small --splits 0
# What --list says of splits is what happens: a stage without them refuses and does not ignore them.
"$program" --list >"$tmp/text"
if grep -Eq "^ +with .*splits" "$tmp/text"; then
  ok "^PASS" $small --splits 2
else
  refuses 3 "split" $small --splits 2
fi
# An instruction set that is none, or not this processor's, is refused like all of the environment.
for isa in avx1024 AVX2 sse; do
  program_run=$run
  run="$run env FA_ISA=$isa"
  refuses 3 "FA_ISA is baseline.*\"$isa\"" $small
  run=$program_run
done
program_run=$run
run="$run env FA_ISA=baseline"
ok "^PASS" $small
run=$program_run
for threads in 1 2 7; do ok "^PASS" $small --threads "$threads"; done
if grep -q "^$program_name,.*,$device,backward," "$tmp/list"; then
  ok "forward and backward" $small --backward
  for tensor in dq dk dv; do holds "$tensor is compared" grep -Eq "^  $tensor " "$tmp/out"; done
  ok "^PASS" $small --backward --causal --heads 4 --heads-kv 2 --kv-len 33
fi
if [ "$device" = cpu ]; then
  ok "fp32, forward" $small --dtype fp32 --dtype-out fp32
  refuses 3 "e4m3" $small --dtype e4m3
  refuses 3 "fp16|bf16" $small --dtype-out bf16
fi
for other in emu gpu; do
  try $small --device $other
  if [ $status -eq 0 ]; then
    holds "--device $other says PASS" grep -q "^PASS" "$tmp/out"
  else
    refuses 3 "GPU|emulator|device $other" $small --device $other
  fi
done

# --- what is done
ok "counted in one forward run" $small --count
holds "--count alone says that nothing was compared" grep -q "^DONE .*nothing was compared" "$tmp/out"
ok "charts' formula +0.000205 GFLOP" $small --count --check
holds "--check and --count together compare" grep -q "^PASS" "$tmp/out"
ok "^DONE" $small --count --batch 0
refuses 3 "model comes with a later stage" $small --model
ok "^  --model .*later stage" --help
ok "GFLOP/s" $small --bench --check
holds "--bench says PASS and the speed" grep -Eq "^PASS .*; forward [0-9.e+-]+ ms, [0-9.e+-]+ GFLOP/s" "$tmp/out"
