#!/usr/bin/env bash
# A gateway in bash: takes messages "KEY text" on standard input, marks each turn before the model is
# asked and clears it afterwards. Kill it with -9 at any moment and start it again: it reports exactly
# which conversations were cut off.
set -euo pipefail

relight session recover --policy resume_pending
trap 'relight session shutdown --owner-pid $$; exit' TERM INT

model() { # KEY TEXT: stands for the call of a model
  [[ $2 != slow* ]] || sleep "${SLOW:-60}"
  echo "$1: you said \"$2\""
}

while read -r key text; do
  turn=$(relight session begin "$key" --id "conversation-of-$key" --owner-pid $$)
  model "$key" "$text"
  relight session end "$key" --generation "$turn" --quiet
done
