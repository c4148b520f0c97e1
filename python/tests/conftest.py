"""Every test has a home of its own, and nothing of the caller's environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import relight


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in list(os.environ):
        if name.startswith("RELIGHT_") or name == "NOTIFY_SOCKET":
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    monkeypatch.setenv("RELIGHT_HOME", str(folder))
    yield folder
    relight.close()
