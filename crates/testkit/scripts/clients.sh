#!/usr/bin/env bash
# Generates clients from crates/server/openapi.json with two common generators: none may warn. Then the example of
# the guide in Go is run.
#
# clients.sh: installs the generators below the target folder, from PyPI and npm, when they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
document=crates/server/openapi.json
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/clients
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$tools"

if [[ ! -x $tools/python/bin/openapi-python-client ]]; then
  { python3 -m venv "$tools/python" &&
    timeout 300 "$tools/python/bin/pip" install --quiet openapi-python-client==0.29.1; } >&2 || rm -rf "$tools/python"
fi
if [[ -x $tools/python/bin/openapi-python-client ]]; then
  PATH="$tools/python/bin:$PATH" openapi-python-client generate --fail-on-warning --meta none \
    --path "$document" --output-path "$folder/python"
else
  echo "SKIPPED: a Python client from openapi.json (no python3 with venv, or the generator cannot be installed)"
fi

if [[ ! -x $tools/node_modules/.bin/openapi-typescript ]]; then
  timeout 300 npm install --silent --no-audit --no-fund --prefix "$tools" openapi-typescript@7.13.0 >&2 ||
    rm -rf "$tools/node_modules"
fi
if [[ -x $tools/node_modules/.bin/openapi-typescript ]]; then
  "$tools/node_modules/.bin/openapi-typescript" "$document" -o "$folder/api.d.ts" 2>&1 | tee "$folder/said"
  if grep -iq warn "$folder/said"; then
    echo "openapi-typescript warns"
    exit 1
  fi
else
  echo "SKIPPED: TypeScript types from openapi.json (no npm, or the generator cannot be installed)"
fi

# The example in Go, killed and started again, against a daemon of its own.
if command -v go >/dev/null; then
  relight=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/relight
  export RELIGHT_HOME=$folder/home GOCACHE=$tools/go GOFLAGS=-mod=mod
  mkdir "$RELIGHT_HOME"
  printf '[daemon]\nlisten = "127.0.0.1:0"\n' >"$folder/relight.toml"
  cp examples/go/report.go "$folder/report.go"
  cd "$folder"
  go build -o report report.go
  "$relight" up --config relight.toml >up.log 2>&1 &
  daemon=$!
  trap 'kill "$daemon" 2>/dev/null; wait; rm -rf "$folder"' EXIT
  for _ in {1..300}; do [[ -S $RELIGHT_HOME/relight.sock ]] && break || sleep 0.1; done
  said=$(./report --crash) && { echo "the example in Go did not end early"; exit 1; }
  said+=" $(./report)"
  [[ $said == "fetching publishing: one two three" ]] || { echo "the example in Go says $said"; cat up.log; exit 1; }
else
  echo "SKIPPED: the example in Go (no go: install the package golang-go)"
fi
