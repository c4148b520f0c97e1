#!/usr/bin/env bash
cd "$(mktemp -d)" && export RELIGHT_HOME="$PWD/state"
cat > agent.sh <<'EOF'
relight step run fetch -- sh -c 'echo "fetched by process $$"'
[ "$RELIGHT_RESUMED" = 1 ] || kill -9 $$        # the crash; no trap can see it
relight step run write -- echo 'report written'
relight task done
EOF
relight run --name writer --task report-7 -- bash agent.sh
relight deaths writer --attempt 1
