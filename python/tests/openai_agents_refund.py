"""An agent that looks up an order and refunds it, in processes that are killed at a chosen moment.

What really happens, asking the model and paying, is a line each in a file.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    TResponseInputItem,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.items import TResponseOutputItem, TResponseStreamEvent
from agents.testing import ScriptedModel, assistant_message, function_call

import relight
from relight import _crash
from relight.openai_agents import RelightSession, durable_model, durable_tools

set_tracing_disabled(True)

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["relight.openai_agents", "agents.testing"])


class World:
    """What happens outside, and when the process is killed: as it begins, or once it is done."""

    def __init__(self, file: Path, kill_at: str | None) -> None:
        self.file, self.kill_at = file, kill_at

    def does(self, what: str, detail: str = "") -> None:
        self.moment(f"{what} begins")
        with self.file.open("a") as file:
            file.write(f"{what} {detail}".strip() + "\n")
        self.moment(f"{what} is done")

    def moment(self, name: str) -> None:
        if name == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Provider(Model):
    """A model that knows only what it is told, as a real one, and gives every call a new id."""

    def __init__(self, world: World) -> None:
        self.world = world

    def answer(self, given: list[Any]) -> list[TResponseOutputItem]:
        asked = max(at for at, item in enumerate(given) if item.get("role") == "user")
        results = [item for item in given[asked:] if item.get("type") == "function_call_output"]
        self.world.does(f"request {len(results) + 1}")
        call_id = f"call_{uuid.uuid4().hex[:24]}"
        if not results:
            return [function_call("look_up", {"order": 9}, call_id=call_id)]
        if len(results) == 1:
            return [function_call("refund", {"order": 9, "amount": 250}, call_id=call_id)]
        return [assistant_message(f"It is {results[1]['output']}.")]

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=self.answer(input), usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        scripted = ScriptedModel([self.answer(input)])
        async for event in scripted.stream_response(system_instructions, input, *args, **kwargs):
            yield event


def support_agent(world: World, task: relight.AsyncTask, **options: Any) -> Agent[None]:
    @function_tool
    def look_up(order: int) -> dict[str, int]:
        world.does("look_up")
        return {"order": order, "paid": 250}

    @function_tool
    async def refund(order: int, amount: int) -> str:
        world.does("refund", relight.idempotency_key())
        return f"refunded {amount} of order {order}"

    return Agent(
        name="support",
        model=durable_model(task, Provider(world)),
        tools=durable_tools(task, [look_up, refund], **options),
    )


async def found_it(order: int, amount: int) -> str:
    return f"found {amount} of order {order}"


def found_nothing(order: int, amount: int) -> None:
    return None


checks: dict[str, Any] = {"happened": found_it, "did not happen": found_nothing}


async def refund(file: Path, kill_at: str | None, options: dict[str, Any]) -> dict[str, Any]:
    world = World(file, kill_at)
    if "verify" in options:
        options = {**options, "verify": {"refund": checks[options["verify"]]}}
    streamed, force = options.pop("streamed", False), options.pop("force", False)
    async with relight.task("order-9", max_retries=100, force=force) as task:
        agent = support_agent(world, task, **options)
        session = RelightSession("customer:42", task=task)
        if streamed:
            stream = Runner.run_streamed(agent, "Refund order 9.", session=session)
            events = [event.type async for event in stream.stream_events()]
            output, usage = stream.final_output, stream.context_wrapper.usage
        else:
            result = await Runner.run(agent, "Refund order 9.", session=session)
            output, usage, events = result.final_output, result.context_wrapper.usage, []
    items: list[Any] = [*await RelightSession("customer:42").get_items()]
    names: dict[str, str] = {}
    for item in items:
        if "call_id" in item:
            item["call_id"] = names.setdefault(item["call_id"], f"call {len(names) + 1}")
            item.pop("id", None)
    return {"output": output, "items": items, "events": events, "tokens": usage.total_tokens}


def _process(folder: Path, kill_at: str | int | None, options: dict[str, Any]) -> None:
    os.environ["RELIGHT_HOME"] = str(folder / "home")
    if isinstance(kill_at, int):
        # The module was loaded before the process was forked.
        _crash._left, _crash.is_wanted = kill_at, True  # pyright: ignore[reportPrivateUsage]
        kill_at = None
    try:
        given: Any = asyncio.run(refund(folder / "world", kill_at, options))
    except relight.Refused as refused:
        given = {"refused": [kind.__name__ for kind in type(refused).__mro__[:3]]}
    (folder / "given").write_text(json.dumps(given))


def in_process(folder: Path, kill_at: str | int | None = None, **options: Any) -> Any:
    """What a new process gives; ``None`` if it was killed, at a moment or a point of Relight's."""
    folder.mkdir(exist_ok=True)
    process = _processes.Process(target=_process, args=(folder, kill_at, options))
    process.start()
    process.join(60)
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0, process.exitcode
    return json.loads((folder / "given").read_text())


def happened(folder: Path) -> list[str]:
    return (folder / "world").read_text().splitlines()


def _use_session(folder: Path, what: str, name: str) -> None:
    os.environ["RELIGHT_HOME"] = str(folder / "home")

    async def main() -> None:
        session = RelightSession("shared")
        if what == "add":
            for n in range(20):
                await session.add_items([message(f"{name} {n} a"), message(f"{name} {n} b")])
        else:
            popped = [await session.pop_item() for _ in range(20)]
            (folder / name).write_text(json.dumps(popped))

    asyncio.run(main())


def message(text: str) -> TResponseInputItem:
    return {"role": "user", "content": text}


def side_by_side(folder: Path, what: str, names: list[str]) -> None:
    """Processes that use one session at once: each adds 40 items in twos, or takes 20."""
    processes = [
        _processes.Process(target=_use_session, args=(folder, what, name)) for name in names
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
