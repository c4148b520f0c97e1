#!/usr/bin/env bash
# What does not need Linux: it compiles without supervision, passes its tests with the calls of any Unix
# in place of Linux's own, and compiles for another Unix where there is a standard library for that:
# installed (rustup target add) or as source (rustup component add rust-src).
set -euo pipefail
cd "$(dirname "$0")/../../.."

portable=(--no-default-features --features relight-runtime/portable)
cargo check --quiet -p relight --no-default-features
cargo clippy --quiet -p relight -p relight-runtime "${portable[@]}" -- -D warnings
cargo test --quiet -p relight-runtime "${portable[@]}" --lib --test library

library=$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib
# check_for TARGET: types and borrows only. C is not compiled, for nothing is linked.
check_for() {
  local target=$1 std=() unstable=()
  if [ ! -d "$library/$target/lib" ]; then
    if [ ! -e "$library/src/rust/library/Cargo.lock" ]; then
      echo "SKIPPED: compiling for $target (rustup target add $target)"
      return
    fi
    std=(-Zbuild-std=std) unstable=(RUSTC_BOOTSTRAP=1)
  fi
  env "CC_${target//-/_}=true" "AR_${target//-/_}=true" "${unstable[@]}" cargo check --quiet "${std[@]}" \
    --target "$target" --target-dir "${CARGO_TARGET_DIR:-target}/portable" -p relight --no-default-features
}

for target in aarch64-apple-darwin x86_64-unknown-freebsd; do check_for "$target"; done
