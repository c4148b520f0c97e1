"""Makes agents of the OpenAI Agents SDK durable: sessions, calls of the model and calls of tools.

After a crash the same program continues a run where it was: a recorded answer is returned without
asking the model, and a finished tool is not called again.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import openai
from agents import (
    AgentsException,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    Model,
    ModelResponse,
    SessionSettings,
    ShellTool,
    Tool,
    TResponseInputItem,
)
from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
from agents.items import TResponseStreamEvent
from agents.models.multi_provider import MultiProvider
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_jsonable_python

from . import default
from ._errors import Block, Defer, Refused
from ._records import encoded_part, write_tries
from ._task import (
    AsyncTask,
    Repeat,
    Task,
    async_task,
    fitting_step_name,
    idempotency_key,
    settled,
)

if TYPE_CHECKING:
    from ._client import Relight
    from ._records import Records

__all__ = ["RelightSession", "durable_model", "durable_tools"]

T = TypeVar("T")

# Fields that hold base64.
_BINARY = ("encrypted_content", "file_data")

# The step of the tool call that runs here, behind the id of its task. Steps inside of it have its
# name in front.
_inside: ContextVar[tuple[str, str] | None] = ContextVar("tool_call", default=None)


def durable_model(
    task: Task | AsyncTask, model: Model | str | None = None, *, name: str = "model"
) -> Model:
    """The same model, with every call a step of the task.

    After a crash the recorded answers are returned, so that the ids of the tool calls in them are
    the same. ``name`` is the name of the steps: models that are asked side by side need different
    ones.
    """
    if not isinstance(model, Model):
        model = MultiProvider().get_model(model)
    return _DurableModel(async_task(task), model, name)


class _DurableModel(Model):
    def __init__(self, task: AsyncTask, model: Model, name: str) -> None:
        self._task, self._model, self._name = task, model, name

    def __getattr__(self, name: str) -> Any:
        # The runner asks some models what else they can do. A copy has no model while it is made.
        if name == "_model":
            raise AttributeError(name)
        return getattr(self._model, name)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        ask = partial(self._model.get_response, *args, **kwargs)
        name = _step_name(self._task, self._name)
        return await self._task.step(name, ask, codec=_ResponseCodec())

    async def stream_response(
        self, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        async def ask() -> AsyncIterator[TResponseStreamEvent]:
            async for event in self._model.stream_response(*args, **kwargs):
                yield event

        name = _step_name(self._task, self._name)
        events = self._task.step(name, ask, codec=_EventsCodec())
        async with aclosing(cast("AsyncGenerator[TResponseStreamEvent]", events)) as stream:
            async for event in stream:
                yield event

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self._model.get_retry_advice(request)

    async def close(self) -> None:
        await self._model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)


def durable_tools(
    task: Task | AsyncTask,
    tools: Sequence[Tool],
    *,
    repeat: Repeat | Mapping[str, Repeat] | None = None,
    verify: Mapping[str, Callable[..., Any]] | None = None,
) -> list[Tool]:
    """The same tools, with every call a step of the task.

    After a crash a finished call gives its recorded result, and the tool is not called again. In
    a tool, :func:`relight.idempotency_key` gives the key of the call.

    ``repeat`` is the rule for a call that was cut off, for all tools or by the name of the tool;
    ``keyed`` by default. ``verify`` has a function by the name of the tool that checks whether such
    a call happened: it gets the arguments of the call and returns the result, ``relight.HAPPENED``
    if there is none, or ``None`` if the call did not happen.

    Tools that the provider runs are part of the recorded answers. Shells, computers and editors
    that run here are refused with a ``TypeError``.
    """
    durable: list[Tool] = []
    for tool in tools:
        rule = repeat.get(tool.name) if isinstance(repeat, Mapping) else repeat
        durable.append(_durable_tool(async_task(task), tool, rule, (verify or {}).get(tool.name)))
    return durable


def _durable_tool(
    task: AsyncTask, tool: Tool, repeat: Repeat | None, check: Callable[..., Any] | None
) -> Tool:
    runs_here = isinstance(tool, (ApplyPatchTool, ComputerTool, LocalShellTool)) or (
        isinstance(tool, ShellTool) and tool.executor is not None
    )
    if runs_here:
        raise TypeError(f"calls of {tool.name} cannot be recorded: it is not a function tool")
    if not isinstance(tool, (FunctionTool, CustomTool)):
        return tool

    async def run(context: ToolContext[Any], given: str) -> Any:
        if isinstance(tool, CustomTool):
            return await settled(tool.on_invoke_tool(context, given))
        result = await invoke_function_tool(function_tool=tool, context=context, arguments=given)
        if _waits_for_approval(context):
            raise _Unfinished(result)
        return result

    async def invoke(context: ToolContext[Any], given: str) -> Any:
        name = _step_name(task, f"{tool.name} {context.tool_call_id}")
        codec = _ResultCodec()
        token = _inside.set((task.id, name))
        try:
            if check is None:
                return await task.step(name, run, context, given, repeat=repeat, codec=codec)
            verify = partial(check, **_arguments(tool, given))
            return await task.step(
                name, run, context, given, repeat="verify", codec=codec, verify=verify
            )
        except _Unfinished as unfinished:
            return unfinished.result
        except (Refused, Block, Defer) as error:
            _raise_through_runner(error)
        finally:
            _inside.reset(token)

    durable = copy(tool)
    durable.on_invoke_tool = invoke
    if isinstance(durable, FunctionTool):
        # It counts inside of the step, so that a call that took too long is recorded as such.
        durable.timeout_seconds = None
    return durable


class _Unfinished(Exception):
    """A call of an agent as a tool that waits for a person, and is made again after that."""

    def __init__(self, result: Any) -> None:
        super().__init__("waits for an approval")
        self.result = result


def _waits_for_approval(context: ToolContext[Any]) -> bool:
    if context.tool_call is None:
        return False
    scope = get_agent_tool_state_scope(context)
    run = peek_agent_tool_run_result(context.tool_call, scope_id=scope)
    return run is not None and bool(run.interruptions)


def _arguments(tool: Tool, given: str) -> dict[str, Any]:
    if isinstance(tool, CustomTool):
        return {"input": given}
    return cast("dict[str, Any]", json.loads(given or "{}"))


def _raise_through_runner(error: Exception) -> NoReturn:
    """Raises it as an exception of the SDK too: the runner makes a ``UserError`` of all others."""
    kind: Any = type(error)
    both = type(kind.__name__, (kind, AgentsException), {})
    raised: Exception = both.__new__(both, *error.args)
    raised.__dict__.update(error.__dict__, run_data=None)
    raise raised from error


class RelightSession:
    """A session of the SDK in Relight's store.

    With ``task`` its use is part of the task: a run that continues after a crash reads what it read
    before, and adds nothing twice. Several processes may add to one session at once.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        *,
        task: Task | AsyncTask | None = None,
        store: Relight | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._task = None if task is None else async_task(task)
        self._store = store
        self._under = f"openai-agents/{encoded_part(session_id)}/"
        # The number of the newest entry that the task has seen.
        self._seen = 0

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, the oldest of them first; all of them without a limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if self._task is None:
            return await self._items(limit)
        self._seen = await self._step("read", self._newest)
        return await self._items(limit, self._seen)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items at the end: all of them or none."""
        if items:
            await self._add({"items": _as_hex(cast(Any, items))})

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the newest item away and gives it. Its record stays until ``clear_session``."""
        if not await self.get_items(1):
            return None
        number = await self._add({"pop": True})
        popped = await self._items(1, number - 1)
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """Removes everything."""
        await self._step("clear", partial(self._records.remove_async, under=self._under))
        self._seen = 0

    async def _step(self, what: str, function: Callable[[], Awaitable[T]]) -> T:
        if self._task is None:
            return await function()
        name = _step_name(self._task, f"session {self.session_id} {what}")
        return await self._task.step(name, function)

    @property
    def _records(self) -> Records:
        return (self._store or default()).records

    # Each entry is a record: items that were added together, or that the newest item was taken
    # away. Entries are numbered from 1 on without gaps and never changed.

    async def _entries(self, page: int) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """The newest first."""
        async for record in self._records.all_async(self._under, descending=True, page=page):
            yield int(record.name.removeprefix(self._under)), record.value

    async def _newest(self) -> int:
        async for number, _ in self._entries(1):
            return number
        return 0

    async def _items(self, limit: int | None, until: int | None = None) -> list[TResponseInputItem]:
        """What is there after the entry of number ``until``."""
        if limit is not None and limit <= 0:
            return []
        newest_first: list[Any] = []
        pops = 0
        async for number, entry in self._entries(1_000 if limit is None else min(limit, 1_000)):
            if until is not None and number > until:
                continue
            if "pop" in entry:
                pops += 1
                continue
            items = entry["items"]
            newest_first += reversed(items[: max(0, len(items) - pops)])
            pops = max(0, pops - len(items))
            if limit is not None and len(newest_first) >= limit:
                break
        return cast("list[TResponseInputItem]", _from_hex(newest_first[:limit][::-1]))

    async def _add(self, entry: dict[str, Any]) -> int:
        """Adds an entry behind all others, in a task exactly once. Its number."""
        if self._task is None:
            return await self._append(entry)
        self._seen = await self._step("add", lambda: self._append(entry, idempotency_key()))
        return self._seen

    async def _append(self, entry: dict[str, Any], key: str | None = None) -> int:
        """With a key only if no entry behind those that the task has seen has it.

        Numbers have no gaps, so a record under the next number is new only if nothing was added
        since the entries were read.
        """
        written = entry if key is None else {**entry, "by": key}
        newest = 0
        for _ in write_tries(f"session {self.session_id}"):
            newest = 0
            async for number, there in self._entries(1 if key is None else 10):
                newest = newest or number
                if key is not None and there.get("by") == key:
                    return number
                if key is None or number <= self._seen:
                    break
            name = f"{self._under}{newest + 1:016}"
            if await self._records.put_async(name, written, new=True):
                break
        return newest + 1


