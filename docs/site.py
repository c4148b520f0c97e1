#!/usr/bin/env python3
"""Builds the documentation as a searchable site: docs/site.py [OUT], into target/site by default.

The pages are those of the repository, in the order of docs/README.md. mdBook is installed from crates.io below
the target folder when it is missing (a few minutes, once). The site is not part of the binary.

docs/site.py --check builds nothing: it reports pages that are not listed, and links to nothing.
docs/site.py --pages DIR only writes the pages, and the files that they link to, into DIR.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
MDBOOK = "mdbook@0.5.4"
# What is shown; links to the rest of the repository are named as text.
SHOWN = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "relight.toml", "docs", "examples", "crates/server/openapi.json"]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")] + list((ROOT / "docs").rglob("*.md"))
)
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def summary() -> str:
    """The table of contents of the book: the sections of docs/README.md with the pages that they link to."""
    lines, seen = ["# Summary", "", "[Relight](README.md)", "[Documentation](docs/README.md)"], {"docs/README.md"}
    for line in (ROOT / "docs/README.md").read_text().splitlines():
        if line.startswith("## "):
            lines += ["", "# " + line[3:].strip(), ""]
        for title, link in LINK.findall(line):
            page = os.path.normpath(f"docs/{link.split('#')[0]}")
            if page.endswith(".md") and page.startswith("docs/") and page not in seen:
                seen.add(page)
                lines.append(f"- [{title.strip('`')}]({page})")
    lines += ["", "# More", "", "- [Architecture](ARCHITECTURE.md)", "- [Changes](CHANGELOG.md)"]
    missing = [str(page.relative_to(ROOT)) for page in PAGES if str(page.relative_to(ROOT)) not in seen]
    missing = [page for page in missing if page not in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    if missing:
        sys.exit("docs/site.py: docs/README.md does not list " + ", ".join(missing))
    return "\n".join(lines) + "\n"


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of its headings, as mdBook and code hosts make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = sum(1 for other in found if other == anchor or re.fullmatch(re.escape(anchor) + r"-\d+", other))
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def check() -> None:
    broken = []
    for page in PAGES:
        for _, link in LINK.findall(CODE.sub("", page.read_text())):
            name, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (page.parent / name).resolve() if name else page
            is_lost = not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
            if is_lost:
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    if broken:
        sys.exit("docs/site.py: links to nothing:\n" + "\n".join(broken))
    summary()


def stage(folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in SHOWN:
        source, copy = ROOT / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copy(source, copy)
    for page in folder.rglob("*.md"):
        folder_of_page = ROOT / page.parent.relative_to(folder)

        def keep(match: re.Match[str]) -> str:
            target = os.path.relpath((folder_of_page / match[2].partition("#")[0]).resolve(), ROOT)
            is_shown = any(target == name or target.startswith(f"{name}/") for name in SHOWN)
            if is_shown or re.match(r"[a-z]+:|#", match[2]):
                return match[0]
            is_named = match[1].strip("`").removeprefix("./") == target
            return match[1] if is_named else f"{match[1]} (`{target}`)"

        page.write_text(LINK.sub(keep, page.read_text()))
    (folder / "SUMMARY.md").write_text(summary())


def mdbook() -> pathlib.Path:
    folder = TARGET / "site-tools"
    program = folder / "bin/mdbook"
    if not program.exists():
        print("installing mdBook, once: this takes a few minutes", file=sys.stderr)
        options = ["--quiet", "--locked", "--no-default-features", "--features", "search", "--root", str(folder)]
        subprocess.run(["cargo", "install", *options, MDBOOK], check=True, timeout=3600)
    return program


def build(out: pathlib.Path) -> None:
    check()
    work = TARGET / "site-work"
    stage(work / "src")
    (work / "book.toml").write_text(
        '[book]\ntitle = "Relight"\nlanguage = "en"\n\n[output.html]\nno-section-label = true\n'
        'preferred-dark-theme = "navy"\n\n[output.html.fold]\nenable = false\n\n[output.html.print]\nenable = false\n'
    )
    subprocess.run([mdbook(), "build", "--dest-dir", str(out), str(work)], check=True, timeout=600)
    print(f"{out}/index.html")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            build(TARGET / "site")
        case ["--check"]:
            check()
        case ["--pages", folder]:
            stage(pathlib.Path(folder).resolve())
        case [out] if not out.startswith("-"):
            build(pathlib.Path(out).resolve())
        case _:
            sys.exit(__doc__)
