"""The checkpointer for LangGraph: its conformance suite, kills, and the records that it writes."""

from __future__ import annotations

import asyncio
import base64
import json
import operator
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

import relight

pytest.importorskip("langgraph")
pytest.importorskip("langgraph.checkpoint.conformance")

from langchain_core.messages import HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from relight.langgraph import RelightSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

METADATA: CheckpointMetadata = {"source": "loop", "step": 0, "parents": {}}


def config_of(thread: str, namespace: str = "", id: str | None = None) -> RunnableConfig:
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
    if id is not None:
        config["configurable"]["checkpoint_id"] = id
    return config


def put(saver: RelightSaver, config: RunnableConfig, **values: Any) -> RunnableConfig:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    return saver.put(config, checkpoint, METADATA, {})


def records(under: str = "langgraph/") -> dict[str, Any]:
    return {record.name: record.value for record in relight.records.all(under)}


class JsonSerde:
    """Writes plain JSON, as LangGraph for TypeScript does."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "json", json.dumps(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        assert data[0] == "json"
        return json.loads(data[1])


class SyncSaver(RelightSaver):
    """Its asynchronous methods are the synchronous ones, so that the suite tests those."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        for found in self.list(*args, **options):
            yield found

    async def aput(self, *args: Any) -> Any:
        return self.put(*args)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        self.put_writes(*args, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


class Lines(TypedDict):
    lines: Annotated[list[str], operator.add]


@pytest.mark.parametrize("kind", [RelightSaver, SyncSaver])
def test_it_passes_all_81_tests_of_the_conformance_suite(kind: type[RelightSaver]) -> None:
    async def saver() -> AsyncIterator[RelightSaver]:
        yield kind()

    report = asyncio.run(validate(checkpointer_test(kind.__name__)(saver)))
    results = report.results
    assert [failure for result in results.values() for failure in result.failures] == []
    # The suite calls 58 of 58 "FULL" when it does not detect the rest.
    assert {name: result.tests_passed for name, result in results.items()} == {
        "put": 17,
        "put_writes": 10,
        "get_tuple": 10,
        "list": 16,
        "delete_thread": 5,
        "delete_for_runs": 7,
        "copy_thread": 8,
        "prune": 8,
    }
    assert sum(result.tests_passed for result in results.values()) == 58 + 23
    assert sum(result.tests_skipped + result.tests_failed for result in results.values()) == 0


def test_killed_at_every_point_no_finished_node_is_run_again(tmp_path: Path) -> None:
    program = Path(__file__).with_name("langgraph_program.py")
    last = 20
    ran = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "log"), str(last)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    ends = [line.split() for line in ran.stdout.splitlines()]
    kills = 0
    for point, first, second in ends:
        kills += first == "-9"
        assert (first, second) in (("-9", "0"), ("0", "0")), ran.stderr
        finished: set[str] = set()
        effects: set[str] = set()
        for line in (tmp_path / f"log-{point}").read_text().splitlines():
            event, *nodes = line.split()
            if event == "finished":
                finished.update(nodes)
            elif event == "effect":
                assert nodes[0] not in finished, f"killed at {point}, repeated {nodes[0]}"
                effects.add(nodes[0])
        assert effects == {"plan", "left", "right", "join", "send"}
    # The last points are behind the end of the graph: it was killed at all the others.
    assert 15 <= kills < last
    assert [end[0] for end in ends] == [str(point) for point in range(1, last + 1)]


def test_an_effect_that_is_a_step_is_not_repeated_when_its_node_is_cut_off(tmp_path: Path) -> None:
    effects = tmp_path / "effects"

    def run(killed_in: int | None) -> None:
        def send(state: Lines, config: RunnableConfig) -> Lines:
            step = config["metadata"]["langgraph_step"]
            task = relight.current_task()
            assert isinstance(task, relight.Task)
            with effects.open("a") as file:
                task.step(f"send-{step}", file.write, f"sent {step}\n", repeat="once")
            if step == killed_in:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"lines": [f"sent {step}"]}

        builder = StateGraph(Lines).add_node("one", send).add_node("two", send)
        builder.add_edge(START, "one").add_edge("one", "two")
        saver = RelightSaver()
        graph = builder.compile(checkpointer=saver)
        with relight.task("t"):
            given: Any = {"lines": []} if saver.get_tuple(config_of("t")) is None else None
            state = graph.invoke(given, config_of("t"), durability="sync")
        assert state == {"lines": ["sent 1", "sent 2"]}

    for killed_in in (1, 2, None):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run(killed_in)
                code = 0
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == (0 if killed_in is None else -signal.SIGKILL)
    assert effects.read_text() == "sent 1\nsent 2\n"


