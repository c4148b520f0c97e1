#!/usr/bin/env bash
# A plain agent loop: three chapters, each drafted by a model and then sent off.
# Killed in the middle, it starts from nothing: drafts are paid for again, chapters are sent twice.
#
#   OUT=out ./loop-before.sh
set -euo pipefail

out=${OUT:-out}
mkdir -p "$out"

draft() { # stands for a slow, paid model call
  echo "draft $1" >>"$out/calls.log"
  echo "text of chapter $1"
}

send() { # stands for a mail, a push, a payment
  echo "sent $1" >>"$out/calls.log"
}

for chapter in 1 2 3; do
  draft "$chapter" >"$out/chapter-$chapter.txt"
  if [ "${CRASH_AT:-}" = "$chapter" ]; then kill -9 $$; fi
  send "$chapter"
done
echo "all sent"
