#!/usr/bin/env bash
# Keeps the README, the guides and these examples true: runs what they show and compares.
# Needs target/release/relight (with RELIGHT_PROFILE=dev target/debug/relight, else relight in PATH);
# python3 for the pages of the documentation.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case ${RELIGHT_PROFILE:-release} in dev) folder=debug ;; *) folder=release ;; esac
export PATH="$target/$folder:$PATH"
unset RELIGHT_STORE RELIGHT_TASK RELIGHT_FENCE RELIGHT_CHECKPOINT_DIR RELIGHT_ATTEMPT RELIGHT_SESSION \
  RELIGHT_GENERATION NOTIFY_SOCKET
work=$(mktemp -d)
daemon=
fleet=
clean_up() {
  if [ -n "$fleet" ]; then
    { kill "$fleet" && wait "$fleet"; } 2>/dev/null || true
  fi
  if [ -n "$daemon" ]; then
    relight down >/dev/null 2>&1 || kill -9 "$daemon" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap clean_up EXIT
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

within() { # within WHAT COMMAND…: waits until the command succeeds, on a loaded machine too
  local end=$((SECONDS + 180)) what=$1
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "waited in vain for: $what"
    sleep 0.1
  done
}

for script in "$root"/examples/*.sh "$root"/examples/agents/*.sh; do
  bash -n "$script" || fail "$script has a mistake"
done

# A fleet whose node is killed. It waits for a lease, so the others are tried meanwhile.
if command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  # Not in a folder of ours: the user of the database has to get there.
  env -u TMPDIR "$root/examples/fleet.sh" --check >fleet.out 2>&1 &
  fleet=$!
else
  echo "check: SKIPPED the fleet (no PostgreSQL: install the package postgresql)" >&2
fi

# The README shows the demo script word for word.
readme=$(<"$root/README.md")
demo=$(<"$root/examples/crash-demo.sh")
[[ $readme == *'```bash'$'\n'"$demo"$'\n''```'* ]] || fail "README.md does not show crash-demo.sh word for word"

# The demo: fetch is run once, by one process; the output is what the README shows, but for numbers.
plain() { # what differs from run to run, taken out
  sed -E 's/[0-9]{4}-[0-9-]+T[0-9:.]+Z/TIME/g; s/[0-9]+(ms|s| MiB)/N/g; s/(process|pid) [0-9]+/\1 N/g' | sed -E 's/ +/ /g'
}
timeout 180 bash "$root/examples/crash-demo.sh" >demo.out 2>demo.err
shown=$(sed -n '/^```text$/,/^```$/p' <<<"$readme" | sed '1d; /^```$/q' | sed '$d')
same "README.md: what the demo prints" "$(grep -v '^relight: ' <<<"$shown" | plain)" "$(plain <demo.out)"
same "README.md: what Relight says" "$(grep '^relight: ' <<<"$shown" | plain)" "$(plain <demo.err)"
same "crash-demo.sh: runs of fetch" 1 "$(grep '^fetched by process' demo.out | sort -u | wc -l | tr -d ' ')"

# The loops: without Relight chapter 1 is sent twice, with it everything happens once.
killed env CRASH_AT=2 OUT=before "$root/examples/loop-before.sh"
OUT=before "$root/examples/loop-before.sh" >/dev/null
same "loop-before.sh: sent 1" 2 "$(grep -c '^sent 1' before/calls.log)"
killed env CRASH_AT=2 OUT=after "$root/examples/loop-after.sh"
OUT=after "$root/examples/loop-after.sh" >/dev/null
same "loop-after.sh: calls" "draft 1 sent 1 draft 2 sent 2 draft 3 sent 3" \
  "$(cut -d' ' -f1,2 after/calls.log | paste -sd' ')"
same "loop-after.sh: a draft from the record" "text of chapter 2" "$(<after/chapter-2.txt)"

# The loop that says why it ended: interrupted by TERM, then finished; its own trap ran.
killed env TASK=book-2 END_AT=2 OUT=trap "$root/examples/loop-trap.sh"
relight task show book-2 | grep -q '^status *interrupted: signal TERM$' || fail "loop-trap.sh: no reason"
[ ! -e trap/scratch ] || fail "loop-trap.sh: its own trap did not run"
TASK=book-2 OUT=trap "$root/examples/loop-trap.sh" >/dev/null
same "loop-trap.sh: calls" "draft 1 draft 2 draft 3" "$(paste -sd' ' trap/calls.log)"

# The loop that Relight runs: a killed round starts again without a second draft; rounds are counted on disk.
OUT=rounds CRASH_AT=2 timeout 180 relight run -q --name rounds --loop --until "$root/examples/loop-until.sh" \
  --max-iterations 10 -- "$root/examples/loop-round.sh" >/dev/null
same "loop-round.sh: calls" "draft 1 draft 2 draft 3" "$(paste -sd' ' rounds/calls.log)"
same "loop-round.sh: rounds" 3 "$(relight ps rounds | sed -n 's/^round *//p')"
# Started again, it counts from 1 and finds everything done.
OUT=rounds timeout 60 relight run -q --name rounds --loop --until "$root/examples/loop-until.sh" \
  --max-iterations 10 -- "$root/examples/loop-round.sh" >/dev/null || fail "loop-round.sh: not a second time"
same "loop-round.sh: calls of the second time" "draft 1 draft 2 draft 3" "$(paste -sd' ' rounds/calls.log)"

# The agent of relight.toml, as in a repository where relight is not installed: brought back when it is
# killed, adopted when the daemon is.
up() {
  (cd "$root" && PATH=/usr/local/bin:/usr/bin:/bin exec "$relight" up 2>>"$work/up.err") &
  daemon=$!
}
of_surveyor() { relight ps surveyor | sed -n "s/^$1 *//p"; }
has() { [ -n "$(of_surveyor "$1")" ]; }
is() { [ "$(of_surveyor "$1")" = "$2" ]; }
one_step_is_done() { relight step list --task report-1 | grep -q ' done '; }
relight=$(command -v relight)
export RELIGHT_HOME="$work/up"
up
within "a first step of surveyor" one_step_is_done
kill -9 "$(of_surveyor pid)"
within "the second attempt of surveyor" is attempt 2
within "its process" has pid
pid=$(of_surveyor pid)
{ kill -9 "$daemon" && wait "$daemon" || true; } 2>/dev/null
up
within "a daemon that adopts" grep -q 'surveyor: attempt 2 lives and is adopted' up.err
is pid "$pid" || fail "surveyor was not adopted but started anew"
relight deaths surveyor | grep -q 'signal 9 (KILL)' || fail "the death of surveyor is not shown"
relight down >/dev/null
wait "$daemon" || true
daemon=
[ ! -e "/proc/$pid" ] || fail "surveyor outlived relight down"

# Without the pauses it comes to its end: every folder once, and a quiet agent that says it waits.
export RELIGHT_HOME="$work/run"
PAUSE=0 relight run -q --name surveyor -- "$root/examples/agents/surveyor.sh" >/dev/null &
runner=$!
has_written() { [[ $(of_surveyor says) == wrote* ]]; }
within "the report of surveyor" has_written
same "surveyor.sh: folders" 10 "$(sort -u -k1,1 "$work/run/report-1.txt" | wc -l | tr -d ' ')"
relight stop surveyor >/dev/null
wait "$runner" || true
export RELIGHT_HOME="$work/state"

# The checkpoint agent continues with the step it had named, and does nothing once the work is done.
killed env CRASH_AT=migrate "$root/examples/checkpoint-agent.sh"
out=$("$root/examples/checkpoint-agent.sh")
same "checkpoint-agent.sh: continues" "continuing with migrate" "$(head -1 <<<"$out")"
same "checkpoint-agent.sh: done before" "deploy-42 was completed before; nothing to do" \
  "$("$root/examples/checkpoint-agent.sh")"

# A workflow that waits for a person is not started over.
here=$PWD
mkdir "$work/waits"
cd "$work/waits"
export RELIGHT_HOME="$work/waits/home"
killed env CRASH_AT=migrate "$root/examples/checkpoint-agent.sh"
relight task block deploy-42 --reason "look at the backup" >/dev/null
code=0
out=$("$root/examples/checkpoint-agent.sh" 2>&1) || code=$?
same "checkpoint-agent.sh: waits for a person" 75 "$code"
[[ $out == *"look at the backup"* && $out != *performing* ]] || fail "checkpoint-agent.sh: $out"
cd "$here"
export RELIGHT_HOME="$work/state"

# The gateway: killed in a slow turn, it learns of that one only.
printf 'ann hello\nben slow question\n' | SLOW=30 "$root/examples/gateway.sh" >gateway.out 2>&1 &
gateway=$!
in_turn() { relight session list --state active | grep -q '^ben '; }
within "the gateway's slow turn" in_turn
kill -9 "$gateway"
wait "$gateway" 2>/dev/null || true
same "gateway.sh: before the kill" 'no session was cut off
ann: you said "hello"' "$(<gateway.out)"
same "gateway.sh: after the kill" "session ben is resume_pending: its owner, process N, is gone with a turn in flight" \
  "$("$root/examples/gateway.sh" </dev/null | plain)"

if [ -n "$fleet" ]; then
  within "the end of fleet.sh" eval "! kill -0 $fleet"
  wait "$fleet" || fail "fleet.sh --check: $(<fleet.out)"
  fleet=
fi

# Every link between the pages, and to a part of a page, leads somewhere, and every page is listed.
if command -v python3 >/dev/null; then
  python3 "$root/docs/site.py" --check || fail "links or pages of the documentation"
  python3 "$root/docs/blocks.py" "$target/$folder/relight" || fail "examples of the documentation"
else
  echo "SKIPPED: links and examples of the documentation (no python3)"
fi
echo "examples and links are good"
