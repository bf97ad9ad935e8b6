#!/bin/sh
# handout.sh STAGE OUT - writes the tree that a student gets for one stage: everything needed to build and
# check it, with the marked solutions replaced by their stubs, and without answers or seeded bugs.
set -eu
stage=${1:-} out=${2:-}
[ -n "$stage" ] && [ -n "$out" ] || { echo "usage: make handout STAGE=02_tiled_cpu OUT=dir" >&2; exit 2; }
[ -f "$stage/stage.c" ] || { echo "handout: there is no stage $stage" >&2; exit 2; }
if [ -e "$out" ] && [ -n "$(ls -A "$out" 2>/dev/null || echo file)" ]; then
  echo "handout: $out exists and is not empty; name a new folder" >&2
  exit 2
fi
mkdir -p "$out"
regions=0
for file in $(find Makefile README.md AGENTS.md LICENSE .clang-format .gitignore common tests notes "$stage" -type f | sort); do
  case $file in
  notes/answers/* | notes/results/* | tests/mutants/*) continue ;; # not the student's
  esac
  mkdir -p "$out/$(dirname "$file")"
  case $file in
  "$stage"/*)
    awk -f common/handout.awk "$file" > "$out/$file"
    regions=$((regions + $(grep -c 'BEGIN SOLUTION' "$file" || true)))
    ;;
  *) cp "$file" "$out/$file" ;;
  esac
done
[ "$regions" -gt 0 ] || { echo "handout: $stage marks no solution" >&2; exit 1; }
echo "handout: $out holds $stage with $regions part$([ "$regions" = 1 ] || echo s) to write; try 'make -C $out check STAGE=$stage'"
