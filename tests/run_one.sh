#!/bin/sh
# run_one.sh PROGRAM DIR [print] - runs one test program; its status goes to DIR/NAME.status. With `print` its output is
# kept and printed at the end. Exit status 255 (which stops xargs) never happens: other programs go on.
program=$1 name=${1##*/} status_file=$2/${1##*/}.status log=$2/${1##*/}.log
run() {
  case $program in
  *.sh) sh "$program" ;;
  *) "$program" ;;
  esac
  status=$?
  # A program that ends by itself says what failed; one that is killed may not.
  [ $status -gt 1 ] && echo "$name ended with status $status"
  echo $status > "$status_file"
}
if [ "$3" = print ]; then
  run > "$log" 2>&1
  cat "$log"
else
  run
fi
[ "$(cat "$status_file")" = 0 ]
