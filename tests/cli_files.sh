# cli_files.sh - --load: NumPy files, good and malformed. Read by cli.sh, once for each program.

there="--device $device"
q=$tmp/q.npy k=$tmp/k.npy v=$tmp/v.npy d_o=$tmp/do.npy
shape='(1, 1, 2, 4)'

# --- a problem whose answer is known: q = 0, v = (1, 3), so O = 2 and LSE = ln 2
known() { # DESCR BYTES-OF-ELEMENT ONE THREE: q, k, v in that type
  array "$q" "$1" "$shape" $((8 * $2))
  array "$k" "$1" "$shape" $((8 * $2))
  npy "$v" 1 "$(header "$1" "$shape")"
  printf "$3$3$3$3$4$4$4$4" >>"$v"
}
numbers_are() { # FILE HOW-MANY VALUE
  od -An -v -tf4 -j128 "$1" | awk -v many="$2" -v value="$3" '
    { for (i = 1; i <= NF; i++) { n++; if (!($i - value < 1e-6 && value - $i < 1e-6)) bad = 1 } }
    END { exit bad || n != many }'
}
known '<f4' 4 '\000\000\200\077' '\000\000\100\100'
ok "batch 1, heads 1, seq 2, head dim 4, .*input files" $there --load "$q" "$k" "$v" --save "$tmp/known"
holds "float32: O = 2" numbers_are "$tmp/known/o.npy" 8 2
holds "float32: LSE = ln 2" numbers_are "$tmp/known/lse.npy" 2 0.693147
known '<f2' 2 '\000\074' '\000\102'
ok "^PASS" $there --load "$q" "$k" "$v" --save "$tmp/known"
holds "float16: O = 2" numbers_are "$tmp/known/o.npy" 8 2
known '<f8' 8 '\000\000\000\000\000\000\360\077' '\000\000\000\000\000\000\010\100'
ok "^PASS" $there --load "$q" "$k" "$v" --save "$tmp/known"
holds "float64: O = 2" numbers_are "$tmp/known/o.npy" 8 2
ok "causal" $there --load "$q" "$k" "$v" --causal --kv-len 1
ok "^PASS" $there --load "$q" "$k" "$v" --seq 2 --heads 1 --head-dim 4 # sizes that agree may be given

# --- what is saved can be loaded; formats 2 and 3, and header spellings that NumPy may use
ok "^PASS" $small --save "$tmp/round"
o=$tmp/round/o.npy
ok "heads 2, seq 40, head dim 16" $there --load "$o" "$o" "$o" --save "$tmp/round2"
if grep -q "^$program_name,.*,$device,backward," "$tmp/list"; then
  ok "forward and backward" $there --backward --load "$o" "$o" "$o" "$o"
  ok "forward and backward" $there --backward --load "$o" "$o" "$o"
  ok "forward and backward" $there --backward --load "$o" "$o" "$o" --seed 2 --dist ones # of dO
  refuses 2 "seed is of random input" $there --backward --load "$o" "$o" "$o" "$o" --seed 2
fi

# --- no output takes the place of an input, or of another output: refused, and the files stay
cp "$o" "$tmp/input.npy"
ln -sf input.npy "$tmp/alias.npy"
cp "$tmp/input.npy" "$tmp/round/lse.npy"
keeps() { # PATTERN ARGUMENT...
  refuses 2 "$@"
  for file in "$tmp/input.npy" "$o" "$tmp/round/lse.npy"; do
    holds "refused: $1: ${file#"$tmp"/} is what it was" cmp "$o2" "$file"
  done
}
o2=$tmp/o2.npy
cp "$o" "$o2"
for record in csv json; do
  keeps "--$record would overwrite .*input.npy" $there --load "$tmp/input.npy" "$o2" "$o2" "--$record" "$tmp/input.npy"
  keeps "--$record would overwrite .*input.npy" $there --load "$o2" "$o2" "$tmp/input.npy" "--$record" "$tmp/alias.npy"
  keeps "--$record would overwrite .*alias.npy" $there --load "$o2" "$tmp/alias.npy" "$o2" "--$record" "$tmp/./input.npy"
  keeps "--$record and --save both write .*lse.npy" $small --save "$tmp/round" "--$record" "$tmp/round/lse.npy"
