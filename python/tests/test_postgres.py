"""The same on a store in PostgreSQL, which several machines may share."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic

import pytest

import relight

SERVER = os.environ.get("RELIGHT_POSTGRES", "")
SCHEMAS = count()

# Leases of those that are killed or frozen here.
LEASE = "1s"
# Longer than any wait here takes.
LONG = "60s"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a PostgreSQL that is there for this module."""
    if not SERVER:
        pytest.skip("SKIPPED: stores in PostgreSQL (RELIGHT_POSTGRES names no relight-postgres)")
    with subprocess.Popen(
        [SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        if not url:
            assert program.wait() == 69
            pytest.skip("SKIPPED: stores in PostgreSQL (install the package postgresql)")
        yield url
        program.stdin.close()
        assert program.wait(60) == 0


@pytest.fixture(autouse=True)
def url(server: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a store of the test's own, which it and its children use."""
    url = f"{server}&schema=python_{next(SCHEMAS)}"
    monkeypatch.setenv("RELIGHT_STORE", url)
    yield url
    assert not (home / "relight.db").exists()


@pytest.fixture
def start() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    for program in starter.started:
        program.kill()
        program.communicate()


class Starter:
    """Starts programs, and ends those that are left after the test."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, code: str, *args: str) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [sys.executable, "-c", f"import relight, sys, time\n{code}", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(program)
        return program


def read(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def test_a_task_with_steps_ends_and_gives_its_values_again(url: str) -> None:
    def never() -> object:
        raise AssertionError("the step was recorded")

    with relight.open(store=url) as store:
        task = store.task("t", title="Weekly report").start()
        assert task.step("a", lambda: {"rows": [1, 2]}) == {"rows": [1, 2]}
        task.release()
        with store.task("t") as task:
            assert (task.resumed, task.title, task.done_steps) == (True, "Weekly report", ["a"])
            assert task.step("a", never) == {"rows": [1, 2]}
    # By `RELIGHT_STORE`.
    shown = relight.call("task.show", task="t")
    assert (shown["status"], shown["steps_done"]) == ("completed", 1)


def test_tasks_of_one_event_loop_work_side_by_side() -> None:
    async def work(number: int) -> list[int]:
        async with relight.task(f"t{number}") as task:
            return [await task.step("n", lambda n=n: n) for n in range(5)]

    async def main() -> list[list[int]]:
        return await asyncio.gather(*(work(number) for number in range(8)))

    assert asyncio.run(main()) == [[0, 1, 2, 3, 4]] * 8
    assert len(relight.call("task.list", status="completed")["items"]) == 8


HOLDER = """
task = relight.worker("first", lease=sys.argv[1]).claim("60s")
print(*[task.step(name, lambda: name) for name in "ab"], flush=True)
def cut_off():
    print("in c", flush=True)
    time.sleep(600)
task.step("c", cut_off)
"""


def test_the_task_of_a_killed_process_continues_after_its_last_finished_step(
    start: Starter,
) -> None:
    relight.add("t")
    holder = start(HOLDER, LEASE)
    assert [read(holder), read(holder)] == ["a b", "in c"]
    with pytest.raises(relight.Held):
        relight.task("t").start()
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    ran: list[str] = []

    def note(name: str) -> str:
        ran.append(name)
        return name

    # It waits for the end of the lease: another machine could not see that the process is gone.
    task = relight.worker("second").claim(LONG)
    assert task is not None
    assert (task.id, task.done_steps) == ("t", ["a", "b"])
    assert [task.step(name, note, name) for name in "abcd"] == [*"abcd"]
    task.done()
    assert ran == ["c", "d"]


WORKER = """
taken = 0
def work(task):
    global taken
    taken += 1
    task.step("take", print, task.id, flush=True)
    if taken == 1:
        sys.stdin.readline()
relight.worker("worker").run(work, until_empty=True)
"""


def test_two_processes_that_claim_from_one_queue_do_each_task_once(start: Starter) -> None:
    names = {f"t{number}" for number in range(40)}
    for name in names:
        relight.add(name)
    workers = [start(WORKER), start(WORKER)]
    taken = [read(worker) for worker in workers]
    # Both have one now; the others are there for whoever is faster.
    for worker in workers:
        tell(worker)
    for worker in workers:
        out, _ = worker.communicate(timeout=30)
        assert worker.returncode == 0
        taken += out.split()
    assert sorted(taken) == sorted(names)
    assert len(relight.call("task.list", status="completed")["items"]) == 40


FROZEN = """
task = relight.worker("first", lease=sys.argv[1]).claim("60s")
task.step("a", lambda: 1)
print("held", flush=True)
sys.stdin.readline()
for act in (lambda: task.step("b", lambda: "first"), task.done):
    try:
        print(act())
    except relight.Fenced as error:
        print(error.exit)
"""


def test_a_process_that_lost_its_lease_while_it_was_frozen_is_fenced(start: Starter) -> None:
    relight.add("t")
    frozen = start(FROZEN, LEASE)
    assert read(frozen) == "held"
    frozen.send_signal(signal.SIGSTOP)
    task = relight.worker("second").claim(LONG)
    assert task is not None
    assert task.step("b", lambda: "second") == "second"
    tell(frozen)
    frozen.send_signal(signal.SIGCONT)
    out, _ = frozen.communicate(timeout=30)
    assert (out.split(), frozen.returncode) == (["77", "77"], 0)
    # It changed nothing, and the newer holder still has the task.
    task.done()
    steps = relight.call("step.list", task="t")["items"]
    assert [(step["name"], step["fence"]) for step in steps] == [("a", 1), ("b", 2)]


def test_only_the_newest_turn_of_a_session_ends_it() -> None:
    first = relight.sessions.turn("dm:42", "conversation-7", set={"model": "x"}).begin()
    with relight.sessions.turn("dm:42", "conversation-7") as turn:
        assert (turn.generation, turn.context) == (first.generation + 1, {"model": "x"})
        with pytest.raises(relight.Fenced):
            first.end()
        assert relight.sessions.show("dm:42")["state"] == "active"
    assert relight.sessions.show("dm:42")["state"] == "idle"


GATEWAY = """
turn = relight.sessions.turn("dm:42", "conversation-7", lease=sys.argv[1]).begin()
print("begun", flush=True)
time.sleep(600)
"""


def test_the_session_of_a_killed_gateway_is_found_after_its_lease(start: Starter) -> None:
    gateway = start(GATEWAY, LEASE)
    assert read(gateway) == "begun"
    assert relight.sessions.recover("resume_pending") == []
    gateway.kill()
    found: list[str] = []
    deadline = monotonic() + 30
    while not found:
        assert monotonic() < deadline
        found = [session["key"] for session in relight.sessions.recover("resume_pending")]
    assert found == ["dm:42"]
    with relight.sessions.turn("dm:42", "conversation-7") as turn:
        assert turn.resumed
