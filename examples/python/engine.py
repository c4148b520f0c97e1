"""A task engine with a recovery strategy: every error is caught at its outermost boundary.

    python engine.py             adds three tasks and works through the queue
    python engine.py --crash     is killed in the middle of one

A task that fails is given to its strategy, here a class of our own behind the protocol of Relight. The next
engine takes over what a killed one left, and continues after the last finished step.
"""

from __future__ import annotations

import os
import signal
import sys

import relight


class FailAndReassign(relight.RecoveryStrategy):
    """Tasks go to another agent while retries are left; one that has cost too much waits for a person."""

    def decide(self, failure: relight.Failure) -> relight.Decision:
        # Counts and costs, and never the text of a message.
        if failure.context["cost_micros"] > 1_000_000:
            return relight.Decision("suspend", reason="it has cost more than 1.00")
        return relight.Decision("reassign", keep_progress=True)


def plan(topic: str) -> list[str]:
    return [f"{topic}: part {n}" for n in range(1, 4)]


def write(part: str) -> str:
    if "--crash" in sys.argv and part == "rust: part 2":
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"writing {part}", flush=True)
    return part.upper()


def work(task: relight.Task) -> None:
    parts = task.step("plan", plan, task.payload["topic"])
    texts = [task.step("write", write, part) for part in parts]
    task.spend("0.25", turns=len(texts))
    if task.payload["topic"] == "broken":
        raise ValueError("this topic cannot be written about")


def main() -> None:
    with relight.open(strategies={"fail-and-reassign-cheap": FailAndReassign()}) as store:
        for topic in ("python", "rust", "broken"):
            try:
                store.add(
                    f"report-{topic}",
                    payload={"topic": topic},
                    strategy="fail-and-reassign-cheap",
                    max_retries=1,
                )
            except relight.Ended:
                continue
        # What a killed engine left goes to its strategy now; claims would find it too.
        for recovered in store.recover()["recovered"]:
            print(f"{recovered['task']} is {recovered['status']}: {recovered['decision']}")
        worked = store.worker("engine").run(work, until_empty=True)
        print(worked)
        for task in store.call("task.list")["items"]:
            print(f"{task['id']} {task['status']} steps={task['steps_done']} retries={task['retries']}")


if __name__ == "__main__":
    main()
