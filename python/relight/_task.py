"""Tasks and their steps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast, overload

from . import _crash, _waiting
from ._codec import Codec, codec_of, encoded, encoded_item
from ._errors import Block, Defer, Fenced, InDoubt, Refused

if TYPE_CHECKING:
    from . import _native
    from ._client import Relight

T = TypeVar("T")
P = ParamSpec("P")
Repeat = Literal["keyed", "repeatable", "verify", "once"]

# The longest name of a step.
_STEP_NAME_BYTES_MAX = 200

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200

active_task: ContextVar[Task | AsyncTask | None] = ContextVar("relight_task", default=None)
_step: ContextVar[_native.Step | None] = ContextVar("relight_step", default=None)


class _Happened:
    """Answer of ``verify`` for a step that happened and gave nothing."""

    def __repr__(self) -> str:
        return "relight.HAPPENED"


HAPPENED = _Happened()


def current_task() -> Task | AsyncTask | None:
    """The task whose ``with`` block runs here."""
    return active_task.get()


def idempotency_key() -> str:
    """Inside a step: stays the same however often the step is tried. Hand it to the other side."""
    step = _step.get()
    if step is None:
        raise RuntimeError("idempotency_key() is called outside of a step")
    return step.idempotency_key


def _kind(function: Any) -> int:
    # What a wrapper returns is the wrapper's own business: `__wrapped__` is not followed.
    function = getattr(function, "func", function)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    return code.co_flags if code is not None else 0


def _may_repeat(rule: str | None) -> bool:
    """Whether a step that happened, but whose value cannot be recorded, is a failed try; else it stays in doubt."""
    return rule not in ("once", "verify")


def _failure(error: BaseException) -> str:
    text = str(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _is_recorded(begun: Any) -> bool:
    """Whether a begun step is its recorded value already."""
    return type(begun) is bytes


class _TaskBase:
    """What a task is, as it was when this process took it."""

    def __init__(self, native: _native.Task) -> None:
        self._native = native
        started: dict[str, Any] = json.loads(native.started())
        self.id: str = started["task"]
        self.fence: int = started["fence"]
        self.resumed: bool = started["resumed"]
        self.title: str | None = started["title"]
        self.agent: str | None = started["agent"]
        self.payload: Any = started["payload"]
        self.context: dict[str, str] = started["context"]
        self.done_steps: list[str] = started["done_steps"]
        self.in_doubt: list[str] = started["in_doubt"]
        self.next_step: str | None = started["next_step"]

        #: How the program ended it: ``done``, ``failed``, ``blocked``, ``deferred`` or ``released``.
        self.ended: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} fence={self.fence}>"

    def close(self) -> None:
        """Lets go of it; one that was not ended is interrupted soon."""
        self.ended = self.ended or "released"
        self._native.close()

    def release(self) -> None:
        """Gives it up: it is interrupted, and anybody may continue it."""
        self._native.release()
        self.ended = "released"

    @property
    def is_over(self) -> bool:
        """Whether this handle has ended the task or given it up."""
        return self.ended is not None or self._native.is_over()


class Task(_TaskBase):
    """A task under this process's lease. Once somebody else has it, every call raises :class:`Fenced`."""

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Iterator[T]],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Iterator[T]: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], T | None | _Happened] | None = None,
        **kwargs: Any,
    ) -> T: ...

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Calls the function, or gives its recorded value when the step is finished.

        The same name again is the next occurrence. A generator function streams: its items come as they
        are made, are recorded together at the end, and come again from the record.
        """
        call = _Call(name, function, args, kwargs, codec)
        rule = repeat or ("verify" if verify else None)
        if _kind(function) & _GENERATOR:
            return self._stream(call, rule, occurrence, input, verify)
        begun = self._begin(name, rule, occurrence, input)
        if not _is_recorded(begun) and begun.verify:
            begun = self._verified(call, begun, verify)
        if _is_recorded(begun):
            return call.codec.decode(begun)
        token = _step.set(begun)
        try:
            if _crash.is_wanted:
                _crash.point()
            value = function(*args, **kwargs)
        except Exception as error:
            begun.fail(_failure(error))
            raise
        finally:
            _step.reset(token)
        try:
            recorded, value = encoded(call.codec, value)
        except Exception as error:
            if _may_repeat(rule):
                begun.fail(_failure(error))
            raise
        if _crash.is_wanted:
            _crash.point()
        begun.finish(recorded)
        if _crash.is_wanted:
            _crash.point()
        return value

    def _verified(self, call: _Call, begun: Any, verify: Callable[[], Any] | None) -> Any:
        """What was recorded of a step in doubt that happened, or the step to run."""
        if verify is None:
            raise _in_doubt(call.name, self.id)
        found = verify()
        if found is None:
            return begun.did_not_happen()
        recorded, _ = encoded(call.codec, None if found is HAPPENED else found)
        begun.finish(recorded)
        return recorded

    def _begin(self, name: str, repeat: str | None, occurrence: int | None, input: Any) -> Any:
        given = None if input is None else json.dumps(input, sort_keys=True)
        return self._native.begin_step(name, repeat, occurrence, given)

    def _stream(
        self,
        call: _Call,
        repeat: str | None,
        occurrence: int | None,
        input: Any,
        verify: Callable[[], Any] | None,
    ) -> Iterator[Any]:
        begun = self._begin(call.name, repeat, occurrence, input)
        if not _is_recorded(begun) and begun.verify:
            begun = self._verified(call, begun, verify)
        if _is_recorded(begun):
            yield from call.codec.decode(begun) or ()
            return
        items: list[Any] = []
        source = iter(call.function(*call.args, **call.kwargs))
        try:
            while True:
                # Between two items the caller runs, outside of the step.
                token = _step.set(begun)
                try:
                    if _crash.is_wanted:
                        _crash.point()
                    item = encoded_item(call.codec, next(source))
                except StopIteration:
                    break
                finally:
                    _step.reset(token)
                items.append(item)
                yield item
            recorded, _ = encoded(call.codec, items)
        except Exception as error:
            begun.fail(_failure(error))
            raise
        begun.finish(recorded)
        if _crash.is_wanted:
            _crash.point()

    def set(self, **pairs: str) -> None:
        """Adds context for a successor."""
        self._native.set(pairs)

    def spend(self, cost: str | None = None, turns: int = 0) -> None:
        """Adds to what the task has cost, such as ``"0.25"``, and to the turns of a model."""
        self._native.spend(cost, turns)

    def skip(self, step: str, reason: str) -> None:
        """Closes a declared step on purpose without doing it."""
        self._native.skip(step, reason)

    def done(self) -> None:
        """It is finished. Leaving the ``with`` block does the same."""
        self._native.done()
        self.ended = "done"

    def fail(self, reason: str) -> dict[str, Any]:
        """Records that it failed; its strategy decides what happens next, which is the answer."""
        answer = self._native.fail(reason)
        self.ended = "failed"
        return cast("dict[str, Any]", json.loads(answer))

    def block(self, reason: str) -> None:
        """It cannot continue before a person acts, who is sent an alert."""
        self._native.block(reason)
        self.ended = "blocked"

    def defer(self, until: str) -> None:
        """It continues later: a time (RFC 3339) or a duration such as ``10m``."""
        self._native.defer(until)
        self.ended = "deferred"


class _Call:
    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        codec: Codec | None,
    ) -> None:
        self.name, self.function, self.args, self.kwargs = name, function, args, kwargs
        self.codec = codec or codec_of(function)


def _in_doubt(step: str, task: str) -> InDoubt:
    return InDoubt(
        f"step {step} of task {task} is in doubt and must not be repeated",
        code="in_doubt",
        exit=75,
        status=409,
        hint="give verify, which finds out whether it happened; or relight step resolve",
    )


class AsyncTask(_TaskBase):
    """A task in an event loop; see :class:`Task`."""

    @overload
    def step(  # pyright: ignore[reportOverlappingOverload]
        self,
        name: str,
        function: Callable[..., AsyncIterator[T]],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[T]: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Awaitable[T]: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Awaitable[T]: ...

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        repeat: Repeat | None = None,
        occurrence: int | None = None,
        input: Any = None,
        codec: Codec | None = None,
        verify: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Awaits the function, or gives its recorded value when the step is finished.

        A plain function is called in the loop. An asynchronous generator function streams.
        """
        call = _Call(name, function, args, kwargs, codec)
        rule = repeat or ("verify" if verify else None)
        if _kind(function) & _ASYNC_GENERATOR:
            return self._stream(call, rule, occurrence, input, verify)
        return self._run(call, rule, occurrence, input, verify)

    async def _run(
        self,
        call: _Call,
        repeat: str | None,
        occurrence: int | None,
        input: Any,
        verify: Callable[[], Any] | None,
    ) -> Any:
        codec = call.codec
        begun = await self._begin(call.name, repeat, occurrence, input)
        if not _is_recorded(begun) and begun.verify:
            begun = await self._verified(call, begun, verify)
        if _is_recorded(begun):
            return codec.decode(begun)
        token = _step.set(begun)
        try:
            if _crash.is_wanted:
                _crash.point()
            value = await settled(call.function(*call.args, **call.kwargs))
        except Exception as error:
            failure = _failure(error)
            await _waiting.wait(lambda via: begun.fail(failure, via))
            raise
        finally:
            _step.reset(token)
        try:
            recorded, value = encoded(codec, value)
        except Exception as error:
            if _may_repeat(repeat):
                failure = _failure(error)
                await _waiting.wait(lambda via: begun.fail(failure, via))
            raise
        if _crash.is_wanted:
            _crash.point()
        await _waiting.wait(lambda via: begun.finish(recorded, via))
        if _crash.is_wanted:
            _crash.point()
        return value

    async def _verified(self, call: _Call, begun: Any, verify: Callable[[], Any] | None) -> Any:
        if verify is None:
            raise _in_doubt(call.name, self.id)
        found = await settled(verify())
        if found is None:
            return await _waiting.wait(lambda via: begun.did_not_happen(via))
        recorded, _ = encoded(call.codec, None if found is HAPPENED else found)
        await _waiting.wait(lambda via: begun.finish(recorded, via))
        return recorded

    async def _begin(
        self, name: str, repeat: str | None, occurrence: int | None, input: Any
    ) -> Any:
        given = None if input is None else json.dumps(input, sort_keys=True)
        begin = self._native.begin_step
        return await _waiting.wait(lambda via: begin(name, repeat, occurrence, given, via))

    async def _stream(
        self,
        call: _Call,
        repeat: str | None,
        occurrence: int | None,
        input: Any,
        verify: Callable[[], Any] | None,
    ) -> AsyncIterator[Any]:
        begun = await self._begin(call.name, repeat, occurrence, input)
        if not _is_recorded(begun) and begun.verify:
            begun = await self._verified(call, begun, verify)
        if _is_recorded(begun):
            for item in call.codec.decode(begun) or ():
                yield item
            return
        items: list[Any] = []
        source = call.function(*call.args, **call.kwargs).__aiter__()
        try:
            while True:
                token = _step.set(begun)
                try:
                    if _crash.is_wanted:
                        _crash.point()
                    item = encoded_item(call.codec, await source.__anext__())
                except StopAsyncIteration:
                    break
                finally:
                    _step.reset(token)
                items.append(item)
                yield item
            recorded, _ = encoded(call.codec, items)
        except Exception as error:
            failure = _failure(error)
            await _waiting.wait(lambda via: begun.fail(failure, via))
            raise
        await _waiting.wait(lambda via: begun.finish(recorded, via))
        if _crash.is_wanted:
            _crash.point()

    async def set(self, **pairs: str) -> None:
        """Adds context for a successor."""
        await _waiting.wait(lambda via: self._native.set(pairs, via))

    async def spend(self, cost: str | None = None, turns: int = 0) -> None:
        """Adds to what the task has cost, such as ``"0.25"``, and to the turns of a model."""
        await _waiting.wait(lambda via: self._native.spend(cost, turns, via))

    async def skip(self, step: str, reason: str) -> None:
        """Closes a declared step on purpose without doing it."""
        await _waiting.wait(lambda via: self._native.skip(step, reason, via))

    async def done(self) -> None:
        """It is finished. Leaving the ``async with`` block does the same."""
        await _waiting.wait(lambda via: self._native.done(via))
        self.ended = "done"

    async def fail(self, reason: str) -> dict[str, Any]:
        """Records that it failed; its strategy decides what happens next, which is the answer."""
        answer = await _waiting.wait(lambda via: self._native.fail(reason, via))
        self.ended = "failed"
        return cast("dict[str, Any]", json.loads(answer))

    async def block(self, reason: str) -> None:
        """It cannot continue before a person acts, who is sent an alert."""
        await _waiting.wait(lambda via: self._native.block(reason, via))
        self.ended = "blocked"

    async def defer(self, until: str) -> None:
        """It continues later: a time (RFC 3339) or a duration such as ``10m``."""
        await _waiting.wait(lambda via: self._native.defer(until, via))
        self.ended = "deferred"

    async def lost(self) -> None:
        """Waits until somebody else has the lease, then raises :class:`Fenced`."""
        await _waiting.wait(lambda via: self._native.lost(via))


