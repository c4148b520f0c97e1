#!/usr/bin/env bash
# Generates clients from docs/reference/openapi.json with two common generators: none may warn.
#
# clients.sh: installs the generators below the target folder, from PyPI and npm, when they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
document=docs/reference/openapi.json
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
