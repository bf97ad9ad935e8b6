#!/bin/sh
# handout.sh STAGE OUT - writes the tree that a student gets for one stage: everything needed to build and
# check it, with the marked solutions replaced by their stubs, and without answers or seeded bugs.
set -eu

# A path as a shell reads it back: in quotes where it has to be.
quoted() {
  case $1 in
  *[!A-Za-z0-9_./+,:@%-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
  *) printf '%s' "$1" ;;
  esac
}

stage=${1:-} out=${2:-}
[ -n "$stage" ] && [ -n "$out" ] || { echo "usage: make handout STAGE=02_tiled_cpu OUT=dir" >&2; exit 2; }
[ -f "$stage/stage.c" ] || { echo "handout: there is no stage $stage" >&2; exit 2; }
if [ -e "$out" ] && [ -n "$(ls -A "$out" 2>/dev/null || echo file)" ]; then
  echo "handout: $out exists and is not empty; name a new folder" >&2
  exit 2
fi
# A command's status is lost in a pipe and in the words of a loop: what may fail comes before, and before anything is
# written. A marker that is missing would take the rest of its file with it.
files=$(find Makefile README.md AGENTS.md LICENSE .clang-format .gitignore common tests notes "$stage" -type f)
for file in $files; do
  case $file in "$stage"/*) awk -f common/handout.awk "$file" > /dev/null ;; esac
done
mkdir -p "$out"
regions=0 parts=
for file in $(echo "$files" | sort); do
  case $file in
  notes/answers/* | tests/mutants/*) continue ;; # not the student's
  README.md) continue ;; # written below, for this stage alone
  esac
  mkdir -p "$out/$(dirname "$file")"
  case $file in
  "$stage"/*)
    # The lesson's links to answers and to other stages would lead nowhere: their text stays.
    awk -f common/handout.awk "$file" |
      sed -e '/^Answers: /d' -e 's|\[\([^]]*\)\](\.\./\(notes/answers\|0[1-6]_\)[^)]*)|\1|g' > "$out/$file"
    here=$(grep -c 'BEGIN SOLUTION' "$file" || true)
    regions=$((regions + here))
    [ "$here" = 0 ] || parts="$parts
- \`$file\`: $here"
    ;;
  *) cp "$file" "$out/$file" ;;
  esac
done
[ "$regions" -gt 0 ] || { echo "handout: $stage marks no solution" >&2; exit 1; }
cat > "$out/README.md" <<TEXT
# $stage: the parts that are yours

Read [$stage/README.md]($stage/README.md). Then write what stands between YOUR CODE and END OF YOUR CODE; number of parts in each file:
$parts

    make                              build/$stage, whose --help and --list say what it can do
    build/$stage --step NAME          runs one step, compares it with the oracle and says how it went wrong
    make check STAGE=$stage FA_STEP=NAME FA_FAIL_FAST=1     the tests of one step, up to the first suite that fails
    make check STAGE=$stage           all tests: this must end with "all checks passed"

Everything outside the marked parts works as it is. On a bare Debian or Ubuntu: apt-get install -y make g++. AGENTS.md says how coding
assistants should behave here.
TEXT
echo "handout: $out holds $stage with $regions part$([ "$regions" = 1 ] || echo s) to write; try"
echo "  make -C $(quoted "$out") check STAGE=$stage"
