#!/usr/bin/env bash
# Called by cargo in place of each test program, as its runner: writes down how to run it, and ./test
# runs all of them later, several at once. The file takes further arguments for the program.
set -euo pipefail
{
  export -p | grep -E '^declare -x (CARGO|LD_LIBRARY_PATH)' || true
  printf 'cd %q\n' "$PWD"
  printf 'exec'
  printf ' %q' "$@"
  # shellcheck disable=SC2016 # for whoever runs the file
  echo ' "$@"'
} >"$RELIGHT_TEST_QUEUE/$(basename "$1")"
