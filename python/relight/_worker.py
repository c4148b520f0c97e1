"""Works through the queue: whatever becomes of one task, the next one is taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _native, _waiting
from ._errors import Fenced, Refused
from ._task import AsyncTask, Task, active_task, end_task, end_task_async

if TYPE_CHECKING:
    from ._client import Relight

# Waits are by event; this only bounds one of them.
_WAIT = "1h"


class Worked:
    """How many tasks ended how."""

    def __init__(self) -> None:
        self.done = self.blocked = self.deferred = self.failed = self.lost = 0

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in vars(self).items())
        return f"Worked({counts})"

    def count(self, how: str) -> None:
        """One more that ended this way."""
        setattr(self, how, getattr(self, how) + 1)


def _how(task: Task | AsyncTask, error: BaseException | None) -> str:
    """How the work on a task that is over ended."""
    if isinstance(error, Fenced):
        return "lost"
    # Without a word of the program, the task is over because a step in doubt blocked it.
    ended = task.ended or "blocked"
    return "lost" if ended == "released" else ended


class Worker:
    """Somebody who works through the queue under the name of an agent."""

    def __init__(
        self,
        relight: Relight,
        agent: str | None,
        skills: Sequence[str],
        at_once: int,
        lease: str | None,
    ) -> None:
        self._relight, self._agent, self._skills = relight, agent, list(skills)
        self._at_once, self._lease = max(1, at_once), lease
        self._stop = _native.Stop()
        self.worked = Worked()

    def stop(self) -> None:
        """Takes nothing more; ``run`` returns when what is worked on has ended."""
        self._stop.set()

    def claim(self, wait: str | None = None) -> Task | None:
        """Takes one task, waiting for it for so long."""
        native = self._relight.native.claim(
            self._agent, self._skills, wait, self._lease, self._stop
        )
        return None if native is None else Task(native)

    async def claim_async(self, wait: str | None = None) -> AsyncTask | None:
        """The same in an event loop."""
        client = self._relight.native
        native = await _waiting.wait(
            lambda via: client.claim(self._agent, self._skills, wait, self._lease, self._stop, via)
        )
        return None if native is None else AsyncTask(native)

    def run(self, work: Callable[[Task], Any], *, until_empty: bool = False) -> Worked:
        """Works until ``stop``, or until there is nothing to take; on ``at_once`` threads."""
        if self._at_once == 1:
            self._work(work, until_empty)
            return self.worked
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._at_once, "relight-worker") as pool:
            slots = [pool.submit(self._work, work, until_empty) for _ in range(self._at_once)]
            try:
                for slot in slots:
                    slot.result()
            except BaseException:
                self.stop()
                raise
        return self.worked

    def _work(self, work: Callable[[Task], Any], until_empty: bool) -> None:
        while not self._stop.is_set():
            task = self.claim(None if until_empty else _WAIT)
            if task is None:
                if until_empty:
                    return
                continue
            error: Exception | None = None
            token = active_task.set(task)
            try:
                try:
                    work(task)
                except Exception as raised:
                    error = raised
                except BaseException as raised:
                    end_task(task, raised)
                    raise
                finally:
                    active_task.reset(token)
                self.worked.count(self._end(task, error))
            finally:
                task.close()

    def _end(self, task: Task, error: Exception | None) -> str:
        try:
            end_task(task, error)
        except Fenced:
            return "lost"
        except Refused as refused:
            # What was declared and left open is a failure of its own.
            try:
                task.fail(f"its work ended, and its end was refused: {refused.message}")
            except Fenced:
                return "lost"
        return _how(task, error)

    async def run_async(
        self, work: Callable[[AsyncTask], Awaitable[Any]], *, until_empty: bool = False
    ) -> Worked:
        """The same in asyncio; ``at_once`` tasks side by side."""
        import asyncio

        slots = [
            asyncio.ensure_future(self._work_async(work, until_empty))
            for _ in range(self._at_once)
        ]
        try:
            await asyncio.gather(*slots)
        finally:
            self.stop()
            for slot in slots:
                slot.cancel()
        return self.worked

    async def _work_async(
        self, work: Callable[[AsyncTask], Awaitable[Any]], until_empty: bool
    ) -> None:
        while not self._stop.is_set():
            task = await self.claim_async(None if until_empty else _WAIT)
            if task is None:
                if until_empty:
                    return
                continue
            error: Exception | None = None
            token = active_task.set(task)
            try:
                try:
                    await work(task)
                except Exception as raised:
                    error = raised
                except BaseException as raised:
                    await end_task_async(task, raised)
                    raise
                finally:
                    active_task.reset(token)
                self.worked.count(await self._end_async(task, error))
            finally:
                task.close()

    async def _end_async(self, task: AsyncTask, error: Exception | None) -> str:
        try:
            await end_task_async(task, error)
        except Fenced:
            return "lost"
        except Refused as refused:
            try:
                await task.fail(f"its work ended, and its end was refused: {refused.message}")
            except Fenced:
                return "lost"
        return _how(task, error)
