"""Kills a function at every point where a crash could matter, and starts it again.

Also a plugin of pytest: the fixture ``relight_home`` gives a test a home of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ._crash import VARIABLE

_PROGRAM = "from relight.testing import run_given; run_given()"


class Crashed:
    """What became of a function that was killed and started again."""

    def __init__(self, kills: int, value: Any) -> None:
        self.kills = kills
        self.value = value


def crash_at(point: int, function: Callable[..., Any], *args: Any, timeout: float = 60) -> Crashed:
    """Runs the function in a process of its own that is killed (SIGKILL) at this point, then again until it
    ends. A point is the begin, the work and the end of each step, counted from 1.

    The function is found by its module's file and its name; arguments and its value are JSON.
    """
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        given = {
            "file": function.__code__.co_filename,
            "module": function.__module__,
            "name": function.__qualname__,
            "args": args,
            "answer": str(answer),
        }
        while True:
            environment = {**os.environ, "RELIGHT_CRASH_PROGRAM": json.dumps(given)}
            if kills == 0:
                environment[VARIABLE] = str(point)
            ran = subprocess.run(
                [sys.executable, "-c", _PROGRAM], env=environment, timeout=timeout, check=False
            )
            if ran.returncode == -signal.SIGKILL and kills == 0:
                kills += 1
                continue
            if ran.returncode != 0:
                raise RuntimeError(f"the function ended with {ran.returncode} after {kills} kills")
            return Crashed(kills, json.loads(answer.read_text()))


def crash_everywhere(
    function: Callable[..., Any], *args: Any, fresh: Callable[[], object] | None = None
) -> int:
    """Calls :func:`crash_at` for every point that there is; how many there were.

    Each point begins with an empty ``RELIGHT_HOME`` of its own. ``fresh`` is called before each, to reset what
    else the function changes.
    """
    point = 1
    while True:
        if fresh is not None:
            fresh()
        with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
            patch.setenv("RELIGHT_HOME", home)
            if crash_at(point, function, *args).kills == 0:
                return point - 1
        point += 1


def run_given() -> None:
    given = json.loads(os.environ.pop("RELIGHT_CRASH_PROGRAM"))
    import importlib.util

    spec = importlib.util.spec_from_file_location(given["module"], given["file"])
    if spec is None or spec.loader is None:
        raise ImportError(f"{given['file']} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[given["module"]] = module
    spec.loader.exec_module(module)
    function: Any = module
    for part in given["name"].split("."):
        function = getattr(function, part)
    value = function(*given["args"])
    Path(given["answer"]).write_text(json.dumps(value))


@pytest.fixture
def relight_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for a test; the functions of ``relight`` use it."""
    import relight

    for name in list(os.environ):
        if name.startswith("RELIGHT_") or name == "NOTIFY_SOCKET":
            monkeypatch.delenv(name)
    home = tmp_path / "relight-home"
    monkeypatch.setenv("RELIGHT_HOME", str(home))
    relight.close()
    yield home
    relight.close()
