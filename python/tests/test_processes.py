"""What happens to a program: kills, forks, signals, threads, its end."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.testing import crash_at, crash_everywhere


def python(code: str, *args: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def pipeline(effects: str) -> list[int]:
    """Four steps with an effect that is seen: a line each."""

    def effect(n: int) -> int:
        with open(effects, "a") as file:
            file.write(f"{n}\n")
        return n

    with relight.task("pipeline", max_retries=100) as task:
        return [task.step(f"s{n}", effect, n) for n in range(4)]


async def async_pipeline(effects: str) -> list[int]:
    async def effect(n: int) -> int:
        with open(effects, "a") as file:
            file.write(f"{n}\n")
        return n

    async with relight.task("pipeline", max_retries=100) as task:
        return [await task.step(f"s{n}", effect, n) for n in range(4)]


def run_async_pipeline(effects: str) -> list[int]:
    import asyncio

    return asyncio.run(async_pipeline(effects))


@pytest.mark.parametrize("work", [pipeline, run_async_pipeline])
def test_killed_at_every_point_no_finished_step_is_run_again(work: Any, tmp_path: Path) -> None:
    runs = 0
    effects = tmp_path / "effects"

    def fresh() -> None:
        nonlocal runs
        if runs > 0:
            check(effects.read_text().split())
        runs += 1
        effects.write_text("")

    def check(lines: list[str]) -> None:
        # The step that was cut off between its work and its end may run again, and no other.
        assert sorted(set(lines)) == ["0", "1", "2", "3"]
        assert len(lines) <= 5

    points = crash_everywhere(work, str(effects), fresh=fresh)
    check(effects.read_text().split())
    assert points == 12


def test_crash_at_gives_the_value_of_the_run_that_ended(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    crashed = crash_at(3, pipeline, str(effects))
    assert (crashed.kills, crashed.value) == (1, [0, 1, 2, 3])


DRIVER = """
import sys, relight
name, effects = sys.argv[1:]
def effect(n):
    with open(effects, "a") as file:
        file.write(f"{n}\\n")
    return n
with relight.task(name, max_retries=10_000) as task:
    print("started", flush=True)
    for n in range(200):
        task.step("s", effect, n)
print("done", flush=True)
"""


def test_killed_at_any_line_again_and_again_the_work_is_done_once(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    for kill in range(200):
        driver = python(DRIVER, "killed", str(effects))
        assert driver.stdout is not None
        assert driver.stdout.readline() == "started\n"
        if kill < 15:
            before = len(effects.read_text().split())
            deadline = time.monotonic() + 30
            # After a different number of steps each time.
            while len(effects.read_text().split()) < min(before + kill, 200):
                assert time.monotonic() < deadline
            driver.kill()
            if driver.wait() != 0:
                continue
            # It was done before the kill.
            break
        assert driver.stdout.readline() == "done\n"
        driver.communicate()
        break
    lines = effects.read_text().split()
    assert sorted({int(line) for line in lines}) == list(range(200))
    # One step may have been cut off after its effect by each kill, and no other is repeated.
    assert len(lines) <= 215
    assert relight.call("task.show", task="killed")["steps_done"] == 200


def test_a_forked_child_gets_a_clear_error_and_leaves_the_parents_store_alone() -> None:
    task = relight.task("t").start()
    assert task.step("a", lambda: 1) == 1
    default = relight.default()
    default.call("task.list")
    pid = os.fork()
    if pid == 0:
        told = []
        for use in (
            lambda: task.step("b", lambda: 2),
            lambda: default.call("task.list"),
            lambda: relight.call("task.list"),
            lambda: relight.open(),
        ):
            try:
                use()
                told.append("worked")
            except relight.Forked as error:
                told.append(error.code)
            except BaseException as error:
                told.append(repr(error))
        os._exit(0 if told == ["forked"] * 4 else 1)
    _, code = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(code) == 0
    assert task.step("b", lambda: 2) == 2
    task.done()


def test_a_child_that_was_forked_before_anything_was_open_has_its_own() -> None:
    relight.close()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with relight.task("in-child") as task:
                task.step("a", os.getpid)
            relight.close()
            code = 0
        finally:
            os._exit(code)
    _, code = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(code) == 0
    shown = relight.call("task.show", task="in-child")
    assert shown["status"] == "completed"


def work_in_process(n: int) -> int:
    with relight.task(f"p{n}") as task:
        return task.step("n", lambda: n)


def test_processes_that_are_spawned_have_their_own_handle() -> None:
    relight.call("task.list")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(work_in_process, range(4)) == [0, 1, 2, 3]
    assert len(relight.call("task.list", status="completed")["items"]) == 4


def test_ctrl_c_ends_a_wait_and_the_handler_of_the_program_is_called() -> None:
    code = """
import relight
print("ready", flush=True)
try:
    relight.worker("w").claim("1h")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    waiting = python(code)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    time.sleep(0.3)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)
    assert (out, waiting.returncode) == ("interrupted\n", 0), err


