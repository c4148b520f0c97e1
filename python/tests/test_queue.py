"""Workers, strategies and sessions."""

from __future__ import annotations

import threading

import pytest

import relight


def test_a_worker_takes_what_is_there_and_ends_each_task_by_its_work() -> None:
    for name in ("ok", "blocks", "fails"):
        relight.add(name, max_retries=0, payload=name)

    def work(task: relight.Task) -> None:
        if task.payload == "blocks":
            raise relight.Block("a person is needed")
        if task.payload == "fails":
            raise ValueError("no")
        task.step("do", lambda: 1)

    worked = relight.worker("w").run(work, until_empty=True)
    assert (worked.done, worked.blocked, worked.failed) == (1, 1, 1)
    found = {task["id"]: task["status"] for task in relight.call("task.list")["items"]}
    assert found == {"ok": "completed", "blocks": "blocked", "fails": "failed"}


def test_only_a_worker_with_the_skill_gets_the_task() -> None:
    relight.add("gpu-work", needs=["gpu"])
    assert relight.worker("plain").claim() is None
    task = relight.worker("strong", skills=["gpu"]).claim()
    assert task is not None
    assert task.id == "gpu-work"
    task.done()


def test_a_waiting_worker_is_woken_by_a_new_task_and_ends_when_told() -> None:
    worker = relight.worker("w", at_once=2)
    done = threading.Event()

    def work(task: relight.Task) -> None:
        done.set()

    thread = threading.Thread(target=worker.run, args=(work,))
    thread.start()
    relight.add("later")
    assert done.wait(30)
    worker.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert worker.worked.done == 1


class Careful(relight.RecoveryStrategy):
    def __init__(self) -> None:
        self.asked: list[relight.Failure] = []

    def decide(self, failure: relight.Failure) -> relight.Decision:
        self.asked.append(failure)
        return relight.Decision("suspend", reason=f"task {failure.task['id']} had effects")


def test_a_strategy_of_the_programs_own_decides(home: object) -> None:
    careful = Careful()
    with relight.open(strategies={"careful": careful}, default_strategy="careful") as store:
        with pytest.raises(ValueError, match="no"), store.task("t") as task:
            task.step("a", lambda: 1)
            raise ValueError("no")
        shown = store.call("task.show", task="t")
        decided = store.call("events", task="t", kind="task.recovery")["items"]
    assert shown["status"] == "suspended"
    assert decided[0]["detail"]["reason"] == "task t had effects"
    assert careful.asked[0].context["steps_done"] == 1


def test_a_strategy_that_raises_leaves_the_decision_to_the_default() -> None:
    class Broken(relight.RecoveryStrategy):
        def decide(self, failure: relight.Failure) -> relight.Decision:
            raise KeyError("oops")

    with relight.open(strategies={"broken": Broken()}) as store:
        task = store.task("t", strategy="broken").start()
        recovered = task.fail("no")
    assert recovered["trouble"] is not None
    assert "oops" in recovered["trouble"]
    with pytest.raises(relight.Invalid, match="no strategy"):
        relight.task("u", strategy="unknown").start()


def test_a_turn_is_marked_inside_of_its_block() -> None:
    with relight.sessions.turn("dm:42", "conversation-7", set={"model": "x"}) as turn:
        assert (turn.generation, turn.resumed) == (1, False)
        assert relight.sessions.show("dm:42")["state"] == "active"
        assert relight.sessions.export()["dm:42"]["session_id"] == "conversation-7"
    shown = relight.sessions.show("dm:42")
    assert (shown["state"], shown["context"]) == ("idle", {"model": "x"})


def test_only_the_newest_generation_ends_a_turn() -> None:
    first = relight.sessions.turn("k", "c").begin()
    second = relight.sessions.turn("k", "c").begin()
    assert second.generation == first.generation + 1
    with pytest.raises(relight.Fenced):
        first.end()
    with pytest.raises(relight.Fenced):
        relight.sessions.end("k", first.generation)
    assert relight.sessions.show("k")["state"] == "active"
    second.end()
    assert relight.sessions.show("k")["state"] == "idle"


def test_a_clean_shutdown_discards_the_marks_of_this_process() -> None:
    turn = relight.sessions.turn("k", "c").begin()
    assert relight.sessions.shutdown() == ["k"]
    assert relight.sessions.recover() == []
    with pytest.raises(relight.Fenced):
        turn.end()


def test_every_operation_is_listed_and_answers_json() -> None:
    from relight import _native

    assert {"task.add", "step.begin", "session.recover", "checkpoint.save", "inflight"} <= {
        *_native.OPERATIONS
    }
    assert relight.call("inflight")["held"] == []
    assert relight.call("events")["items"] == []
    found = relight.recover()
    assert (found["recovered"], found["sessions"], found["failed"]) == ([], [], [])


def test_a_worker_counts_each_task_by_how_it_really_ended() -> None:
    relight.add("done-itself", max_retries=0)
    relight.add("deferred-itself", max_retries=0)
    relight.add("failed-itself", max_retries=0)
    relight.add("left-open", max_retries=0, steps=["a", "b"])
    relight.add("lost", max_retries=0)

    def work(task: relight.Task) -> None:
        if task.id == "done-itself":
            task.done()
            raise ValueError("after its end")
        if task.id == "deferred-itself":
            task.defer("1h")
        if task.id == "failed-itself":
            task.fail("no")
        if task.id == "lost":
            relight.call("task.release", task="lost", force=True)
            relight.call("task.start", task="lost", lease="1m")

    worked = relight.worker("w").run(work, until_empty=True)
    assert vars(worked) == {"done": 1, "blocked": 0, "deferred": 1, "failed": 2, "lost": 1}
    assert relight.call("task.show", task="left-open")["status"] == "failed"


def test_a_worker_that_is_interrupted_lets_go_of_its_task() -> None:
    relight.add("t")

    def work(task: relight.Task) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        relight.worker("w").run(work)
    assert relight.call("task.show", task="t")["status"] == "interrupted"


def test_threads_that_open_the_store_at_once_share_it(tmp_path: object) -> None:
    store = relight.Relight(store=f"sqlite:{tmp_path}/shared.db")
    start = threading.Barrier(8)
    clients: list[object] = []

    def use() -> None:
        start.wait(30)
        clients.append(store.native)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(clients) == 8
    assert len({id(client) for client in clients}) == 1
    store.close()
