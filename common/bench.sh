#!/bin/sh
# bench.sh PROGRAM... - times every step that is marked main, each on its best device. A step that cannot be timed here (a
# kernel without a GPU, for example) is not run, and why is said; whatever else goes wrong ends it with status 1, at the end.
set -u
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
trap 'exit 1' INT TERM
timed=0 refused=0 failed=
for program in "$@"; do
  name=$(basename "$program")
  if ! "$program" --list >"$said"; then
    failed="$failed $name"
    continue
  fi
  for step in $(sed -n 's/^\* \([a-z0-9_]*\): .*/\1/p' "$said"); do
    "$program" --step "$step" --bench 2>"$said"
    status=$?
    if [ $status -eq 3 ]; then
      refused=$((refused + 1))
      echo "$name $step: not run: $(sed "s/^$name[:,] //" "$said")"
    else
      cat "$said" >&2
      if [ $status -eq 0 ]; then timed=$((timed + 1)); else failed="$failed $name:$step"; fi
    fi
    echo
  done
done
echo "bench: $timed main steps timed, $refused not run${failed:+; FAILED:$failed}"
[ -z "$failed" ]
