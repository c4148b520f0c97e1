"""Runs agents of Pydantic AI in tasks: requests to the model and calls of tools become steps.

After a crash the same program continues the run: a recorded response is returned without asking the
model, and a finished tool is not called again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    BoundDurableOperation,
    CacheIdentity,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationId,
    DynamicToolsetCallToolParams,
    EventStreamHandlerParams,
    JournalCallableOperationBackend,
    ModelRequestParams,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetCallToolParams,
    conversation_id_from_run_id,
)
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT
from pydantic_core import to_jsonable_python

from ._task import (
    HAPPENED,
    AsyncTask,
    Repeat,
    Task,
    async_task,
    current_task,
    fitting_step_name,
    settled,
)

__all__ = ["RelightDurability"]

ParamsT = TypeVar("ParamsT")
WireT = TypeVar("WireT")
ResultT = TypeVar("ResultT")

# How many runs of each name were begun through a handle of a task.
_runs: WeakKeyDictionary[Task | AsyncTask, Counter[str]] = WeakKeyDictionary()
# The step that runs here, with its task. A run that begins inside of it has its name in front.
_step: ContextVar[tuple[Task | AsyncTask, str] | None] = ContextVar("step", default=None)


class _Codec:
    """JSON by the type adapters of pydantic.

    Binary data is hex: in base64 the store would find, and redact, what looks like a key.
    """

    def dump(self, tp: Any, value: Any) -> Any:
        return _with_binary(JSON_CODEC.dump(tp, value), _as_hex)

    def load(self, tp: Any, payload: Any) -> Any:
        return JSON_CODEC.load(tp, _with_binary(payload, _from_hex))


def _with_binary(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same JSON with its binary data changed: files, and signatures of what a model thought."""
    if isinstance(value, list):
        return [_with_binary(item, change) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    changed = {name: _with_binary(item, change) for name, item in fields.items()}
    if fields.get("kind") == "binary":
        changed["data"] = change(fields.get("data"))
    elif fields.get("part_kind") == "thinking":
        changed["signature"] = change(fields.get("signature"))
    return changed


def _as_hex(text: Any) -> Any:
    return {"hex": text.encode().hex()} if isinstance(text, str) else text


def _from_hex(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return bytes.fromhex(cast("dict[str, str]", data)["hex"]).decode()


class RelightDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes the runs of an agent durable inside of a task. Elsewhere they are plain runs.

    ``repeat`` is the rule for a call of a tool that was cut off, for all tools or by the name of
    the tool; ``keyed`` by default. ``verify`` has a function by the name of the tool that checks
    whether such a call happened. It gets the arguments of the call and returns the result,
    ``relight.HAPPENED`` if there is none, or ``None`` if the call did not happen.

    ``task`` is where the steps are recorded, by default the task whose block the run is in. The
    other options are those of every durability capability of Pydantic AI.

    A program that is started again must begin the same runs in the same order.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Relight",
        durable_unit_noun="step",
        durable_container_noun="task",
        codec=_Codec(),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        *,
        repeat: Repeat | Mapping[str, Repeat] | None = None,
        verify: Mapping[str, Callable[..., Any]] | None = None,
        task: Task | AsyncTask | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self.repeat = repeat
        self.verify = verify or {}
        self._task = task

    @property
    def task(self) -> Task | AsyncTask | None:
        """The task in which steps are recorded now."""
        return self._task or current_task()

    @property
    def in_durable_context(self) -> bool:
        return self.task is not None

    def get_default_run_id(self) -> str | None:
        task, inside, name = self.task, _step.get(), self.name
        if task is None:
            return None
        if inside is not None and inside[0] is task:
            name = f"{inside[1]}/{name}"
        runs = _runs.setdefault(task, Counter())
        runs[name] += 1
        return f"{task.id}:{name}" if runs[name] == 1 else f"{task.id}:{name}:{runs[name]}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        task = self.task
        if task is None:
            return None
        name = fitting_step_name(f"{run_id.removeprefix(f'{task.id}:')} start time")
        now = await async_task(task).step(name, lambda: datetime.now(timezone.utc).isoformat())
        return datetime.fromisoformat(now)

    def get_durable_operation_backend(self) -> _Backend:
        return _Backend(self)


class _Parameters(CacheIdentity[Any]):
    """Hands the parameters of an operation to ``execute``."""

    def project(self, params: Any) -> tuple[object, ...]:
        return (params,)


class _Backend(JournalCallableOperationBackend[None]):
    """Executes each operation as a step."""

    def __init__(self, durability: RelightDurability[Any]) -> None:
        config = RoleBasedOperationConfig(model=None, event=None, capability=None, tool=None)
        super().__init__(agent_name=durability.name, config=config)
        self._durability = durability

    def bind(
        self, operation: DurableOperation[ParamsT, WireT, ResultT]
    ) -> BoundDurableOperation[ParamsT, WireT, ResultT]:
        return super().bind(replace(operation, cache_identity=_Parameters()))

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        task = self._durability.task
        if task is None:
            return await body()
        (params,) = cache_key
        step = self._step_name(task.id, operation_id, name, params)

        async def run() -> object:
            token = _step.set((task, step))
            try:
                return await body()
            finally:
                _step.reset(token)

        if not isinstance(operation_id, ToolsetCallToolId):
            return await async_task(task).step(step, run)
        assert isinstance(params, (ToolsetCallToolParams, DynamicToolsetCallToolParams))
        arguments = params.tool_args
        repeat, check = self._durability.repeat, self._durability.verify.get(params.name)
        rule: Any = repeat.get(params.name) if isinstance(repeat, Mapping) else repeat
        if check is None:
            payload = await async_task(task).step(step, run, repeat=rule)
        else:
            verify = partial(_found, check, arguments)
            payload = await async_task(task).step(step, run, repeat="verify", verify=verify)
        # A step that a person, or ``verify``, found to have happened may have no value.
        return payload or _returned(None)

    def _step_name(
        self, task: str, operation_id: DurableOperationId, name: str, params: Any
    ) -> str:
        """The run, what is done in it, and for which call of a tool.

        The ids of calls come from recorded responses. So steps that run side by side find their
        records in whatever order they begin.
        """
        context = getattr(params, "run_context", None) or getattr(params, "ctx", None)
        run: str | None = getattr(context, "run_id", None)
        call: str | None = getattr(context, "tool_call_id", None)
        if isinstance(params, ModelRequestParams):
            what = "model"
        elif isinstance(params, EventStreamHandlerParams):
            what, call = params.event.event_kind, getattr(params.event, "tool_call_id", None)
        elif isinstance(operation_id, ToolsetCallToolId):
            what = params.name
        else:
            what = name.removeprefix(f"{self._durability.name}__")
        parts = ((run or "").removeprefix(f"{task}:"), what, call)
        return fitting_step_name(" ".join(part for part in parts if part))


async def _found(check: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What was found out about a call of a tool, as its step records it."""
    found = await settled(check(**arguments))
    return found if found is None or found is HAPPENED else _returned(to_jsonable_python(found))


def _returned(result: Any) -> dict[str, Any]:
    """A result as the JSON of ``CallToolResult``."""
    return {"kind": "tool_return", "result": result}
