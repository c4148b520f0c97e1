"""The driver that uses the Python package: works through the task of the proofs, from wherever it is.

prove_driver.py HOME CHECKPOINTS LEDGER TASK: see `driver::library`, which is the same in Rust.
"""

from __future__ import annotations

import os
import secrets
import sys

import relight

HOME, _, LEDGER, TASK = sys.argv[1:]
COMPLETED, IN_DOUBT, UNEXPECTED = 0, 75, 99
RULES = ("keyed", "repeatable", "verify", "once")


def append(*fields: str) -> None:
    """One line of the ledger; on disk when it returns."""
    file = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, ("\t".join(fields) + "\n").encode())
    os.fdatasync(file)
    os.close(file)


def happened(step: str) -> bool:
    try:
        with open(LEDGER) as lines:
            return any(line.startswith(f"effect\t{TASK}\t{step}\t") for line in lines)
    except FileNotFoundError:
        return False


def act(step: str) -> str:
    token = f"{step}-{secrets.token_hex(8)}"
    append("effect", TASK, step, relight.idempotency_key(), token)
    return token


def main() -> int:
    names = [f"s{number:02}" for number in range(1, 21)]
    os.makedirs(HOME, mode=0o700, exist_ok=True)
    store = relight.open(store=f"sqlite:{HOME}/relight.db")
    try:
        task = store.task(TASK, agent="prover", steps=names, force=True).start()
    except relight.Ended:
        return COMPLETED
    append("started", TASK, str(task.fence))
    for number, name in enumerate(names, 1):
        rule = RULES[number % 4]
        verify = (lambda name=name: relight.HAPPENED if happened(name) else None)
        try:
            token = task.step(
                name, act, name, repeat=rule, verify=verify if rule == "verify" else None
            )
        except relight.InDoubt:
            return IN_DOUBT
        append("ack", TASK, name, token or "")
    task.done()
    append("done", TASK)
    return COMPLETED


if __name__ == "__main__":
    try:
        code = main()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        code = UNEXPECTED
    sys.stderr.flush()
    os._exit(code)
