"""Brings AI agents back after any crash.

A program records each step of its work before anything depends on it. Kill it at any moment and start
it again: finished steps give their recorded values, and the work continues with the first step that is
not finished::

    import relight

    with relight.task("report-7", title="Weekly report") as task:
        text = task.step("fetch", fetch, url)
        task.step("send", send, text, repeat="once")

The functions of this module use the store that the command line uses. :func:`open` opens another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import (
    Block,
    Conflict,
    Defer,
    Draining,
    Ended,
    Fenced,
    Forked,
    Held,
    InDoubt,
    Invalid,
    NotFound,
    Nothing,
    Refused,
    StepsLeftOpen,
    StoreError,
    UsedUp,
    WaitsForPerson,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from ._agent import Agent, MayNotWork
    from ._client import Relight
    from ._codec import Codec, JsonCodec, ModelCodec
    from ._records import Record, RecordPage, Records
    from ._sessions import Sessions, Turn
    from ._spawn import Spawned
    from ._strategy import Decision, Failure, RecoveryStrategy
    from ._task import (
        HAPPENED,
        AsyncTask,
        Repeat,
        Task,
        TaskBlock,
        current_task,
        idempotency_key,
        step,
    )
    from ._worker import Worked, Worker

    records: Records
    sessions: Sessions
    __version__: str

__all__ = [
    "HAPPENED",
    "Agent",
    "AsyncTask",
    "Block",
    "Codec",
    "Conflict",
    "Decision",
    "Defer",
    "Draining",
    "Ended",
    "Failure",
    "Fenced",
    "Forked",
    "Held",
    "InDoubt",
    "Invalid",
    "JsonCodec",
    "MayNotWork",
    "ModelCodec",
    "NotFound",
    "Nothing",
    "Record",
    "RecordPage",
    "Records",
    "RecoveryStrategy",
    "Refused",
    "Relight",
    "Repeat",
    "Sessions",
    "Spawned",
    "StepsLeftOpen",
    "StoreError",
    "Task",
    "TaskBlock",
    "Turn",
    "UsedUp",
    "WaitsForPerson",
    "Worked",
    "Worker",
    "add",
    "agent",
    "beat",
    "call",
    "close",
    "current_task",
    "default",
    "idempotency_key",
    "open",
    "records",
    "recover",
    "sessions",
    "spawn",
    "step",
    "task",
    "worker",
]

# Where each name is; loaded when it is first used, so that importing the package costs little.
_LAZY = {
    "Agent": "_agent",
    "MayNotWork": "_agent",
    "Spawned": "_spawn",
    "Relight": "_client",
    "Codec": "_codec",
    "JsonCodec": "_codec",
    "ModelCodec": "_codec",
    "Record": "_records",
    "RecordPage": "_records",
    "Records": "_records",
    "Sessions": "_sessions",
    "Turn": "_sessions",
    "Decision": "_strategy",
    "Failure": "_strategy",
    "RecoveryStrategy": "_strategy",
    "HAPPENED": "_task",
    "AsyncTask": "_task",
    "Repeat": "_task",
    "Task": "_task",
    "TaskBlock": "_task",
    "current_task": "_task",
    "idempotency_key": "_task",
    "step": "_task",
    "Worked": "_worker",
    "Worker": "_worker",
    "__version__": "_native",
}

# The default store of each process: a forked child gets one of its own. A dictionary adds atomically.
_defaults: dict[int, Relight] = {}


def __getattr__(name: str) -> Any:
    if name == "sessions":
        return default().sessions
    if name == "records":
        return default().records
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def default() -> Relight:
    """The store that the functions of this module use; a forked child gets one of its own."""
    from os import getpid

    there = _defaults.get(getpid())
    if there is not None:
        return there
    import atexit

    from ._client import Relight

    if not _defaults:
        atexit.register(close)
    return _defaults.setdefault(getpid(), Relight())


def close() -> None:
    """Closes the default store; called when the program ends."""
    from os import getpid

    there = _defaults.pop(getpid(), None)
    if there is not None:
        there.close()


def open(
    home: str | os.PathLike[str] | None = None,
    store: str | None = None,
    *,
    agent: str | None = None,
    strategies: Mapping[str, RecoveryStrategy] | None = None,
    default_strategy: str | None = None,
) -> Relight:
    """Opens a store: by default the one that the command line uses.

    ``strategies`` are recovery strategies of the program's own, by the names that tasks choose them by.
    """
    from ._client import Relight

    opened = Relight(
        home, store, agent=agent, strategies=strategies, default_strategy=default_strategy
    )
    return opened.open()


def task(
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
    """A task to start or to continue; see :meth:`Relight.task`."""
    return default().task(
        id,
        title=title,
        agent=agent,
        steps=steps,
        payload=payload,
        strategy=strategy,
        max_retries=max_retries,
        key=key,
        priority=priority,
        needs=needs,
        ttl=ttl,
        set=set,
        lease=lease,
        force=force,
    )


def add(id: str, /, **definition: Any) -> dict[str, Any]:
    """Adds a task to the queue; see :meth:`Relight.add`."""
    return default().add(id, **definition)


def call(operation: str, /, **given: Any) -> Any:
    """Runs an operation by its name; see :meth:`Relight.call`."""
    return default().call(operation, **given)


def worker(
    agent: str | None = None,
    *,
    skills: Sequence[str] = (),
    at_once: int = 1,
    lease: str | None = None,
) -> Worker:
    """Somebody who works through the queue; see :meth:`Relight.worker`."""
    return default().worker(agent, skills=skills, at_once=at_once, lease=lease)


def recover() -> dict[str, Any]:
    """Recovers what dead holders left; see :meth:`Relight.recover`."""
    return default().recover()


def agent(
    name: str,
    *,
    skills: Sequence[str] = (),
    silence_max: str | None = None,
    max_attempts: int | None = None,
    cooldown: str | None = None,
) -> Agent:
    """An agent inside of this program; see :meth:`Relight.agent`."""
    return default().agent(
        name,
        skills=skills,
        silence_max=silence_max,
        max_attempts=max_attempts,
        cooldown=cooldown,
    )


def spawn(command: Sequence[str], **options: Any) -> Spawned:
    """Runs a command as a supervised agent; see :meth:`Relight.spawn`."""
    return default().spawn(command, **options)


def beat(waiting_until: str | None = None, status: str | None = None) -> bool:
    """Tells the supervisor of this process that it lives: one datagram. False where there is none."""
    from . import _native

    return _native.beat(waiting_until, status)
