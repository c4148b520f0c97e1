#!/usr/bin/env bash
# An agent that speaks the checkpoint dialect: start, update, resume, complete.
# Run it again after a crash and it continues with the step it had named.
#
#   ./checkpoint-agent.sh            # files are in ./memory/checkpoints
#   CRASH_AT=migrate ./checkpoint-agent.sh
set -euo pipefail

workflow=deploy-42

perform() { # stands for the real work of a step
  echo "performing $1"
}

next_step_of() { sed -n 's/^  "next_step": "\(.*\)",$/\1/p' <<<"$1"; }

# Takes the workflow. 0: it is ours. 1: there is none. 75: another holder has it, or it waits for a
# person; then it must not be started over.
take() { state=$(relight checkpoint resume --workflow "$workflow" --owner-pid $$ 2>resume.log) || code=$?; }

code=0
take
case $code in
0) echo "continuing with $(next_step_of "$state")" ;;
1)
  started=$(relight checkpoint start --workflow "$workflow" --agent ops --step backup \
    --remaining migrate restart --idempotency "$workflow-2026-05-01" --json)
  if grep -q '"outcome": "completed"' <<<"$started"; then
    echo "$workflow was completed before; nothing to do"
    exit 0
  fi
  code=0
  take # start holds nothing: of two copies only one gets it
  ;;
esac
if [ "$code" != 0 ]; then
  cat resume.log >&2
  exit "$code"
fi
next=$(next_step_of "$state")
fence=$(sed -n 's/^  "fence": \([0-9]*\),$/\1/p' <<<"$state")
export RELIGHT_TASK=$workflow RELIGHT_FENCE=$fence

steps=(backup migrate restart end)
for ((at = 0; at < 3; at++)); do
  step=${steps[at]} after=${steps[at + 1]}
  if [ "$step" != "$next" ]; then continue; fi
  perform "$step"
  if [ "${CRASH_AT:-}" = "$step" ]; then kill -9 $$; fi
  if [ "$after" = end ]; then
    relight checkpoint complete --workflow "$workflow"
  else
    relight checkpoint update --workflow "$workflow" --complete "$step" --step "$after"
  fi
  next=$after
done
