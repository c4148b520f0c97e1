"""Tasks and steps, as a program uses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import relight


def status(task: str) -> str:
    answer: str = relight.call("task.show", task=task)["status"]
    return answer


def test_a_finished_step_is_not_run_again_and_gives_its_value() -> None:
    calls: list[str] = []

    def fetch(url: str) -> dict[str, object]:
        calls.append(url)
        return {"url": url, "words": 2}

    with pytest.raises(RuntimeError, match="crash"), relight.task("report-7", max_retries=3) as task:
        first = task.step("fetch", fetch, "http://x")
        raise RuntimeError("crash")
    relight.call("task.retry", task="report-7")
    with relight.task("report-7") as task:
        assert task.resumed
        assert task.done_steps == ["fetch"]
        assert task.step("fetch", fetch, "http://x") == first == {"url": "http://x", "words": 2}
    assert calls == ["http://x"]
    assert status("report-7") == "completed"


def test_the_first_run_gives_what_a_replay_gives() -> None:
    def pair() -> tuple[int, dict[int, str]]:
        return 1, {2: "two"}

    values: list[object] = []
    for _ in range(2):
        task = relight.task("t").start()
        values.append(task.step("pair", pair))
        task.release()
    assert values[0] == values[1] == [1, {"2": "two"}]


def test_the_same_name_again_is_the_next_occurrence() -> None:
    with relight.task("loop") as task:
        assert [task.step("roll", lambda n=n: n) for n in range(3)] == [0, 1, 2]
    steps = relight.call("step.list", task="loop")["items"]
    assert [(step["name"], step["occurrence"]) for step in steps] == [
        ("roll", 1),
        ("roll", 2),
        ("roll", 3),
    ]


def test_a_step_that_raises_is_a_failed_try_and_is_run_again() -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no route")
        return "ok"

    with relight.task("t") as task:
        with pytest.raises(OSError, match="no route"):
            task.step("call", flaky)
        assert task.step("call", flaky) == "ok"
    assert len(tries) == 2


def test_a_value_that_is_not_json_fails_the_step_and_says_so() -> None:
    with relight.task("t") as task:
        with pytest.raises(TypeError, match="not JSON serializable"):
            task.step("make", lambda: object())
        with pytest.raises(ValueError, match="[Oo]ut of range"):
            task.step("make", lambda: float("nan"))
        assert task.step("make", lambda: 1) == 1


def test_a_step_under_once_that_happened_is_not_repeated_when_its_value_cannot_be_recorded() -> None:
    calls: list[int] = []

    def pay() -> object:
        calls.append(1)
        return object()

    with pytest.raises(TypeError, match="not JSON serializable"), relight.task("pay") as task:
        task.step("charge", pay, repeat="once")
    # Only a person decides whether it happened.
    with pytest.raises(relight.InDoubt):
        relight.call("task.retry", task="pay")
    relight.call("step.resolve", task="pay", step="charge", happened=True)
    relight.call("task.retry", task="pay")
    with relight.task("pay") as task:
        task.step("charge", pay, repeat="once")
    assert calls == [1]


def test_a_step_in_doubt_under_once_is_never_repeated() -> None:
    calls: list[int] = []

    def charge() -> None:
        calls.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), relight.task("pay") as task:
        task.step("charge", charge, repeat="once")
    assert status("pay") == "interrupted"
    with pytest.raises(relight.InDoubt) as caught, relight.task("pay") as task:
        task.step("charge", charge, repeat="once")
    assert (caught.value.code, caught.value.exit) == ("in_doubt", 75)
    assert "relight step resolve charge" in str(caught.value)
    assert calls == [1]
    assert status("pay") == "blocked"
    relight.call("step.resolve", task="pay", step="charge", happened=True)
    with relight.task("pay", force=True) as task:
        assert task.step("charge", charge, repeat="once") is None
    assert calls == [1]


@pytest.mark.parametrize("happened", [True, False])
def test_verify_finds_out_whether_a_step_in_doubt_happened(happened: bool) -> None:
    sent: list[str] = []

    def send() -> str:
        sent.append("mail")
        if len(sent) == 1:
            raise KeyboardInterrupt
        return "sent now"

    def verify() -> str | None:
        return "found" if happened else None

    with pytest.raises(KeyboardInterrupt), relight.task("mail") as task:
        task.step("send", send, verify=verify)
    with relight.task("mail") as task:
        value = task.step("send", send, verify=verify)
    assert value == ("found" if happened else "sent now")
    assert len(sent) == (1 if happened else 2)


def test_the_idempotency_key_stays_the_same_over_tries() -> None:
    keys: list[str] = []

    def call(fails: bool) -> None:
        keys.append(relight.idempotency_key())
        if fails:
            raise OSError("once more")

    with relight.task("t") as task:
        with pytest.raises(OSError, match="once more"):
            task.step("call", call, True)
        task.step("call", call, False)
    assert len(set(keys)) == 1
    with pytest.raises(RuntimeError, match="outside of a step"):
        relight.idempotency_key()


def test_a_generator_streams_and_its_items_come_again_from_the_record() -> None:
    runs: list[int] = []

    def tokens(count: int) -> Iterator[str]:
        runs.append(count)
        for n in range(count):
            yield f"token {n}"

    task = relight.task("stream").start()
    first = task.step("model", tokens, 3)
    assert next(first) == "token 0"
    assert [*first] == ["token 1", "token 2"]
    task.release()
    with relight.task("stream") as task:
        assert [*task.step("model", tokens, 3)] == ["token 0", "token 1", "token 2"]
    assert runs == [3]


def test_a_decorated_function_is_a_step_inside_of_a_task_and_a_function_elsewhere() -> None:
    calls: list[int] = []

    @relight.step(repeat="once")
    def double(n: int) -> int:
        """Doubles."""
        calls.append(n)
        return 2 * n

    @relight.step
    def plain() -> str:
        return "plain"

    assert double(1) == 2
    assert double.__doc__ == "Doubles."
    for _ in range(2):
        task = relight.task("t")
        with pytest.raises(KeyboardInterrupt), task:
            assert double(21) == 42
            assert plain() == "plain"
            raise KeyboardInterrupt
    assert calls == [1, 21]
    steps = relight.call("step.list", task="t")["items"]
    assert [(step["name"], step["rule"]) for step in steps] == [
        ("double", "once"),
        ("plain", "keyed"),
    ]


def test_models_of_pydantic_round_trip_by_the_annotation() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Answer(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        text: str
        score: float

    def ask() -> Answer:
        return Answer(text="yes", score=0.5)

    ask.__annotations__["return"] = Answer
    for _ in range(2):
        task = relight.task("t").start()
        value = task.step("ask", ask)
        assert isinstance(value, Answer)
        assert value == Answer(text="yes", score=0.5)
        task.release()


def test_a_codec_of_the_programs_own() -> None:
    @dataclass
    class Point:
        x: int
        y: int

    class Points:
        def encode(self, value: Point) -> bytes:
            return b"[%d,%d]" % (value.x, value.y)

        def decode(self, recorded: bytes) -> Point:
            x, y = recorded.strip(b"[]").split(b",")
            return Point(int(x), int(y))

    for _ in range(2):
        task = relight.task("t").start()
        assert task.step("point", lambda: Point(1, 2), codec=Points()) == Point(1, 2)
        task.release()


def test_the_block_ends_the_task_by_how_it_ends() -> None:
    with relight.task("done"):
        pass
    with relight.task("blocked"):
        raise relight.Block("needs a key")
    with relight.task("deferred"):
        raise relight.Defer("1h")
    with pytest.raises(ZeroDivisionError), relight.task("failed"):
        _ = 1 // 0
    with pytest.raises(KeyboardInterrupt), relight.task("interrupted"):
        raise KeyboardInterrupt
    found = {name: status(name) for name in ("done", "blocked", "deferred", "interrupted")}
    assert found == {
        "done": "completed",
        "blocked": "blocked",
        "deferred": "deferred",
        "interrupted": "interrupted",
    }
    assert status("failed") in ("failed", "assigned")
    reason = relight.call("task.show", task="failed")["reason"]
    assert "ZeroDivisionError" in reason


def test_declared_steps_that_are_left_open_are_not_passed_over() -> None:
    with pytest.raises(relight.StepsLeftOpen) as caught, relight.task("t", steps=["a", "b"]) as task:
        task.step("a", lambda: None)
    assert "b" in caught.value.message
    with relight.task("t") as task:
        task.skip("b", "not needed")
    assert status("t") == "completed"


def test_another_handle_of_the_task_is_held_and_a_late_one_is_fenced() -> None:
    first = relight.task("t").start()
    with pytest.raises(relight.Held) as held:
        relight.task("t").start()
    assert (held.value.code, held.value.exit) == ("held", 75)
    relight.call("task.release", task="t", force=True)
    second = relight.call("task.start", task="t", lease="1m")
    assert second["fence"] > first.fence
    with pytest.raises(relight.Fenced) as fenced:
        first.step("late", lambda: 1)
    assert (fenced.value.code, fenced.value.exit, fenced.value.status) == ("fenced", 77, 409)


def test_context_payload_and_cost_are_there_for_a_successor() -> None:
    task = relight.task("t", title="T", payload={"n": 1}, set={"branch": "main"}).start()
    task.set(stage="review")
    task.spend("0.25", turns=2)
    task.release()
    with relight.task("t") as task:
        assert (task.title, task.payload) == ("T", {"n": 1})
        assert task.context == {"branch": "main", "stage": "review"}
    shown = relight.call("task.show", task="t")
    assert (shown["cost"], shown["turns"]) == ("0.25", 2)


def test_a_step_asked_for_with_another_input_is_refused() -> None:
    with relight.task("t") as task:
        task.step("ask", lambda: "a", occurrence=1, input={"q": 1})
        with pytest.raises(relight.Conflict):
            task.step("ask", lambda: "b", occurrence=1, input={"q": 2})


def test_a_task_that_has_ended_is_not_started_again() -> None:
    with relight.task("t"):
        pass
    with pytest.raises(relight.Ended) as ended, relight.task("t"):
        pass
    assert (ended.value.code, ended.value.hint) == ("ended", "it has ended; new work needs a new id")


def test_refusals_have_a_code_a_hint_and_survive_pickling() -> None:
    import pickle

    with pytest.raises(relight.NotFound) as caught:
        relight.call("task.show", task="nope")
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is relight.NotFound
    assert (error.code, error.exit, error.hint) == ("not_found", 1, caught.value.hint)
    with pytest.raises(relight.NotFound, match="did you mean task.show"):
        relight.call("task.sho")
    with pytest.raises(relight.Invalid):
        relight.call("task.show", task="t", colour="red")


def test_an_open_store_is_apart_from_the_default_one(tmp_path: object) -> None:
    other = relight.open(store=f"sqlite:{tmp_path}/other.db")
    with other.task("only-there"):
        pass
    assert other.call("task.show", task="only-there")["status"] == "completed"
    with pytest.raises(relight.NotFound):
        relight.call("task.show", task="only-there")
    other.close()
    with pytest.raises(RuntimeError, match="ended"):
        other.call("task.list")


def test_a_store_in_memory() -> None:
    with relight.open(store="memory:") as store, store.task("t") as task:
        assert task.step("a", lambda: 1) == 1


@pytest.mark.parametrize("happened", [True, False])
def test_a_stream_in_doubt_is_verified_before_it_runs_again(happened: bool) -> None:
    runs: list[int] = []

    def tokens() -> Iterator[str]:
        runs.append(1)
        yield "a"
        if len(runs) == 1:
            raise KeyboardInterrupt
        yield "b"

    def verify() -> list[str] | None:
        return ["found"] if happened else None

    with pytest.raises(KeyboardInterrupt), relight.task("t") as task:
        _ = [*task.step("model", tokens, verify=verify)]
    with relight.task("t") as task:
        items = [*task.step("model", tokens, verify=verify)]
    assert items == (["found"] if happened else ["a", "b"])
    assert len(runs) == (1 if happened else 2)


def test_a_stream_gives_in_its_first_run_what_a_replay_gives() -> None:
    keys: set[str] = set()

    def pairs() -> Iterator[tuple[int, str]]:
        for n in range(2):
            keys.add(relight.idempotency_key())
            yield n, "x"

    runs: list[object] = []
    for _ in range(2):
        task = relight.task("t").start()
        runs.append([*task.step("pairs", pairs)])
        task.release()
    assert runs[0] == runs[1] == [[0, "x"], [1, "x"]]
    assert len(keys) == 1
    with pytest.raises(RuntimeError, match="outside of a step"):
        relight.idempotency_key()


def test_a_wrapper_that_collects_a_stream_is_a_plain_step() -> None:
    from functools import wraps

    def tokens() -> Iterator[str]:
        yield "a"

    @wraps(tokens)
    def collected() -> list[str]:
        return [*tokens()]

    with relight.task("t") as task:
        assert task.step("model", collected) == ["a"]


def test_models_in_lists_and_models_that_may_be_missing_round_trip() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Answer(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        text: str

    def several() -> object:
        return [Answer(text="a"), Answer(text="b")]

    def missing() -> object:
        return None

    def stream() -> Iterator[object]:
        yield Answer(text="c")

    several.__annotations__["return"] = list[Answer]
    missing.__annotations__["return"] = Answer | None
    stream.__annotations__["return"] = Iterator[Answer]
    for _ in range(2):
        task = relight.task("t").start()
        assert task.step("several", several) == [Answer(text="a"), Answer(text="b")]
        assert task.step("missing", missing) is None
        assert [*task.step("stream", stream)] == [Answer(text="c")]
        task.release()


def test_a_task_that_was_released_in_its_block_stays_interrupted() -> None:
    with relight.task("t") as task:
        task.release()
    assert status("t") == "interrupted"


def test_a_task_that_was_closed_in_its_block_can_be_continued() -> None:
    with relight.task("t") as task:
        task.step("a", lambda: 1)
        task.close()
    with relight.task("t") as task:
        assert task.done_steps == ["a"]
    assert status("t") == "completed"


def test_a_store_can_be_opened_again_after_it_was_closed(tmp_path: object) -> None:
    store = relight.open(store=f"sqlite:{tmp_path}/other.db")
    for name in ("a", "b"):
        with store, store.task(name):
            pass
    with pytest.raises(RuntimeError, match="ended"):
        store.call("task.list")
    assert len(store.open().call("task.list")["items"]) == 2
    store.close()


def test_records_are_written_compared_listed_and_removed() -> None:
    records = relight.records
    assert records.get("a/1") is None
    assert records.put("a/1", {"n": 1}, new=True)
    assert not records.put("a/1", {"n": 2}, new=True)
    assert not records.put("a/1", {"n": 3}, expected={"n": 2})
    assert records.put("a/1", {"n": 3}, expected={"n": 1})
    for n in range(2, 6):
        records.put(f"a/{n}", n)
    records.put("b", "other")
    page = records.list("a/", limit=2)
    assert [item.name for item in page.items] == ["a/1", "a/2"]
    assert page.next == "a/2"
    assert [item.value for item in records.all("a/", page=2)] == [{"n": 3}, 2, 3, 4, 5]
    newest = records.list("a/", descending=True, limit=1).items
    assert newest == [relight.Record("a/5", 5)]
    assert records.remove("a/1") == 1
    assert records.remove(under="a/") == 4
    assert [item.name for item in records.all("")] == ["b"]
