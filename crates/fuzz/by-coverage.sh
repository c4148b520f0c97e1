#!/usr/bin/env bash
# Fuzzes by coverage every target of this crate, or one of them; see docs/operate/prove.md.
#
# by-coverage.sh [TARGET] [--seconds N] [--seed S]. Builds `fuzz/` with the stable toolchain: the flags
# are those of `cargo fuzz` without a sanitizer, for there is no `unsafe` to watch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=60 seed=0 only=
while [[ $# -gt 0 ]]; do
  case "$1 ${2:-}" in
    "--seconds "[0-9]*) seconds=$2; shift 2 ;;
    "--seed "[0-9]*) seed=$2; shift 2 ;;
    [a-z]*) only=$1; shift ;;
    *) echo "prove: fuzz takes TARGET, --seconds N and --seed S, not $1" >&2; exit 64 ;;
  esac
done
if [[ -n $only && ! -d fuzz/corpus/$only ]]; then
  echo "prove: there is no target $only; there are $(ls -x -w 0 fuzz/corpus)" >&2
  exit 64
fi
command -v c++ >/dev/null || { echo "SKIPPED: fuzzing by coverage (no c++: install the package g++)"; exit 0; }

host=$(rustc -vV | sed -n 's/^host: //p')
made=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
flags="-Cpasses=sancov-module"
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
  flags+=" -Cllvm-args=-sanitizer-coverage-$flag"
done
flags+=" --cfg fuzzing"
# The same versions as the product has.
cp Cargo.lock fuzz/Cargo.lock
RUSTFLAGS=$flags CARGO_TARGET_DIR=$made cargo build --quiet --release --target "$host" --manifest-path fuzz/Cargo.toml

passed=0 failed=0
for folder in fuzz/corpus/${only:-*}; do
  target=${folder##*/}
  found=$made/found/$target
  mkdir -p "$found" "$made/corpus/$target"
  # What was learnt before is gone on from; what the repository has stays small.
  if RELIGHT_FUZZ_TARGET=$target "$made/$host/release/any" "$made/corpus/$target" "$folder" \
    -max_total_time="$seconds" -seed="$seed" -max_len=8192 -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/" >"$found/log" 2>&1; then
    passed=$((passed + 1))
    echo "$target: $(sed -n 's/.*number_of_executed_units: *//p' "$found/log") inputs"
  else
    failed=$((failed + 1))
    tail -n 40 "$found/log"
    echo "$target: failed; the input is in $found"
  fi
done
echo "$passed passed, $failed failed"
((failed == 0))
