"""Agents of Pydantic AI as tasks, with the package's own models for tests."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterable, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

import pydantic
import pydantic_ai.models
from pydantic_ai import Agent, BinaryContent, BinaryImage, ModelRetry, RunContext
from pydantic_ai.exceptions import ApprovalRequired, UserError
from pydantic_ai.messages import (
    AgentStreamEvent,
    FilePart,
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset
from pydantic_ai_refund import answered, in_process, keys_used, what_happened

import relight
from relight.pydantic_ai import RelightDurability

pydantic_ai.models.ALLOW_MODEL_REQUESTS = False

UNINTERRUPTED = ["request 1", "look_up", "request 2", "refund", "request 3"]


class Interrupted(BaseException):
    """Leaves a task interrupted, as a kill does."""


def twice(work: Callable[[], Any]) -> tuple[Any, Any]:
    """What the work gives in a task, and again after an interruption."""

    async def main(is_last: bool) -> None:
        async with relight.task("t"):
            given.append(await work())
            if not is_last:
                raise Interrupted

    given: list[Any] = []
    with pytest.raises(Interrupted):
        asyncio.run(main(False))
    asyncio.run(main(True))
    return given[0], given[1]


def steps(task: str = "t") -> list[tuple[str, int]]:
    items = relight.call("step.list", task=task)["items"]
    return [(step["name"], step["occurrence"]) for step in items]


def status(task: str) -> str:
    found: str = relight.call("task.show", task=task)["status"]
    return found


class Asked:
    """A model that makes these calls of tools, one list a request, and then gives a text."""

    def __init__(self, *calls: list[ToolCallPart], text: str = "done") -> None:
        self.calls, self.text, self.times = calls, text, 0

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.times += 1
        number = answered(messages)
        if number < len(self.calls):
            return ModelResponse(self.calls[number])
        return ModelResponse([TextPart(self.text)])


def call(tool: str, id: str, **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, tool_call_id=id)


def test_a_run_is_given_again_without_asking_the_model_or_calling_the_tools() -> None:
    calls: list[str] = []
    model = Asked([call("fetch", "c1", url="a")], text="A")
    agent = Agent(FunctionModel(model), name="reporter", capabilities=[RelightDurability()])

    @agent.tool_plain
    def fetch(url: str) -> str:
        calls.append(url)
        return url.upper()

    first, again = twice(lambda: agent.run("Fetch a."))
    assert (first.output, again.output) == ("A", "A")
    assert (model.times, calls) == (2, ["a"])
    assert first.usage == again.usage
    assert (first.run_id, first.conversation_id) == (again.run_id, again.conversation_id)
    assert first.all_messages()[1] == again.all_messages()[1]
    assert steps() == [("reporter model", 1), ("reporter fetch c1", 1), ("reporter model", 2)]
    assert status("t") == "completed"


MOMENTS = [f"{what} {when}" for what in UNINTERRUPTED for when in ("begins", "is done")]


@pytest.mark.parametrize("streamed", [False, True])
def test_killed_at_every_moment_a_run_ends_as_if_nothing_had_happened(
    tmp_path: Path, streamed: bool
) -> None:
    (tmp_path / "undisturbed").mkdir()
    undisturbed = in_process(tmp_path / "undisturbed", streamed=streamed)
    assert undisturbed["output"] == "It is refunded."
    for moment in MOMENTS:
        folder = tmp_path / moment
        folder.mkdir()
        assert in_process(folder, moment, streamed=streamed) is None
        assert in_process(folder, streamed=streamed) == undisturbed
        # Only what was done, but not recorded as done, happened again, under the same key.
        what = moment.removesuffix(" is done")
        again = [what] if what != moment else []
        assert sorted(what_happened(folder)) == sorted(UNINTERRUPTED + again), moment
        assert len(keys_used(folder)) == 1


def test_a_tool_of_rule_once_that_was_cut_off_blocks_the_task(tmp_path: Path) -> None:
    rule = {"refund": "once"}
    assert in_process(tmp_path, "refund is done", repeat=rule) is None
    assert in_process(tmp_path, repeat=rule) == {"refused": "InDoubt", "code": "in_doubt"}
    assert what_happened(tmp_path).count("refund") == 1
    with relight.open(tmp_path / "home") as store:
        assert store.call("task.show", task="order-9")["status"] == "blocked"
        assert store.call("task.show", task="order-9")["in_doubt"] == ["support refund call_2"]
        found = {"task": "order-9", "step": "support refund call_2", "happened": True}
        store.call("step.resolve", **found)
    given = in_process(tmp_path, repeat=rule)
    assert given["messages"][-2]["parts"][0]["content"] is None
    assert given["output"] == "It is refunded."
    assert what_happened(tmp_path).count("refund") == 1


@pytest.mark.parametrize("happened", [True, False])
def test_verify_finds_out_whether_a_tool_call_happened(tmp_path: Path, happened: bool) -> None:
    assert in_process(tmp_path, "refund is done", happened=happened) is None
    given = in_process(tmp_path, happened=happened)
    result = given["messages"][-2]["parts"][0]["content"]
    times = what_happened(tmp_path).count("refund")
    if happened:
        assert (result, times) == ("found 250 of order 9", 1)
    else:
        assert (result, times) == ("refunded 250 of order 9", 2)
    assert given["output"] == "It is refunded."


def test_a_call_that_happened_without_a_result() -> None:
    sent: list[str] = []
    model = Asked([call("send", "c1", to="ann")])
    durability: RelightDurability[object] = RelightDurability(verify={"send": sent_before})
    agent = Agent(FunctionModel(model), name="mailer", capabilities=[durability])

    @agent.tool_plain
    async def send(to: str) -> None:
        sent.append(to)
        raise KeyboardInterrupt

    async def main() -> Any:
        async with relight.task("t"):
            return await agent.run("Send it.")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert asyncio.run(main()).output == "done"
    assert sent == ["ann"]


async def sent_before(to: str) -> object:
    assert to == "ann"
    return relight.HAPPENED


def test_calls_side_by_side_are_steps_of_their_own() -> None:
    drawn: list[int] = []
    all_draw = asyncio.Event()
    model = Asked([call("draw", f"c{n}", n=n) for n in range(3)])
    agent = Agent(FunctionModel(model), name="painter", capabilities=[RelightDurability()])

    @agent.tool_plain
    async def draw(n: int) -> str:
        drawn.append(n)
        if len(drawn) == 3:
            all_draw.set()
        await all_draw.wait()
        return f"picture {n}"

    first, again = twice(lambda: agent.run("Draw."))
    for result in (first, again):
        returned = result.all_messages()[2].parts
        assert [part.content for part in returned] == ["picture 0", "picture 1", "picture 2"]
    assert sorted(drawn) == [0, 1, 2]
    assert {(f"painter draw c{n}", 1) for n in range(3)} <= set(steps())


def test_runs_side_by_side_have_records_of_their_own() -> None:
    asked: list[str] = []
    is_second: dict[str, asyncio.Event] = {}

    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = str(messages[0].parts[0].content)  # type: ignore[union-attr]
        number = answered(messages)
        asked.append(f"{prompt} {number}")
        if number == 0:
            # The first to begin is the last to get its answer.
            if prompt == "a":
                await is_second["b"].wait()
            return ModelResponse([call("note", f"c-{prompt}", text=prompt)])
        is_second[prompt].set()
        return ModelResponse([TextPart(f"{prompt}!")])

    agent = Agent(FunctionModel(model), name="asker", capabilities=[RelightDurability()])

    @agent.tool_plain
    def note(text: str) -> str:
        return text

    async def both() -> list[str]:
        is_second.update(a=asyncio.Event(), b=asyncio.Event())
        results = await asyncio.gather(agent.run("a"), agent.run("b"))
        return [result.output for result in results]

    first, again = twice(both)
    assert first == again == ["a!", "b!"]
    assert sorted(asked) == ["a 0", "a 1", "b 0", "b 1"]


def test_an_agent_inside_of_a_tool_continues_where_it_was() -> None:
    written: list[str] = []

    def write(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        written.append(str(messages[0].parts[0].content))  # type: ignore[union-attr]
        return ModelResponse([TextPart(f"about {written[-1]}")])

    writer = Agent(FunctionModel(write), name="writer", capabilities=[RelightDurability()])
    model = Asked([call("chapter", "c1", topic="cats")], [call("chapter", "c2", topic="dogs")])
    editor = Agent(FunctionModel(model), name="editor", capabilities=[RelightDurability()])
    is_killed = False

    @editor.tool_plain
    async def chapter(topic: str) -> str:
        text = (await writer.run(topic)).output
        if is_killed and topic == "dogs":
            raise Interrupted
        return text

    async def main() -> list[Any]:
        async with relight.task("t"):
            result = await editor.run("Write.")
        parts = [part for message in result.all_messages() for part in message.parts]
        return [part.content for part in parts if isinstance(part, ToolReturnPart)]

    is_killed = True
    with pytest.raises(Interrupted):
        asyncio.run(main())
    is_killed = False
    assert asyncio.run(main()) == ["about cats", "about dogs"]
    assert written == ["cats", "dogs"]
    assert ("editor chapter c2/writer model", 1) in steps()


def test_tokens_go_to_the_handler_while_the_model_streams_and_never_again() -> None:
    seen: list[str] = []

    async def handler(context: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            seen.append(event.event_kind)

    async def model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if answered(messages) == 0:
            yield {0: DeltaToolCall("look", "{}", tool_call_id="c1")}
        else:
            yield "It is "
            yield "there."

    durability: RelightDurability[object] = RelightDurability(event_stream_handler=handler)
    agent = Agent(FunctionModel(stream_function=model), name="guide", capabilities=[durability])

    @agent.tool_plain
    def look() -> str:
        return "there"

    first, again = twice(lambda: agent.run("Where?"))
    assert first.output == again.output == "It is there."
    assert seen.count("part_delta") == 1
    assert seen.count("function_tool_call") == seen.count("function_tool_result") == 1
    assert ("guide function_tool_result c1", 1) in steps()


def test_retries_and_approvals_are_recorded_too() -> None:
    tries: list[str] = []
    model = Asked([call("pay", "c1", amount=5)], [call("pay", "c2", amount=5)])
    agent = Agent(
        FunctionModel(model),
        name="payer",
        output_type=[str, DeferredToolRequests],
        capabilities=[RelightDurability(repeat="once")],
    )

    @agent.tool
    def pay(context: RunContext[object], amount: int) -> str:
        tries.append(str(context.tool_call_id))
        if context.tool_call_id == "c1":
            raise ModelRetry("Ask again.")
        if not context.tool_call_approved:
            raise ApprovalRequired
        return "paid"

    async def work() -> Any:
        asks = await agent.run("Pay.")
        assert isinstance(asks.output, DeferredToolRequests)
        approved = DeferredToolResults(approvals={"c2": True})
        history = asks.all_messages()
        return (await agent.run(message_history=history, deferred_tool_results=approved)).output

    assert twice(work) == ("done", "done")
    assert tries == ["c1", "c2", "c2"]
    assert ("payer:2 pay c2", 1) in steps()


class Verdict(pydantic.BaseModel):
    guilty: bool
    years: int


def test_an_output_of_a_type_and_the_packages_test_model() -> None:
    durable = [RelightDurability[object]()]
    agent = Agent(TestModel(), name="judge", output_type=Verdict, capabilities=durable)
    evidence: list[int] = []

    @agent.tool_plain
    def weigh() -> Verdict:
        evidence.append(1)
        return Verdict(guilty=True, years=3)

    async def work() -> list[Verdict]:
        # Both runs have calls with the same ids.
        return [(await agent.run("Judge.")).output for _ in range(2)]

    first, again = twice(work)
    assert first == again == [Verdict(guilty=False, years=0)] * 2
    assert len(evidence) == 2


def test_files_and_signatures_are_given_again_as_they_were() -> None:
    # In base64 all of this looks like keys.
    key = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0iL3oR6"
    picture = BinaryContent(base64.urlsafe_b64decode(key * 10), media_type="image/png")
    model_asked: list[int] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        model_asked.append(1)
        thought = ThinkingPart("A picture.", signature=key, provider_name="function")
        parts = [call("draw", "c1")] if answered(messages) == 0 else [FilePart(picture)]
        return ModelResponse([thought, *parts])

    agent = Agent(
        FunctionModel(model, profile={"supports_image_output": True}),
        name="painter",
        output_type=BinaryImage,
        capabilities=[RelightDurability()],
    )

    @agent.tool_plain
    def draw() -> BinaryContent:
        return picture

    results = twice(lambda: agent.run("Draw."))
    assert len(model_asked) == 2
    for result in results:
        assert result.output.data == picture.data
        assert result.all_messages()[1].parts[0].signature == key
        assert result.all_messages()[2].parts[0].content.data == picture.data


def test_a_dynamic_toolset_is_asked_once_for_its_tools() -> None:
    made: list[str] = []
    model = Asked([call("fetch", "c1", url="a")])

    def tools(context: RunContext[object]) -> FunctionToolset[object]:
        made.append("toolset")
        return FunctionToolset([fetch])

    def fetch(url: str) -> str:
        made.append(url)
        return url.upper()

    toolset = DynamicToolset[object](tools, per_run_step=False, id="web")
    durable = [RelightDurability[object]()]
    agent = Agent(FunctionModel(model), name="reader", toolsets=[toolset], capabilities=durable)
    first, again = twice(lambda: agent.run("Fetch a."))
    assert first.output == again.output == "done"
    assert made.count("a") == 1
    assert ("reader fetch c1", 1) in steps()
    assert ("reader dynamic_toolset__web.get_tools", 1) in steps()


def test_the_time_of_a_run_counts_from_its_first_start() -> None:
    agent = Agent(TestModel(), name="clerk", capabilities=[RelightDurability()])
    twice(lambda: agent.run("Hurry.", timeout=3600))
    assert steps() == [("clerk start time", 1), ("clerk model", 1)]


def test_in_a_plain_block_and_in_a_task_that_is_given() -> None:
    model = Asked([call("key", "c1")])
    keys: list[str] = []

    def key() -> str:
        keys.append(relight.idempotency_key())
        return "k"

    def agent(task: relight.Task | None = None) -> Agent[object, str]:
        durability: RelightDurability[object] = RelightDurability(task=task)
        return Agent(FunctionModel(model), name="sync", tools=[key], capabilities=[durability])

    task = relight.task("t").start()
    assert agent(task).run_sync("Go.").output == "done"
    task.release()
    with relight.task("t"):
        assert agent().run_sync("Go.").output == "done"
    assert (model.times, len(keys)) == (2, 1)


def test_outside_of_a_task_a_run_is_a_plain_run() -> None:
    model = Asked([call("key", "c1")])
    agent = Agent(FunctionModel(model), name="plain", capabilities=[RelightDurability()])

    @agent.tool_plain
    def key() -> str:
        with pytest.raises(RuntimeError, match="outside of a step"):
            relight.idempotency_key()
        return "k"

    for _ in range(2):
        assert agent.run_sync("Go.").output == "done"
    assert model.times == 4
    assert relight.call("task.list")["items"] == []


def test_a_run_that_lost_its_task_is_fenced() -> None:
    model = Asked([call("lose", "c1")])
    agent = Agent(FunctionModel(model), name="slow", capabilities=[RelightDurability()])

    @agent.tool_plain
    def lose() -> str:
        relight.call("task.release", task="t", force=True)
        relight.call("task.start", task="t", lease="1m")
        return "lost"

    async def main() -> None:
        async with relight.task("t"):
            await agent.run("Go.")

    with pytest.raises(relight.Fenced):
        asyncio.run(main())
    assert model.times == 1


def test_what_cannot_be_durable_is_refused_with_a_reason() -> None:
    with pytest.raises(UserError, match="unique `name` in order to be used with Relight"):
        Agent(TestModel(), capabilities=[RelightDurability()])
    agent = Agent(TestModel(), name="guest", capabilities=[RelightDurability()])
    tools: FunctionToolset[object] = FunctionToolset([len], id="late")
    with pytest.raises(UserError, match="Relight"), relight.task("t"):
        agent.run_sync("Go.", toolsets=[tools])


def test_names_of_steps_fit_and_stay_different() -> None:
    ids = ["c" * 300 + "1", "c" * 300 + "2"]
    model = Asked([call("note", id) for id in ids])
    agent = Agent(FunctionModel(model), name="clerk", capabilities=[RelightDurability()])

    @agent.tool_plain
    def note() -> str:
        return "noted"

    twice(lambda: agent.run("Note."))
    names = {name for name, _ in steps()}
    assert len(names) == 3
    assert all(len(name) <= 200 for name in names)
