#!/usr/bin/env python3
"""Draws docs/images/crash-demo.svg from a real run of examples/crash-demo.sh.

crash-demo.py RELIGHT    RELIGHT is the binary to run
"""

import html
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE_HEIGHT, LEFT, TOP, WIDTH = 21, 18, 58, 860
# Real pauses are milliseconds: shown as they were, nobody could read along.
PAUSE_MIN, PAUSE_MAX = 0.35, 1.2
COMMAND = "relight run --name writer --task report-7 -- bash agent.sh"
COLOURS = [
    (r"^#", "#8b949e"),
    (r"died after", "#ff7b72"),
    (r"started \(pid|back after", "#7ee787"),
    (r"is completed|report written", "#7ee787"),
    (r"^\$", "#79c0ff"),
]


def run(relight: str) -> list[tuple[float, str]]:
    """The lines of the demo, each with its time in seconds."""
    path = f"{pathlib.Path(relight).resolve().parent}:{os.environ['PATH']}"
    demo = subprocess.Popen(
        ["bash", str(ROOT / "examples/crash-demo.sh")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
    )
    begun, lines = time.monotonic(), []
    assert demo.stdout
    for line in demo.stdout:
        lines.append((time.monotonic() - begun, line.rstrip("\n")))
    if demo.wait(timeout=60) != 0:
        sys.exit("crash-demo.py: the demo failed:\n" + "\n".join(text for _, text in lines))
    return lines


def shown(lines: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Up to the end of the run, with the command that was typed and a comment where the agent kills itself."""
    end = next(i for i, (_, text) in enumerate(lines) if text.startswith("task report-7"))
    at, previous = 0.6, 0.0
    told = [(0.0, "$ " + COMMAND)]
    for when, text in lines[: end + 1]:
        if "died after" in text:
            at += PAUSE_MAX
            told.append((at, "# kill -9: the agent dies in the middle of its work"))
        at += min(max(when - previous, PAUSE_MIN), PAUSE_MAX)
        previous = when
        told.append((at, text))
    return told


def colour(text: str) -> str:
    return next((colour for pattern, colour in COLOURS if re.search(pattern, text)), "#e6edf3")


def draw(lines: list[tuple[float, str]]) -> str:
    height = TOP + LINE_HEIGHT * len(lines) + 14
    cycle = lines[-1][0] + 5
    rows, rules = [], []
    for number, (at, text) in enumerate(lines):
        y = TOP + LINE_HEIGHT * number
        rows.append(
            f'<text class="l l{number}" x="{LEFT}" y="{y}" fill="{colour(text)}">{html.escape(text)}</text>'
        )
        start = 100 * at / cycle
        rules.append(
            f"@keyframes k{number}{{0%,{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%,100%{{opacity:1}}}}"
            f".l{number}{{animation:k{number} {cycle:.1f}s linear infinite}}"
        )
    # Where motion is unwanted or unknown, everything is shown at once.
    style = (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}"
        "@media (prefers-reduced-motion: no-preference){" + "".join(rules) + "}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="An agent is killed with SIGKILL; Relight starts it again, and it continues after its last finished step.">\n'
        f"<style>{style}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>\n'
        '<circle cx="22" cy="22" r="6" fill="#ff5f57"/><circle cx="42" cy="22" r="6" fill="#febc2e"/>'
        '<circle cx="62" cy="22" r="6" fill="#28c840"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = ROOT / "docs/images/crash-demo.svg"
    target.write_text(draw(shown(run(sys.argv[1]))))
    print(target.relative_to(ROOT))