done
keeps "--csv would overwrite .*input.npy" --list --load "$tmp/input.npy" "$o2" "$o2" --csv "$tmp/input.npy"
keeps "--save would overwrite .*o.npy" $there --load "$o2" "$o2" "$o" --save "$tmp/round"
$run "$program" $there --load "$tmp/input.npy" "$o2" "$o2" --csv - >>"$tmp/input.npy" 2>"$tmp/err"
holds "a record on standard output that is an input: it stays" cmp "$o2" "$tmp/input.npy"
ok "^PASS" $small --save "$tmp/round" --csv "$tmp/round/dq.npy" # which is written with --backward alone
for version in 2 3; do
  npy "$q" $version "$(header '<f4' "$shape")"
  zeros "$q" 32
  ok "^PASS" $there --load "$q" "$q" "$q"
done
npy "$q" 1 '{"shape":(1,1,2,4),"fortran_order":False,"descr":"<f4"}
'
zeros "$q" 32
ok "^PASS" $there --load "$q" "$q" "$q"
array "$q" '<f4' '(0, 1, 2, 4)' 0
ok "nothing to compare" $there --load "$q" "$q" "$q"

# --- numbers that are finite in the file and not in the type: a warning, once for each file
warns() { # PATTERN ARGUMENT...
  pattern=$1
  shift
  try "$@"
  holds "$*: one line of warning" [ "$(grep -c warning "$tmp/err")" -eq 1 ]
  holds "$*: $pattern" grep -Eq "^$program_name: warning: $pattern" "$tmp/err"
}
array "$q" '<f8' "$shape" 64
array "$k" '<f8' "$shape" 24 # then 1e300, 0, 1e300, an infinity, 0
big='\234\165\000\210\074\344\067\176'
printf "$big" >>"$k"; zeros "$k" 8; printf "$big"'\000\000\000\000\000\000\360\177' >>"$k"; zeros "$k" 8
warns "2 of the numbers of .*k.npy are finite there .* of fp32, the first at \[0, 0, 0, 3\]" $there --load "$q" "$k" "$q"
# Without a GPU it is the emulator that computes in fp16; its stacks are nothing that valgrind can follow.
if grep -q "^$program_name,.*,fp16," "$tmp/list" && [ -z "${VALGRIND:-}" ]; then
  array "$v" '<f4' "$shape" 28
  printf '\000\120\303\107' >>"$v" # 1e5
  warns "1 of the numbers of .*v.npy .* of fp16, the first at \[0, 0, 1, 3\]" --load "$q" "$q" "$v" --dtype fp16
fi

