"""A stand-in for Claude Code that speaks the protocol of the Claude Agent SDK.

STAND_IN has what happens, in its order: `EVENT` or `EVENT:TOOL:CALL` calls the hook of an event,
`say:TEXT` adds an entry to the transcript, and `kill` kills the program that started this one. The
result has what the hooks want to tell the model, and the texts of a transcript that is resumed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any


def write(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def answers() -> Any:
    """The next message of the SDK."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def call_hook(callback: str, given: dict[str, Any]) -> dict[str, Any]:
    request = {"subtype": "hook_callback", "callback_id": callback, "input": given}
    write({"type": "control_request", "request_id": "hook", "request": request})
    while (message := answers())["type"] != "control_response":
        pass
    assert message["response"]["subtype"] == "success", message
    said: dict[str, Any] = message["response"]["response"]
    return said


def hook_input(session: str, event: str) -> dict[str, Any]:
    name, tool, call = (event.split(":") + ["", ""])[:3]
    given: dict[str, Any] = {
        "hook_event_name": name,
        "session_id": session,
        "transcript_path": "",
        "cwd": os.getcwd(),
    }
    if name == "UserPromptSubmit":
        given |= {"prompt": "deploy it"}
    if tool:
        given |= {"tool_name": tool, "tool_input": {"target": call}, "tool_use_id": f"toolu_{call}"}
    if name == "PostToolUse":
        given |= {"tool_response": {"ok": True}}
    return given


def main() -> None:
    if "-v" in sys.argv:
        print("2.1.327 (Claude Code)")
        return
    session = os.environ["STAND_IN_SESSION"]
    config = Path(os.environ.get("CLAUDE_CONFIG_DIR", "/nowhere"))
    transcript = config / "projects" / os.environ.get("STAND_IN_PROJECT", "p") / f"{session}.jsonl"
    told: list[str] = []
    if any(argument.startswith("--resume=") for argument in sys.argv):
        for line in transcript.read_text().splitlines():
            told.append(json.loads(line)["message"]["content"])
    hooks: dict[str, Any] = {}
    while (message := answers())["type"] != "user":
        hooks = message["request"].get("hooks") or {}
        answer: dict[str, Any] = {"subtype": "success", "request_id": message["request_id"]}
        write({"type": "control_response", "response": {**answer, "response": {}}})
    for event in os.environ["STAND_IN"].split():
        if event == "kill":
            os.kill(os.getppid(), signal.SIGKILL)
            return
        if event.startswith("say:"):
            entry = {
                "type": "user",
                "uuid": str(uuid.uuid4()),
                "message": {"role": "user", "content": event.removeprefix("say:")},
            }
            frame = {"filePath": str(transcript), "entries": [entry]}
            write({"type": "transcript_mirror", **frame})
            continue
        given = hook_input(session, event)
        said = call_hook(hooks[given["hook_event_name"]][0]["hookCallbackIds"][0], given)
        context = said.get("hookSpecificOutput", {}).get("additionalContext")
        if context:
            told.append(context)
    write(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "\n".join(told),
            "session_id": session,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": 1,
        }
    )
    answers()


main()
