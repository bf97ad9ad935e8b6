# cli_output.sh - what is written: --quiet, --csv, --json, --save. Read by cli.sh, once for each program.

# --- quiet
ok "^PASS" $small --quiet
holds "--quiet prints one line" [ "$(wc -l <"$tmp/out")" -eq 1 ]
ok "^DONE" $small --quiet --count
holds "--quiet --count prints one line" [ "$(wc -l <"$tmp/out")" -eq 1 ]

# --- CSV: two lines with the same number of fields, quoted fields counted as one
fields() {
  awk '{ line = $0
         gsub(/"([^"]|"")*"/, "x", line)
         if (line ~ /"/) exit 1
         n = split(line, field, ",")
         if (NR > 1 && n != last) exit 1
         last = n }
       END { if (NR != 2 || last < 50) exit 1 }' "$1"
}
ok "^PASS" $small --csv "$tmp/a.csv"
holds "CSV has two lines of equally many fields" fields "$tmp/a.csv"
cut -d, -f1-4 "$tmp/a.csv" | sed -n 1p >"$tmp/names"
holds "CSV begins with its names" grep -qx "version,stage,step,status" "$tmp/names"
holds "CSV has the values" grep -Eq "^[0-9.]+,$program_name,[a-z0-9_]+,ok,," "$tmp/a.csv"
try $small --csv -
cp "$tmp/out" "$tmp/b.csv"
holds "--csv -: the record alone on standard output" fields "$tmp/b.csv"
holds "--csv -: the report on standard error" grep -q "^PASS" "$tmp/err"
holds "--csv -: status 0" [ $status -eq 0 ]
sed 1q "$tmp/a.csv" >"$tmp/a.names"
sed 1q "$tmp/b.csv" >"$tmp/b.names"
holds "the columns do not depend on what was done" cmp "$tmp/a.names" "$tmp/b.names"

# --- JSON
json() {
  [ "$(sed -n 1p "$1")" = "{" ] && [ "$(sed -n '$p' "$1")" = "}" ] || return 1
  awk 'NR > 1 && !/^}$/ {                       # every line between: "name": value, without a comma at the end
         line = $0
         if (line !~ /^  "[a-z0-9_]+": ("([^"\\]|\\["\\]|\\u00[0-9a-f][0-9a-f])*"|-?[0-9.]+(e[+-][0-9]+)?|true|false|null),?$/)
           exit 1
         if (previous != "" && previous !~ /,$/) exit 1
         previous = line }
       END { if (previous ~ /,$/) exit 1 }' "$1" || return 1
  command -v python3 >/dev/null 2>&1 || return 0
  python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1"
}
ok "^PASS" $small --json "$tmp/a.json"
holds "JSON is well formed" json "$tmp/a.json"
holds "JSON has the stage" grep -q "\"stage\": \"$program_name\"" "$tmp/a.json"
holds "JSON has the check" grep -q '"o_ok": true' "$tmp/a.json"
holds "JSON: what was not measured is null" grep -q '"forward_median_s": null' "$tmp/a.json"
try $small --json - --csv "$tmp/c.csv"
cp "$tmp/out" "$tmp/b.json"
holds "--json -: the record alone on standard output" json "$tmp/b.json"
holds "--csv beside --json -" fields "$tmp/c.csv"
ok "^PASS" $small --bench --count --json "$tmp/d.json" --csv "$tmp/d.csv"
holds "JSON with times and counts" json "$tmp/d.json"
[ "$device" = emu ] || holds "JSON: what only the emulator counts is null" grep -q '"forward_sectors": null' "$tmp/d.json"
holds "JSON has a time" grep -Eq '"forward_median_s": [0-9.e-]+,' "$tmp/d.json"
holds "CSV with times and counts" fields "$tmp/d.csv"
ok "^PASS" $small --causal --seq-q 9 --seq-k 5 --json "$tmp/e.json" # LSE = -inf in a row
holds "JSON with infinite values around" json "$tmp/e.json"
# A refusal is recorded too, and its reason, which repeats the user's text, is escaped.
try $small --step 'a"b,\c	d' --json "$tmp/f.json" --csv "$tmp/f.csv"
holds "a refused run: status 2" [ $status -eq 2 ]
holds "a refused run: JSON" json "$tmp/f.json"
holds "a refused run: CSV" fields "$tmp/f.csv"
holds "a refused run: no type is recorded where none was named" grep -q '"dtype": null' "$tmp/f.json"
holds "a refused run: the record says so" grep -q '"status": "invalid"' "$tmp/f.json"

