"""Supervised subprocesses: the binary of this package watches them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._errors import NotFound, StoreError, from_refused

if TYPE_CHECKING:
    from ._client import Relight


_REFUSED = ("code", "exit", "status", "message", "hint")


def binary() -> str:
    """The ``relight`` program: of this environment, else the first in ``PATH``."""
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for place in places:
        found = os.path.join(place, "relight")
        if os.access(found, os.X_OK):
            return found
    in_path = shutil.which("relight")
    if in_path is None:
        raise StoreError(
            "there is no relight program beside this Python or in PATH",
            code="config",
            exit=78,
            status=500,
            hint="pip install relight brings it",
        )
    return in_path


class Spawned:
    """A command under supervision. When this program dies, the command goes on and is adopted."""

    def __init__(self, relight: Relight, name: str, process: subprocess.Popen[Any]) -> None:
        self.name = name
        self._relight, self._process = relight, process

    @property
    def pid(self) -> int | None:
        """The process of the command, while it lives."""
        try:
            shown: int | None = self.show()["pid"]
        except NotFound:
            # It is not recorded yet.
            return None
        return shown

    def show(self) -> dict[str, Any]:
        """The agent, as ``relight ps --json`` shows it."""
        shown: dict[str, Any] = self._relight.call("agent.show", agent=self.name)
        return shown

    def wait(self, timeout: float | None = None) -> int:
        """The exit code of the command: 128+n for a signal, 124 for a time-out."""
        return self._process.wait(timeout)

    def poll(self) -> int | None:
        """The exit code, when it has ended."""
        return self._process.poll()

    def stop(self) -> int:
        """Stops the command and all its children, with time to end; the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait()

    def deaths(self) -> list[dict[str, Any]]:
        """How its attempts ended, the newest first."""
        command = [binary(), *self._relight.flags, "--json", "deaths", self.name]
        answer = subprocess.run(command, capture_output=True, check=False)
        if answer.returncode == 0:
            items: list[dict[str, Any]] = json.loads(answer.stdout)["items"]
            return items
        refused = json.loads(answer.stderr)["error"]
        error = from_refused(*(refused.get(key) for key in _REFUSED))
        if isinstance(error, NotFound):
            # It is not recorded yet.
            return []
        raise error


def spawn(
    relight: Relight,
    command: Sequence[str],
    *,
    name: str | None = None,
    task: str | None = None,
    timeout: str | None = None,
    silence_max: str | None = None,
    restart: str = "never",
    max_attempts: int | None = None,
    **options: Any,
) -> Spawned:
    """Starts ``relight run`` for the command; ``options`` are those of :class:`subprocess.Popen`."""
    name = name or f"spawn-{uuid.uuid4().hex[:12]}"
    flags = [*relight.flags, "--quiet", "run", "--name", name, "--restart", restart]
    given = {"task": task, "timeout": timeout, "silence-max": silence_max}
    if max_attempts is not None:
        given["max-attempts"] = str(max_attempts)
    for flag, value in given.items():
        if value is not None:
            flags += [f"--{flag}", value]
    process: subprocess.Popen[Any] = subprocess.Popen([binary(), *flags, "--", *command], **options)
    return Spawned(relight, name, process)
