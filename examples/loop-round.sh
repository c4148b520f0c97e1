#!/usr/bin/env bash
# One round of a loop that Relight runs: drafts the next chapter. Exit 0 ends the round. If it is killed
# at any line, the round starts again, and a chapter that was drafted in it comes from the record.
#
#   relight run --loop --until ./loop-until.sh --max-iterations 10 -- ./loop-round.sh
set -euo pipefail

export OUT=${OUT:-out}
mkdir -p "$OUT"

draft() { # stands for a slow, paid model call
  echo "draft $1" >>"$OUT/calls.log"
  echo "text of chapter $1"
}
export -f draft

chapter=$RELIGHT_ITERATION # counted on disk: it survives the loop's own supervisor
# A loop that has ended or was stopped counts from 1 again; a completed task cannot be started.
status=$(relight task show "chapter-$chapter" 2>/dev/null | sed -n 's/^status *//p') || true
if [ "$status" = completed ]; then exit 0; fi
started=$(relight task start "chapter-$chapter" --export)
eval "$started"
relight step run draft -- bash -c 'draft "$1"' _ "$chapter" >"$OUT/chapter-$chapter.txt"
if [ "${CRASH_AT:-}" = "$chapter" ] && [ "$RELIGHT_RESUMED" = 0 ]; then kill -9 $$; fi
relight task done