def test_threads_work_on_tasks_side_by_side() -> None:
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            with relight.task(f"t{n}") as task:
                for m in range(10):
                    assert task.step("m", lambda m=m: m) == m
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(relight.call("task.list", status="completed")["items"]) == 16


def test_other_threads_go_on_while_one_waits() -> None:
    claim = threading.Thread(target=relight.worker("w").claim, args=("2s",))
    claim.start()
    ticks = 0
    while claim.is_alive():
        ticks += 1
        time.sleep(0.01)
    assert ticks > 20


def test_a_program_ends_at_once_whatever_is_open() -> None:
    code = """
import threading, relight
task = relight.task("t").start()
turn = relight.sessions.turn("k", "c").begin()
task.step("a", lambda: 1)
threading.Thread(target=relight.worker("w").claim, args=("1h",), daemon=True).start()
print("end", flush=True)
"""
    program = python(code)
    begun = time.monotonic()
    out, err = program.communicate(timeout=30)
    assert (out, program.returncode) == ("end\n", 0), err
    assert err == ""
    assert time.monotonic() - begun < 20
    assert relight.call("task.show", task="t")["status"] in ("interrupted", "in_progress")


def test_an_interpreter_that_ends_inside_of_a_loop_says_nothing() -> None:
    code = """
import asyncio, relight
async def main():
    task = await relight.task("t").start_async()
    asyncio.ensure_future(relight.worker("w").claim_async("1h"))
    await asyncio.sleep(0.1)
asyncio.run(main())
"""
    out, err = python(code).communicate(timeout=30)
    assert (out, err) == ("", "")


def test_the_session_of_a_killed_gateway_is_found_by_the_next() -> None:
    code = """
import relight, time
turn = relight.sessions.turn("dm:42", "conversation-7").begin()
print("begun", flush=True)
time.sleep(60)
"""
    gateway = python(code)
    assert gateway.stdout is not None
    assert gateway.stdout.readline() == "begun\n"
    assert relight.sessions.recover("resume_pending") == []
    gateway.kill()
    gateway.wait()
    found = relight.sessions.recover("resume_pending")
    assert [session["key"] for session in found] == ["dm:42"]
    with relight.sessions.turn("dm:42", "conversation-7") as turn:
        assert turn.resumed


def test_importing_the_package_loads_nothing_that_takes_long() -> None:
    code = """
import sys
before = set(sys.modules)
import relight
print(*sorted(set(sys.modules) - before))
"""
    out, _ = python(code).communicate(timeout=30)
    loaded = out.split()
    assert [name for name in loaded if name.startswith("relight")] == ["relight", "relight._errors"]
    assert not {"asyncio", "json", "pathlib", "subprocess", "inspect"} & set(loaded)


def test_inside_of_a_supervised_agent_the_attempt_is_the_holder(tmp_path: Path) -> None:
    code = (
        "import relight, json\n"
        "with relight.task('supervised') as task:\n"
        "    held = relight.call('task.show', task='supervised')['holder']\n"
        "    beat = relight.beat(status='working')\n"
        f"    open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps([held['kind'], beat]))\n"
    )
    from relight._spawn import binary

    try:
        binary()
    except relight.Refused:
        pytest.skip("SKIPPED: there is no relight program here")
    spawned = relight.spawn([sys.executable, "-c", code], name="py", task="supervised")
    assert spawned.wait(60) == 0
    assert json.loads((tmp_path / "seen").read_text()) == ["attempt", True]
    assert relight.call("task.show", task="supervised")["status"] == "completed"


def test_a_spawned_command_is_ended_with_its_children_after_its_time(tmp_path: Path) -> None:
    from relight._spawn import binary

    try:
        binary()
    except relight.Refused:
        pytest.skip("SKIPPED: there is no relight program here")
    child = tmp_path / "child"
    script = f"sleep 600 & echo $! > {child}; wait"
    spawned = relight.spawn(["sh", "-c", script], name="slow", timeout="1s")
    assert spawned.wait(60) == 124
    pid = int(child.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_agent_of_the_program_has_attempts_a_cooldown_and_an_end() -> None:
    agent = relight.agent("mailer", max_attempts=1, cooldown="1h")
    with agent:
        assert agent.attempt == 1
        assert agent.beat("sending")["action"] == "continue"
    with pytest.raises(ValueError, match="first"), agent:
        raise ValueError("first")
    shown = relight.call("agent.show", agent="mailer")
    assert shown["state"] == "crashed"
    with pytest.raises(ValueError, match="second"), agent:
        raise ValueError("second")
    assert relight.call("agent.show", agent="mailer")["state"] == "terminated"
    with pytest.raises(relight.Refused, match="may not work now") as caught:
        agent.__enter__()
    assert caught.value.exit == 1


def test_a_command_that_just_started_has_no_deaths() -> None:
    command = relight.spawn(["sleep", "60"])
    try:
        assert command.deaths() == []
    finally:
        command.stop()
