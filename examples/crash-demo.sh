#!/usr/bin/env bash
cd "$(mktemp -d)" && export RELIGHT_HOME="$PWD/state"
cat > agent.sh <<'EOF'
eval "$(relight task start report-7 --owner-pid $$ --export)"
relight step run fetch -- sh -c 'echo "fetched by process $$"'
[ "$RELIGHT_RESUMED" = 1 ] || kill -9 $$        # the crash; no trap can see it
relight step run write -- echo 'report written'
relight task done
EOF
bash agent.sh      # killed after its first step
bash agent.sh      # goes on: fetch gives its recorded output, nothing runs twice
relight step list --task report-7
