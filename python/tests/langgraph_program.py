"""A graph that is killed at one point after another: ``langgraph_program.py LOG LAST``.

Each run is a process of its own, forked from this one, so that LangGraph is imported once. For each
point from 1 to LAST the first run of a thread is killed (SIGKILL) at this line of its log, and the
second one resumes the thread. There is a line for the effect of each node, and for each call that
the saver has acknowledged. Prints the point and how both runs ended.
"""

from __future__ import annotations

import operator
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from relight.langgraph import RelightSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

NODES = ("plan", "left", "right", "join", "send")


class State(TypedDict):
    done: Annotated[list[str], operator.add]


class Log:
    """Appends lines to a file, and kills this process after one of them."""

    def __init__(self, path: str, kill_at: int | None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._kill_at, self._lines, self._lock = kill_at, 0, threading.Lock()

    def line(self, *words: str) -> None:
        with self._lock:
            os.write(self._file, (" ".join(words) + "\n").encode())
            self._lines += 1
            if self._lines == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)


class LoggedSaver(RelightSaver):
    """Logs which nodes are finished: their writes or a later checkpoint are acknowledged."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        after = super().put(config, checkpoint, metadata, new_versions)
        self._log.line("finished", *checkpoint["versions_seen"])
        return after

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        super().put_writes(config, writes, task_id, task_path)
        # "~__pregel_pull, plan" is the path of the node "plan".
        self._log.line("finished", task_path.rpartition(" ")[2])


def run(log: Log, thread: str) -> None:
    """Starts the thread or resumes it, and checks its end."""

    def node(name: str) -> Any:
        def work(state: State) -> State:
            log.line("effect", name)
            return {"done": [name]}

        return work

    builder = StateGraph(State)
    for name in NODES:
        builder.add_node(name, node(name))
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "left")
    builder.add_edge("plan", "right")
    builder.add_edge(["left", "right"], "join")
    builder.add_edge("join", "send")
    builder.add_edge("send", END)
    saver = LoggedSaver(log)
    graph = builder.compile(checkpointer=saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    given: Any = {"done": []} if saver.get_tuple(config) is None else None
    state = graph.invoke(given, config, durability="sync")
    assert sorted(state["done"]) == sorted(NODES), state


def run_in_child(path: str, kill_at: int | None) -> int:
    """How a process that does this ended: 0, or the signal as a negative number."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run(Log(path, kill_at), os.path.basename(path))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(log: str, last: int) -> None:
    for point in range(1, last + 1):
        path = f"{log}-{point}"
        print(point, run_in_child(path, point), run_in_child(path, None), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
