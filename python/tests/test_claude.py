"""The adapter for the Claude Agent SDK: the real package, with a stand-in for Claude Code."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import anyio
from claude_agent_sdk import list_sessions_from_store, project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import (
    HookInput,
    HookJSONOutput,
    PostToolUseFailureHookInput,
    PostToolUseHookInput,
    PreToolUseHookInput,
    SessionKey,
    SessionStoreEntry,
    StopHookInput,
    UserPromptSubmitHookInput,
)

import relight
from relight.claude import RelightSessionStore, relight_hooks

HERE = Path(__file__).parent
KEY: SessionKey = {"project_key": "project", "session_id": "session"}


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "trio":
        pytest.importorskip("trio")
    return str(request.param)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in for Claude Code."""
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable}\n{(HERE / 'claude_program.py').read_text()}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    return program


def converse(
    program: Path, events: str, session: str = "conversation-1", **variables: str
) -> subprocess.CompletedProcess[str]:
    """A conversation in a process of its own, in the folder of the program."""
    arguments = [sys.executable, str(HERE / "claude_conversation.py"), str(program)]
    resumed = variables.pop("resume", None)
    return subprocess.run(
        arguments + ([resumed] if resumed else []),
        env={**os.environ, "STAND_IN": events, "STAND_IN_SESSION": session, **variables},
        cwd=program.parent,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


def steps(task: str) -> list[str]:
    found = relight.call("step.list", task=task)["items"]
    return [f"{step['name'].split(':')[0]} {step['rule']} {step['state']}" for step in found]


BEFORE_THE_KILL = (
    "UserPromptSubmit PreToolUse:Deploy:1 PostToolUse:Deploy:1 PreToolUse:Read:2 "
    "PostToolUse:Read:2 PreToolUse:Deploy:3 kill"
)
OWN = "This conversation was cut off"
OTHER = "An earlier conversation in this folder was cut off"


@pytest.mark.parametrize(
    ("start", "session", "whose"),
    [
        ("UserPromptSubmit", "conversation-1", OWN),
        ("UserPromptSubmit", "conversation-2", OTHER),
        ("SessionStart", "conversation-2", OTHER),
    ],
)
def test_a_call_that_was_killed_is_told_at_the_next_start(
    program: Path, start: str, session: str, whose: str
) -> None:
    killed = converse(program, BEFORE_THE_KILL)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    assert [task["id"] for task in relight.call("task.list")["items"]] == ["claude/conversation-1"]
    recorded = ["Deploy once done", "Read repeatable done", "Deploy once begun"]
    assert steps("claude/conversation-1") == recorded
    resumed = converse(program, start, session)
    assert resumed.stdout.startswith(f"Relight: {whose}")
    assert "toolu_3" in resumed.stdout


def test_a_conversation_is_told_once(program: Path) -> None:
    converse(program, BEFORE_THE_KILL)
    turns = "SessionStart UserPromptSubmit Stop UserPromptSubmit Stop"
    assert converse(program, turns).stdout.count("was cut off") == 1
    # The call is still in doubt: the same conversation is told when it is resumed.
    resumed = converse(program, "UserPromptSubmit Stop UserPromptSubmit Stop")
    assert resumed.stdout.count("was cut off") == 1
    assert converse(program, "UserPromptSubmit", "conversation-2").stdout == "\n"


def test_a_store_that_cannot_be_opened_does_not_stop_the_agent(
    program: Path, home: Path
) -> None:
    home.write_text("not a folder")
    ended = converse(program, "UserPromptSubmit PreToolUse:Deploy:1 Stop")
    assert (ended.returncode, ended.stdout) == (0, "error StoreError\n" * 3 + "\n")


class Conversation:
    """Calls of the hooks with the types of the SDK."""

    def __init__(self, **options: Any) -> None:
        self.hooks = relight_hooks(**options)

    async def call(self, given: HookInput) -> HookJSONOutput:
        matchers = self.hooks[given["hook_event_name"]]
        return await matchers[0].hooks[0](given, None, {"signal": None})

    async def prompt(self) -> HookJSONOutput:
        return await self.call(
            UserPromptSubmitHookInput(
                session_id="direct",
                transcript_path="",
                cwd=os.getcwd(),
                hook_event_name="UserPromptSubmit",
                prompt="deploy it",
            )
        )

    async def before(self, tool: str, id: str) -> HookJSONOutput:
        return await self.call(
            PreToolUseHookInput(
                session_id="direct",
                transcript_path="",
                cwd=os.getcwd(),
                hook_event_name="PreToolUse",
                tool_name=tool,
                tool_input={"command": f"run {id}"},
                tool_use_id=id,
            )
        )

    async def after(self, tool: str, id: str, response: Any = "") -> HookJSONOutput:
        return await self.call(
            PostToolUseHookInput(
                session_id="direct",
                transcript_path="",
                cwd=os.getcwd(),
                hook_event_name="PostToolUse",
                tool_name=tool,
                tool_input={"command": f"run {id}"},
                tool_response=response,
                tool_use_id=id,
            )
        )

    async def failed(self, tool: str, id: str, error: str) -> HookJSONOutput:
        return await self.call(
            PostToolUseFailureHookInput(
                session_id="direct",
                transcript_path="",
                cwd=os.getcwd(),
                hook_event_name="PostToolUseFailure",
                tool_name=tool,
                tool_input={"command": f"run {id}"},
                tool_use_id=id,
                error=error,
            )
        )

    async def stop(self) -> HookJSONOutput:
        return await self.call(
            StopHookInput(
                session_id="direct",
                transcript_path="",
                cwd=os.getcwd(),
                hook_event_name="Stop",
                stop_hook_active=False,
            )
        )


def test_calls_become_steps_of_the_conversation(backend: str) -> None:
    async def main() -> None:
        talk = Conversation(repeat={"Fetch": "repeatable"})
        assert await talk.prompt() == {}
        assert await talk.before("Bash", "1") == {}
        assert steps("claude/direct") == ["Bash once begun"]
        assert await talk.after("Bash", "1") == {}
        await talk.before("Bash", "2")
        assert await talk.failed("Bash", "2", "Exit code 3") == {}
        await talk.before("Fetch", "3")
        await talk.after("Fetch", "3")
        assert relight.call("task.show", task="claude/direct")["status"] == "in_progress"
        assert await talk.stop() == {}

    anyio.run(main, backend=backend)
    ended = ["Bash once done", "Bash once failed", "Fetch repeatable done"]
    assert steps("claude/direct") == ended
    assert relight.call("task.show", task="claude/direct")["status"] == "completed"


def test_half_a_character_is_recorded_as_a_question_mark() -> None:
    async def main() -> None:
        talk = Conversation(on_error=errors.append)
        await talk.prompt()
        await talk.before("Bash", "1")
        await talk.after("Bash", "1", {"stdout": "cut \ud83d"})
        entry: SessionStoreEntry = {"type": "cut \ud83d", "uuid": "whole \U0001f600"}
        store = RelightSessionStore()
        await store.append(KEY, [entry])
        assert await store.load(KEY) == [{"type": "cut ?", "uuid": "whole \U0001f600"}]

    errors: list[Exception] = []
    asyncio.run(main())
    assert (errors, steps("claude/direct")) == ([], ["Bash once done"])


def test_errors_are_told_and_the_hook_answers_nothing() -> None:
    async def main() -> None:
        told: list[Exception] = []
        bad: Any = {"Bash": "never"}
        assert await Conversation(repeat=bad, on_error=told.append).before("Bash", "1") == {}
        assert [type(error) for error in told] == [relight.Invalid]
        assert await Conversation(repeat=bad).before("Bash", "1") == {}

    asyncio.run(main())


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[relight.Relight]]:
    opened: list[relight.Relight] = []
    yield opened
    for store in opened:
        store.close()


