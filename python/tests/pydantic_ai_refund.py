"""An agent that looks up an order and refunds it, in processes that are killed at a chosen moment.

What really happens, asking the model and paying, is a line each in a file.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pydantic_ai.models
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

import relight
from relight.pydantic_ai import RelightDurability

pydantic_ai.models.ALLOW_MODEL_REQUESTS = False

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["relight.pydantic_ai", "pydantic_ai.models.function"])


class World:
    """What happens outside, and the moment at which the process is killed."""

    def __init__(self, file: Path, kill_at: str | None) -> None:
        self.file, self.kill_at = file, kill_at

    def does(self, what: str, key: str = "") -> None:
        self.moment(f"{what} begins")
        with self.file.open("a") as file:
            file.write(f"{what}\t{key}\n")
        self.moment(f"{what} is done")

    def moment(self, name: str) -> None:
        if name == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def answered(messages: list[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in messages)


def refund_agent(world: World, durability: RelightDurability[object]) -> Agent[object, str]:
    calls = [
        ToolCallPart("look_up", {"order": 9}, tool_call_id="call_1"),
        ToolCallPart("refund", {"order": 9, "amount": 250}, tool_call_id="call_2"),
    ]

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = answered(messages)
        world.does(f"request {number + 1}")
        return ModelResponse([calls[number] if number < 2 else TextPart("It is refunded.")])

    async def streamed(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        number = answered(messages)
        world.does(f"request {number + 1}")
        if number < 2:
            call = calls[number]
            name, args, id = call.tool_name, call.args_as_json_str(), call.tool_call_id
            yield {0: DeltaToolCall(name, args, tool_call_id=id)}
        else:
            yield "It is "
            yield "refunded."

    agent = Agent(
        FunctionModel(model, stream_function=streamed),
        name="support",
        capabilities=[durability],
    )

    @agent.tool_plain
    def look_up(order: int) -> dict[str, int]:
        world.does("look_up")
        return {"order": order, "paid": 250}

    @agent.tool_plain
    async def refund(order: int, amount: int) -> str:
        world.does("refund", relight.idempotency_key())
        return f"refunded {amount} of order {order}"

    return agent


async def refund(
    file: Path, kill_at: str | None, streamed: bool, repeat: Any, happened: bool | None
) -> dict[str, Any]:
    def check(order: int, amount: int) -> str | None:
        return f"found {amount} of order {order}" if happened else None

    verify = None if happened is None else {"refund": check}
    agent = refund_agent(World(file, kill_at), RelightDurability(repeat=repeat, verify=verify))
    async with relight.task("order-9", max_retries=100):
        if not streamed:
            result = await agent.run("Refund order 9.")
            output, messages = result.output, result.all_messages()
        else:
            async with agent.run_stream("Refund order 9.") as stream:
                output, messages = await stream.get_output(), stream.all_messages()
    return {"output": output, "messages": without_times(messages)}


def without_times(messages: list[ModelMessage]) -> list[Any]:
    def untimed(fields: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if name != "timestamp"}

    text = ModelMessagesTypeAdapter.dump_json(messages)
    return cast("list[Any]", json.loads(text, object_hook=untimed))


def in_process(
    folder: Path,
    kill_at: str | None = None,
    *,
    streamed: bool = False,
    repeat: Any = None,
    happened: bool | None = None,
) -> Any:
    """What a new process gives; ``None`` if it was killed."""
    given = (kill_at, streamed, repeat, happened)
    process = _processes.Process(target=_process, args=(folder, *given))
    process.start()
    process.join(60)
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0, process.exitcode
    return json.loads((folder / "given").read_text())


def _process(folder: Path, *given: Any) -> None:
    os.environ["RELIGHT_HOME"] = str(folder / "home")
    answer: Any
    try:
        answer = asyncio.run(refund(folder / "world", *given))
    except relight.Refused as refused:
        answer = {"refused": type(refused).__name__, "code": refused.code}
    (folder / "given").write_text(json.dumps(answer))


def what_happened(folder: Path) -> list[str]:
    return [line.split("\t")[0] for line in (folder / "world").read_text().splitlines()]


def keys_used(folder: Path) -> set[str]:
    return {line.split("\t")[1] for line in (folder / "world").read_text().splitlines()} - {""}
