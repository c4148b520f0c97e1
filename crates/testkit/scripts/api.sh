#!/usr/bin/env bash
# Throws at a real daemon what its own openapi.json says, and what it forbids: no answer may be
# undescribed, of another shape than described, or a failure inside. See docs/operate/prove.md.
#
# api.sh RELIGHT EXAMPLES SEED: the binary, inputs for each route, and what they are drawn from.
set -euo pipefail
relight=$(realpath "$1") examples=$2 seed=$3
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
venv=$(realpath -m "${CARGO_TARGET_DIR:-target}")/api/venv

if [[ ! -x $venv/bin/schemathesis ]]; then
  if ! python3 -c 'import ensurepip' 2>/dev/null && [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
    apt-get install -y -q python3-venv >&2 || true
  fi
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "schemathesis==4.32.5"; } >&2; then
    rm -rf "$venv"
    echo "SKIPPED: the API by its schema (no python3 with venv, or schemathesis cannot be installed)"
    exit 0
  fi
fi

folder=$(mktemp -d) daemon=
finish() {
  [[ -z $daemon ]] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
export RELIGHT_HOME=$folder/home
# Agents that harm nobody: one that lives, one that comes and goes, one that never comes up.
cat >relight.toml <<'TOML'
[daemon]
listen = "127.0.0.1:0"
[recovery]
cooldown = "1s"
[[agent]]
name = "lives"
command = ["sleep", "1000"]
[[agent]]
name = "goes"
command = ["sleep", "2"]
restart = "always"
[[agent]]
name = "fails"
command = ["false"]
max_attempts = 1
TOML
"$relight" up >up.log 2>&1 &
daemon=$!
for _ in $(seq 100); do
  link=$("$relight" dashboard --print 2>/dev/null) && break
  kill -0 "$daemon" || { cat up.log; exit 1; }
  read -rt 0.1 <> <(:) || true
done
url=${link%/login/*}
token=$("$relight" token show)

# `down` would end what is tried; it is asked for at the end.
failed=0
HYPOTHESIS_STORAGE_DIRECTORY=$folder/hypothesis "$venv/bin/schemathesis" --config-file /dev/null run "$url/openapi.json" \
  --header "Authorization: Bearer $token" --exclude-path /api/down \
  --phases examples,coverage,fuzzing,stateful --max-examples "$examples" --seed "$seed" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,ignored_auth,use_after_free \
  --request-timeout 20 --max-response-time 15 --continue-on-failure --no-color \
  --generation-database none --warnings off --output-truncate false >answers.log 2>&1 || failed=1
if ((failed)); then
  cat answers.log
  echo "failed: ./prove api --examples $examples --seed $seed shows it again"
  exit 1
fi
kill -0 "$daemon" || { echo "the daemon died"; cat up.log; exit 1; }
if grep -n 'panicked\|went wrong inside' up.log; then
  echo "the daemon complained"
  exit 1
fi
"$relight" down >/dev/null
wait "$daemon"
daemon=
tail -n 3 answers.log
