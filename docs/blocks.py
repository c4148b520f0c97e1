#!/usr/bin/env python3
"""Runs the examples of the documentation: docs/blocks.py RELIGHT [PAGE…]

In a page, in the order of the page, in one temporary folder with an empty state:
  ```bash run     is run and must exit 0 (```bash run=75: with that code)
  ```text run     is a terminal: what follows `$ ` is run, the lines after it must be what it prints
  ```LANGUAGE run      without `$ `: must be what the block before it printed
  ```LANGUAGE file=NAME  is written to that file
  ```LANGUAGE of=FILE    is part of that file of the repository, which other tests compile or run: its
                  paragraphs are there, in this order, however they are wrapped
  ```json, ```toml  must be JSON, a relight.toml
  <!-- run        is run too and not shown: what the example needs; $REPOSITORY is this repository
  <!-- not run: REASON -->  is why the block below it is none of these
  <!-- needs python -->  the page needs the package as ./test builds it below the target folder (also
                         typescript, and others: NEEDS); where it is not, the page ends here. `uses`: it is run without
Each block is a shell of its own; exported variables and the current folder are kept for the next one.
Numbers, times, hashes and paths of the folder may differ; `…` stands for any text, as a line for any lines.
A block that is none of these is a mistake, except in the reference, which is made from the code.
"""

