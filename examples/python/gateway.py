"""A chat gateway with sessions in process, that knows after a crash exactly who was cut off.

    python gateway.py            serves three conversations, some turns each
    python gateway.py --crash    is killed in the middle of a turn

Start it again after a crash: it finds the turns that were in flight, tells those users, and continues. There is
no file to write, no time window to guess, and a clean end leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import relight

CHATS = ("telegram:dm:1", "telegram:dm:2", "slack:general")
TURNS = 3


async def model(chat: str, turn: int) -> str:
    """Stands for the agent: slow, and sometimes the end of the process."""
    await asyncio.sleep(0.01)
    if "--crash" in sys.argv and (chat, turn) == (CHATS[1], 2):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"answer {turn} in {chat}"


async def serve(chat: str, first: int) -> None:
    for turn in range(first, TURNS + 1):
        # On disk before the model is called; ended when it has answered. The number of the turn is needed
        # to resume it.
        async with relight.sessions.turn(chat, f"conversation-{chat}", set={"turn": str(turn)}) as mark:
            if mark.resumed:
                print(f"{chat}: your last message was cut off ({mark.reason}); here is the answer")
            print(await model(chat, turn), flush=True)


async def main() -> None:
    cut_off = {}
    for session in relight.sessions.recover("resume_pending"):
        print(f"{session['key']} was cut off: {session['reason']}")
        cut_off[session["key"]] = relight.sessions.show(session["key"])["context"]
    first = {}
    for chat in CHATS:
        try:
            done = int(relight.sessions.show(chat)["context"].get("turn", 0))
        except relight.NotFound:
            done = 0
        first[chat] = done if chat in cut_off else done + 1
    await asyncio.gather(*(serve(chat, first[chat]) for chat in CHATS))
    relight.sessions.shutdown()
    print("all conversations are served")


if __name__ == "__main__":
    asyncio.run(main())
