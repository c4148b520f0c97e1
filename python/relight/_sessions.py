"""Sessions: conversations of a gateway whose turns can be cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _waiting

if TYPE_CHECKING:
    from . import _native
    from ._client import Relight

Policy = Literal["suspend", "resume_pending"]


class Turn:
    """A turn in flight. When the process dies instead of ending it, the next recovery finds it."""

    def __init__(self, native: _native.Turn) -> None:
        self._native = native
        begun: dict[str, Any] = json.loads(native.begun())
        self.key: str = begun["key"]
        self.session_id: str = begun["session_id"]
        self.generation: int = begun["generation"]
        self.resumed: bool = begun["resumed"]
        self.previous_state: str | None = begun["previous_state"]
        self.reason: str | None = begun["reason"]
        self.deaths_in_a_row: int = begun["deaths_in_a_row"]
        self.context: dict[str, str] = begun["context"]

    def end(self) -> None:
        """It is finished. :class:`relight.Fenced` when a newer turn was begun meanwhile."""
        self._native.end()

    async def end_async(self) -> None:
        """The same in an event loop."""
        await _waiting.wait(lambda via: self._native.end(via))

    def give_up(self) -> None:
        """Drops the mark: the session is idle again, and no death is counted."""
        self._native.close()


class TurnBlock:
    """``with sessions.turn(key, id) as turn`` or ``async with …``: marked inside, ended after."""

    def __init__(self, relight: Relight, request: Mapping[str, Any]) -> None:
        self._relight = relight
        self._request = json.dumps(request)
        self._turn: Turn | None = None

    def begin(self) -> Turn:
        """Begins it without a block: call ``end`` yourself."""
        return Turn(self._relight.native.begin_turn(self._request))

    async def begin_async(self) -> Turn:
        """The same in an event loop."""
        native = self._relight.native
        return Turn(await _waiting.wait(lambda via: native.begin_turn(self._request, via)))

    def __enter__(self) -> Turn:
        self._turn = self.begin()
        return self._turn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        turn = self._entered()
        if error is None or isinstance(error, Exception):
            turn.end()
        else:
            turn.give_up()

    async def __aenter__(self) -> Turn:
        self._turn = await self.begin_async()
        return self._turn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        turn = self._entered()
        if error is None or isinstance(error, Exception):
            await turn.end_async()
        else:
            turn.give_up()

    def _entered(self) -> Turn:
        if self._turn is None:
            raise RuntimeError("the block of this turn was not entered")
        return self._turn


class Sessions:
    """The sessions of one store."""

    def __init__(self, relight: Relight) -> None:
        self._relight = relight

    def turn(
        self,
        key: str,
        id: str,
        *,
        set: Mapping[str, str] | None = None,
        lease: str | None = None,
    ) -> TurnBlock:
        """A turn of this conversation, marked on disk before it runs."""
        given = {"key": key, "id": id, "set": dict(set or {}), "lease": lease}
        return TurnBlock(self._relight, given)

    def end(self, key: str, generation: int) -> dict[str, Any]:
        """Ends a turn by its number; an older one is :class:`relight.Fenced`."""
        return self._call("session.end", key=key, generation=generation)

    def touch(self, key: str, id: str) -> dict[str, Any]:
        """Notes activity in a session whose turns are not marked."""
        return self._call("session.touch", key=key, id=id)

    def recover(
        self,
        policy: Policy | None = None,
        *,
        window: str | None = None,
        freshness: str | None = None,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """For the start of a gateway: decides what happens to each session whose turn was cut off."""
        decided = self._call(
            "session.recover", policy=policy, window=window, freshness=freshness, dry_run=dry_run
        )
        items: list[dict[str, Any]] = decided["items"]
        return items

    def shutdown(self) -> list[str]:
        """What a gateway calls at its end: the marks of this process are discarded."""
        discarded: list[str] = self._call("session.shutdown")["discarded"]
        return discarded

    def show(self, key: str) -> dict[str, Any]:
        return self._call("session.show", key=key)

    def list(self, state: str | Sequence[str] = (), **page: Any) -> dict[str, Any]:
        given = state if isinstance(state, str) else [*state]
        return self._call("session.list", state=given, **page)

    def resume(self, key: str) -> dict[str, Any]:
        """Lets a session continue."""
        return self._call("session.resume", key=key)

    def suspend(self, key: str, reason: str | None = None) -> dict[str, Any]:
        """Suspends a session."""
        return self._call("session.suspend", key=key, reason=reason)

    def clear(self, key: str) -> dict[str, Any]:
        """Clears a session's mark, reason, deaths and context."""
        return self._call("session.clear", key=key)

    def export(self) -> dict[str, Any]:
        """The turns in flight, as ``agent_checkpoints.json`` has them."""
        return self._call("session.export")

    def import_marks(self, marks: Mapping[str, Any], owner_pid: int | None = None) -> dict[str, Any]:
        """Takes in the content of ``agent_checkpoints.json``."""
        return self._call("session.import", marks=dict(marks), owner_pid=owner_pid)

    def _call(self, operation: str, /, **given: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._relight.call(operation, **given)
        return answer