import difflib
import json
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
# What nothing here can check.
ONLY_SHOWN = ("dockerfile", "http", "ini", "sql", "yaml")
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# What a page may need, and where it is; {build} is the folder of the program.
NEEDS = {
    "python": "{target}/python/venv/bin/relight",
    "adapters": "{target}/python/venv/needed",
    "typescript": "{target}/typescript/node_modules",
    "claude-sdk": "{target}/typescript/node_modules/@anthropic-ai",
    "examples": "{build}/examples",
    "postgresql": "{build}/relight-postgres",
}
BLOCK = re.compile(
    r"^ *(?:(?:<!-- not run: (?P<why>[^\n]+) -->\s+)?```(?P<language>\w*) *(?P<mark>[^\n]*)\n(?P<shown>.*?)^ *```"
    r"|<!-- run\n(?P<hidden>.*?)^ *-->|<!-- (?P<need>needs|uses) (?P<package>\S+) -->)$",
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
        self.text, self.code, self.said, self.line = page.read_text(), 0, "", 0
        self.relight, self.database = pathlib.Path(relight).resolve(), None
        # Not in a temporary folder of ours: the user of a database has to get there.
        left_out = ("RELIGHT_", "XDG_", "GIT_", "TMPDIR")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        self.env = {
            **kept,
            "HOME": folder,
            "RELIGHT_HOME": f"{folder}/state",
            "PATH": f"{self.relight.parent}:{os.environ['PATH']}",
            "REPOSITORY": str(ROOT),
            "NO_COLOR": "1",
            "TZ": "UTC",
        }

    def run(self) -> int:
        number = 0
        for block in BLOCK.finditer(self.text):
            self.line = self.text.count("\n", 0, block.start()) + 1
            if block["package"]:
                self.need(block["package"], optional=block["need"] == "uses")
            elif block["hidden"] is not None:
                self.said = self.shell(textwrap.dedent(block["hidden"]))
                number += 1
            elif not block["why"] and block["language"] not in ONLY_SHOWN:
                self.shown(block["language"], block["mark"], textwrap.dedent(block["shown"]))
                number += 1
        return number

    def shown(self, language: str, mark: str, text: str) -> None:
        how, _, what = mark.partition("=")
        if how == "file":
            file = pathlib.Path(self.folder, what)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif how == "of":
            self.quoted(text, what)
        elif how == "run" and language == "bash":
            self.said = self.shell(text, int(what or 0))
        elif how == "run" and re.search(r"^\$ ", text, re.MULTILINE):
            self.terminal(text)
        elif how == "run":
            self.printed(language, text)
        elif language == "json":
            self.parsed(text)
        elif language == "toml":
            self.configuration(text)
        elif not self.name.startswith("docs/reference/"):
            raise Failed(
                f"{self.name}:{self.line}: nothing runs this block. Write `run`, `file=NAME` or `of=FILE` after its "
                "language, or <!-- not run: REASON --> above it; docs/blocks.py says what they mean"
            )

    def need(self, package: str, optional: bool) -> None:
        found = pathlib.Path(NEEDS[package].format(target=TARGET, build=self.relight.parent))
        if not found.exists():
            if optional:
                return
            raise Skipped(f"SKIPPED: {self.name} from line {self.line} (no {found})")
        if package in ("python", "adapters"):
            self.find_in(TARGET / "python/venv/bin")
        elif package == "typescript":
            os.symlink(found, f"{self.folder}/node_modules")
        elif package == "examples":
            self.find_in(found)
        elif package == "postgresql":
            self.database = subprocess.Popen([found], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.env["POSTGRES"] = self.database.stdout.readline().strip()
            if not self.env["POSTGRES"]:
                raise Skipped(f"SKIPPED: {self.name} from line {self.line} (no PostgreSQL)")

    def find_in(self, folder: pathlib.Path) -> None:
        """Puts a folder into PATH, after that of the program, and into the PATH that earlier blocks have kept."""
        added = f"{self.relight.parent}:{folder}:"
        self.env["PATH"] = added + self.env["PATH"]
        kept = pathlib.Path(self.folder, ".shell")
        if kept.exists():
            with kept.open("a") as file:
                file.write(f'PATH="{added}$PATH"\n')

    def end(self) -> None:
        # Daemons that an example left, whatever its home.
        for socket in pathlib.Path(self.folder).rglob("relight.sock"):
            subprocess.run([self.relight, "--home", socket.parent, "down"], capture_output=True, timeout=60)
        if self.database:
            self.database.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def shell(self, script: str, code: int = 0) -> str:
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
            raise Failed(f"{self.name}:{self.line}: took longer than {SECONDS_MAX} s:\n{script}") from None
        if begun.returncode != code:
            raise Failed(f"{self.name}:{self.line}: exit code {begun.returncode} instead of {code}:\n{script}{said}")
        return said

    def terminal(self, text: str) -> None:
        """All commands of the block in one shell, with a mark and the exit code after the output of each."""
        typed = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        commands = [re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", one, re.DOTALL) for one in typed]
        script = f"(exit {self.code})\n" + "".join(f"{command[1]}\n{AFTER}" for command in commands)
        said = self.shell(script + "true").split(MARK)
        for command, output in zip(commands, said):
            answer, _, self.code = output.rpartition("\n")
            self.compare(command[2], answer, f"$ {command[1]}\n")
        if len(said) <= len(commands):
            raise Failed(f"{self.name}:{self.line}: the shell ended before its last command:\n{script}")

    def printed(self, language: str, text: str) -> None:
        if language == "json":
            text, self.said = (json.dumps(self.parsed(one), indent=1, ensure_ascii=False) for one in (text, self.said))
        self.compare(text, self.said, "what is printed:\n")

    def compare(self, shown: str, said: str, what: str) -> None:
        shown, said = shown.splitlines(), said.splitlines()
        if not fits(shown, said, self.folder):
            difference = "\n".join(difflib.unified_diff(shown, said, "page", "run", lineterm=""))
            raise Failed(f"{self.name}:{self.line}: {what}{difference}")

    def quoted(self, text: str, file: str) -> None:
        source, at = squeezed((ROOT / file).read_text()), 0
        for paragraph in text.split("\n\n"):
            at = source.find(squeezed(paragraph), at)
            if at < 0:
                raise Failed(f"{self.name}:{self.line}: not, or not in this order, in {file}:\n{paragraph}")

    def parsed(self, text: str) -> object:
        try:
            return json.loads(text)
        except ValueError as why:
            raise Failed(f"{self.name}:{self.line}: no JSON: {why}\n{text}") from None

    def configuration(self, text: str) -> None:
        """Approving a relight.toml checks all of it, and does nothing that it says."""
        file = pathlib.Path(self.folder, ".configuration", "relight.toml")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        self.shell(f"relight --home '{file.parent}/home' trust '{file}'")


def squeezed(text: str) -> str:
    """Without what only wraps lines."""
    return re.sub(r"\s|,(?=\s*[)}\]])", "", text)


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
    for file in pages:
        page = Page(file, relight, tempfile.mkdtemp())
        try:
            number = page.run()
            blocks, run = blocks + number, run + (number > 0)
        except Skipped as why:
            print(why, file=sys.stderr)
        except Failed as why:
            failed.append(str(why))
        finally:
            page.end()
    for why in failed:
        print(why, file=sys.stderr)
    print(f"{blocks} blocks of {run} pages were run, {len(failed)} failed")
    sys.exit(1 if failed or not blocks else 0)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