def test_the_store_passes_the_conformance_tests(
    backend: str, tmp_path: Path, stores: list[relight.Relight]
) -> None:
    def fresh() -> RelightSessionStore:
        stores.append(relight.open(tmp_path / f"home-{len(stores)}"))
        return RelightSessionStore(stores[-1])

    async def main() -> None:
        await run_session_store_conformance(fresh)

    anyio.run(main, backend=backend)
    # One for each of the 14 contracts, and one to see which methods there are.
    assert len(stores) == 15


class Reversed(RelightSessionStore):
    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        entries = await super().load(key)
        return entries[::-1] if entries else None


class WithoutSubpaths(RelightSessionStore):
    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        await super().append({**KEY, "session_id": key["session_id"]}, entries)


class DeletesNothing(RelightSessionStore):
    async def delete(self, key: SessionKey) -> None:
        return


@pytest.mark.parametrize("broken", [Reversed, WithoutSubpaths, DeletesNothing])
def test_the_conformance_tests_find_a_broken_store(
    broken: type[RelightSessionStore], tmp_path: Path, stores: list[relight.Relight]
) -> None:
    def fresh() -> RelightSessionStore:
        stores.append(relight.open(tmp_path / f"home-{len(stores)}"))
        return broken(stores[-1])

    with pytest.raises(AssertionError):
        asyncio.run(run_session_store_conformance(fresh))


