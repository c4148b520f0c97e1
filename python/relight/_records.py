"""Small named JSON documents in the store, for adapters of other frameworks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ._errors import Conflict

if TYPE_CHECKING:
    from ._client import Relight

# Tries of a write that other processes may be ahead of each time.
_TRIES_MAX = 1_000


@dataclass(frozen=True)
class Record:
    """A small named JSON document."""

    name: str
    value: Any


@dataclass(frozen=True)
class RecordPage:
    """Some records; ``next`` is what ``after`` is for the ones behind them, ``None`` at the end."""

    items: list[Record]
    next: str | None


def encoded_part(text: str) -> str:
    """One part of a record's name: percent-encoded UTF-8, as the package for TypeScript writes it."""
    return quote(text, safe="", errors="strict")


def write_tries(what: str) -> Iterator[int]:
    """Numbers the tries of a conditional write; raises :class:`Conflict` when all of them failed."""
    yield from range(_TRIES_MAX)
    raise Conflict(
        f"{what} is being changed by others all the time",
        code="conflict",
        exit=75,
        status=409,
        hint="try again",
    )


class Records:
    """The records of one store. The last write wins, or the one that saw the value it replaces."""

    def __init__(self, relight: Relight) -> None:
        self._relight = relight

    def get(self, name: str) -> Any:
        """What it holds; ``None`` when it does not exist."""
        return self._relight.call("record.get", record=name)["value"]

    async def get_async(self, name: str) -> Any:
        """The same in an event loop."""
        return (await self._relight.call_async("record.get", record=name))["value"]

    def put(self, name: str, value: Any, *, expected: Any = None, new: bool = False) -> bool:
        """Writes it, on disk when this returns.

        With ``expected`` only if it holds that now, with ``new`` only if it does not exist; ``False``
        when that is not so.
        """
        given = _put(name, value, expected, new)
        return cast(bool, self._relight.call("record.put", **given)["written"])

    async def put_async(
        self, name: str, value: Any, *, expected: Any = None, new: bool = False
    ) -> bool:
        """The same in an event loop."""
        given = _put(name, value, expected, new)
        return cast(bool, (await self._relight.call_async("record.put", **given))["written"])

    def list(
        self,
        under: str,
        *,
        after: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> RecordPage:
        """Those whose names start with ``under``, in the order of their names."""
        given = _list(under, after, descending, limit)
        return _page(self._relight.call("record.list", **given))

    async def list_async(
        self,
        under: str,
        *,
        after: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> RecordPage:
        """The same in an event loop."""
        given = _list(under, after, descending, limit)
        return _page(await self._relight.call_async("record.list", **given))

    def all(
        self, under: str, *, descending: bool = False, page: int | None = None
    ) -> Iterator[Record]:
        """All of them, read page by page."""
        after: str | None = None
        while True:
            some = self.list(under, after=after, descending=descending, limit=page)
            yield from some.items
            if some.next is None:
                return
            after = some.next

    async def all_async(
        self, under: str, *, descending: bool = False, page: int | None = None
    ) -> AsyncIterator[Record]:
        """The same in an event loop."""
        after: str | None = None
        while True:
            some = await self.list_async(under, after=after, descending=descending, limit=page)
            for item in some.items:
                yield item
            if some.next is None:
                return
            after = some.next

    def remove(self, name: str | None = None, *, under: str | None = None) -> int:
        """Removes one by its name, or all whose names start with ``under``. Answers how many."""
        given = {"record": name, "under": under}
        return cast(int, self._relight.call("record.remove", **given)["removed"])

    async def remove_async(self, name: str | None = None, *, under: str | None = None) -> int:
        """The same in an event loop."""
        given = {"record": name, "under": under}
        return cast(int, (await self._relight.call_async("record.remove", **given))["removed"])


def _put(name: str, value: Any, expected: Any, new: bool) -> dict[str, Any]:
    return {"record": name, "value": value, "expected": expected, "new": new}


def _list(under: str, after: str | None, descending: bool, limit: int | None) -> dict[str, Any]:
    return {"under": under, "after": after, "descending": descending, "limit": limit}


def _page(answer: dict[str, Any]) -> RecordPage:
    items = [Record(item["record"], item["value"]) for item in answer["items"]]
    return RecordPage(items, answer["next"])
