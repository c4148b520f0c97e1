"""The examples, killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import relight

FOLDER = os.environ.get("RELIGHT_EXAMPLES", "")


def example(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(Path(FOLDER) / name), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


pytestmark = pytest.mark.skipif(not FOLDER, reason="RELIGHT_EXAMPLES names no folder")


def test_the_gateway_knows_after_a_crash_who_was_cut_off() -> None:
    crashed = example("gateway.py", "--crash")
    assert crashed.returncode == -signal.SIGKILL
    again = example("gateway.py")
    assert again.returncode == 0, again.stderr
    lines = again.stdout.splitlines()
    assert lines[-1] == "all conversations are served"
    assert any(line.startswith("telegram:dm:2 was cut off") for line in lines)
    answered = [line for line in (crashed.stdout + again.stdout).splitlines() if "answer" in line]
    for chat in ("telegram:dm:1", "telegram:dm:2", "slack:general"):
        for turn in range(1, 4):
            assert f"answer {turn} in {chat}" in answered
    assert relight.sessions.list()["items"] != []
    assert {session["state"] for session in relight.sessions.list()["items"]} == {"idle"}


def test_the_engine_continues_what_a_killed_one_left_and_keeps_to_its_retries() -> None:
    crashed = example("engine.py", "--crash")
    assert crashed.returncode == -signal.SIGKILL
    again = example("engine.py")
    assert again.returncode == 0, again.stderr
    written = [
        line for line in (crashed.stdout + again.stdout).splitlines() if line.startswith("writing")
    ]
    # No part was written twice, but those of the task that fails: its finished steps are kept too.
    assert len(written) == len(set(written)) == 9
    tasks = {task["id"]: task for task in relight.call("task.list")["items"]}
    assert tasks["report-rust"]["status"] == "completed"
    assert tasks["report-python"]["status"] == "completed"
    assert tasks["report-broken"]["status"] == "failed"
    assert tasks["report-broken"]["retries"] == 1
