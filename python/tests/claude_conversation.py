"""One conversation of the Claude Agent SDK with the stand-in; prints its result.

Arguments: the stand-in, and the session to resume from the store, if any.
"""

from __future__ import annotations

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from relight.claude import RelightSessionStore, relight_hooks


async def main() -> None:
    options = ClaudeAgentOptions(
        cli_path=sys.argv[1],
        resume=sys.argv[2] if len(sys.argv) > 2 else None,
        hooks=relight_hooks(
            repeat={"Deploy": "once"},
            on_error=lambda error: print("error", type(error).__name__),
        ),
        session_store=RelightSessionStore(),
    )
    async for message in query(prompt="deploy it", options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main())
