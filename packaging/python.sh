#!/usr/bin/env bash
# python.sh BINARY OUT: builds the native module of the Python package and packs it, with the binary, into a
# wheel in the folder OUT. ./release calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$1 out=$2
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --profile dist --package relight-python
python3 packaging/wheel.py --module "$target/dist/librelight_python.so" --binary "$binary" "$out"