def test_the_records_have_the_layout_of_the_guide() -> None:
    saver = RelightSaver()
    checkpoint = empty_checkpoint()
    first = saver.put(config_of("a/b é", "sub|x:1"), checkpoint, METADATA, {})
    second = put(saver, first, text="new")
    saver.put_writes(second, [("text", b"\xff"), (ERROR, None)], "task/1", "~path")

    under = "langgraph/a%2Fb%20%C3%A9/sub%7Cx%3A1/"
    newest = second["configurable"]["checkpoint_id"]
    there = records()
    assert list(there) == [
        f"{under}checkpoint/{checkpoint['id']}",
        f"{under}checkpoint/{newest}",
        f"{under}writes/{newest}/task%2F1",
    ]
    type, data = saver.serde.dumps_typed(checkpoint)
    assert there[f"{under}checkpoint/{checkpoint['id']}"] == {
        "parent": None,
        "checkpoint": {"type": type, "base64": base64.b64encode(data).decode()},
        "metadata": {"type": "json", "json": METADATA},
    }
    assert there[f"{under}checkpoint/{newest}"]["parent"] == checkpoint["id"]
    assert there[f"{under}writes/{newest}/task%2F1"] == {
        "path": "~path",
        "writes": [
            [-1, ERROR, {"type": "null", "base64": ""}],
            [0, "text", {"type": "bytes", "base64": "/w=="}],
        ],
    }
    found = saver.get_tuple(config_of("a/b é", "sub|x:1"))
    assert found is not None
    assert (found.config, found.parent_config) == (second, first)
    assert found.pending_writes == [("task/1", ERROR, None), ("task/1", "text", b"\xff")]


def test_what_is_serialised_as_json_is_kept_as_json() -> None:
    saver = RelightSaver(serde=JsonSerde())
    kept = put(saver, config_of("t"), text="plain", nothing=None)
    saver.put_writes(kept, [("text", {"a": [1]})], "task")
    checkpoint, writes = records().values()
    assert checkpoint["checkpoint"]["json"]["channel_values"] == {"text": "plain", "nothing": None}
    assert writes["writes"] == [[0, "text", {"type": "json", "json": {"a": [1]}}]]
    found = saver.get_tuple(kept)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"text": "plain", "nothing": None}
    assert found.pending_writes == [("task", "text", {"a": [1]})]


@pytest.mark.parametrize("value", [2**64 - 1, 2**64, -(2**63) - 1, 0.1, float("inf")])
def test_numbers_in_json_are_kept_exactly(value: float) -> None:
    saver = RelightSaver(serde=JsonSerde())
    found = saver.get_tuple(put(saver, config_of("t"), number=value))
    assert found is not None
    assert found.checkpoint["channel_values"] == {"number": value}