def entries(*numbers: int) -> list[SessionStoreEntry]:
    return [{"type": f"entry {n}"} for n in numbers]


def test_appends_at_once_keep_the_order_of_their_calls(backend: str) -> None:
    async def main() -> None:
        store = RelightSessionStore()
        async with anyio.create_task_group() as group:
            for n in range(40):
                group.start_soon(store.append, KEY, entries(n))
        loaded = await store.load(KEY)
        assert loaded is not None and sorted(map(str, loaded)) == sorted(map(str, all_of_them))
        # Trio starts tasks in any order.
        assert backend == "trio" or loaded == all_of_them

    all_of_them = entries(*range(40))
    anyio.run(main, backend=backend)


APPENDS = """
import asyncio, sys
from relight.claude import RelightSessionStore
async def main():
    store = RelightSessionStore()
    key = {"project_key": "project", "session_id": "session"}
    for n in range(int(sys.argv[2])):
        await store.append(key, [{"type": sys.argv[1], "n": n}])
        print(n, flush=True)
asyncio.run(main())
"""


def appending(name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPENDS, name, str(count)], stdout=subprocess.PIPE, text=True
    )


def numbers_by_name() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    loaded: Any = asyncio.run(RelightSessionStore().load(KEY)) or []
    for entry in loaded:
        found.setdefault(entry["type"], []).append(entry["n"])
    return found


def test_processes_that_append_to_one_transcript_lose_nothing() -> None:
    processes = {name: appending(name, 25) for name in ("a", "b", "c")}
    for process in processes.values():
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert numbers_by_name() == {name: list(range(25)) for name in processes}


