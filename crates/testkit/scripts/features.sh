#!/usr/bin/env bash
# Every documented choice of features compiles without a warning: none, each alone, all.
set -euo pipefail
cd "$(dirname "$0")/../../.."

# check PACKAGE FEATURE…
check() {
  local package=$1 features
  shift
  for features in "" "$@" "$(IFS=,; echo "$*")"; do
    echo "$package: ${features:-none}"
    RUSTFLAGS="-D warnings" cargo check --quiet --target-dir "${CARGO_TARGET_DIR:-target}/features" \
      --package "$package" --no-default-features --features "$features"
  done
}

check relight-store postgres
check relight-runtime otlp postgres supervision webhooks
check relight otlp postgres supervision webhooks
check relight-server dashboard mcp
check relight-cli dashboard mcp otlp postgres webhooks
