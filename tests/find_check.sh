#!/bin/sh
# find_check.sh DIR - finds the Check library (0.15 or newer) and writes DIR/check.cflags and DIR/check.libs.
# Where it is missing: as root it is installed through the system's package manager; otherwise the command
# that would do it is printed and the status is 2. CHECK_CFLAGS and CHECK_LIBS, where set, are used as given.
dir=$1
probe=$dir/check_probe
printf '%s\n' '#include <check.h>' 'static void f(int i) { (void)i; }' \
  'int main(void) { static const TTest t = {"t", f, "f", 1}; Suite *s = suite_create("s"); TCase *c = tcase_create("c");' \
  'suite_add_tcase(s, c); _tcase_add_test(c, &t, 0, 0, 0, 1); SRunner *r = srunner_create(s); srunner_free(r); return 0; }' \
  > "$probe.c"

# try CFLAGS LIBS: does the probe build with them?
try() {
  # The flags are lists of words.
  # shellcheck disable=SC2086
  ${CC:-cc} $1 "$probe.c" -o "$probe" $2 > "$probe.log" 2>&1 || return 1
  printf '%s\n' "$1" > "$dir/check.cflags"
  printf '%s\n' "$2" > "$dir/check.libs"
}

find_check() {
  if [ -n "$CHECK_CFLAGS$CHECK_LIBS" ]; then
    try "$CHECK_CFLAGS" "${CHECK_LIBS:--lcheck -lsubunit -lm -lrt -pthread}"
    return
  fi
  if command -v pkg-config > /dev/null 2>&1 && pkg-config --exists check; then
    try "$(pkg-config --cflags check)" "$(pkg-config --libs check) -pthread" && return
  fi
  try "" "-lcheck -lsubunit -lm -lrt -pthread" || try "" "-lcheck -lm -pthread"
}

# The command that installs Check here, if there is a package manager that we know.
installer() {
  if command -v apt-get > /dev/null 2>&1; then echo "apt-get install -y check"
  elif command -v dnf > /dev/null 2>&1; then echo "dnf install -y check-devel"
  elif command -v apk > /dev/null 2>&1; then echo "apk add check-dev"
  elif command -v pacman > /dev/null 2>&1; then echo "pacman -S --noconfirm check"
  elif command -v zypper > /dev/null 2>&1; then echo "zypper install -y check-devel"
  elif command -v brew > /dev/null 2>&1; then echo "brew install check"
  fi
}

find_check && exit 0
if [ -n "$CHECK_CFLAGS$CHECK_LIBS" ]; then
  cat "$probe.log" >&2
  echo "make check: no program can be built with CHECK_CFLAGS='$CHECK_CFLAGS' CHECK_LIBS='$CHECK_LIBS'" >&2
  exit 2
fi
command=$(installer)
if [ -z "$command" ]; then
  echo "make check: the tests need the Check library, 0.15 or newer: https://libcheck.github.io/check" >&2
  exit 2
fi
case $command in
brew*) root=no prefix= ;; # Homebrew refuses to run as root
*) root=yes prefix="sudo " ;;
esac
if [ $root = no ] || [ "$(id -u)" != 0 ]; then
  echo "make check: the tests need the Check library, 0.15 or newer; install it with: $prefix$command" >&2
  exit 2
fi
echo "make check: the Check library is missing; running: $command"
DEBIAN_FRONTEND=noninteractive $command > "$probe.log" 2>&1 ||
  { [ "${command%% *}" = apt-get ] && apt-get update > "$probe.log" 2>&1 &&
    DEBIAN_FRONTEND=noninteractive $command > "$probe.log" 2>&1; } || {
  tail -5 "$probe.log" >&2
  echo "make check: '$command' failed" >&2
  exit 2
}
find_check && exit 0
tail -5 "$probe.log" >&2
echo "make check: Check was installed, but no program can be built with it" >&2
exit 2