async def settled(value: Any) -> Any:
    """What a function gave, awaited when it is asynchronous."""
    return await value if hasattr(value, "__await__") else value


def async_task(task: Task | AsyncTask) -> AsyncTask:
    """The same task for an event loop."""
    if isinstance(task, AsyncTask):
        return task
    return AsyncTask(task._native)  # pyright: ignore[reportPrivateUsage]


def fitting_step_name(name: str) -> str:
    """The name, shortened to what a step's name may have. Different names stay different."""
    encoded = name.encode()
    if len(encoded) <= _STEP_NAME_BYTES_MAX:
        return name
    from hashlib import sha256

    start = encoded[: _STEP_NAME_BYTES_MAX - 17].decode(errors="ignore")
    return f"{start} {sha256(encoded).hexdigest()[:16]}"


class TaskBlock:
    """``with relight.task(…) as task`` or ``async with relight.task(…) as task``.

    The block ends the task by how it ends: normally it is done; :class:`Block` and :class:`Defer` say
    otherwise; another exception fails it, and its strategy decides. An interrupt or a cancellation
    leaves it interrupted, and the next start continues it.
    """

    def __init__(self, relight: Relight, request: Mapping[str, Any]) -> None:
        self._relight = relight
        self._request = json.dumps(request)
        self._entered: Task | AsyncTask | None = None
        self._token: Token[Task | AsyncTask | None] | None = None

    def start(self) -> Task:
        """Starts or continues the task without a block: call ``done`` yourself."""
        return Task(self._relight.native.start_task(self._request))

    async def start_async(self) -> AsyncTask:
        """The same in an event loop."""
        native = self._relight.native
        return AsyncTask(await _waiting.wait(lambda via: native.start_task(self._request, via)))

    def __enter__(self) -> Task:
        task = self.start()
        self._entered, self._token = task, active_task.set(task)
        return task

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        task = cast(Task, self._left())
        try:
            return end_task(task, error)
        finally:
            task.close()

    async def __aenter__(self) -> AsyncTask:
        task = await self.start_async()
        self._entered, self._token = task, active_task.set(task)
        return task

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        task = cast(AsyncTask, self._left())
        try:
            return await end_task_async(task, error)
        finally:
            task.close()

    def _left(self) -> Task | AsyncTask:
        task, token = self._entered, self._token
        if task is None or token is None:
            raise RuntimeError("the block of this task was not entered")
        self._entered = self._token = None
        try:
            active_task.reset(token)
        except ValueError:
            # Left in another context, as a generator may do.
            active_task.set(None)
        return task


