"""An open store, and the doors to its tasks, its queue and its sessions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _native, _waiting
from ._task import TaskBlock

if TYPE_CHECKING:
    from ._agent import Agent
    from ._records import Records
    from ._sessions import Sessions
    from ._spawn import Spawned
    from ._strategy import RecoveryStrategy
    from ._worker import Worker


class Relight:
    """The store that the command line uses, or another one. Opened at its first use."""

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        store: str | None = None,
        *,
        agent: str | None = None,
        strategies: Mapping[str, RecoveryStrategy] | None = None,
        default_strategy: str | None = None,
    ) -> None:
        self._home, self._store, self._agent = home, store, agent
        self.flags: list[str] = []
        if home is not None:
            self.flags += ["--home", os.fspath(home)]
        if store is not None:
            self.flags += ["--store", store]
        self._strategies = dict(strategies or {})
        self._default_strategy = default_strategy
        # The open client by the name `client`: a dictionary adds atomically, also from many threads at once.
        self._opened: dict[str, _native.Client] = {}
        self._is_closed = False

    @property
    def native(self) -> _native.Client:
        """The native client."""
        if self._is_closed:
            raise RuntimeError("this store was closed: its use has ended")
        return self._opened.get("client") or self._open()

    def open(self) -> Relight:
        """Opens the store now, again if it was closed."""
        self._is_closed = False
        _ = self.native
        return self

    def _open(self) -> _native.Client:
        opened = _native.Client.open(
            None if self._home is None else Path(self._home),
            self._store,
            self._agent,
            {name: it.answer for name, it in self._strategies.items()},
            self._default_strategy,
        )
        used = self._opened.setdefault("client", opened)
        if used is not opened:
            # Another thread was faster.
            opened.close()
        return used

    def close(self) -> None:
        """Closes the store; tasks and turns that are still open keep it until they end."""
        self._is_closed = True
        opened = self._opened.pop("client", None)
        if opened is not None:
            opened.close()

    def __enter__(self) -> Relight:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def home(self) -> Path:
        """The folder of the state."""
        return self.native.home()

    def call(self, operation: str, /, **given: Any) -> Any:
        """Runs an operation by its name, such as ``task.show``: the answer of ``--json``."""
        return json.loads(self.native.call(operation, json.dumps(given)))

    async def call_async(self, operation: str, /, **given: Any) -> Any:
        """The same in an event loop."""
        text, native = json.dumps(given), self.native
        return json.loads(await _waiting.wait(lambda via: native.call(operation, text, via)))

    def task(
        self,
        id: str,
        *,
        title: str | None = None,
        agent: str | None = None,
        steps: Sequence[str] = (),
        payload: Any = None,
        strategy: str | None = None,
        max_retries: int | None = None,
        key: str | None = None,
        priority: int = 0,
        needs: Sequence[str] = (),
        ttl: str | None = None,
        set: Mapping[str, str] | None = None,
        lease: str | None = None,
        force: bool = False,
    ) -> TaskBlock:
        """A task to start or to continue: ``with relight.task("report-7") as t: …``."""
        return TaskBlock(
            self,
            {
                "task": id,
                "title": title,
                "agent": agent,
                "steps": list(steps),
                "payload": payload,
                "strategy": strategy,
                "max_retries": max_retries,
                "key": key,
                "priority": priority,
                "needs": list(needs),
                "ttl": ttl,
                "set": dict(set or {}),
                "lease": lease,
                "force": force,
            },
        )

    def add(self, id: str, /, **definition: Any) -> dict[str, Any]:
        """Adds a task to the queue; the same one again changes nothing."""
        answer: dict[str, Any] = self.call("task.add", id=id, **definition)
        return answer

    def worker(
        self,
        agent: str | None = None,
        *,
        skills: Sequence[str] = (),
        at_once: int = 1,
        lease: str | None = None,
    ) -> Worker:
        """Somebody who works through the queue under this name."""
        from ._worker import Worker

        return Worker(self, agent, skills, at_once, lease)

    def agent(
        self,
        name: str,
        *,
        skills: Sequence[str] = (),
        silence_max: str | None = None,
        max_attempts: int | None = None,
        cooldown: str | None = None,
    ) -> Agent:
        """An agent inside of this program: heartbeats, attempts, cooldown and an end of its tries."""
        from ._agent import Agent

        request = {
            "agent": name,
            "skills": list(skills),
            "silence_max": silence_max,
            "max_attempts": max_attempts,
            "cooldown": cooldown,
        }
        return Agent(self, name, request)

    def spawn(
        self,
        command: Sequence[str],
        *,
        name: str | None = None,
        task: str | None = None,
        timeout: str | None = None,
        silence_max: str | None = None,
        restart: Literal["never", "on-failure", "always"] = "never",
        max_attempts: int | None = None,
        **options: Any,
    ) -> Spawned:
        """Runs a command as a supervised agent: its whole tree is ours, and ends with it."""
        from ._spawn import spawn

        return spawn(
            self,
            command,
            name=name,
            task=task,
            timeout=timeout,
            silence_max=silence_max,
            restart=restart,
            max_attempts=max_attempts,
            **options,
        )

    @property
    def sessions(self) -> Sessions:
        """Conversations whose turns can be cut off."""
        from ._sessions import Sessions

        return Sessions(self)

    @property
    def records(self) -> Records:
        """Small named JSON documents, for adapters of other frameworks."""
        from ._records import Records

        return Records(self)

    def recover(self) -> dict[str, Any]:
        """Gives tasks of dead holders to their strategies, and decides sessions that were cut off."""
        answer: dict[str, Any] = self.call("recover")
        return answer
