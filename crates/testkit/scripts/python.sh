#!/usr/bin/env bash
# The Python package, packed and tested as users get it.
#
# python.sh install BINARY MODULE: packs both into a wheel and installs it into an environment below the target
#   folder, with what the tests need from PyPI.
# python.sh test FOLDER_OF_THE_BUILD [PYTEST ARGUMENT…]: then runs the tests, the examples and two type checkers
#   there, and the wheel alone in a fresh environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
root=$PWD
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/python
needed="pytest==9.2.0 mypy==2.4.1 pyright==1.1.414 anyio==4.16.0 trio==0.35.0 pydantic==2.14.3"
# What the adapters are for, which the package itself does not need. The Claude Agent SDK is built from its source:
# its wheel brings a program of 370 MB along.
adapted="langgraph==1.2.22 langgraph-checkpoint==4.3.2 langgraph-checkpoint-conformance==0.0.2 openai-agents==0.24.0
  pydantic-ai-slim==2.66.0 claude-agent-sdk==0.2.184"
pip="--quiet --disable-pip-version-check"

install() {
  local binary module
  binary=$(realpath "$1") module=$(realpath "$2")
  if ! python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "SKIPPED: the Python package (no python3 from 3.10 on with venv)"
    return
  fi
  if [ "$(cat "$place/venv/needed" 2>/dev/null)" != "$needed $adapted" ]; then
    rm -rf "$place/venv"
    if ! { python3 -m venv "$place/venv" && timeout 300 "$place/venv/bin/pip" install $pip $needed; } >&2; then
      rm -rf "$place/venv"
      echo "SKIPPED: the Python package (its tools cannot be installed from PyPI)"
      return
    fi
    if timeout 600 "$place/venv/bin/pip" install $pip $needed $adapted \
      --no-binary claude-agent-sdk >&2; then
      echo "$needed $adapted" >"$place/venv/needed"
    else
      echo "SKIPPED: the adapters of the Python package (their packages cannot be installed from PyPI)"
    fi
  fi
  rm -rf "$place/wheel"
  python3 packaging/wheel.py --module "$module" --binary "$binary" "$place/wheel"
  "$place/venv/bin/pip" install $pip --force-reinstall --no-deps "$place"/wheel/*.whl
}

run_tests() {
  local build
  build=$(realpath "$1")
  shift
  if [ ! -x "$place/venv/bin/relight" ]; then
    echo "SKIPPED: the Python package (python.sh install did not install it)"
    return
  fi
  # The wheel alone, where there is nothing else.
  rm -rf "$place/fresh"
  python3 -m venv "$place/fresh"
  "$place/fresh/bin/pip" install $pip --no-index "$place"/wheel/*.whl
  "$place/fresh/bin/relight" --version
  export RELIGHT_HOME="$place/fresh/home"
  env -C / "$place/fresh/bin/python" -c '
import relight
with relight.task("first") as task:
    assert task.step("add", lambda: 1 + 1) == 2
'
  "$place/fresh/bin/relight" task show first --json | grep -q '"status": "completed"'
  unset RELIGHT_HOME
  # As a user's checker sees it.
  cd python
  local lax=()
  "$place/venv/bin/python" -c 'import langgraph, agents, pydantic_ai, claude_agent_sdk' 2>/dev/null ||
    lax=(--ignore-missing-imports --allow-subclassing-any --allow-any-generics --no-warn-unused-ignores)
  "$place/venv/bin/mypy" --cache-dir "$place/mypy" "${lax[@]}" relight tests ../examples/python
  [ "${#lax[@]}" -gt 0 ] || "$place/venv/bin/pyright" --pythonpath "$place/venv/bin/python" relight
  # Not beside the sources, which have no native module.
  rm -rf "$place/tests"
  mkdir -p "$place/tests"
  cp -r tests pyproject.toml "$place/tests/"
  cd "$place/tests"
  RELIGHT_EXAMPLES="$root/examples/python" RELIGHT_POSTGRES="$build/relight-postgres" timeout 1500 "$place/venv/bin/python" -m pytest \
    -p no:cacheprovider --durations=3 -rs "$@" tests
}

case ${1:-} in
  install) install "$2" "$3" ;;
  test) shift; run_tests "$@" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
esac
