#!/usr/bin/env bash
# The loop of loop-before.sh, made restart-safe. Run it again after any crash: drafts that were
# finished come from the record, chapters that were sent are not sent again.
#
#   OUT=out ./loop-after.sh
set -euo pipefail

export OUT=${OUT:-out}
mkdir -p "$OUT"

draft() { # stands for a slow, paid model call
  echo "draft $1" >>"$OUT/calls.log"
  echo "text of chapter $1"
}

send() { # stands for a mail, a push, a payment; the key lets the other side recognise a repetition
  echo "sent $1 (key $RELIGHT_IDEMPOTENCY_KEY)" >>"$OUT/calls.log"
}
export -f draft send

started=$(relight task start "${TASK:-book-1}" --agent writer --owner-pid $$ --export)
eval "$started"

for chapter in 1 2 3; do
  relight step run "draft $chapter" -- bash -c 'draft "$1"' _ "$chapter" >"$OUT/chapter-$chapter.txt"
  if [ "${CRASH_AT:-}" = "$chapter" ] && [ "$RELIGHT_RESUMED" = 0 ]; then kill -9 $$; fi
  relight step run "send $chapter" --repeat once -- bash -c 'send "$1"' _ "$chapter"
done
relight task done
echo "all sent"
