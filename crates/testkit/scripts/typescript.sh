#!/usr/bin/env bash
# Builds and tests the npm package `relight`: typescript.sh [FOLDER_OF_THE_BUILD [tools|build]]
#
# What it needs from npm is installed below the target folder, never in the tree. The native module and the binary are
# those of the build that is named, else of one that is made. `tools` installs what the build needs and stops, `build`
# stops when the package is built. What is skipped, it says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
build=$(realpath -m "${1:-$target/debug}")
work=$target/typescript
modules=$work/node_modules
seconds_max=600

if ! command -v npm >/dev/null || [[ $(node -p 'process.versions.node.split(".")[0]') -lt 20 ]]; then
  echo "SKIPPED: the TypeScript package (no Node 20 with npm)"
  exit 0
fi

# install FOLDER MANIFEST OPTION…: once for each content of the manifest.
install() {
  local folder=$1 manifest=$2
  shift 2
  mkdir -p "$folder"
  cmp -s "$manifest" "$folder/installed.json" && return 0
  rm -rf "$folder/node_modules" "$folder/package-lock.json"
  cp "$manifest" "$folder/package.json"
  # Peers are named in the manifests; those of LangGraph contradict each other.
  timeout 600 npm install --prefix "$folder" --silent --no-audit --no-fund --legacy-peer-deps "$@" >&2 || return 1
  cp "$manifest" "$folder/installed.json"
}

if ! install "$work" typescript/test/package.json; then
  echo "SKIPPED: the TypeScript package (its tools cannot be installed from npm)"
  exit 0
fi
# Without the program of 200 MB that it would bring along: a stand-in takes its place.
if install "$work/claude" typescript/test/claude-package.json --omit=optional; then
  rm -rf "$modules/@anthropic-ai"
  ln -s ../claude/node_modules/@anthropic-ai "$modules/@anthropic-ai"
else
  echo "SKIPPED: hooks of the Claude Agent SDK (it cannot be installed from npm)"
fi

[[ ${2:-} != tools ]] || exit 0
[[ $# -gt 0 ]] || cargo build --quiet --workspace --lib --bins
node typescript/build.mjs --out "$work/package" --modules "$modules" \
  --native "$build/librelight_node.so" --binary "$build/relight"
rm -rf "$modules/relight"
ln -s ../package "$modules/relight"
rm -rf "$work/test"
cp -r typescript/test "$work/test"
[[ ${2:-} != build ]] || exit 0

export RELIGHT_HOME=$work/home
for name in "${!RELIGHT_@}"; do [[ $name == RELIGHT_HOME ]] || unset "$name"; done
cd "$work/test"
node "$modules/typescript/bin/tsc" --noEmit --strict --skipLibCheck --target es2022 --lib es2022,esnext.disposable \
  --module nodenext --types node types.ts
programs=(api.test.mjs process.test.mjs postgres.test.mjs ai.test.mjs)
[[ ! -e $modules/@anthropic-ai/claude-agent-sdk ]] || programs+=(claude.test.mjs)
RELIGHT_POSTGRES=$build/relight-postgres timeout "$seconds_max" \
  node --test --test-reporter=spec --test-concurrency=2 "${programs[@]}"

# LangGraph's own tests: how many there are is part of what is promised.
timeout "$seconds_max" node "$modules/vitest/vitest.mjs" run --globals --root "$work/test" --reporter=json \
  --outputFile="$work/langgraph.json" langgraph.spec.mjs >"$work/langgraph.log" 2>&1 || { cat "$work/langgraph.log"; exit 1; }
node -e '
  const { numPassedTests: passed, numTotalTests: total } = require(process.argv[1]);
  console.log(`LangGraph: ${passed} of ${total} tests of a checkpointer pass`);
  process.exit(passed === total && total >= 719 ? 0 : 1);
' "$work/langgraph.json"

# The example, killed and started again.
example=$work/test/report.mjs
cp "$root/examples/typescript/report.mjs" "$example"
rm -rf "$RELIGHT_HOME"
said=$(node "$example" --crash) && { echo "the example was not killed"; exit 1; }
[[ $said == fetching ]] || { echo "the example says $said"; exit 1; }
said=$(node "$example")
[[ $said == $'resuming; done so far: fetch count\npublishing 3 words with a key' ]] || { echo "the example says $said"; exit 1; }

# The package as users get it: packed, installed into a new folder, and run there.
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
archive=$(npm pack --silent --pack-destination "$fresh" "$work/package")
cd "$fresh"
echo '{"private": true}' >package.json
npm install --silent --no-audit --no-fund --offline "./$archive" >&2
export RELIGHT_HOME=$fresh/home
npx --no-install relight --version
echo 'import relight, { task } from "relight"; if (relight.task !== task) throw 1;
  const t = await task("esm"); console.log(await t.step("a", () => "ESM works")); await t.done();' >esm.mjs
echo 'require("relight").run("cjs", async (t) => console.log(await t.step("a", () => "CommonJS works")));' >cjs.cjs
node esm.mjs
node cjs.cjs
npx --no-install relight task list --json | node -e '
  const { items } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  process.exit(items.length === 2 && items.every((item) => item.status === "completed") ? 0 : 1);'