# --- where nothing can be written
refuses 2 "cannot write .*/no/such/a.csv" $small --csv "$tmp/no/such/a.csv"
refuses 2 "cannot write" $small --json "$tmp"
refuses 2 "both go to standard output" $small --csv - --json -
refuses 2 "both go to $tmp/same" $small --csv "$tmp/same" --json "$tmp/same"
echo kept >"$tmp/same"
refuses 2 "are one file" $small --csv "$tmp/same" --json "$tmp/./same"
ln -sf same "$tmp/link"
refuses 2 "are one file" $small --csv "$tmp/link" --json "$tmp/same"
holds "a file refused as a record keeps what it held" grep -qx kept "$tmp/same"
ok "^PASS" $small --csv "$tmp/same"
holds "a record takes the place of what its file held" fields "$tmp/same"
if [ -e /dev/stdout ]; then
  refuses 2 "are one file" $small --csv /dev/stdout --json -
  try $small --csv /dev/stdout
  cp "$tmp/out" "$tmp/g.csv"
  holds "--csv /dev/stdout: the record alone on standard output" fields "$tmp/g.csv"
fi
$run "$program" $small --csv /dev/null >/dev/null 2>"$tmp/err"
holds "a record that nobody reads does not move the report to standard error" [ ! -s "$tmp/err" ]
refuses 2 "cannot make the folder" $small --save "$tmp/no/such/folder"
touch "$tmp/file"
refuses 2 "wants a folder" $small --save "$tmp/file"
if [ -e /dev/full ]; then
  try $small --csv /dev/full
  holds "a full disk under --csv: status 1, not $status" [ $status -eq 1 ]
  holds "a full disk under --csv: a line" grep -q "disk full" "$tmp/err"
  $run "$program" $small >/dev/full 2>"$tmp/err"
  status=$?
  holds "a full disk under standard output: status 1, not $status" [ $status -eq 1 ]
  holds "a full disk under standard output: a line" grep -q "could not be written" "$tmp/err"
fi

# --- save
ok "^PASS" $small --save "$tmp/saved"
for name in o lse; do holds "--save wrote $name.npy" [ -s "$tmp/saved/$name.npy" ]; done
holds "--save without --backward wrote two files" [ "$(ls "$tmp/saved" | wc -l)" -eq 2 ]
holds "o.npy tells its shape" grep -aq "'shape': (1, 2, 40, 16, )" "$tmp/saved/o.npy"
holds "lse.npy tells its shape" grep -aq "'shape': (1, 2, 40, )" "$tmp/saved/lse.npy"
ok "^PASS" $small --save "$tmp/saved" --seed 2 # the folder is there already
mv "$tmp/saved/o.npy" "$tmp/o2.npy"
ok "^PASS" $small --save "$tmp/saved"
mv "$tmp/saved/o.npy" "$tmp/o1.npy"
ok "^PASS" $small --save "$tmp/saved"
holds "the same seed gives the same output" cmp "$tmp/o1.npy" "$tmp/saved/o.npy"
if cmp -s "$tmp/o1.npy" "$tmp/o2.npy"; then bad "another seed gives the same output"; else good; fi
ok "^PASS" $small --dist ones --seq 16 --heads 1 --head-dim 2 --save "$tmp/ones" # V = 1, so O = 1
od -An -v -tf4 -j128 "$tmp/ones/o.npy" >"$tmp/ones.txt"
holds "with V = 1, O is 1" awk '{ for (i = 1; i <= NF; i++) { n++; if (!($i > 0.99999 && $i < 1.00001)) bad = 1 } }
  END { exit bad || n != 32 }' "$tmp/ones.txt"
if grep -q "^$program_name,.*,$device,backward," "$tmp/list"; then
  ok "^PASS" $small --backward --save "$tmp/gradients"
  for name in o lse dq dk dv; do holds "--save wrote $name.npy" [ -s "$tmp/gradients/$name.npy" ]; done
fi
