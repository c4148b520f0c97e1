"""Keeps the threads of LangGraph in Relight's store.

The layout of the records is in docs/guides/langgraph.md; the saver for TypeScript writes the same.

What a method does is written once, as a generator: it yields the calls of :class:`relight.Records`
that it needs and receives their answers. ``_run`` makes these calls, ``_run_async`` makes them in
an event loop.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

import relight

from ._records import Record, RecordPage, encoded_part, write_tries

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

# How many records are read at once: checkpoints can be large.
_PAGE = 50


_T = TypeVar("_T")
# A method of the records and its arguments.
_Call = tuple[str, dict[str, Any]]
_Calls = Generator[_Call, Any, _T]
_Tuples = list[CheckpointTuple]
_Writes = list[list[Any]]
# A thread, a namespace and the id of a checkpoint.
_Place = tuple[str, str, str]


class RelightSaver(BaseCheckpointSaver[int]):
    """A checkpointer of LangGraph that keeps threads in Relight's store.

    A checkpoint and the writes of a task are on disk when ``put`` and ``put_writes`` return.
    Without a store it uses the one that the command line uses.
    """

    def __init__(
        self, store: relight.Relight | None = None, *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self._store = store

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names by its id, else the newest of the namespace."""
        return self._run(self._get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The same in an event loop."""
        return await self._run_async(self._get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first within each namespace."""
        search = _Search(config, filter, before, limit)
        while search.has_more:
            yield from self._run(self._list_page(search))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The same in an event loop."""
        search = _Search(config, filter, before, limit)
        while search.has_more:
            for found in await self._run_async(self._list_page(search)):
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Writes a checkpoint. Its parent is the one that ``config`` names."""
        return self._run(self._put(config, checkpoint, metadata))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """The same in an event loop."""
        return await self._run_async(self._put(config, checkpoint, metadata))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Writes what a task gave. Existing writes of it stay, except errors and interrupts."""
        self._run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """The same in an event loop."""
        await self._run_async(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Deletes the thread with all of its namespaces, in one transaction."""
        self._run(_delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """The same in an event loop."""
        await self._run_async(_delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints whose metadata has one of these ``run_id``.

        Reads all threads. A ``DeltaChannel`` of later checkpoints loses what it was given in these.
        """
        self._run(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """The same in an event loop."""
        await self._run_async(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints and writes. If it is cut off, call it again."""
        self._run(_copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """The same in an event loop."""
        await self._run_async(_copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes old checkpoints.

        ``keep_latest`` keeps the newest of each namespace, and those before it that the value of a
        ``DeltaChannel`` is made from. ``delete`` deletes the threads.
        """
        self._run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """The same in an event loop."""
        await self._run_async(self._prune(thread_ids, strategy))

    def _run(self, calls: _Calls[_T]) -> _T:
        records = (self._store or relight.default()).records
        answer = None
        while True:
            try:
                method, given = calls.send(answer)
            except StopIteration as end:
                return cast("_T", end.value)
            answer = getattr(records, method)(**given)

    async def _run_async(self, calls: _Calls[_T]) -> _T:
        records = (self._store or relight.default()).records
        answer = None
        while True:
            try:
                method, given = calls.send(answer)
            except StopIteration as end:
                return cast("_T", end.value)
            answer = await getattr(records, f"{method}_async")(**given)

    def _get_tuple(self, config: RunnableConfig) -> _Calls[CheckpointTuple | None]:
        thread, namespace, id = _configured(config)
        if id is None:
            under = _name(thread, namespace, "checkpoint", "")
            page = yield "list", {"under": under, "descending": True, "limit": 1}
            if not page.items:
                return None
            newest = page.items[0]
            return (yield from self._tuple(_place(newest.name), newest.value))
        saved = yield "get", {"name": _name(thread, namespace, "checkpoint", id)}
        if saved is None:
            return None
        found = yield from self._tuple((thread, namespace, id), saved)
        # The caller's own configuration, with what else is in it.
        return found._replace(config=config)

    def _list_page(self, search: _Search) -> _Calls[_Tuples]:
        found: _Tuples = []
        for record in (yield from search.read()):
            if not search.has_place(record.name):
                continue
            metadata = self._metadata(record.value)
            if not search.has_metadata(metadata):
                continue
            found.append((yield from self._tuple(_place(record.name), record.value)))
            if search.is_last():
                break
        return found

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> _Calls[RunnableConfig]:
        thread, namespace, parent = _configured(config)
        id = checkpoint["id"]
        value = {
            "parent": parent,
            "checkpoint": self._dump(checkpoint),
            # Always JSON, so that secrets are found: it has copies of the configuration.
            "metadata": {"type": "json", "json": get_checkpoint_metadata(config, metadata)},
        }
        yield "put", {"name": _name(thread, namespace, "checkpoint", id), "value": value}
        return _config((thread, namespace, id))

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> _Calls[None]:
        thread, namespace, id = _configured(config)
        if id is None:
            raise ValueError("the configuration of writes has no checkpoint_id")
        name = f"{_name(thread, namespace, 'writes', id)}/{encoded_part(task_id)}"
        given = [
            [WRITES_IDX_MAP.get(channel, index), channel, self._dump(value)]
            for index, (channel, value) in enumerate(writes)
        ]
        # Most often the first ones of the task: written without a look at what is there.
        value = {"path": task_path, "writes": _merged([], given)}
        if (yield "put", {"name": name, "value": value, "new": True}):
            return
        for _ in write_tries(f"the record of the writes of task {task_id}"):
            there = yield "get", {"name": name}
            if there is None:
                change = {"value": value, "new": True}
            else:
                merged = _merged(there["writes"], given)
                if merged == there["writes"]:
                    return
                path = task_path or there["path"]
                change = {"value": {"path": path, "writes": merged}, "expected": there}
            if (yield "put", {"name": name, **change}):
                return

    def _delete_for_runs(self, run_ids: Sequence[str]) -> _Calls[None]:
        runs, pages = set(run_ids), _Pages("langgraph/")
        while runs and pages.has_more:
            for record in (yield from pages.read()):
                is_checkpoint = _kind(record.name) == "checkpoint"
                if is_checkpoint and self._metadata(record.value).get("run_id") in runs:
                    yield from _delete_checkpoint(_place(record.name))

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> _Calls[None]:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"prune has no strategy {strategy!r}")
        for thread in thread_ids:
            if strategy == "delete":
                yield from _delete_thread(thread)
            else:
                yield from self._keep_latest(thread)

    def _keep_latest(self, thread: str) -> _Calls[None]:
        pages = _Pages(_thread(thread), descending=True)
        namespace, kept = None, set[str]()
        while pages.has_more:
            for record in (yield from pages.read()):
                if _kind(record.name) != "checkpoint":
                    continue
                place = _place(record.name)
                if place[1] != namespace:
                    # The first one of a namespace is its newest.
                    namespace, kept = place[1], (yield from self._needed(place, record.value))
                if place[2] not in kept:
                    yield from _delete_checkpoint(place)

    def _needed(self, place: _Place, saved: dict[str, Any]) -> _Calls[set[str]]:
        """This checkpoint, and those before it up to the last snapshot of each delta channel."""
        thread, namespace, id = place
        needed = {id}
        channels = set(self._metadata(saved).get("counters_since_delta_snapshot") or ())
        before: dict[str, Any] | None = saved
        while channels and before is not None:
            channels -= set(self._load(before["checkpoint"])["channel_values"])
            parent = before["parent"]
            if not channels or parent is None or parent in needed:
                break
            needed.add(parent)
            before = yield "get", {"name": _name(thread, namespace, "checkpoint", parent)}
        return needed

    def _tuple(self, place: _Place, saved: dict[str, Any]) -> _Calls[CheckpointTuple]:
        thread, namespace, id = place
        found: list[tuple[str, str, int, str, dict[str, Any]]] = []
        pages = _Pages(f"{_name(thread, namespace, 'writes', id)}/")
        while pages.has_more:
            for record in (yield from pages.read()):
                task, path = _parts(record.name)[5], record.value["path"]
                found += [(path, task, *write) for write in record.value["writes"]]
        # As the tasks are applied: by path, task and index.
        found.sort(key=lambda write: write[:3])
        parent = saved["parent"]
        return CheckpointTuple(
            config=_config(place),
            checkpoint=self._load(saved["checkpoint"]),
            metadata=cast("CheckpointMetadata", self._metadata(saved)),
            parent_config=None if parent is None else _config((thread, namespace, parent)),
            pending_writes=[
                (task, channel, self._load(data)) for _, task, _, channel, data in found
            ],
        )

    def _metadata(self, saved: dict[str, Any]) -> dict[str, Any]:
        data = saved["metadata"]
        return cast("dict[str, Any]", data["json"] if "json" in data else self._load(data))

    def _dump(self, value: Any) -> dict[str, Any]:
        type, data = self.serde.dumps_typed(value)
        if type == "json":
            # Numbers that the store cannot keep exactly stay text.
            with suppress(ValueError):
                return {"type": type, "json": _EXACT_JSON.decode(data.decode())}
        return {"type": type, "base64": b64encode(data).decode("ascii")}

    def _load(self, data: dict[str, Any]) -> Any:
        if "base64" in data:
            return self.serde.loads_typed((data["type"], b64decode(data["base64"])))
        return self.serde.loads_typed((data["type"], json.dumps(data["json"]).encode()))


class _Pages:
    """Records whose names start with ``under``, read page by page."""

    def __init__(
        self,
        under: str,
        *,
        descending: bool = False,
        after: str | None = None,
        page: int = _PAGE,
    ) -> None:
        self.has_more = True
        self._given = {"under": under, "descending": descending, "after": after, "limit": page}

    def read(self) -> _Calls[list[Record]]:
        page: RecordPage = yield "list", self._given
        self._given["after"], self.has_more = page.next, page.next is not None
        return page.items


class _Search(_Pages):
    """The checkpoints that :meth:`RelightSaver.list` is asked for."""

    def __init__(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        configurable = (config or {}).get("configurable", {})
        thread, namespace = configurable.get("thread_id"), configurable.get("checkpoint_ns")
        self._namespace, self._id = namespace, configurable.get("checkpoint_id") or None
        self._before = (get_checkpoint_id(before) if before else None) or None
        self._filter, self._left = filter or {}, limit
        under, after, page = "langgraph/", None, _PAGE
        if thread is not None and namespace is not None:
            under = _name(thread, namespace, "checkpoint", self._id or "")
            if self._before is not None:
                after = _name(thread, namespace, "checkpoint", self._before)
            if limit is not None and not filter:
                page = min(limit, _PAGE)
        elif thread is not None:
            under = _thread(thread)
        super().__init__(under, descending=True, after=after, page=page)
        self.has_more = limit is None or limit > 0

    def has_place(self, name: str) -> bool:
        """Whether a record is a checkpoint of the namespace, the id and the time."""
        if _kind(name) != "checkpoint":
            return False
        _, namespace, id = _place(name)
        return (
            self._namespace in (None, namespace)
            and self._id in (None, id)
            and (self._before is None or id < self._before)
        )

    def has_metadata(self, metadata: dict[str, Any]) -> bool:
        return all(metadata.get(key) == value for key, value in self._filter.items())

    def is_last(self) -> bool:
        """Counts one; whether it is the last that is wanted."""
        if self._left is not None:
            self._left -= 1
            self.has_more = self.has_more and self._left > 0
        return self._left == 0


def _delete_thread(thread: str) -> _Calls[None]:
    yield "remove", {"under": _thread(thread)}


def _delete_checkpoint(place: _Place) -> _Calls[None]:
    # In this order: a checkpoint without its writes would run finished nodes again.
    yield "remove", {"name": _name(*place[:2], "checkpoint", place[2])}
    yield "remove", {"under": f"{_name(*place[:2], 'writes', place[2])}/"}


def _copy_thread(source: str, target: str) -> _Calls[None]:
    under, to, pages = _thread(source), _thread(target), _Pages(_thread(source))
    while pages.has_more:
        for record in (yield from pages.read()):
            name = to + record.name.removeprefix(under)
            yield "put", {"name": name, "value": record.value}


def _merged(there: _Writes, given: _Writes) -> _Writes:
    """What is there stays, except errors and interrupts, whose index is negative."""
    writes = {write[0]: write for write in there}
    for write in given:
        if write[0] < 0 or write[0] not in writes:
            writes[write[0]] = write
    return sorted(writes.values(), key=lambda write: cast(int, write[0]))


def _exact_integer(digits: str) -> int:
    number = int(digits)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"not an integer of 64 bits: {digits}")
    return number


def _no_number(name: str) -> None:
    raise ValueError(f"not a number: {name}")


_EXACT_JSON = json.JSONDecoder(parse_int=_exact_integer, parse_constant=_no_number)


def _thread(thread: str) -> str:
    return f"langgraph/{encoded_part(str(thread))}/"


def _name(thread: str, namespace: str, kind: str, id: str) -> str:
    return f"{_thread(thread)}{encoded_part(namespace)}/{kind}/{encoded_part(id)}"


def _parts(name: str) -> list[str]:
    return [unquote(part) for part in name.split("/")]


def _kind(name: str) -> str:
    return name.split("/", 4)[3]


def _place(name: str) -> _Place:
    _, thread, namespace, _, id = _parts(name)[:5]
    return thread, namespace, id


def _configured(config: RunnableConfig) -> tuple[str, str, str | None]:
    configurable = config.get("configurable", {})
    namespace = configurable.get("checkpoint_ns") or ""
    return str(configurable["thread_id"]), namespace, get_checkpoint_id(config) or None


def _config(place: _Place) -> RunnableConfig:
    thread, namespace, id = place
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}