def test_threads_that_append_to_one_transcript_lose_nothing() -> None:
    store = RelightSessionStore()

    async def work(name: str) -> None:
        for n in range(10):
            entry: Any = {"type": name, "n": n}
            await store.append(KEY, [entry])

    threads = [
        threading.Thread(target=asyncio.run, args=(work(name),), daemon=True) for name in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert numbers_by_name() == {name: list(range(10)) for name in "abc"}


@pytest.mark.parametrize("acknowledged", [1, 2, 7])
def test_what_was_appended_before_a_kill_is_there(acknowledged: int) -> None:
    process = appending("a", 1_000_000)
    assert process.stdout is not None
    for _ in range(acknowledged):
        process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    [numbers] = numbers_by_name().values()
    assert len(numbers) >= acknowledged
    assert numbers == list(range(len(numbers)))
    listed = asyncio.run(RelightSessionStore().list_sessions("project"))
    assert [session["session_id"] for session in listed] == ["session"]
    more: Any = {"type": "b", "n": 0}
    asyncio.run(RelightSessionStore().append(KEY, [more]))
    assert numbers_by_name() == {"a": numbers, "b": [0]}


def test_a_session_is_listed_before_its_first_batch_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []

    async def main() -> None:
        store = RelightSessionStore()
        subagent: SessionKey = {**KEY, "subpath": "subagents/agent-1"}
        for key in (KEY, subagent):
            written.clear()
            await store.append(key, entries(1))
            assert [name.split("/")[2] for name in written][-1] == "entries"
            assert len(written) == 2

    real = relight.Records.put_async

    async def put(self: relight.Records, name: str, value: Any, **options: Any) -> bool:
        written.append(name)
        return await real(self, name, value, **options)

    monkeypatch.setattr(relight.Records, "put_async", put)
    asyncio.run(main())


def test_an_append_that_others_are_always_ahead_of_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def put(self: relight.Records, *args: Any, **options: Any) -> bool:
        return False

    monkeypatch.setattr(relight.Records, "put_async", put)
    with pytest.raises(relight.Conflict) as conflict:
        asyncio.run(RelightSessionStore().append(KEY, entries(1)))
    assert (conflict.value.code, conflict.value.exit) == ("conflict", 75)


def test_a_batch_that_is_sent_again_is_there_once() -> None:
    async def main() -> None:
        store = RelightSessionStore()
        first: SessionStoreEntry = {"type": "user", "uuid": "1"}
        second: SessionStoreEntry = {"type": "user", "uuid": "2"}
        title: SessionStoreEntry = {"type": "custom-title"}
        await store.append(KEY, [first, title])
        await store.append(KEY, [first, second, title])
        assert await store.load(KEY) == [first, title, second, title]

    asyncio.run(main())


def test_images_and_signatures_are_not_redacted() -> None:
    # Binary data that looks like a token of a published format.
    data = "toOyqn5Ejh0/AKCNdrJmZjvKXHCPaEk7QA2cV5BkgGfDEFCkz3Kfd7=="
    image = {"type": "image", "source": {"type": "base64", "data": data}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": data}
    hidden = {"type": "redacted_thinking", "data": data}
    others = [{"type": ["base64"]}, {"type": "base64"}, {"type": "thinking", "signature": 1}]

    async def main() -> None:
        store = RelightSessionStore()
        entry: Any = {"type": "user", "message": {"content": [image, thinking, hidden, *others]}}
        await store.append(KEY, [entry, {"type": data}])
        loaded = await store.load(KEY)
        assert loaded is not None and loaded[0] == entry
        assert "[redacted:" in loaded[1]["type"]

    asyncio.run(main())


def test_names_may_have_any_character() -> None:
    async def main() -> None:
        store = RelightSessionStore()
        keys: list[SessionKey] = [
            {"project_key": "a/b", "session_id": "c"},
            {"project_key": "a", "session_id": "b/c"},
            {"project_key": "a", "session_id": "b"},
            {"project_key": "a", "session_id": "b", "subpath": "c"},
            {"project_key": "a", "session_id": "b", "subpath": "c/\u00e4 %2F*"},
        ]
        for n, key in enumerate(keys):
            await store.append(key, entries(n))
        assert [await store.load(key) for key in keys] == [entries(n) for n in range(5)]
        assert {it["session_id"] for it in await store.list_sessions("a")} == {"b", "b/c"}
        assert await store.list_subkeys(
            {"project_key": "a", "session_id": "b"}
        ) == ["c", "c/\u00e4 %2F*"]
        await store.delete(keys[2])
        left = [await store.load(key) for key in keys]
        assert left == [entries(0), entries(1), None, None, None]

    asyncio.run(main())


SESSION = "0b7c1f9e-91d4-4f0e-8c0f-0123456789ab"


def test_a_transcript_is_mirrored_and_resumed_from_the_store(program: Path) -> None:
    project = project_key_for_directory(str(program.parent))
    said = converse(program, "say:hello say:world", SESSION, STAND_IN_PROJECT=project)
    assert said.stdout == "\n"
    # The program has no file of the conversation: what it reads comes from the store.
    assert not (program.parent / "config").exists()
    resumed = converse(program, "say:again", SESSION, STAND_IN_PROJECT=project, resume=SESSION)
    assert resumed.stdout == "hello\nworld\n"
    found = asyncio.run(list_sessions_from_store(RelightSessionStore(), str(program.parent)))
    assert [(it.session_id, it.first_prompt) for it in found] == [(SESSION, "hello")]
    loaded: Any = asyncio.run(
        RelightSessionStore().load({"project_key": project, "session_id": SESSION})
    )
    assert [entry["message"]["content"] for entry in loaded] == ["hello", "world", "again"]
