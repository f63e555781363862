"""Whether two folders of emitted modules of Gluon are the same program: the text, what Triton makes of it, and the
machine code, for figures that were measured with modules of an earlier revision.

python -m tests.gluon_alike BEFORE NOW [NAME...]     # each with a folder for each module, as `twill emit` left it

Both are compiled here by the Triton that is installed. Line numbers do not count, nor what registers and labels are
called: they are numbered as they come. Exit code 1 if anything but the text differs.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import triton

from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.gluon.triton import CompiledModule
from twill.codegen.gluon import MANIFEST, ModuleOptions, compile_module
from twill.codegen.print.gluon.shared import FILE

PTX_NAME = re.compile(r"(%[a-z]+)\d+|(\$L__\w+?)\d+(?:_\d+)?\b")
SASS_NAME = re.compile(r"\b(U?[RP])\d+\b|(\.L_x_)\d+")


@dataclass(frozen=True)
class Compared:
    """Lines that differ, of both sides together: of the module, of the file beside it, of PTX and SASS."""

    name: str
    text: int
    beside: int
    ptx: int
    sass: int

    def __str__(self) -> str:
        said = [f"{kind} {f'{lines} lines differ' if lines else 'equal'}" for kind, lines in self._lines().items()]
        return f"{self.name}: {', '.join(said)}"

    def _lines(self) -> dict[str, int]:
        return {"text": self.text, FILE: self.beside, "PTX": self.ptx, "SASS": self.sass}


def compare(before: Path, now: Path) -> Compared:
    """Two folders with a module each."""
    (one,), (two,) = (_modules(folder) for folder in (before, now))
    first, second = _compiled(one), _compiled(two)
    return Compared(
        now.name,
        _differing(*(path.read_text(encoding="utf-8").splitlines() for path in (one, two))),
        _differing(*((folder / FILE).read_text(encoding="utf-8").splitlines() for folder in (before, now))),
        _differing(*(instructions(made.ptx) for made in (first, second))),
        _differing(*(machine_code(made.cubin) for made in (first, second))),
    )


def _modules(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*_gluon.py") if path.name != FILE]


def _compiled(module: Path) -> CompiledModule:
    said = json.loads((module.parent / MANIFEST).read_text(encoding="utf-8"))
    asked = ModuleOptions(said["capability"], said["multiples"], said["fused"], said.get("ctas", 1))
    return compile_module(module, said["entry"], [(name, kind) for name, kind in said["signature"]], asked)


def instructions(ptx: str) -> list[str]:
    """PTX without lines, comments and debugging sections; registers and labels numbered as they come."""
    text = ptx.partition("\t.section\t.debug")[0]
    lines = (re.sub(r"//.*", "", line).strip() for line in text.splitlines())
    return _numbered([line for line in lines if line and not line.startswith((".loc", ".file"))], PTX_NAME)


def machine_code(cubin: bytes) -> list[str]:
    """The same of SASS. Raises RuntimeError without a disassembler."""
    listing = disassemble(cubin)
    if listing is None:
        raise RuntimeError("no nvdisasm")
    lines = (re.sub(r"/\*.*?\*/|//.*", "", line).strip() for line in listing.splitlines())
    return _numbered([line for line in lines if line.endswith((";", ":"))], SASS_NAME)


def _numbered(lines: list[str], name: re.Pattern[str]) -> list[str]:
    known: dict[str, str] = {}
    many: Counter[str] = Counter()

    def number(found: re.Match[str]) -> str:
        if found[0] not in known:
            kind = next(group for group in found.groups() if group is not None)
            known[found[0]] = f"{kind}{many[kind]}"
            many[kind] += 1
        return known[found[0]]

    return [name.sub(number, line) for line in lines]


def _differing(before: Sequence[str], now: Sequence[str]) -> int:
    if before == now:
        return 0
    return sum(line[:1] in "+-" and line[:3] not in ("---", "+++") for line in difflib.unified_diff(before, now, n=0))


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    before, now, *names = words
    print(f"Triton {triton.__version__}", flush=True)
    differ = False
    for folder in sorted(one for one in Path(now).iterdir() if (one / MANIFEST).exists()):
        if (names and folder.name not in names) or not (Path(before) / folder.name / MANIFEST).exists():
            continue
        found = compare(Path(before) / folder.name, folder)
        print(found, flush=True)
        differ |= bool(found.ptx or found.sass)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
