#!/usr/bin/env bash
# The agent of the repository's relight.toml: surveys the source code folder by folder and writes a
# report. Every folder is a step, so however often it is killed, each is surveyed once.
#
#   relight up                  # in the repository; then, in a second terminal:
#   kill -9 PID                 # the pid is in: relight ps
#   relight restart surveyor    # the next report
#
# Writes only below $RELIGHT_HOME. PAUSE stands for the time that a model would take.
set -euo pipefail

: "${RELIGHT_ATTEMPT_NUMBER:?is not set: start this script with relight up or relight run}"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
pause=${PAUSE:-3}

# Where relight is not installed: the program of this agent's shim.
if ! command -v relight >/dev/null; then
  program=$(readlink "/proc/$PPID/exe")
  relight() { "$program" "$@"; }
fi

survey() { # survey FOLDER: files, lines, and which process counted them
  sleep "$pause"
  local files lines
  files=$(find "$root/$1" -name target -prune -o -type f \( -name '*.rs' -o -name '*.md' -o -name '*.sh' \) -print)
  lines=$(tr '\n' '\0' <<<"$files" | xargs -0 cat | wc -l)
  printf '%-16s %4d files %6d lines   by process %d\n' "$1" "$(wc -l <<<"$files")" "$lines" "$$"
}
export -f survey
export root pause

# The report that was cut off, or the next one: a finished one cannot be started again (exit 1).
number=1
until started=$(relight task start "report-$number" --export 2>/dev/null); do
  [ $? = 1 ] || exit 75
  number=$((number + 1))
done
eval "$started"
echo "attempt $RELIGHT_ATTEMPT_NUMBER works on report-$number"
report=$RELIGHT_HOME/report-$number.txt

folders=(crates/core crates/redact crates/store crates/runtime crates/server crates/cli crates/testkit crates/bench docs examples)
for folder in "${folders[@]}"; do
  relight beat --status "surveying $folder" || true
  relight step run "survey $folder" -- bash -c 'survey "$1"' _ "$folder"
done >"$report"
relight step run 'read it over' -- cat "$report"
relight task done

# Quiet from here on. If it did not declare its wait, it would count as hung.
relight beat --status "wrote $report" --waiting-until 7d || true
exec sleep infinity
