#!/usr/bin/env bash
# The loop of loop-after.sh for when cron, systemd or a person starts it: it also records why it ended.
# After TERM, INT, HUP or a failure the task is `interrupted`, with the reason. No trap helps against
# kill -9, and none is needed: what was finished is on disk before any signal comes.
#
#   OUT=out ./loop-trap.sh; relight task show book-1
set -euo pipefail

export OUT=${OUT:-out}
mkdir -p "$OUT"

draft() { # stands for a slow, paid model call
  echo "draft $1" >>"$OUT/calls.log"
  echo "text of chapter $1"
}
export -f draft

started=$(relight task start "${TASK:-book-1}" --owner-pid $$ --export)
eval "$started"
trap 'rm -f "$OUT/scratch"' EXIT # your own traps first: they are kept and run
eval "$(relight trap bash)"
touch "$OUT/scratch"

for chapter in 1 2 3; do
  relight task set stage="chapter $chapter" >/dev/null # for a successor
  relight step run "draft $chapter" -- bash -c 'draft "$1"' _ "$chapter" >"$OUT/chapter-$chapter.txt"
  if [ "${END_AT:-}" = "$chapter" ]; then kill -TERM $$; fi
done
relight task done