def end_task(task: Task, error: BaseException | None) -> bool:
    """Ends a task by how its work ended; whether the exception has done its work."""
    if task.is_over or isinstance(error, Fenced):
        return False
    if error is None:
        task.done()
    elif isinstance(error, Block):
        task.block(error.reason)
        return True
    elif isinstance(error, Defer):
        task.defer(error.until)
        return True
    elif isinstance(error, Exception):
        try:
            task.fail(_failure(error))
        except Refused as refused:
            error.__context__ = refused
    else:
        task.release()
    return False


async def end_task_async(task: AsyncTask, error: BaseException | None) -> bool:
    if task.is_over or isinstance(error, Fenced):
        return False
    if error is None:
        await task.done()
    elif isinstance(error, Block):
        await task.block(error.reason)
        return True
    elif isinstance(error, Defer):
        await task.defer(error.until)
        return True
    elif isinstance(error, Exception):
        try:
            await task.fail(_failure(error))
        except Refused as refused:
            error.__context__ = refused
    else:
        # A loop that cancels waits for nothing more; this is one commit.
        task.release()
    return False


@overload
def step(function: Callable[P, T], /) -> Callable[P, T]: ...


@overload
def step(
    *,
    name: str | None = None,
    repeat: Repeat | None = None,
    codec: Codec | None = None,
    verify: Callable[[], Any] | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    repeat: Repeat | None = None,
    codec: Codec | None = None,
    verify: Callable[[], Any] | None = None,
) -> Any:
    """Makes a function a step of the task whose block it is called in; elsewhere it is just called."""
    if function is None:

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            return step_of(function, name, repeat, codec, verify)

        return decorate
    return step_of(function, name, repeat, codec, verify)


def step_of(
    function: Callable[..., Any],
    name: str | None,
    repeat: Repeat | None,
    codec: Codec | None,
    verify: Callable[[], Any] | None,
) -> Callable[..., Any]:
    from functools import wraps

    step_name = name or function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        task = active_task.get()
        if task is None:
            return function(*args, **kwargs)
        # The options come first, so that arguments of the function may have their names.
        bound = _Bound(function, args, kwargs)
        return task.step(step_name, bound, repeat=repeat, codec=codec, verify=verify)

    return call


class _Bound:
    """A call that is made once, with everything that a step asks its function for."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.func, self._args, self._kwargs = function, args, kwargs
        self.__annotations__ = getattr(function, "__annotations__", {})
        self.__globals__ = getattr(function, "__globals__", {})

    def __call__(self) -> Any:
        return self.func(*self._args, **self._kwargs)