class _Output(openai.BaseModel):
    output: list[ResponseOutputItem]


class _Events(openai.BaseModel):
    events: list[ResponseStreamEvent]


_responses = TypeAdapter(ModelResponse)


class _ResponseCodec:
    """An answer of a model.

    Its items are read as the client of OpenAI reads them: what it does not know yet is kept, and
    only fields that were given are set.
    """

    def encode(self, value: ModelResponse) -> bytes:
        answer = _responses.dump_python(replace(value, output=[]), mode="json")
        return _written({**answer, "output": [_dumped(item) for item in value.output]})

    def decode(self, recorded: bytes) -> ModelResponse:
        answer = _read(recorded)
        items = _Output.construct(output=answer["output"]).output
        response = _responses.validate_python({**answer, "output": []})
        response.output = items
        return response


class _EventsCodec:
    """The events of a streamed answer."""

    def encode(self, value: list[TResponseStreamEvent]) -> bytes:
        return _written([_dumped(event) for event in value])

    def decode(self, recorded: bytes) -> list[TResponseStreamEvent]:
        return _Events.construct(events=_read(recorded)).events


class _ResultCodec:
    """The result of a tool as JSON: models and dataclasses become dictionaries."""

    def encode(self, value: Any) -> bytes:
        return _written(to_jsonable_python(value, fallback=str, inf_nan_mode="strings"))

    def decode(self, recorded: bytes) -> Any:
        return _read(recorded)