def test_a_thread_of_the_package_for_typescript_is_listed_read_and_deleted() -> None:
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", "HumanMessage"],
        "kwargs": {"content": "hello"},
    }
    checkpoint = {
        "v": 4,
        "id": "1f0-2",
        "ts": "2026-01-01T00:00:00.000Z",
        "channel_values": {"messages": [message]},
        "channel_versions": {"messages": 2},
        "versions_seen": {"__input__": {}},
    }
    saved = {
        "parent": "1f0-1",
        "checkpoint": {"type": "json", "json": checkpoint},
        "metadata": {"type": "json", "json": {"source": "loop", "step": 1, "run_id": "r"}},
    }
    write = [0, "messages", {"type": "json", "json": [message]}]
    relight.records.put("langgraph/ts//checkpoint/1f0-2", saved)
    relight.records.put("langgraph/ts//writes/1f0-2/task", {"path": "", "writes": [write]})

    saver = RelightSaver()
    (found,) = saver.list({"configurable": {"thread_id": "ts"}}, filter={"step": 1})
    assert found.checkpoint["channel_values"] == {"messages": [HumanMessage("hello")]}
    assert found.pending_writes == [("task", "messages", [HumanMessage("hello")])]
    assert found.parent_config == config_of("ts", id="1f0-1")
    assert saver.get_next_version(2, None) == 3
    saver.copy_thread("ts", "copy")
    saver.copy_thread("ts", "third")
    saver.delete_thread("ts")
    assert {record.split("/")[1] for record in records()} == {"copy", "third"}
    saver.delete_for_runs(["r"])
    assert records() == {}


def test_a_write_that_is_there_stays_and_an_error_is_replaced() -> None:
    saver = RelightSaver()
    kept = put(saver, config_of("t"))
    saver.put_writes(kept, [("a", 1), (ERROR, "first")], "task", "path")
    saver.put_writes(kept, [("a", 2), (ERROR, "second"), ("b", 3)], "task")
    saver.put_writes(kept, [(INTERRUPT, "asked")], "task")
    found = saver.get_tuple(kept)
    assert found is not None
    assert found.pending_writes == [
        ("task", INTERRUPT, "asked"),
        ("task", ERROR, "second"),
        ("task", "a", 1),
        ("task", "b", 3),
    ]
    (writes,) = records("langgraph/t//writes/").values()
    assert writes["path"] == "path"


def test_writes_of_one_task_at_the_same_time_are_all_kept() -> None:
    saver = RelightSaver()
    kept = put(saver, config_of("t"))
    start = threading.Barrier(6)

    def write(n: int) -> None:
        start.wait(30)
        # Only the last position is a new one, as in a list that grows.
        saver.put_writes(kept, [(ERROR, "same")] * n + [(f"c{n}", n)], "task")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = saver.get_tuple(kept)
    assert found is not None and found.pending_writes is not None
    assert [write[1] for write in found.pending_writes] == [ERROR, *(f"c{n}" for n in range(6))]


def test_writes_that_others_are_always_ahead_of_are_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver = RelightSaver()
    kept = put(saver, config_of("t"))
    monkeypatch.setattr(relight.Records, "put", lambda self, *args, **options: False)
    with pytest.raises(relight.Conflict) as conflict:
        saver.put_writes(kept, [("a", 1)], "task")
    assert (conflict.value.code, conflict.value.exit) == ("conflict", 75)


def test_pending_writes_are_in_the_order_in_which_tasks_are_applied() -> None:
    saver = RelightSaver()
    kept = put(saver, config_of("t"))
    saver.put_writes(kept, [("x", 4), ("x", 5)], "a", "~2")
    saver.put_writes(kept, [("x", 3)], "c", "~1")
    saver.put_writes(kept, [("x", 2)], "b", "~1")
    saver.put_writes(kept, [("x", 1)], "d")
    found = saver.get_tuple(kept)
    assert found is not None and found.pending_writes is not None
    assert [value for _, _, value in found.pending_writes] == [1, 2, 3, 4, 5]


def test_long_threads_are_listed_page_by_page() -> None:
    saver = RelightSaver()
    config, ids = config_of("long"), []
    for step in range(120):
        checkpoint = empty_checkpoint()
        metadata: CheckpointMetadata = {"source": "loop", "step": step}
        config = saver.put(config, checkpoint, metadata, {})
        ids.append(checkpoint["id"])
    put(saver, config_of("long", "sub"))

    def listed(*args: Any, **options: Any) -> list[str]:
        return [found.checkpoint["id"] for found in saver.list(*args, **options)]

    newest_first = ids[::-1]
    whole_thread: RunnableConfig = {"configurable": {"thread_id": "long"}}
    assert listed(config_of("long")) == newest_first
    assert len(listed(whole_thread)) == 121
    assert len(listed(None)) == 121
    assert listed(config_of("long"), limit=60) == newest_first[:60]
    assert listed(config_of("long"), limit=0) == []
    for config in (config_of("long"), whole_thread):
        assert listed(config, before=config_of("long", id=ids[2])) == [ids[1], ids[0]]
    assert listed(config_of("long"), filter={"step": 3}, limit=1) == [ids[3]]
    assert listed(config_of("long", id=ids[7])) == [ids[7]]

    async def listed_async() -> list[str]:
        return [found.checkpoint["id"] async for found in saver.alist(config_of("long"), limit=60)]

    assert asyncio.run(listed_async()) == newest_first[:60]


