# cli_usage.sh - wrong usage, and sizes that fit nowhere. Read by cli.sh.

# --- wrong usage: status 2, one line that says what to do
refuses 2 "no option --nonsense; --help" --nonsense
refuses 2 "no option --; --help" --
refuses 2 "no option --Seq" --Seq 4
refuses 2 "no option --se;" --se 4
refuses 2 "\"seq\" is not an option" seq
refuses 2 "\"-q\" is not an option" -q
refuses 2 "\"\" is not an option" ""
escape=$(printf '\033[31m')
line_end='a
b'
refuses 2 'no step "\?\[31mx"' --step "${escape}x"
refuses 2 'no step "a\?b"' --step "$line_end"
refuses 2 "no option --\?\[31m;" "--$escape"
refuses 2 "scale takes .*\"a\?b\"" --scale "$line_end"
refuses 2 "causal takes no value" --causal=1
refuses 2 "list .* has no --json" --list --json "$tmp/list.json"
for option in batch heads heads-kv seq seq-q seq-k head-dim head-dim-v kv-len dtype dtype-out scale seed dist \
  step splits device threads save csv json; do
  refuses 2 "--$option needs a value: --$option " "--$option"
  refuses 2 "--$option needs a value" "--$option" --check
  refuses 2 "--$option" "--$option="
done
for option in batch heads heads-kv seq seq-q seq-k head-dim head-dim-v splits threads seed; do
  for value in x -1 99999999999999999999999 4x 1.5 +4 " 4" "4 " 0x10 1e3; do
    [ -n "${VALGRIND:-}" ] && [ "$value" = 4x ] && break # slow, and the rest takes the same path
    refuses 2 "--$option takes a whole number" "--$option" "$value"
  done
done
for option in heads heads-kv head-dim head-dim-v threads; do
  refuses 2 "--$option is 0; it must be at least 1" "--$option" 0
done
refuses 2 "splits is 65537; it must be at most 65536" --splits 65537
refuses 2 "threads is 4097; it must be at most 4096" --threads 4097
refuses 2 "multiple of heads_kv" --heads 3 --heads-kv 2
refuses 2 "multiple of heads_kv" --heads 2 --heads-kv 4
for value in x 1x nan inf -inf 1e99 " 1" 1,5; do refuses 2 "scale takes a finite number" --scale "$value"; done
for value in 1e-400 -1e-60 0x1p-200; do refuses 2 "scale $value is too small" --scale "$value"; done
for value in fp64 FP32 half 32; do
  refuses 2 "--dtype takes" --dtype "$value"
  refuses 2 "--dtype-out takes" --dtype-out "$value"
done
refuses 2 "--dtype-out takes fp32, fp16 or bf16" --dtype-out e4m3
refuses 2 "--device takes auto, gpu, cpu or emu" --device cuda
refuses 2 "--dist takes one of normal" --dist gaussian
refuses 2 "no step \"none\"; its steps are" --step none
for value in x 5x 5, ,5 5,,5 -5 1.5 " 5" "5 5"; do refuses 2 "--kv-len takes numbers" --kv-len "$value"; done
refuses 2 "beyond the 40 keys" $small --kv-len 41
refuses 2 "beyond the 40 keys" $small --kv-len 99999999999999999999
refuses 2 "2 numbers for a batch of 3" $small --batch 3 --kv-len 1,2
refuses 2 "3 numbers for a batch of 1: give 1$" $small --kv-len 1,2,3
refuses 2 "3 numbers for a batch of 2" $small --batch 2 --kv-len 1,2,3

# --- sizes that fit nowhere: refused at once, with the numbers
refuses 2 "too large" --seq 99999999999
for option in heads heads-kv head-dim head-dim-v; do
  for value in 2147483648 9223372036854775807 9223372036854775808; do
    refuses 2 "--$option is $value; it must be at most 2147483647" "--$option" $value
  done
done
refuses 2 "--batch is 9223372036854775808; it must be at most 1152921504606846976" --batch 9223372036854775808
refuses 2 "too large" --batch 1152921504606846976
refuses 2 "too large" --batch 4294967296 --heads 2147483647
refuses 3 "bytes of memory are wanted .* are available" --device "$device" --batch 100000 --heads 64 --seq 8192
refuses 3 "are wanted .* are available" --device "$device" --batch 1000000000000 --seq 1 --kv-len 1
# One query and so many keys that the tensors fit into a third of the memory, and the oracle nowhere: said before any work.
try --device "$device" --batch 100000 --heads 64 --seq 8192
available=$(sed -n 's/.* \([0-9]*\) are available$/\1/p' "$tmp/err")
if [ "$device" = cpu ] && [ -n "$available" ]; then
  many="--device cpu --heads 1 --seq-q 1 --seq-k $((available / 1500))"
  refuses 3 "bytes of memory are wanted .* GB for the oracle\), [0-9]* are available" $many
  holds "an oracle that does not fit: nothing was run" [ ! -s "$tmp/out" ]
  refuses 3 "GB for the oracle\), [0-9]* are available" $many --bench
fi
if [ -z "${VALGRIND:-}$FA_CLI_SANITIZE" ] && [ "$device" = cpu ]; then
  program_under_limit() { (ulimit -v 1000000 && "$program" --device cpu --threads 1 --heads 1 --seq-q 1 --seq-k 1000000 "$@"); }
  program_under_limit >"$tmp/out" 2>"$tmp/err"
  status=$?
  holds "too little address space for the oracle: status 3, not $status" [ $status -eq 3 ]
  holds "too little address space for the oracle: both numbers" grep -q "for the oracle), [0-9]* are available" "$tmp/err"
  program_under_limit --count >"$tmp/out" 2>"$tmp/err"
  status=$?
  holds "where nothing is compared the oracle takes no memory: status 0, not $status" [ $status -eq 0 ]
  program_under_limit() { (ulimit -v 1000000 && "$program" --device cpu --threads 1 --heads 64 --seq 16384); }
  program_under_limit >"$tmp/out" 2>"$tmp/err"
  status=$?
  holds "too little address space: status 3, not $status" [ $status -eq 3 ]
  holds "too little address space: both numbers" grep -q "are wanted .* are available" "$tmp/err"
fi
