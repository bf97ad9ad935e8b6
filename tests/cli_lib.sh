# cli_lib.sh - what the command-line tests are made of; read by cli.sh and its parts.
passed=0
failed=0
limit=60 # seconds: whatever takes longer has hung

run="env"
command -v timeout >/dev/null 2>&1 && run="timeout $limit"
if [ -n "${VALGRIND:-}" ]; then
  # valgrind 3.19 knows no AVX-512; libgomp keeps its thread pool ("still reachable"), which is no error.
  OMP_NUM_THREADS=1 FA_ISA=$(grep -qw avx2 /proc/cpuinfo && echo avx2)
  export OMP_NUM_THREADS FA_ISA
  run="timeout 300 valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"
fi

bad() { # what is wrong
  failed=$((failed + 1))
  echo "FAILED $program_name $*"
  sed 's/^/    stdout: /' "$tmp/out" | head -n 4
  sed 's/^/    stderr: /' "$tmp/err" | head -n 4
}

good() { passed=$((passed + 1)); }

# try ARGUMENT...: runs the program; sets $status, $tmp/out and $tmp/err.
try() {
  $run "$program" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  status=$?
}

# ok PATTERN ARGUMENT...: status 0, the pattern (grep -E) in the output, nothing on standard error.
ok() {
  pattern=$1
  shift
  try "$@"
  if [ $status -ne 0 ]; then
    bad "$*: status $status, 0 was expected"
  elif [ -s "$tmp/err" ]; then
    bad "$*: standard error is not silent"
  elif ! grep -Eq -- "$pattern" "$tmp/out"; then
    bad "$*: no \"$pattern\" in the output"
  else
    good
  fi
}

# refuses STATUS PATTERN ARGUMENT...: that status and exactly one line on standard error, with the
# program's name before and the pattern in it.
refuses() {
  wanted=$1 pattern=$2
  shift 2
  try "$@"
  if [ $status -ne "$wanted" ]; then
    bad "$*: status $status, $wanted was expected"
  elif [ "$(wc -l <"$tmp/err")" -ne 1 ]; then
    bad "$*: one line on standard error was expected"
  elif ! grep -Eq -- "^$program_name[:, ].*($pattern)" "$tmp/err"; then
    bad "$*: no \"$pattern\" in the message"
  elif grep -q PASS "$tmp/out"; then
    bad "$*: refused, but says PASS"
  else
    good
  fi
}

# holds WHAT COMMAND...: any other condition.
holds() {
  what=$1
  shift
  if "$@" >/dev/null 2>&1; then good; else bad "$what"; fi
}

byte() { # number -> that byte, as an octal escape for printf
  printf '\\%03o' "$1"
}

# npy FILE VERSION HEADER: a .npy file's start, with a true header length; data are appended by the caller.
npy() {
  length=${#3}
  printf '\223NUMPY'"$(byte "$2")"'\000' >"$1"
  printf "$(byte $((length % 256)))$(byte $((length / 256)))" >>"$1"
  [ "$2" -gt 1 ] && printf '\000\000' >>"$1"
  printf '%s' "$3" >>"$1"
}

header() { # DESCR SHAPE
  printf "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" "$1" "$2"
}

zeros() { # FILE BYTES: appends
  head -c "$2" /dev/zero >>"$1"
}

# array FILE DESCR SHAPE BYTES: a well-formed file of zeros.
array() {
  npy "$1" 1 "$(header "$2" "$3")"
  zeros "$1" "$4"
}
