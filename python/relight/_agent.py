"""Agents inside of the program."""

from __future__ import annotations

import json
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _waiting
from ._errors import Refused

if TYPE_CHECKING:
    from . import _native
    from ._client import Relight


class MayNotWork(Refused):
    """The agent has to wait for its cooldown, was stopped by a person, or its attempts are used up."""

    answer: dict[str, Any]


class Agent:
    """An agent that this program runs itself: ``with relight.agent("mailer") as agent: agent.beat()``.

    The block is one attempt: its first beat begins it, an exception fails it. Attempts without progress
    wait for a growing cooldown, and after ``max_attempts`` of them the agent is terminated until a person
    starts it. Silence for longer than ``silence_max`` ends the attempt too. All of it is on disk.
    """

    def __init__(self, relight: Relight, name: str, request: dict[str, Any]) -> None:
        self.name = name
        self.attempt: int | None = None
        self._relight, self._request = relight, json.dumps(request)
        self._native: _native.Agent | None = None

    @property
    def native(self) -> _native.Agent:
        """The native handle; the agent is registered when it is first needed."""
        if self._native is None:
            self._native = self._relight.native.agent(self._request)
            assert self._native is not None
        return self._native

    def beat(
        self,
        status: str | None = None,
        *,
        waiting_until: str | None = None,
        task: str | None = None,
    ) -> dict[str, Any]:
        """It lives. The answer's ``action`` says what it has to do: ``continue``, ``wait``, ``cancel``,
        ``restart`` or ``stop``."""
        given = {
            "status": status,
            "waiting_until": waiting_until,
            "task": task,
            "attempt": self.attempt,
        }
        answer: dict[str, Any] = json.loads(self.native.beat(json.dumps(given)))
        return answer

    async def beat_async(self, status: str | None = None, **given: Any) -> dict[str, Any]:
        """The same in an event loop."""
        native, text = self.native, json.dumps({"status": status, "attempt": self.attempt, **given})
        answer = await _waiting.wait(lambda via: native.beat(text, via))
        read: dict[str, Any] = json.loads(answer)
        return read

    def failed(self, why: str) -> None:
        """Its attempt failed; what it holds goes by its strategy."""
        self.native.failed(why)

    def leave(self) -> None:
        """It ends on purpose: its silence counts no more."""
        self.native.leave()

    def __enter__(self) -> Agent:
        answer = self.beat()
        if answer["state"] != "running":
            error = MayNotWork(
                f"agent {self.name} may not work now: {answer['why']}",
                code="conflict",
                exit=75 if answer["action"] == "wait" else 1,
                status=409,
                hint=f"relight start {self.name} lets it work",
            )
            error.answer = answer
            raise error
        self.attempt = answer["attempt"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.attempt = None
        if isinstance(error, Exception):
            self.failed(f"{type(error).__name__}: {error}")
        else:
            self.leave()
