#!/usr/bin/env python3
"""Runs the examples of the documentation: docs/blocks.py RELIGHT [PAGE…]

In a page, in the order of the page, in one temporary folder with an empty state:
  ```bash run     is run and must exit 0 (```bash run=75: with that code)
  ```text run     is a terminal: what follows `$ ` is run, the lines after it must be what it prints
  ```LANGUAGE file=NAME  is written to that file
  <!-- run        is run too and not shown: what the example needs; $REPOSITORY is this repository
  <!-- needs python -->  the page needs the package as ./test builds it below the target folder (also
                         typescript); where it is not, the page is skipped. `uses`: it is run without
Each block is a shell of its own; exported variables and the current folder are kept for the next one.
Numbers, times, hashes and paths of the folder may differ; `…` stands for any text, as a line for any lines.
"""

import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECONDS_MAX = 60
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
NEEDS = {"python": TARGET / "python/venv/bin", "typescript": TARGET / "typescript/node_modules"}
BLOCK = re.compile(
    r"^ *(?:```(bash|text) run(?:=(\d+))?\n(.*?)^ *```|<!-- run\n(.*?)^ *-->"
    r"|```\w+ file=(\S+)\n(.*?)^ *```|<!-- (needs|uses) (\w+) -->)$",
    re.MULTILINE | re.DOTALL,
)


MARK = "\x1e\n"
# Keeps the exit code of the command for an `echo $?` that follows.
AFTER = "code=$?; printf '\\n%s\\x1e\\n' $code; (exit $code)\n"


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Page:
    def __init__(self, page: pathlib.Path, relight: str, folder: str) -> None:
        self.name, self.folder = str(page.relative_to(ROOT)), folder
        self.text, self.code = page.read_text(), 0
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RELIGHT_", "XDG_", "GIT_"))}
        self.env = {
            **kept,
            "HOME": folder,
            "RELIGHT_HOME": f"{folder}/state",
            "PATH": f"{pathlib.Path(relight).resolve().parent}:{os.environ['PATH']}",
            "REPOSITORY": str(ROOT),
            "NO_COLOR": "1",
            "TZ": "UTC",
        }

    def run(self) -> int:
        number = 0
        for block in BLOCK.finditer(self.text):
            language, code, shown, hidden, file, content, needs, package = block.groups()
            line = self.text.count("\n", 0, block.start()) + 1
            if package:
                self.need(package, optional=needs == "uses")
                continue
            if file:
                pathlib.Path(self.folder, file).write_text(textwrap.dedent(content))
                continue
            number += 1
            block_text = textwrap.dedent(shown if hidden is None else hidden)
            if language == "text":
                self.terminal(block_text, line)
            else:
                self.shell(block_text, int(code or 0), line)
        return number

    def need(self, package: str, optional: bool) -> None:
        found = NEEDS[package]
        if not found.exists():
            if optional:
                return
            raise Skipped(f"SKIPPED: {self.name} (no {found})")
        if package == "python":
            relight, rest = self.env["PATH"].split(":", 1)
            self.env["PATH"] = f"{relight}:{found}:{rest}"
        else:
            os.symlink(found, f"{self.folder}/node_modules")

    def shell(self, script: str, code: int, line: int) -> str:
        """Runs it in a session of its own, so that nothing of it is left."""
        kept = f"{self.folder}/.shell"
        before = f"test ! -e {kept} || {{ unset ${{!RELIGHT_@}}; . {kept}; }}"
        after = f'code=$?; {{ export -p; echo "cd \'$PWD\'"; }} >{kept}; exit $code'
        begun = subprocess.Popen(
            ["bash", "-c", f"{before}\n{script}\n{after}"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = begun.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(begun.pid, signal.SIGKILL)
            raise Failed(f"{self.name}:{line}: took longer than {SECONDS_MAX} s:\n{script}") from None
        if begun.returncode != code:
            raise Failed(f"{self.name}:{line}: exit code {begun.returncode} instead of {code}:\n{script}{said}")
        return said

    def terminal(self, text: str, line: int) -> None:
        """All commands of the block in one shell, with a mark and the exit code after the output of each."""
        typed = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        commands = [re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", one, re.DOTALL) for one in typed]
        script = f"(exit {self.code})\n" + "".join(f"{command[1]}\n{AFTER}" for command in commands)
        said = self.shell(script + "true", 0, line).split(MARK)
        for command, output in zip(commands, said):
            shown, (answer, _, self.code) = command[2].splitlines(), output.rpartition("\n")
            if not fits(shown, answer.splitlines(), self.folder):
                difference = "\n".join(difflib.unified_diff(shown, answer.splitlines(), "page", "run", lineterm=""))
                raise Failed(f"{self.name}:{line}: $ {command[1]}\n{difference}")
        if len(said) <= len(commands):
            raise Failed(f"{self.name}:{line}: the shell ended before its last command:\n{script}")


def plain(line: str, folder: str) -> str:
    """Without what differs from run to run."""
    line = line.replace(folder, "…")
    # A terminal says only that.
    line = re.sub(r"^\S+: line \d+: +\d+ (Killed|Terminated|Aborted)\b.*", r"\1", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"\b\d+(?:\.\d+)?(?:ms|s|m|h|d)(?: \d+(?:ms|s|m|h))*\b", "SPAN", line)
    line = re.sub(r"\b[0-9a-f]{8,}\b", "HASH", line)
    line = re.sub(r"\d+", "N", line)
    return re.sub(r"[ –─-]{2,}", " ", line).strip()


def fits(shown: list[str], said: list[str], folder: str) -> bool:
    lines = [line.strip() for line in shown if line.strip()]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(plain(line, folder)).replace("…", ".*") + r"\n" for line in lines
    )
    found = "".join(plain(line, folder) + "\n" for line in said if line.strip())
    return re.fullmatch(pattern, found) is not None


def main(relight: str, names: list[str]) -> None:
    pages = [pathlib.Path(name).resolve() for name in names] or sorted((ROOT / "docs").rglob("*.md"))
    failed, blocks, run = [], 0, 0
    for page in pages:
        folder = tempfile.mkdtemp()
        try:
            number = Page(page, relight, folder).run()
            blocks, run = blocks + number, run + (number > 0)
        except Skipped as why:
            print(why, file=sys.stderr)
        except Failed as why:
            failed.append(str(why))
        finally:
            # Daemons that an example left, whatever its home.
            for socket in pathlib.Path(folder).rglob("relight.sock"):
                subprocess.run([relight, "--home", socket.parent, "down"], capture_output=True, timeout=60)
            shutil.rmtree(folder, ignore_errors=True)
    for why in failed:
        print(why, file=sys.stderr)
    print(f"{blocks} blocks of {run} pages were run, {len(failed)} failed")
    sys.exit(1 if failed or not blocks else 0)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
