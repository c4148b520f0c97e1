"""The same in event loops: asyncio, and trio through anyio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import relight

anyio = pytest.importorskip("anyio")


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Any:
    backend = request.param
    if backend == "trio":
        pytest.importorskip("trio")
    return lambda main: anyio.run(main, backend=backend)


def test_steps_are_awaited_and_replayed(run: Any) -> None:
    calls: list[str] = []

    async def fetch(url: str) -> str:
        await anyio.sleep(0)
        calls.append(url)
        return url.upper()

    async def main() -> None:
        for _ in range(2):
            task = await relight.task("t").start_async()
            assert await task.step("fetch", fetch, "a") == "A"
            assert await task.step("plain", lambda: 1) == 1
            task.release()
        async with relight.task("t") as task:
            assert task.resumed
            await task.set(stage="last")
        assert (await relight.default().call_async("task.show", task="t"))["status"] == "completed"

    run(main)
    assert calls == ["a"]


def test_many_tasks_at_once(run: Any) -> None:
    done: list[str] = []

    async def one(name: str) -> None:
        async with relight.task(name) as task:
            for n in range(5):
                assert await task.step("n", lambda n=n: n) == n
        done.append(name)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for n in range(40):
                group.start_soon(one, f"t{n}")

    run(main)
    assert len(done) == 40
    completed = relight.call("task.list", status="completed", limit=100)["items"]
    assert len(completed) == 40
    assert all(task["steps_done"] == 5 for task in completed)


def test_streams_once_verify_and_errors(run: Any) -> None:
    async def tokens() -> AsyncIterator[int]:
        for n in range(3):
            yield n

    async def fails() -> None:
        raise OSError("no route")

    async def main() -> None:
        async with relight.task("t") as task:
            assert [n async for n in task.step("stream", tokens)] == [0, 1, 2]
            with pytest.raises(OSError, match="no route"):
                await task.step("fails", fails)
            await task.step("fails", lambda: None)
        with pytest.raises(relight.NotFound):
            await relight.default().call_async("task.show", task="nope")
        with pytest.raises(ValueError, match="x"):
            async with relight.task("failed", max_retries=0):
                raise ValueError("x")
        async with relight.task("deferred"):
            raise relight.Defer("1h")

    run(main)
    found = {task["id"]: task["status"] for task in relight.call("task.list")["items"]}
    assert found == {"t": "completed", "failed": "failed", "deferred": "deferred"}


def test_a_cancelled_step_is_in_doubt_and_its_task_interrupted(run: Any) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:

            async def wait() -> None:
                scope.cancel()
                await anyio.sleep_forever()

            async with relight.task("t") as task:
                await task.step("wait", wait, repeat="once")

    run(main)
    shown = relight.call("task.show", task="t")
    assert (shown["status"], shown["in_doubt"]) == ("interrupted", ["wait"])


def test_turns_in_a_loop(run: Any) -> None:
    async def main() -> None:
        async with relight.sessions.turn("k", "c") as turn:
            assert turn.generation == 1
            assert relight.sessions.show("k")["state"] == "active"

    run(main)
    assert relight.sessions.show("k")["state"] == "idle"


def test_a_worker_in_asyncio_is_woken_and_stopped() -> None:
    async def main() -> None:
        worker = relight.worker("w", at_once=3)

        async def work(task: relight.AsyncTask) -> None:
            await task.step("do", lambda: 1)
            if relight.call("task.list", status="completed")["items"]:
                worker.stop()

        running = asyncio.ensure_future(worker.run_async(work))
        await asyncio.sleep(0)
        for n in range(4):
            relight.add(f"t{n}")
        worked = await asyncio.wait_for(running, 60)
        assert worked.done >= 2

    asyncio.run(main())


def test_the_loop_is_not_blocked_while_a_claim_waits() -> None:
    async def main() -> None:
        ticks = 0
        claim = asyncio.ensure_future(relight.worker("w").claim_async("30s"))
        while ticks < 10:
            await asyncio.sleep(0.01)
            ticks += 1
        assert not claim.done()
        relight.add("now")
        task = await asyncio.wait_for(claim, 30)
        assert task is not None
        await task.done()

    asyncio.run(main())


def test_loops_one_after_the_other_and_in_threads() -> None:
    import threading

    async def one(name: str) -> None:
        async with relight.task(name) as task:
            await task.step("a", lambda: 1)

    for n in range(3):
        asyncio.run(one(f"t{n}"))
    threads = [threading.Thread(target=asyncio.run, args=(one(f"u{n}"),)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(relight.call("task.list", status="completed")["items"]) == 6
