"""Waiting for the native part in an event loop: one descriptor and one reader for each loop."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from . import _native

_Start = Callable[[tuple[_native.Completions, object]], Any]


class _AsyncioCompletions:
    """The answers that one loop of asyncio waits for."""

    def __init__(self, loop: Any) -> None:
        self.completions = _native.Completions()
        self._fd = self.completions.fileno()
        loop.add_reader(self._fd, self._ready)

    def _ready(self) -> None:
        for future, error, answer in self.completions.take():
            if future.done():
                _discard(answer)
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)


_of_loops: weakref.WeakKeyDictionary[Any, _AsyncioCompletions] = weakref.WeakKeyDictionary()


def _discard(answer: Any) -> None:
    """An answer that nobody waits for any more: what it holds is given up."""
    close = getattr(answer, "close", None)
    if close is not None:
        close()


async def wait(start: _Start) -> Any:
    """Starts a call and waits for its answer, in asyncio or in trio."""
    asyncio = sys.modules.get("asyncio")
    loop = None
    if asyncio is not None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
    if loop is None:
        return await _wait_in_trio(start)
    here = _of_loops.get(loop)
    if here is None:
        here = _of_loops[loop] = _AsyncioCompletions(loop)
    future = loop.create_future()
    answer = start((here.completions, future))
    return await future if answer is ... else answer


async def _wait_in_trio(start: _Start) -> Any:
    import trio

    here = _TrioCompletions.current(trio)
    slot = _Slot(trio.Event())
    answer = start((here.completions, slot))
    if answer is not ...:
        return answer
    try:
        await slot.event.wait()
    except BaseException:
        slot.is_abandoned = True
        _discard(slot.answer)
        raise
    if slot.error is not None:
        raise slot.error
    return slot.answer


class _Slot:
    def __init__(self, event: Any) -> None:
        self.event = event
        self.answer: Any = None
        self.error: BaseException | None = None
        self.is_abandoned = False


class _TrioCompletions:
    """The same in trio: a task of the system reads the answers."""

    def __init__(self, trio: Any) -> None:
        self._trio = trio
        self.completions = _native.Completions()
        trio.lowlevel.spawn_system_task(self._read)

    @staticmethod
    def current(trio: Any) -> _TrioCompletions:
        token = trio.lowlevel.current_trio_token()
        here = _of_trio.get(token)
        if here is None:
            here = _of_trio[token] = _TrioCompletions(trio)
        return here

    async def _read(self) -> None:
        fd = self.completions.fileno()
        while True:
            await self._trio.lowlevel.wait_readable(fd)
            for slot, error, answer in self.completions.take():
                if slot.is_abandoned:
                    _discard(answer)
                    continue
                slot.error, slot.answer = error, answer
                slot.event.set()


_of_trio: weakref.WeakKeyDictionary[Any, _TrioCompletions] = weakref.WeakKeyDictionary()
