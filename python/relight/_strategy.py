"""Recovery strategies of the program's own."""

from __future__ import annotations

import json
from typing import Any, Literal

DecisionWord = Literal["resume", "reassign", "suspend", "defer", "give_up"]


class Failure:
    """What a strategy is told: the task, how its holder died, and what was done before."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.task: dict[str, Any] = case["task"]
        self.death: dict[str, Any] = case["death"]
        self.context: dict[str, Any] = case["context"]


class Decision:
    """What becomes of a task."""

    def __init__(
        self,
        decision: DecisionWord,
        *,
        reason: str | None = None,
        until: str | None = None,
        keep_progress: bool | None = None,
    ) -> None:
        self.decision, self.reason = decision, reason
        self.until, self.keep_progress = until, keep_progress


class RecoveryStrategy:
    """Decides what becomes of a task whose holder died or that failed.

    Asked on a thread of its own, bounded in time, and perhaps twice about one death: it must not act.
    """

    def decide(self, failure: Failure) -> Decision | DecisionWord:
        raise NotImplementedError

    def answer(self, case: str) -> str:
        """The decision as JSON."""
        decided = self.decide(Failure(json.loads(case)))
        if isinstance(decided, str):
            decided = Decision(decided)
        return json.dumps(
            {
                "decision": decided.decision,
                "reason": decided.reason,
                "until": decided.until,
                "keep_progress": decided.keep_progress,
            }
        )
