"""Why something was not done, as exceptions by name."""

from __future__ import annotations


class Refused(Exception):
    """Nothing was changed. ``code``, ``exit`` and ``status`` are those of the command line and HTTP."""

    code: str
    exit: int
    status: int
    message: str
    hint: str | None

    def __init__(
        self,
        message: str,
        *,
        code: str = "invalid",
        exit: int = 2,
        status: int = 422,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.exit = exit
        self.status = status
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return from_refused, (self.code, self.exit, self.status, self.message, self.hint)


class Fenced(Refused):
    """Somebody else has the lease: stop working on it."""


class Held(Refused):
    """Somebody else holds it."""


class InDoubt(Refused):
    """A step may or may not have happened, and its rule forbids to repeat it; a person resolves it."""


class NotFound(Refused):
    """There is no such task, session or agent."""


class Nothing(Refused):
    """There is nothing to claim or to resume."""


class Conflict(Refused):
    """It differs from what is there, or the status does not allow it."""


class Ended(Refused):
    """The task has ended."""


class WaitsForPerson(Refused):
    """It is blocked or suspended: a person decides."""


class UsedUp(Refused):
    """It has reached a limit of its own."""


class StepsLeftOpen(Refused):
    """Declared steps are neither finished nor skipped."""


class Invalid(Refused, ValueError):
    """A value that cannot be one."""


class Draining(Refused):
    """Nothing is begun now."""


class StoreError(Refused):
    """The store cannot be reached, read or written; nothing was acknowledged."""


class Forked(Refused):
    """This process was forked after the store was opened: open it in the child."""


_BY_CODE: dict[str, type[Refused]] = {
    "fenced": Fenced,
    "not_held": Fenced,
    "held": Held,
    "busy": Held,
    "in_doubt": InDoubt,
    "not_found": NotFound,
    "nothing": Nothing,
    "conflict": Conflict,
    "illegal": Conflict,
    "ended": Ended,
    "waits_for_person": WaitsForPerson,
    "used_up": UsedUp,
    "steps_left_open": StepsLeftOpen,
    "invalid": Invalid,
    "draining": Draining,
    "forked": Forked,
    "io": StoreError,
    "config": StoreError,
    "damaged": StoreError,
    "invalid_data": StoreError,
    "unreachable": StoreError,
    "store_unavailable": StoreError,
}


def from_refused(
    code: str, exit: int, status: int, message: str, hint: str | None
) -> Refused:
    """The exception for a refusal."""
    of_code = _BY_CODE.get(code, Refused)
    return of_code(message, code=code, exit=exit, status=status, hint=hint)


class Block(Exception):
    """Raise it inside a task that cannot continue before a person acts."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Defer(Exception):
    """Raise it inside a task that continues later: a time (RFC 3339) or a duration such as ``10m``."""

    def __init__(self, until: str) -> None:
        super().__init__(until)
        self.until = until