def test_a_graph_that_asks_a_person_continues_with_another_saver() -> None:
    asked = []

    def ask(state: Lines) -> Lines:
        asked.append(state["lines"])
        return {"lines": [interrupt("go on?")]}

    builder = StateGraph(Lines).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    config = config_of("t")
    first = builder.compile(checkpointer=RelightSaver())
    first.invoke({"lines": ["begun"]}, config)

    async def resume() -> Any:
        second = builder.compile(checkpointer=RelightSaver())
        state = await second.aget_state(config)
        assert [each.value for each in state.interrupts] == ["go on?"]
        return await second.ainvoke(Command(resume="yes"), config, durability="sync")

    assert asyncio.run(resume()) == {"lines": ["begun", "yes"]}
    assert asked == [["begun"], ["begun"]]
    assert len(list(first.get_state_history(config))) == 3


def added(lines: list[str], writes: Sequence[list[str]]) -> list[str]:
    return lines + [line for write in writes for line in write]


class DeltaLines(TypedDict):
    lines: Annotated[list[str], DeltaChannel(added, list, snapshot_frequency=4)]


@pytest.mark.parametrize("turns", [3, 5, 9])
def test_delta_channels_are_rebuilt_also_after_a_prune(turns: int) -> None:
    def node(state: DeltaLines) -> DeltaLines:
        return {"lines": [f"after {len(state['lines'])}"]}

    builder = StateGraph(DeltaLines).add_node("node", node).add_edge(START, "node")
    saver = RelightSaver()
    graph = builder.compile(checkpointer=saver)
    config = config_of("t")
    lines: list[str] = []
    for n in range(turns):
        lines += [f"turn {n}", f"after {2 * n + 1}"]
        graph.invoke({"lines": [f"turn {n}"]}, config, durability="sync")
    assert graph.get_state(config).values == {"lines": lines}
    before = len(list(saver.list(config)))
    saver.prune(["t"])
    assert graph.get_state(config).values == {"lines": lines}
    # Four updates and their steps, of 9, 15 and 27.
    assert len(list(saver.list(config))) < min(before, 9)
    assert asyncio.run(graph.aget_state(config)).values == {"lines": lines}


def test_secrets_of_the_configuration_are_not_kept() -> None:
    saver = RelightSaver()
    config = config_of("t")
    config["configurable"]["api_key"] = "sk-proj-Zx81kQmT0aVbN47cYw39dLrEfGhJuP26"
    config["configurable"]["model"] = "small"
    put(saver, config)
    (kept,) = records().values()
    assert kept["metadata"]["json"]["model"] == "small"
    assert "Zx81kQmT0aVbN47" not in json.dumps(kept["metadata"])


def test_a_saver_of_another_store_keeps_its_threads_there(tmp_path: Path) -> None:
    with relight.open(home=tmp_path / "other") as other:
        kept = put(RelightSaver(other), config_of("t"))
        assert len(other.records.list("langgraph/").items) == 1
        assert RelightSaver().get_tuple(kept) is None
        assert records() == {}


def test_a_wrong_call_says_what_is_missing() -> None:
    saver = RelightSaver()
    with pytest.raises(ValueError, match="checkpoint_id"):
        saver.put_writes(config_of("t"), [("a", 1)], "task")
    with pytest.raises(ValueError, match="strategy 'newest'"):
        saver.prune(["t"], strategy="newest")
