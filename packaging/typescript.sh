#!/usr/bin/env bash
# typescript.sh BINARY OUT: builds the native module of the npm package and packs it, with the binary, into an
# archive for `npm install` in the folder OUT. ./release calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$1 out=$(realpath "$2")
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
command -v npm >/dev/null || { echo "typescript.sh: there is no npm" >&2; exit 1; }
cargo build --quiet --profile dist --package relight-node
crates/testkit/scripts/typescript.sh "$target/dist" tools
node typescript/build.mjs --out "$target/typescript/release" --modules "$target/typescript/node_modules" \
  --native "$target/dist/librelight_node.so" --binary "$binary"
npm pack --silent --pack-destination "$out" "$target/typescript/release"