# --- malformed files: each in the place of q, and then of v
array "$tmp/good.npy" '<f4' "$shape" 32
good_file=$tmp/good.npy
malformed() { # PATTERN FILE
  refuses 2 "$1" $there --load "$2" "$good_file" "$good_file"
  [ -n "${VALGRIND:-}" ] || refuses 2 "$1" $there --load "$good_file" "$good_file" "$2"
}
x=$tmp/x.npy
malformed "cannot open .*nothing.npy" "$tmp/nothing.npy"
malformed "not a regular file" "$tmp"
malformed "not a regular file" /dev/zero
if mkfifo "$tmp/pipe" 2>/dev/null; then malformed "not a regular file" "$tmp/pipe"; rm -f "$tmp/pipe"; fi
: >"$x"; malformed "not a .npy file" "$x"
printf 'NUMPY' >"$x"; malformed "not a .npy file" "$x"
printf 'PK\003\004 this is a zip file and not an array' >"$x"; malformed "not a .npy file" "$x"
printf '\223NUMPY\001' >"$x"; malformed "not a .npy file" "$x"
npy "$x" 9 "$(header '<f4' "$shape")"; zeros "$x" 32; malformed "unknown .npy format" "$x"
npy "$x" 0 "$(header '<f4' "$shape")"; zeros "$x" 32; malformed "unknown .npy format" "$x"
printf '\223NUMPY\001\001\020\000' >"$x"; zeros "$x" 16; malformed "unknown .npy format" "$x"
printf '\223NUMPY\001\000\377\000{' >"$x"; malformed "ends inside its header" "$x"
printf '\223NUMPY\002\000\377\000' >"$x"; malformed "ends inside its header" "$x"
printf '\223NUMPY\001\000\377\377' >"$x"; zeros "$x" 70000; malformed "header of more than" "$x"
printf '\223NUMPY\002\000\377\377\377\377' >"$x"; malformed "header of more than" "$x"
printf '\223NUMPY\001\000\100\000' >"$x"; zeros "$x" 96; malformed "malformed header" "$x"
head_of() { npy "$x" 1 "$1"; zeros "$x" 32; malformed "$2" "$x"; }
head_of "" "malformed header"
head_of "nonsense" "malformed header"
head_of "{'descr': '<f4', 'fortran_order': False, 'shape': $shape" "malformed header"
head_of "$(header '<f4' "$shape") and more" "malformed header"
head_of "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': $shape}" "malformed header"
head_of "{'descr': '<f4', 'fortran_order': False, 'shape': $shape, 'other': 1}" "malformed header"
head_of "{'descr' '<f4', 'fortran_order': False, 'shape': $shape}" "malformed header"
head_of "{'descr': '<f4' 'fortran_order': False, 'shape': $shape}" "malformed header"
head_of "{descr: '<f4', 'fortran_order': False, 'shape': $shape}" "malformed header"
head_of "{'a key that is much too long for this': 1}" "malformed header"
head_of "{'descr': '<f4', 'fortran_order': False}" "without descr, fortran_order or shape"
head_of "{'descr': '<f4', 'shape': $shape}" "without descr"
head_of "{}" "without descr"
head_of "{'descr': <f4, 'fortran_order': False, 'shape': $shape}" "descr is not understood"
head_of "{'descr': '<f4, 'fortran_order': False, 'shape': $shape}" "does not hold"
head_of "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': $shape}" "records"
head_of "$(header '>f4' "$shape")" "big-endian"
for descr in '<i4' '<f16' '<c8' '|b1' '|O' '<U3' 'f4' ''; do
  head_of "$(header "$descr" "$shape")" "does not hold float16, float32 or float64"
done
head_of "{'descr': '<f4', 'fortran_order': True, 'shape': $shape}" "Fortran order"
head_of "{'descr': '<f4', 'fortran_order': 0, 'shape': $shape}" "neither True nor False"
head_of "$(header '<f4' '()')" "has 0 dimensions"
head_of "$(header '<f4' '(8,)')" "has 1 dimension;"
head_of "$(header '<f4' '(1, 2, 4)')" "has 3 dimensions"
head_of "$(header '<f4' '(1, 1, 1, 2, 4)')" "more than 4 dimensions"
for odd in '(1, 1, 2, -4)' '(1, 1, 2, 4.0)' '(1, 1, 2, x)' '(1, 1, 2 4)' '(1,, 1, 2, 4)' '1, 1, 2, 4' '[1, 1, 2, 4]' \
  '(1, 1, 2, 4' '(1, 1, 2, 0x4)'; do
  head_of "$(header '<f4' "$odd")" "shape is not understood"
