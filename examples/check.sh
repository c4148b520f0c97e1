#!/usr/bin/env bash
# Keeps the README, the guides and these examples true: runs what they show and compares.
# Needs target/release/relight (or relight in PATH); python3 only for the verifier.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
export PATH="$target/release:$PATH"
unset RELIGHT_STORE RELIGHT_TASK RELIGHT_FENCE RELIGHT_CHECKPOINT_DIR
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RELIGHT_HOME="$work/state" TMPDIR="$work"
cd "$work"

fail() {
  echo "check: $*" >&2
  exit 1
}
killed() { # killed COMMAND…: must not come to its end
  if ("$@"; exit $?) >/dev/null 2>&1; then fail "$* was not killed"; fi
}
same() { # same WHAT EXPECTED FOUND
  [ "$2" = "$3" ] || fail "$1: expected
$2
found
$3"
}

# The README shows the demo word for word.
readme=$(<"$root/README.md")
demo=$(<"$root/examples/crash-demo.sh")
[[ $readme == *'```bash'$'\n'"$demo"$'\n''```'* ]] || fail "README.md does not show crash-demo.sh word for word"

# The demo: fetch is run once, by one process, and the work goes on.
out=$(bash "$root/examples/crash-demo.sh" 2>demo.err)
grep -q Killed demo.err || fail "crash-demo.sh: nothing was killed"
same "crash-demo.sh: runs of fetch" 1 "$(grep '^fetched by process' <<<"$out" | sort -u | wc -l | tr -d ' ')"
same "crash-demo.sh: the rest" $'report written\ntask report-7 is completed' "$(sed -n 3,4p <<<"$out")"

# The loops: without Relight chapter 1 is sent twice, with it everything happens once.
killed env CRASH_AT=2 OUT=before "$root/examples/loop-before.sh"
OUT=before "$root/examples/loop-before.sh" >/dev/null
same "loop-before.sh: sent 1" 2 "$(grep -c '^sent 1' before/calls.log)"
killed env CRASH_AT=2 OUT=after "$root/examples/loop-after.sh"
OUT=after "$root/examples/loop-after.sh" >/dev/null
same "loop-after.sh: calls" "draft 1 sent 1 draft 2 sent 2 draft 3 sent 3" \
  "$(cut -d' ' -f1,2 after/calls.log | paste -sd' ')"
same "loop-after.sh: a draft from the record" "text of chapter 2" "$(<after/chapter-2.txt)"

# The checkpoint agent goes on with the step it had named, and does nothing once it is done.
killed env CRASH_AT=migrate "$root/examples/checkpoint-agent.sh"
out=$("$root/examples/checkpoint-agent.sh")
same "checkpoint-agent.sh: goes on" "going on with migrate" "$(head -1 <<<"$out")"
same "checkpoint-agent.sh: done before" "deploy-42 was completed before; nothing to do" \
  "$("$root/examples/checkpoint-agent.sh")"

# The verifier in docs/concepts/checkpoints.md.
if command -v python3 >/dev/null; then
  sed -n '/^```python$/,/^```$/p' "$root/docs/concepts/checkpoints.md" | sed '/^```/d' >verify.py
  file=memory/checkpoints/deploy-42.json
  same "verifier, good file" "OK      $file" "$(python3 verify.py $file)"
  sed 's/migrate/migrated/' $file >changed.json
  same "verifier, changed file" "DAMAGED changed.json" "$(python3 verify.py changed.json)"
else
  echo "check: SKIPPED the verifier of checkpoint files (no python3)" >&2
fi

# Every link between the pages leads somewhere.
cd "$root"
broken=$(
  find README.md ARCHITECTURE.md CHANGELOG.md docs -name '*.md' | sort | while read -r page; do
    { grep -oE '\]\([^)#][^)]*\)' "$page" || true; } | sed 's/^](//; s/)$//; s/#.*//' | while read -r link; do
      case $link in http:* | https:*) continue ;; esac
      [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
  done
)
[ -z "$broken" ] || fail "broken links:
$broken"
echo "examples and links are good"
