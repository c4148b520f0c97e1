"""The OpenAI Agents SDK in tasks and sessions, with stub models and without the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from copy import copy
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents")

import pydantic
from agents import (
    Agent,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    Model,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    RetryPolicyContext,
    Runner,
    Session,
    SessionSettings,
    ToolOutputImage,
    Usage,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.exceptions import ModelBehaviorError, ModelTimeoutError, UserError
from agents.items import TResponseOutputItem, TResponseStreamEvent
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import Response, ResponseFailedEvent, ResponseReasoningItem
from openai_agents_refund import happened, in_process, message, side_by_side

import relight
from relight.openai_agents import RelightSession, durable_model, durable_tools

set_tracing_disabled(True)

UNINTERRUPTED = ["request 1", "look_up", "request 2", "refund", "request 3"]


class Interrupted(BaseException):
    """Leaves a task interrupted, as a kill does."""


def in_task(work: Callable[[relight.AsyncTask], Awaitable[Any]], *, times: int = 1) -> list[Any]:
    """What the work gives in a task that is interrupted after each time but the last."""
    given: list[Any] = []

    async def main(is_last: bool) -> None:
        async with relight.task("t") as task:
            given.append(await work(task))
            if not is_last:
                raise Interrupted

    for _ in range(times - 1):
        with pytest.raises(Interrupted):
            asyncio.run(main(False))
    asyncio.run(main(True))
    return given


async def cut_off(run: Coroutine[Any, Any, Any], steps_done: int) -> None:
    """Cancels the run once so many steps of the task are recorded."""
    running = asyncio.ensure_future(run)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while (await shown("t"))["steps_done"] < steps_done:
        assert not running.done() and loop.time() < deadline
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    raise Interrupted


async def shown(task: str) -> Any:
    return await relight.default().call_async("task.show", task=task)


def steps(task: str = "t") -> list[tuple[str, int]]:
    items = relight.call("step.list", task=task)["items"]
    return [(step["name"], step["occurrence"]) for step in items]


def call(tool: str, id: str, **arguments: Any) -> TResponseOutputItem:
    return function_call(tool, arguments, call_id=id)


def said(text: str = "done") -> list[TResponseOutputItem]:
    return [assistant_message(text)]


# Sessions.


async def texts(session: RelightSession, limit: int | None = None) -> list[Any]:
    return [item.get("content") for item in await session.get_items(limit)]


async def add(session: RelightSession, *given: str) -> None:
    await session.add_items([message(text) for text in given])


def test_a_session_gives_its_items_in_order_and_the_newest_within_a_limit() -> None:
    async def main() -> None:
        session = RelightSession("customer/42 ü")
        assert isinstance(session, Session)
        await add(session, "a", "b")
        await add(session, "c")
        await session.add_items([])
        await add(session, "d", "e")
        await add(RelightSession("customer/42 ü/2"), "another")
        again = RelightSession("customer/42 ü")
        assert await texts(again) == ["a", "b", "c", "d", "e"]
        assert await texts(again, 3) == ["c", "d", "e"]
        assert await texts(again, 1) == ["e"]
        assert await texts(again, 0) == []
        limited = RelightSession("customer/42 ü", session_settings=SessionSettings(limit=2))
        assert (await texts(limited), await texts(limited, 9)) == (["d", "e"], list("abcde"))

    asyncio.run(main())


def test_the_newest_item_is_taken_away_again_and_again() -> None:
    async def main() -> None:
        session = RelightSession("s")
        assert await session.pop_item() is None
        await add(session, "a", "b")
        await add(session, "c")
        assert [await session.pop_item() for _ in range(2)] == [message("c"), message("b")]
        await add(session, "d")
        assert await texts(session) == ["a", "d"]
        assert await texts(session, 2) == ["a", "d"]
        taken = [await session.pop_item() for _ in range(3)]
        assert taken == [message("d"), message("a"), None]
        await add(session, "e")
        assert await texts(session) == ["e"]

    asyncio.run(main())


def test_a_cleared_session_is_empty_and_others_are_not() -> None:
    async def main() -> None:
        for name in ("s", "s/2"):
            await add(RelightSession(name), "a", "b")
        await RelightSession("s").clear_session()
        assert await texts(RelightSession("s")) == []
        assert await texts(RelightSession("s/2")) == ["a", "b"]
        assert [item.name for item in relight.records.all("openai-agents/s/")] == []
        await add(RelightSession("s"), "c")
        assert await texts(RelightSession("s")) == ["c"]

    asyncio.run(main())


def test_processes_that_use_one_session_at_once_lose_nothing(tmp_path: Path) -> None:
    side_by_side(tmp_path, "add", ["x", "y"])
    with relight.open(tmp_path / "home") as store:
        added = asyncio.run(texts(RelightSession("shared", store=store)))
    for name in ("x", "y"):
        of_one = [text for text in added if text.startswith(name)]
        assert of_one == [f"{name} {n} {part}" for n in range(20) for part in "ab"]
    # What was added together stays together.
    assert all(a[:-1] == b[:-1] for a, b in zip(added[::2], added[1::2], strict=True))

    side_by_side(tmp_path, "pop", ["v", "w"])
    taken = [item for name in ("v", "w") for item in json.loads((tmp_path / name).read_text())]
    assert sorted(item["content"] for item in taken) == sorted(added[40:])


# The base64 of "password=hunter2-hunter3 for run 17", and what a model thought, encrypted.
FILE = "cGFzc3dvcmQ9aHVudGVyMi1odW50ZXIzIGZvciBydW4gMTc="
THOUGHT = "gAAAAACnF4qZRMVJ_GLqfhOjz9iK5W2wVLUKOnw-EHrF9jr0hhWFOuR3a85s-8inGxrz-eEP_e6l_ldgX6nM="

ID = "68a7c1f2d4b08190a3c5e7f90b1d2c3e0f4a5b6c7d8e9f01"


def test_opaque_data_of_a_session_comes_back_whole_and_secrets_do_not() -> None:
    image = {"type": "input_image", "image_url": f"data:text/plain;base64,{FILE}"}
    opaque: list[Any] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": THOUGHT},
        {"role": "user", "content": [{"type": "input_file", "file_data": FILE}]},
        {"role": "user", "content": [image]},
        {"type": "function_call", "id": f"fc_{ID}", "call_id": "call_i0VpEBOWfbZAVaBSo63bbH6x"},
        {"role": "assistant", "id": f"msg_{ID}", "content": []},
        {"role": "user", "content": [{"hex": {"hex": "a"}}, {"hex": THOUGHT[:4], "b": 1}]},
    ]

    async def main() -> None:
        session = RelightSession("s")
        await session.add_items(opaque)
        assert await session.get_items() == opaque
        await add(session, "password=hunter2-hunter3 for run 17")
        assert "hunter2" not in str(await session.get_items(1))

    asyncio.run(main())


def test_a_run_continues_the_conversation_of_a_session() -> None:
    model = ScriptedModel([said("Hello Ann."), said("You are Ann.")])
    agent = Agent(name="a", model=model)

    async def main() -> None:
        await Runner.run(agent, "I am Ann.", session=RelightSession("s"))
        await Runner.run(agent, "Who am I?", session=RelightSession("s"))

    asyncio.run(main())
    assert model.last_call is not None
    asked = [item["content"] for item in model.last_call.input]
    assert (asked[0], asked[2]) == ("I am Ann.", "Who am I?")
    assert asked[1][0]["text"] == "Hello Ann."


def test_in_a_task_a_session_is_read_as_before_and_nothing_is_added_or_taken_twice() -> None:
    asyncio.run(add(RelightSession("s"), "before"))

    async def work(task: relight.AsyncTask) -> Any:
        session = RelightSession("s", task=task)
        read = await texts(session)
        await add(session, "a", "b")
        taken = await session.pop_item()
        # Somebody else.
        await add(RelightSession("s"), "between")
        await add(session, "c")
        return read, taken

    first, again = in_task(work, times=2)
    assert first == again == (["before"], message("b"))
    there = asyncio.run(texts(RelightSession("s")))
    assert there == ["before", "a", "between", "c", "between"]


def test_an_add_that_was_cut_off_after_its_write_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = relight.Records.put_async

    async def cut_off(self: relight.Records, *args: Any, **kwargs: Any) -> bool:
        await put(self, *args, **kwargs)
        await add(RelightSession("s"), "somebody else's")
        raise Interrupted

    async def work(task: relight.AsyncTask) -> None:
        # The first use of the session in this task.
        await add(RelightSession("s", task=task), "mine")

    def cut_off_once(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        return cut_off(*args, **kwargs)

    home = relight.default().home
    monkeypatch.setattr(relight.Records, "put_async", cut_off_once)
    with pytest.raises(Interrupted):
        in_task(work)
    monkeypatch.setenv("RELIGHT_HOME", str(home))
    in_task(work)
    assert asyncio.run(texts(RelightSession("s"))) == ["mine", "somebody else's"]


def test_an_add_that_others_are_always_ahead_of_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def put(self: relight.Records, *args: Any, **options: Any) -> bool:
        return False

    monkeypatch.setattr(relight.Records, "put_async", put)
    with pytest.raises(relight.Conflict) as conflict:
        asyncio.run(add(RelightSession("s"), "mine"))
    assert (conflict.value.code, conflict.value.exit) == ("conflict", 75)


# Runs.


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_happened(
    tmp_path: Path, streamed: bool
) -> None:
    undisturbed = in_process(tmp_path / "undisturbed", streamed=streamed)
    assert undisturbed["output"] == "It is refunded 250 of order 9."
    assert len(undisturbed["items"]) == 6
    disturbed = tmp_path / "disturbed"
    for what in UNINTERRUPTED:
        assert in_process(disturbed, f"{what} begins", streamed=streamed) is None
        assert in_process(disturbed, f"{what} is done", streamed=streamed) is None
    assert in_process(disturbed, streamed=streamed) == undisturbed
    check_each_was_cut_off_once(happened(disturbed))


def test_a_run_that_is_killed_at_every_point_of_every_step_ends_the_same(tmp_path: Path) -> None:
    undisturbed = in_process(tmp_path / "undisturbed")
    disturbed = tmp_path / "disturbed"
    # Before the work of a step, after it, and when it is recorded: then the next one is reached.
    points, kills = cycle([1, 2, 3]), 0
    # More often than a task is started without force.
    while (given := in_process(disturbed, next(points), force=True)) is None:
        kills += 1
    assert given == undisturbed
    # Three requests, two calls of tools, and the session: read once, added to with each turn.
    assert kills == 3 * (3 + 2 + 5)
    check_each_was_cut_off_once(happened(disturbed))


def check_each_was_cut_off_once(seen: list[str]) -> None:
    """What was done but not recorded happened again under the same key, and nothing else did."""
    lines = ["refund" if line.startswith("refund ") else line for line in seen]
    assert lines == [line for line in UNINTERRUPTED for _ in range(2)]
    assert len({line for line in seen if line.startswith("refund ")}) == 1


def test_a_tool_of_rule_once_that_was_cut_off_blocks_the_task(tmp_path: Path) -> None:
    rule = {"refund": "once"}
    assert in_process(tmp_path, "refund is done", repeat=rule) is None
    given = in_process(tmp_path, repeat=rule)
    assert given == {"refused": ["InDoubt", "InDoubt", "Refused"]}
    assert [line.split()[0] for line in happened(tmp_path)].count("refund") == 1
    with relight.open(tmp_path / "home") as store:
        task = store.call("task.show", task="order-9")
    assert task["status"] == "blocked"
    assert task["in_doubt"][0].startswith("refund call_")


@pytest.mark.parametrize("found", ["happened", "did not happen"])
def test_verify_finds_out_whether_a_tool_call_happened(tmp_path: Path, found: str) -> None:
    assert in_process(tmp_path, "refund is done", verify=found) is None
    output = in_process(tmp_path, verify=found)["output"]
    times = [line.split()[0] for line in happened(tmp_path)].count("refund")
    if found == "happened":
        assert (output, times) == ("It is found 250 of order 9.", 1)
    else:
        assert (output, times) == ("It is refunded 250 of order 9.", 2)


def test_a_run_is_given_again_without_asking_the_model_or_calling_the_tools() -> None:
    fetched: list[str] = []

    @function_tool
    def fetch(url: str) -> str:
        fetched.append(url)
        return url.upper()

    usage = Usage(requests=1, input_tokens=7, total_tokens=7)
    model = ScriptedModel([ModelStep([call("fetch", "c1", url="a")], usage=usage), said("A")])

    async def work(task: relight.AsyncTask) -> Any:
        tools = durable_tools(task, [fetch])
        agent = Agent(name="a", model=durable_model(task, model), tools=tools)
        return await Runner.run(agent, "Fetch a.")

    first, again = in_task(work, times=2)
    assert (first.final_output, again.final_output) == ("A", "A")
    assert first.to_input_list() == again.to_input_list()
    assert first.raw_responses == again.raw_responses
    assert first.context_wrapper.usage == again.context_wrapper.usage
    assert (len(model.calls), fetched) == (2, ["a"])
    assert steps() == [("model", 1), ("fetch c1", 1), ("model", 2)]


# Tools.


def use(tool: Any, *asked: list[TResponseOutputItem], times: int = 2, **options: Any) -> list[Any]:
    """What the model is told of its calls of a tool, in a run and in one that is given again."""
    scripted = ScriptedModel([*asked, said()])

    async def work(task: relight.AsyncTask) -> Any:
        tools = durable_tools(task, [tool], **options)
        agent = Agent(name="a", model=durable_model(task, scripted), tools=tools)
        result = await Runner.run(agent, "Go.")
        return [item.get("output") for item in result.to_input_list() if "output" in item]

    return in_task(work, times=times)


def test_a_tool_call_that_failed_is_told_to_the_model_and_not_made_again() -> None:
    calls: list[int] = []

    @function_tool
    def fails() -> str:
        calls.append(1)
        raise OSError("no route")

    first, again = use(fails, [call("fails", "c1")])
    assert first == again
    assert "error occurred" in first[0]
    assert calls == [1]


def test_a_tool_call_that_took_too_long_is_told_to_the_model_and_not_made_again() -> None:
    calls: list[int] = []

    @function_tool(timeout=0.05)
    async def hangs() -> None:
        calls.append(1)
        await asyncio.Event().wait()

    first, again = use(hangs, [call("hangs", "c1")])
    assert first == again
    assert "timed out" in first[0]
    assert calls == [1]


def test_a_failure_that_ends_the_run_is_tried_again() -> None:
    calls: list[int] = []

    @function_tool(failure_error_function=None)
    def fails_first() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no route")
        return "reached"

    scripted = ScriptedModel([[call("fails_first", "c1")], said()])

    async def work(task: relight.AsyncTask) -> Any:
        tools = durable_tools(task, [fails_first])
        agent = Agent(name="a", model=durable_model(task, scripted), tools=tools)
        with pytest.raises(UserError, match="no route"):
            await Runner.run(agent, "Go.")
        raise Interrupted

    with pytest.raises(Interrupted):
        in_task(work)
    assert use(fails_first, times=1) == [["reached"]]


def test_block_in_a_tool_that_passes_exceptions_on_blocks_the_task() -> None:
    @function_tool(failure_error_function=None)
    def ask() -> str:
        raise relight.Block("ask Ann")

    use(ask, [call("ask", "c1")], times=1)
    task = relight.call("task.show", task="t")
    assert (task["status"], task["reason"]) == ("blocked", "ask Ann")


def test_calls_side_by_side_find_their_own_results_in_any_order() -> None:
    drawn: list[int] = []

    @function_tool
    async def draw(n: int) -> str:
        drawn.append(n)
        if drawn.count(n) == 1 and n % 2 == 1:
            await asyncio.Event().wait()
        return f"picture {n}"

    scripted = ScriptedModel([[call("draw", f"c{n}", n=n) for n in range(4)], said()])

    async def work(task: relight.AsyncTask) -> Any:
        tools = durable_tools(task, [draw])
        agent = Agent(name="a", model=durable_model(task, scripted), tools=tools)
        run = Runner.run(agent, "Go.")
        if not drawn:
            # The answer of the model, and two pictures.
            await cut_off(run, 3)
        return [item.get("output") for item in (await run).to_input_list() if "output" in item]

    with pytest.raises(Interrupted):
        in_task(work)
    # The two that did not end stay in doubt.
    assert sorted(relight.call("task.show", task="t")["in_doubt"]) == ["draw c1", "draw c3"]
    assert in_task(work) == [[f"picture {n}" for n in range(4)]]
    assert sorted(drawn) == [0, 1, 1, 2, 3, 3]


class Weather(pydantic.BaseModel):
    city: str
    degrees: float


def test_results_are_json_and_the_same_in_a_replay() -> None:
    results: list[Any] = [
        Weather(city="Rome", degrees=31.5),
        (1, "two"),
        ToolOutputImage(image_url=f"data:text/plain;base64,{FILE}"),
        [ToolOutputImage(file_id="f1"), {"type": "text", "text": "a picture"}],
        None,
        Path("/somewhere"),
    ]

    @function_tool
    def result(n: int) -> Any:
        return results[n]

    first, again = use(result, [call("result", f"c{n}", n=n) for n in range(len(results))])
    assert first == again
    assert first[0] == "{'city': 'Rome', 'degrees': 31.5}"
    assert first[1] == "[1, 'two']"
    assert first[2][0] == {
        "type": "input_image",
        "image_url": f"data:text/plain;base64,{FILE}",
    }
    assert [part["type"] for part in first[3]] == ["input_image", "input_text"]
    assert first[5] == "/somewhere"


def test_the_idempotency_key_is_the_same_in_a_plain_function_and_for_each_call() -> None:
    keys: list[str] = []

    @function_tool
    def send() -> None:
        keys.append(relight.idempotency_key())

    use(send, [call("send", "c1"), call("send", "c2")])
    assert len(set(keys)) == len(keys) == 2


def test_a_custom_tool_is_recorded_too() -> None:
    patches: list[str] = []

    def apply(context: Any, patch: str) -> str:
        patches.append(patch)
        return f"{patch} applied"

    tool = CustomTool(name="apply", description="", on_invoke_tool=apply)
    given = {"type": "custom_tool_call", "call_id": "c1", "name": "apply", "input": "p"}
    step = pydantic.TypeAdapter(list[TResponseOutputItem]).validate_python([given])
    assert use(tool, step) == [["p applied"], ["p applied"]]
    assert patches == ["p"]


def test_tools_that_cannot_be_recorded_are_refused_and_those_of_the_provider_are_not() -> None:
    async def work(task: relight.AsyncTask) -> None:
        search = WebSearchTool()
        assert durable_tools(task, [search]) == [search]
        with pytest.raises(TypeError, match="local_shell cannot be recorded"):
            durable_tools(task, [LocalShellTool(executor=lambda request: "")])

    in_task(work)


def test_the_tool_itself_is_not_changed() -> None:
    @function_tool(timeout=5)
    async def fetch() -> str:
        return "fetched"

    async def work(task: relight.AsyncTask) -> None:
        (durable,) = durable_tools(task, [fetch])
        assert isinstance(durable, FunctionTool)
        assert durable.params_json_schema == fetch.params_json_schema
        assert durable.on_invoke_tool is not fetch.on_invoke_tool
        assert fetch.timeout_seconds == 5

    in_task(work)


def test_ids_of_calls_may_be_longer_than_names_of_steps() -> None:
    @function_tool
    def number(n: int) -> int:
        return n

    asked = [call("number", "c" * 300 + str(n), n=n) for n in range(2)]
    assert use(number, asked) == [["0", "1"]] * 2
    assert len({name for name, _ in steps()}) == 3


# Agents as tools.


def test_agents_that_work_side_by_side_get_their_own_answers_again() -> None:
    asked: list[str] = []
    told: list[str] = []

    def answers(call: ModelCall) -> list[TResponseOutputItem]:
        topic = call.input[0]["content"]
        asked.append(topic)
        if len(call.input) == 1:
            # The same id in every conversation.
            return [function_call("look", {"topic": topic}, call_id="c1")]
        return said(f"about {call.input[-1]['output']}")

    @function_tool
    async def look(topic: str) -> str:
        told.append(topic)
        if topic == "y" and told.count(topic) == 1:
            await asyncio.Event().wait()
        return f"<{topic}>"

    topics = [function_call("ask", {"input": topic}, call_id=topic) for topic in ("x", "y", "z")]
    outer = ScriptedModel([topics, said()])
    inner = ScriptedModel([ModelStep.respond(answers) for _ in range(20)])

    async def work(task: relight.AsyncTask) -> Any:
        expert: Agent[Any] = Agent(
            name="expert",
            model=durable_model(task, inner),
            tools=durable_tools(task, [look]),
        )
        ask = expert.as_tool("ask", "Asks an expert.")
        agent = Agent(
            name="a", model=durable_model(task, outer), tools=durable_tools(task, [ask])
        )
        run = Runner.run(agent, "Go.")
        if not told:
            # The answer of the outer model, one of the inner model for y, and all of x and z.
            await cut_off(run, 2 + 2 * 4)
        return [item.get("output") for item in (await run).to_input_list() if "output" in item]

    with pytest.raises(Interrupted):
        in_task(work)
    assert in_task(work) == [["about <x>", "about <y>", "about <z>"]]
    assert {topic: told.count(topic) for topic in "xyz"} == {"x": 1, "y": 2, "z": 1}
    assert {topic: asked.count(topic) for topic in "xyz"} == {"x": 2, "y": 2, "z": 2}
    assert ("ask x/model", 2) in steps()
    assert ("ask x/look c1", 1) in steps()


def test_an_agent_as_a_tool_that_waits_for_an_approval_continues_after_it() -> None:
    deleted: list[str] = []
    approved: list[str | None] = []

    @function_tool(needs_approval=True)
    def delete(name: str) -> str:
        deleted.append(name)
        return f"{name} is deleted"

    outer = ScriptedModel([[call("ask", "c1", input="Delete a.")], said()])
    inner = ScriptedModel([[call("delete", "d1", name="a")], said("deleted")])

    async def work(task: relight.AsyncTask) -> Any:
        expert: Agent[Any] = Agent(
            name="expert",
            model=durable_model(task, inner),
            tools=durable_tools(task, [delete]),
        )
        ask = expert.as_tool("ask", "Asks an expert.")
        agent = Agent(
            name="a", model=durable_model(task, outer), tools=durable_tools(task, [ask])
        )
        result = await Runner.run(agent, "Go.")
        while result.interruptions:
            state = result.to_state()
            for waiting in result.interruptions:
                approved.append(waiting.tool_name)
                state.approve(waiting)
            result = await Runner.run(agent, state)
        return [item.get("output") for item in result.to_input_list() if "output" in item]

    assert in_task(work, times=2) == [["deleted"], ["deleted"]]
    assert (deleted, approved) == (["a"], ["delete"])


# Answers of models.


class Slow(Model):
    """Hangs at its first call."""

    def __init__(self) -> None:
        self.calls = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self.calls += 1
        if self.calls == 1:
            await asyncio.Event().wait()
        return ModelResponse(output=said(), usage=Usage(), response_id=None)

    async def stream_response(
        self, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        if self.calls == 0:
            await self.get_response()
        async for event in ScriptedModel([said()]).stream_response(*args, **kwargs):
            yield event


async def plain(agent: Agent[Any]) -> Any:
    return (await Runner.run(agent, "Go.")).final_output


async def streamed(agent: Agent[Any]) -> Any:
    stream = Runner.run_streamed(agent, "Go.")
    async for _ in stream.stream_events():
        pass
    return stream.final_output


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_model_that_took_too_long_is_asked_again_in_the_same_step(is_streamed: bool) -> None:
    kept: list[BaseException] = []
    slow = Slow()

    async def work(task: relight.AsyncTask) -> Any:
        agent = Agent(name="a", model=durable_model(task, slow))
        try:
            await run(agent.clone(model_settings=ModelSettings(timeout=0.05)))
        except ModelTimeoutError as error:
            kept.append(error)
        return await run(agent)

    async def run(agent: Agent[Any]) -> Any:
        return await (streamed(agent) if is_streamed else plain(agent))

    assert in_task(work) == ["done"]
    assert len(kept) == 1
    assert steps() == [("model", 1)]


def test_a_stream_that_reports_a_failure_is_asked_for_again_in_the_same_step() -> None:
    failed: Any = ResponseFailedEvent.construct(
        type="response.failed",
        response=Response.construct(id="r1", status="failed", output=[]),
        sequence_number=0,
    )
    model = ScriptedModel([ModelStep.stream([failed, failed]), said()])
    kept: list[BaseException] = []

    async def work(task: relight.AsyncTask) -> Any:
        agent = Agent(name="a", model=durable_model(task, model))
        try:
            await streamed(agent)
        except ModelBehaviorError as error:
            kept.append(error)
        return await streamed(agent)

    assert in_task(work) == ["done"]
    assert len(kept) == 1
    assert steps() == [("model", 1)]


def test_a_call_of_the_model_that_failed_is_tried_again_by_the_sdk_as_the_same_step() -> None:
    model = ScriptedModel([ConnectionError("reset"), said("one"), said("two")])
    def always(context: RetryPolicyContext) -> bool:
        return True

    retries = ModelRetrySettings(max_retries=1, policy=always)

    async def work(task: relight.AsyncTask) -> Any:
        settings = ModelSettings(retry=retries)
        agent = Agent(name="a", model=durable_model(task, model), model_settings=settings)
        return [await plain(agent) for _ in range(2)]

    assert in_task(work, times=2) == [["one", "two"]] * 2
    assert steps() == [("model", 1), ("model", 2)]


def test_a_task_without_an_event_loop_may_be_given() -> None:
    asked = ScriptedModel([said("one")])
    for _ in range(2):
        task = relight.task("t").start()
        agent = Agent(name="a", model=durable_model(task, asked))
        session = RelightSession("s", task=task)
        assert Runner.run_sync(agent, "Go.", session=session).final_output == "one"
        task.release()
    assert asyncio.run(texts(RelightSession("s"), 2))[0] == "Go."


def test_everything_else_of_a_model_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[object] = []

    class Closes(Slow):
        supports_much = True

        async def _cleanup_on_run_end(self, owner: object) -> None:
            ended.append("run")

        async def close(self) -> None:
            ended.append("all")

    async def work(task: relight.AsyncTask) -> None:
        slow = Closes()
        slow.calls = 1
        model: Any = copy(durable_model(task, slow))
        assert (model.supports_much, hasattr(model, "supports_nothing")) == (True, False)
        await Runner.run(Agent(name="a", model=model), "Go.")
        await model.close()
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        named: Any = durable_model(task, "gpt-5.2")
        assert named.model == "gpt-5.2"

    in_task(work)
    assert ended == ["run", "all"]


def test_an_answer_comes_back_as_it_was_with_what_is_not_known_yet() -> None:
    reasoning = ResponseReasoningItem.construct(
        id="rs_1",
        type="reasoning",
        summary=[],
        encrypted_content=THOUGHT,
        status="pondered",
        mood={"calm": True},
    )
    output = [reasoning, call("fetch", "c1", url="a"), assistant_message("hi")]
    response = ModelResponse(
        output=[],
        usage=Usage(requests=2, input_tokens=3, total_tokens=3),
        response_id=f"resp_{ID}",
        request_id="q1",
        raw_usage={"tokens": 3},
    )
    response.output = output

    class Gives(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            return response

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    async def work(task: relight.AsyncTask) -> ModelResponse:
        ask: Any = durable_model(task, Gives()).get_response
        answer: ModelResponse = await ask(input="x")
        return answer

    for given in in_task(work, times=2):
        assert given == response
        assert given.to_input_items() == response.to_input_items()
        assert [type(item) for item in given.output] == [type(item) for item in output]
