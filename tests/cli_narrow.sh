# cli_narrow.sh - a stage that has neither fp32 nor head dim 16: its own steps and refusals. What its program shares with
# the others was tested on them. Read by cli.sh.
narrow="--device $device --heads 2 --seq 40 --head-dim 32 --dtype fp16"
# Valgrind cannot follow the emulator's stacks: under it only what is refused before a launch is run.
computes=yes
if [ -n "${VALGRIND:-}" ] && [ "$device" = emu ]; then
  computes=no
  echo "$program_name: what the emulator computes is not run under valgrind, which cannot follow its stacks"
fi
if [ $computes = yes ]; then
  for step in $(awk -F, 'NR > 1 { print $2 }' "$tmp/list" | sort -u); do
    ok "^PASS $program_name $step: o, lse right" $narrow --step "$step"
    ok "^PASS $program_name $step: o, lse, dq, dk, dv right" $narrow --step "$step" --backward --causal --dtype bf16 --heads-kv 1
  done
  ok "HBM both" $narrow --count --backward
  ok "PASS" $narrow --count --check --quiet
  holds "--quiet prints one line" [ "$(wc -l <"$tmp/out")" -eq 1 ]
  ok "PASS" $narrow --backward --save "$tmp/narrow"
  holds "gradients are saved" [ -s "$tmp/narrow/dk.npy" ]
  ok "PASS" --device "$device" --dtype fp16 --load "$tmp/narrow/o.npy" "$tmp/narrow/o.npy" "$tmp/narrow/o.npy"
fi
refuses 3 "model comes with a later stage" $narrow --model
refuses 3 "not in fp32" $narrow --dtype fp32
refuses 3 "head dim 32, 64, 96 and 128" $narrow --head-dim 16
refuses 3 "head dim 32, 64, 96 and 128" $narrow --head-dim-v 64
refuses 3 "split" $narrow --splits 2
# Where no type is named, the reason is not that a type lacks that nobody asked for, and the record names none.
untyped="--device $device --heads 2 --seq 40 --head-dim 32"
refuses 3 "head dim 32, 64, 96 and 128" $untyped --head-dim 40 --json "$tmp/untyped.json"
holds "a refused run without --dtype: the record has no type" grep -q '"dtype": null' "$tmp/untyped.json"
refuses 3 "writes O in the type of Q" $untyped --dtype-out fp32
refuses 3 "head dim" $untyped --head-dim 40 --dtype bf16 --json "$tmp/typed.json"
holds "a refused run with --dtype: the record has it" grep -q '"dtype": "bf16"' "$tmp/typed.json"
if [ "$device" = emu ]; then
  [ $computes = no ] || refuses 3 "no times to measure" $narrow --bench # the device is opened first
  for setting in EMU_ARCH=81 EMU_ARCH=sm_80 EMU_ORDER=soon EMU_SMS=0 EMU_RACES=2; do
    program_run=$run
    run="$run env $setting"
    refuses 3 "EMU_${setting#EMU_}|${setting%=*}" $narrow
    run=$program_run
  done
fi
if [ "$device" = emu ] && [ $computes = yes ]; then
  program_run=$run
  seen() { # NAME...: those counts are there, and no other that only the emulator has
    for name in shared_bytes barriers sectors sectors_least shared_passes bank_conflicts; do
      case " $* " in
      *" $name "*) grep -Eq "\"forward_$name\": [0-9.e+]+,?\$" "$tmp/seen.json" || return 1 ;;
      *) grep -Eq "\"forward_$name\": null,?\$" "$tmp/seen.json" || return 1 ;;
      esac
    done
    ! grep -q '"forward_shared_bytes": 0,' "$tmp/seen.json"
  }
  ok "^DONE" $narrow --count --json "$tmp/seen.json"
  sectors=$(sed -n 's/^ *32-byte sectors *\([0-9]*\) .*/\1/p' "$tmp/out")
  holds "JSON has the emulator's counts" seen shared_bytes barriers sectors sectors_least shared_passes bank_conflicts
  holds "JSON has as many sectors as the report" grep -q "\"forward_sectors\": $sectors," "$tmp/seen.json"
  holds "JSON: what was not counted is null" grep -q '"backward_sectors": null' "$tmp/seen.json"
  ok "^PASS" $narrow --json "$tmp/seen.json"
  holds "JSON without --count: requests were not put together" seen shared_bytes barriers
  run="$program_run env EMU_RACES=0"
  refuses 3 "EMU_RACES=0 .*--count" $narrow --count
  ok "PASS" $narrow --json "$tmp/unseen.json"
  holds "bytes that were not counted are not 0" grep -q '"forward_hbm_read_bytes": null' "$tmp/unseen.json"
  for order in late early 7; do
    run="$program_run env EMU_ORDER=$order EMU_SMS=3 EMU_ARCH=90"
    ok "PASS" $narrow --quiet
  done
  run="$program_run env EMU_ARCH=75"
  ok "PASS" $narrow --quiet --backward
  run=$program_run
fi
if [ "$device" = emu ]; then
  program_run=$run
  run="$program_run env EMU_ARCH=75"
  refuses 3 "sm_80 or later for bf16" $narrow --dtype bf16
  if grep -q "^$program_name,keys_64," "$tmp/list"; then
    refuses 3 "needs .* bytes of shared memory at head dim 128, backward" $untyped --head-dim 128 --step keys_64 --backward
  fi
  run=$program_run
fi
