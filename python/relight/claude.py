"""Records tool calls of the Claude Agent SDK as steps, and keeps its transcripts in the store.

The layout of the transcripts is in docs/guides/claude-agent-sdk.md.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any, cast
from urllib.parse import unquote
from weakref import WeakValueDictionary

import anyio
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    HookContext,
    HookEvent,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from . import default
from ._client import Relight
from ._records import Records, encoded_part, write_tries
from ._task import Repeat

__all__ = ["RelightSessionStore", "relight_hooks"]

_EVENTS = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before-tool",
    "PostToolUse": "after-tool",
    "PostToolUseFailure": "after-tool",
    "Stop": "stop",
    "StopFailure": "failure",
    "SessionEnd": "session-end",
}
# The field of a part of a message that has binary data, by the type of the part.
_BINARY = {"base64": "data", "redacted_thinking": "data", "thinking": "signature"}
# Most conversations that are known to have been told. One that is dropped is told once more.
_TOLD_MAX = 1_000
# Batches of entries that are read at once; a batch of the SDK has about 1 MiB at most.
_PAGE = 16


def relight_hooks(
    store: Relight | None = None,
    repeat: Mapping[str, Repeat] | None = None,
    on_error: Callable[[Exception], object] | None = None,
    *,
    rules: Mapping[str, Sequence[str]] | None = None,
) -> dict[HookEvent, list[HookMatcher]]:
    """Hooks for ``ClaudeAgentOptions(hooks=…)`` that record every tool call as a step.

    The conversation is the task. ``repeat`` has repeat rules by the name of the tool; the others
    are the defaults of ``[hooks]`` in ``relight.toml``. The model is told which calls of a
    conversation that was cut off are in doubt. The hooks never stop the agent: ``on_error`` is
    called with each error.
    """
    told: deque[str] = deque(maxlen=_TOLD_MAX)

    async def observe(event: str, payload: Any, rule: str | None = None) -> str | None:
        given = {"event": event, "program": "claude", "payload": payload, "rule": rule, "rules": rules}
        answer = await (store or default()).call_async("hook.observe", **given)
        return cast("str | None", answer["context"])

    async def hook(
        input: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        text: str | None = None
        try:
            payload = _copy(input)
            name, session = payload["hook_event_name"], payload["session_id"]
            is_start = name == "SessionStart"
            # Claude Code calls no SessionStart hook of the SDK: the first prompt stands for it.
            if is_start or (name == "UserPromptSubmit" and session not in told):
                text = await observe("session-start", payload)
                told.append(session)
            if not is_start:
                rule = repeat.get(payload.get("tool_name", "")) if repeat else None
                await observe(_EVENTS[name], payload, rule)
        except Exception as error:
            if on_error is not None:
                on_error(error)
        if text is None:
            return {}
        said = {"hookEventName": input["hook_event_name"], "additionalContext": text}
        return cast("HookJSONOutput", {"hookSpecificOutput": said})

    matchers = {name: [HookMatcher(hooks=[hook])] for name in _EVENTS}
    # The program has more events than the type of the SDK names.
    return cast("dict[HookEvent, list[HookMatcher]]", matchers)


class RelightSessionStore(SessionStore):
    """Keeps transcripts in Relight's store: ``ClaudeAgentOptions(session_store=…)``.

    Batches of entries are appended and never rewritten. The order is that of the commits, also when
    several processes append to one transcript.
    """

    def __init__(self, store: Relight | None = None) -> None:
        """Without a store it uses the one that the command line uses."""
        self._store = store
        # A lock serves one event loop only, so it belongs to one thread.
        self._locks: WeakValueDictionary[tuple[int, str], anyio.Lock] = WeakValueDictionary()

    @property
    def _records(self) -> Records:
        return (self._store or default()).records

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Appends entries, on disk when this returns."""
        if not entries:
            return
        entries = _copy(entries, _with_binary_data)
        under = _entries(key)
        # Calls in one loop keep their order.
        async with self._locks.setdefault((get_ident(), under), anyio.Lock()):
            for _ in write_tries(f"the transcript of session {key['session_id']}"):
                if await self._try_to_append(key, under, entries):
                    return

    async def _try_to_append(
        self, key: SessionKey, under: str, entries: list[SessionStoreEntry]
    ) -> bool:
        """Appends them as the next batch; ``False`` when another process was faster."""
        records, project, session = self._records, key["project_key"], key["session_id"]
        page = await records.list_async(under, descending=True, limit=1)
        last = page.items[0] if page.items else None
        number = int(last.name.rpartition("/")[2]) + 1 if last else 1
        # Grows with every batch, whatever the clock does.
        mtime = max(time.time_ns() // 1_000_000, last.value["mtime"] + 1 if last else 0)
        batch: dict[str, Any] = {"mtime": mtime, "entries": entries}
        # The record that lists it is written first: every transcript with entries is listed.
        if subpath := key.get("subpath"):
            if last is None:
                await records.put_async(_path(project, "subpath", session, subpath), {})
        else:
            before: SessionSummaryEntry | None = None
            if last is not None:
                data = last.value["summary"]
                before = {"session_id": session, "mtime": last.value["mtime"], "data": data}
            batch["summary"] = fold_session_summary(before, key, entries)["data"]
            listed = {"mtime": mtime, "summary": batch["summary"]}
            await records.put_async(_path(project, "session", session), listed)
        return await records.put_async(f"{under}{number:012}", batch, new=True)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries in their order; ``None`` when there are none."""
        entries: list[SessionStoreEntry] = []
        seen: set[str] = set()
        async for batch in self._records.all_async(_entries(key), page=_PAGE):
            for entry in _copy(batch.value["entries"], _with_plain_data):
                # The SDK sends a batch again when it does not know whether it was written.
                uuid: str | None = entry.get("uuid")
                if uuid in seen:
                    continue
                entries.append(entry)
                if uuid is not None:
                    seen.add(uuid)
        return entries or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project."""
        found = await self.list_session_summaries(project_key)
        return [{"session_id": it["session_id"], "mtime": it["mtime"]} for it in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The sessions of a project, each with its summary."""
        under = _path(project_key, "session", "")
        return [
            {
                "session_id": unquote(it.name.removeprefix(under)),
                "mtime": it.value["mtime"],
                "data": it.value["summary"],
            }
            async for it in self._records.all_async(under)
        ]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The transcripts of the subagents of a session."""
        under = _path(key["project_key"], "subpath", key["session_id"], "")
        found = self._records.all_async(under)
        return [unquote(it.name.removeprefix(under)) async for it in found]

    async def delete(self, key: SessionKey) -> None:
        """Removes a transcript; that of a session together with those of its subagents."""
        records, project, session = self._records, key["project_key"], key["session_id"]
        if subpath := key.get("subpath"):
            await records.remove_async(under=_entries(key))
            await records.remove_async(_path(project, "subpath", session, subpath))
            return
        await records.remove_async(under=_path(project, "entries", session, ""))
        await records.remove_async(under=_path(project, "subpath", session, ""))
        await records.remove_async(_path(project, "session", session))


def _entries(key: SessionKey) -> str:
    """What the names of the batches of a transcript start with."""
    return _path(key["project_key"], "entries", key["session_id"], key.get("subpath", ""), "")


def _path(*parts: str) -> str:
    return "/".join(["claude", *map(encoded_part, parts)])


def _copy(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> Any:
    """A copy; ``change`` is called with every object in it.

    Half of a surrogate pair becomes a question mark, as UTF-8 cannot have one. It comes from a
    text that was cut in the middle of a character.
    """
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    return json.loads(text, object_hook=change)


def _with_binary_data(part: dict[str, Any]) -> dict[str, Any]:
    """Puts binary data under ``base64``, where it is not redacted: a mark would break it."""
    field = _binary_field(part)
    if field is not None and isinstance(part[field], str):
        part[field] = {"base64": part[field]}
    return part


def _with_plain_data(part: dict[str, Any]) -> dict[str, Any]:
    """The reverse of :func:`_with_binary_data`."""
    field = _binary_field(part)
    if field is not None and isinstance(part[field], dict):
        part[field] = part[field].get("base64", part[field])
    return part


def _binary_field(part: dict[str, Any]) -> str | None:
    kind = part.get("type")
    field = _BINARY.get(kind) if isinstance(kind, str) else None
    return field if field in part else None