def _dumped(item: Any) -> Any:
    if not isinstance(item, openai.BaseModel):
        return item
    return item.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


def _written(value: Any) -> bytes:
    return json.dumps(_as_hex(value), ensure_ascii=False, separators=(",", ":")).encode()


def _read(recorded: bytes) -> Any:
    return _from_hex(json.loads(recorded))


def _as_hex(value: JsonValue, name: str = "") -> JsonValue:
    """The same JSON with its base64 as hex: the store would redact what looks like a key in it."""
    if isinstance(value, str):
        is_data = name in _BINARY or (value.startswith("data:") and ";base64," in value[:200])
        return {"hex": value.encode().hex()} if is_data else value
    if isinstance(value, list):
        return [_as_hex(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _as_hex(item, name) for name, item in value.items()}
    # A field of that name alone would be taken for data.
    return {"hex": fields} if list(fields) == ["hex"] else fields


def _from_hex(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_from_hex(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) != ["hex"]:
        return {name: _from_hex(item) for name, item in value.items()}
    data = value["hex"]
    if isinstance(data, dict):
        return {"hex": _from_hex(data["hex"])}
    return bytes.fromhex(cast(str, data)).decode()


def _step_name(task: AsyncTask, name: str) -> str:
    """The name behind that of the tool call that runs here, no longer than a step may have."""
    inside = _inside.get()
    if inside is not None and inside[0] == task.id:
        name = f"{inside[1]}/{name}"
    return fitting_step_name(name)
