"""Durable steps per second of one package: steps.py PACKAGE FOLDER WHAT MILLISECONDS PROSE

Each step gives the same text of 1 KiB. WHAT is how many tasks run at once, in one event loop; one task alone runs
without. Prints steps per second. `prepare-N` leaves 1,000 interrupted tasks, and `resume-N` prints the seconds until
each of them was continued and has its recorded step; `import` prints the milliseconds that the import takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

PACKAGE, FOLDER, WHAT, MILLISECONDS, PROSE = sys.argv[1:]
AT_ONCE, SECONDS = int(WHAT) if WHAT.isdigit() else 0, int(MILLISECONDS) / 1000
INTERRUPTED = 1_000
os.makedirs(FOLDER, exist_ok=True)


def result() -> str:
    return PROSE


async def async_result() -> str:
    return PROSE


def relight_alone() -> float:
    import relight

    with relight.open(store=f"sqlite:{FOLDER}/relight.db") as store:
        with store.task(f"alone-{time.time_ns()}") as task:
            return alone(lambda: task.step("s", result))


def relight_at_once() -> float:
    import relight

    store = relight.open(store=f"sqlite:{FOLDER}/relight.db")

    async def one(number: int, until: float) -> int:
        count = 0
        async with store.task(f"t{number}-{time.time_ns()}") as task:
            while time.perf_counter() < until:
                await task.step("s", result)
                count += 1
        return count

    return asyncio.run(at_once(one))


def relight_prepare() -> float:
    import relight

    store = relight.open(store=f"sqlite:{FOLDER}/relight.db")
    # Held until this process is gone.
    held = [store.task(f"t{n}").start() for n in range(INTERRUPTED)]
    for task in held:
        task.step("s", result)
    print(len(held))
    sys.stdout.flush()
    os._exit(0)


def relight_resume() -> float:
    begun = time.perf_counter()
    import relight

    def never() -> str:
        raise AssertionError("the step was recorded")

    store = relight.open(store=f"sqlite:{FOLDER}/relight.db")

    async def one(number: int) -> None:
        task = await store.task(f"t{number}").start_async()
        assert await task.step("s", never) == PROSE

    async def all_of_them() -> None:
        await asyncio.gather(*(one(n) for n in range(INTERRUPTED)))

    asyncio.run(all_of_them())
    return time.perf_counter() - begun


def relight_import() -> float:
    begun = time.perf_counter()
    import relight  # noqa: F401

    return (time.perf_counter() - begun) * 1000


def dbos_alone() -> float:
    from dbos import DBOS

    start_dbos()

    @DBOS.step()
    def step() -> str:
        return PROSE

    @DBOS.workflow()
    def workflow() -> float:
        return alone(step)

    return workflow()


def dbos_at_once() -> float:
    from dbos import DBOS

    start_dbos()

    @DBOS.step()
    async def step() -> str:
        return PROSE

    @DBOS.workflow()
    async def workflow(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            await step()
            count += 1
        return count

    async def one(_: int, until: float) -> int:
        return await workflow(until)

    return asyncio.run(at_once(one))


def start_dbos() -> None:
    import logging

    from dbos import DBOS, DBOSConfig

    logging.disable(logging.CRITICAL)
    config = DBOSConfig(name="bench", system_database_url=f"sqlite:///{FOLDER}/dbos.sqlite")
    config["run_admin_server"] = False
    DBOS(config=config)
    DBOS.launch()


def langgraph_alone() -> float:
    """A graph whose one node runs again and again: a checkpoint after each."""
    from typing import TypedDict

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        text: str
        count: int

    until = time.perf_counter() + SECONDS

    def node(state: State) -> State:
        return {"text": PROSE, "count": state["count"] + 1}

    graph = StateGraph(State)
    graph.add_node("step", node)
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: END if time.perf_counter() > until else "step"
    )
    with SqliteSaver.from_conn_string(f"{FOLDER}/langgraph.sqlite") as saver:
        saver.conn.execute("PRAGMA journal_mode = WAL")
        saver.conn.execute("PRAGMA synchronous = FULL")
        run = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": str(time.time_ns())}, "recursion_limit": 10_000_000}
        begun = time.perf_counter()
        end = run.invoke({"text": "", "count": 0}, config, durability="sync")
        return float(end["count"] / (time.perf_counter() - begun))


def alone(step: object) -> float:
    count, begun = 0, time.perf_counter()
    until = begun + SECONDS
    while time.perf_counter() < until:
        step()  # type: ignore[operator]
        count += 1
    return count / (time.perf_counter() - begun)


async def at_once(one: object) -> float:
    begun = time.perf_counter()
    counts = await asyncio.gather(*(one(n, begun + SECONDS) for n in range(AT_ONCE)))  # type: ignore[operator]
    return float(sum(counts) / (time.perf_counter() - begun))


HOW = WHAT.split("-")[0] if AT_ONCE == 0 else "alone" if AT_ONCE == 1 else "at_once"
print(globals()[f"{PACKAGE}_{HOW}"]())
sys.stdout.flush()
os._exit(0)
