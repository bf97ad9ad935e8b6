#!/bin/sh
# plot.sh FOLDER PROGRAM... - runs --bench of every step over sequence lengths, and draws the results.
#
# Steps come from --list, so a new one appears by itself. A step is not tried on longer sequences once one
# forward pass has taken LIMIT seconds, or once it refuses (standard attention's N x N matrices, for example).
# Environment: LENGTHS, HEADS, HEAD_DIM, LIMIT.
set -u
folder=$1
shift
: "${LENGTHS:=128 256 512 1024 2048 4096 8192}" "${HEADS:=4}" "${HEAD_DIM:=64}" "${LIMIT:=0.5}"

if ! command -v gnuplot >/dev/null 2>&1; then
  echo "plot: gnuplot draws the pictures and is not installed; apt-get install -y gnuplot-nox" >&2
  exit 3
fi
mkdir -p "$folder" || exit 2
data=$folder/bench.csv
rm -f "$data" "$folder"/*.dat
on_terminal() { [ -t 2 ] && printf '\r\033[K%s' "$1" >&2; }

# One column of the record's last line, by name.
column() {
  awk -F, -v name="$1" '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i }
    NR == 2 { quoted = $0; while (match(quoted, /"[^"]*"/)) {           # the machine name holds commas
                quoted = substr(quoted, 1, RSTART - 1) "x" substr(quoted, RSTART + RLENGTH) }
              split(quoted, field, ","); print field[at] }' "$2"
}

record=$folder/record.csv
for program in "$@"; do
  "$program" --list --csv "$record" || exit $?
  steps=$(awk -F, '$5 == "forward" && !seen[$2]++ { print $2 " " $4 }' "$record")
  echo "$steps" | while read -r step device; do
    [ -n "$step" ] || continue
    name=$(basename "$program")_$step
    for n in $LENGTHS; do
      on_terminal "$name on $device, N = $n ..."
      "$program" --step "$step" --device "$device" --heads "$HEADS" --head-dim "$HEAD_DIM" --seq "$n" \
        --bench --quiet --csv "$record" >"$folder/last.txt" 2>&1
      status=$?
      [ $status -eq 3 ] && break # refused here, and longer ones will be too
      if [ $status -ne 0 ]; then
        on_terminal ""
        cat "$folder/last.txt" >&2
        exit $status
      fi
      if [ -s "$data" ]; then sed 1d "$record" >>"$data"; else cat "$record" >"$data"; fi
      curve=${name}_$(column dtype "$record") # a step's first type depends on the device, and its time on the type
      seconds=$(column forward_median_s "$record")
      memory=$(column peak_bytes "$record") # of the process; on a GPU, what was allocated there
      [ -n "$memory" ] || memory=$(echo "$(column tensor_bytes "$record") $(column workspace_bytes "$record")" |
        awk '{ print $1 + $2 }')
      echo "$n $(column forward_flop_per_s "$record") $memory $seconds" \
        >>"$folder/$curve.dat"
      if awk -v s="$seconds" -v limit="$LIMIT" 'BEGIN { exit !(s > limit) }'; then break; fi
    done
  done || exit $?
done
on_terminal ""
rm -f "$record" "$folder/last.txt"
if [ ! -s "$data" ]; then
  echo "plot: nothing to draw: no step of $* can be timed here (emulated steps have no times)" >&2
  exit 3
fi

for terminal in svg png; do
  gnuplot -e "folder = '$folder'; kind = '$terminal'; heads = '$HEADS'; head_dim = '$HEAD_DIM'" \
    "$(dirname "$0")/plot.gp" || exit 1
done
echo "plot: $folder/speed.svg and $folder/memory.svg (also .png), drawn from $data"