done
head_of "$(header '<f4' '(1, 1, 2, 99999999999999999999)')" "too large"
head_of "$(header '<f4' '(4294967296, 4294967296, 2, 4)')" "too large"
head_of "$(header '<f4' '(9223372036854775807, 1, 1, 1)')" "too large"
head_of "$(header '<f4' '(1048576, 1048576, 1, 4)')" "damaged: its shape takes 17592186044416 bytes, 32 are there"
npy "$x" 1 "$(header '<f4' "$shape")"; malformed "takes 32 bytes, 0 are there" "$x"
npy "$x" 1 "$(header '<f4' "$shape")"; zeros "$x" 31; malformed "takes 32 bytes, 31 are there" "$x"
npy "$x" 1 "$(header '<f4' "$shape")"; zeros "$x" 33; malformed "takes 32 bytes, 33 are there" "$x"

# --- a file of zeros that takes no room on the disk, but more memory than there is
npy "$x" 1 "$(header '<f4' '(1, 1, 1099511627776, 1)')"
if truncate -s $(($(wc -c <"$x") + 4398046511104)) "$x" 2>/dev/null; then
  refuses 3 "are wanted .* are available" $there --load "$x" "$x" "$x"
fi

# --- files that do not fit together, and wrong uses of --load
array "$q" '<f4' '(2, 4, 3, 8)' 768
fits() { # PATTERN K V
  array "$k" '<f4' "$2" "$(bytes "$2")"
  array "$v" '<f4' "$3" "$(bytes "$3")"
  refuses 2 "$1" $there --load "$q" "$k" "$v"
}
bytes() { echo "$1" | tr -d '(,)' | awk '{ print 4 * $1 * $2 * $3 * $4 }'; }
fits "k.npy has batch 1, but .*q.npy has 2" '(1, 2, 5, 8)' '(2, 2, 5, 8)'
fits "v.npy has batch 1, but .*k.npy has 2" '(2, 2, 5, 8)' '(1, 2, 5, 8)'
fits "v.npy has heads 4, but .*k.npy has 2" '(2, 2, 5, 8)' '(2, 4, 5, 8)'
fits "v.npy has seq 6, but .*k.npy has 5" '(2, 2, 5, 8)' '(2, 2, 6, 8)'
fits "k.npy has dim 4, but .*q.npy has 8" '(2, 2, 5, 4)' '(2, 2, 5, 8)'
fits "multiple of heads_kv" '(2, 3, 5, 8)' '(2, 3, 5, 8)'
fits "heads_kv is 0" '(2, 0, 5, 8)' '(2, 0, 5, 8)'
array "$k" '<f4' '(2, 2, 5, 8)' 640
array "$v" '<f4' '(2, 2, 5, 6)' 480
ok "queries 3, keys 5, head dim 8 \(values 6\)" $there --load "$q" "$k" "$v"
refuses 2 "seq-q 4 contradicts .*q.npy, which has 3" $there --load "$q" "$k" "$v" --seq-q 4
refuses 2 "seq 3 contradicts .*k.npy, which has 5" $there --load "$q" "$k" "$v" --seq 3
refuses 2 "batch 1 contradicts" $there --load "$q" "$k" "$v" --batch 1
refuses 2 "heads 2 contradicts" $there --load "$q" "$k" "$v" --heads 2
refuses 2 "heads-kv 4 contradicts" $there --load "$q" "$k" "$v" --heads-kv 4
refuses 2 "head-dim 6 contradicts" $there --load "$q" "$k" "$v" --head-dim 6
refuses 2 "head-dim-v 8 contradicts" $there --load "$q" "$k" "$v" --head-dim-v 8
refuses 2 "dist is of random input" $there --load "$q" "$k" "$v" --dist normal
refuses 2 "seed is of random input" $there --load "$q" "$k" "$v" --seed 1
refuses 2 "goes with --backward" $there --load "$q" "$k" "$v" "$q"
array "$d_o" '<f4' '(2, 4, 3, 8)' 768
refuses 2 "do.npy has dim 8, but .*v.npy has 6" $there --backward --load "$q" "$k" "$v" "$d_o"
for files in "" "$q" "$q $k" "$q $k $v $q $q"; do
  refuses 2 "load takes 3 or 4 files" $there --load $files
done
refuses 2 "load takes 3 or 4 files" $there --load="$q" "$k" "$v"
