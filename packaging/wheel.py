"""Packs the Python package, its native module and the binary into one wheel.

wheel.py --module FILE --binary FILE OUT: the wheel runs where both files run, which their glibc says.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import re
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The same content gives the same wheel.
MOMENT = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    print(pack(given.module, given.binary, given.out))


def pack(module: Path, binary: Path, out: Path) -> Path:
    version = field(ROOT / "Cargo.toml", "version")
    native, program = module.read_bytes(), binary.read_bytes()
    tag = f"cp310-abi3-{platform_tag(native, program)}"
    info = f"relight-{version}.dist-info"
    files: dict[str, tuple[bytes, int]] = {}
    for path in sorted((ROOT / "python" / "relight").rglob("*")):
        if path.suffix in (".py", ".pyi", ".typed"):
            name = path.relative_to(ROOT / "python").as_posix()
            files[name] = (path.read_bytes(), 0o644)
    files["relight/_native.abi3.so"] = (native, 0o755)
    files[f"relight-{version}.data/scripts/relight"] = (program, 0o755)
    files[f"{info}/METADATA"] = (metadata(version).encode(), 0o644)
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: relight\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        0o644,
    )
    entries = "[pytest11]\nrelight = relight.testing\n"
    files[f"{info}/entry_points.txt"] = (entries.encode(), 0o644)
    files[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    record = "".join(
        f"{name},sha256={digest(content)},{len(content)}\n" for name, (content, _) in files.items()
    )
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"relight-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return wheel


def platform_tag(*files: bytes) -> str:
    """The oldest system that has every symbol of the files."""
    minors = [int(minor) for file in files for minor in re.findall(rb"GLIBC_2\.(\d+)\b", file)]
    machine = platform.machine()
    return f"manylinux_2_{max(minors)}_{machine}" if minors else f"linux_{machine}"


def metadata(version: str) -> str:
    project = (ROOT / "python" / "pyproject.toml").read_text()
    description = re.search(r'^description = "(.*)"$', project, re.M)
    extras = re.search(r"^\[project.optional-dependencies\]\n(.*?)\n\n", project, re.M | re.S)
    lines = [
        "Metadata-Version: 2.4",
        "Name: relight",
        f"Version: {version}",
        f"Summary: {description.group(1) if description else ''}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Requires-Python: >=3.10",
        "Typing: Typed",
    ]
    for extra, needs in re.findall(r"^(\w[\w-]*) = \[(.*?)\]$", extras.group(1), re.M | re.S):
        lines.append(f"Provides-Extra: {extra}")
        for need in re.findall(r'"([^"]+)"', needs):
            what, _, marker = (part.strip() for part in need.partition(";"))
            also = f"({marker}) and " if marker else ""
            lines.append(f'Requires-Dist: {what}; {also}extra == "{extra}"')
    lines.remove("Typing: Typed")
    lines.append("Classifier: Typing :: Typed")
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + (ROOT / "python" / "README.md").read_text()


def field(path: Path, name: str) -> str:
    found = re.search(rf'^{name} = "(.*)"$', path.read_text(), re.M)
    if found is None:
        raise SystemExit(f"{path} has no {name}")
    return found.group(1)


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
