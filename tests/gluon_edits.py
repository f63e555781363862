"""Edits of emitted modules of Gluon, one at a time: whether reading back what Triton makes of them finds each.

An edit that changes no instruction (the next slot of a ring that has one) is no edit; the next place is taken.

python -m tests.gluon_edits DIR...     # as `twill emit --as gluon --out DIR` left them; exit code 1 if one is not found
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twill.codegen.print.gluon.shared import FILE
from twill.exc import GluonRejected
from twill.trial.gluon_edits import compared

Change = str | Callable[[re.Match[str]], str]
BOTH: dict[str, tuple[str, Change]] = {
    "the parity of a wait": (r"(self\.full\.index\(.*\), count // self\.slots & 1)\)", r"\1 ^ 1)"),
    "the slot of a wait": (r"(\w+_ring\.wait\(\w+)\)", r"\1 + 1)"),
    "expected bytes": (r"(\.expect\(.*, )(\d+)\)$", r"\g<1>1\2)"),
    "an arrival is gone": (r"^( +)\w+_ring\.(release|publish)\(.*$", r"\1pass"),
    "a fence is gone": (r"^( +)fence_async_shared\(\)(  # the TMA.*|\n +\w+_ring\.(?:publish|release))", r"\1pass\2"),
    "arrivals of a barrier": (r"(ring(?:_of_pair)?\(.*, empty=)(\d+)", r"\g<1>1\2"),
    "budgets": (
        r"\[([\d, ]+)\],  # registers of",
        lambda found: f"[{', '.join(str(int(one) - 8) for one in found[1].split(', '))}],  # registers of",
    ),
}
HOPPER: dict[str, tuple[str, Change]] = {
    "unfinished products": (r"num_outstanding=(\d+)", r"num_outstanding=1\1"),
}
BLACKWELL: dict[str, tuple[str, Change]] = {
    "the slot of a commit": (r"(tcgen05_commit\(\w+\.\w+\()(\w+)\)", r"\1\2 + 1)"),
    "a commit is gone": (r"^( +)tcgen05_commit\(.*$", r"\1pass"),
    "a read is gone": (r"^( +)(\w+) = (.*)\.load\((MMA_\d+)\)$", r"\1\2 = gl.zeros(\3.shape, gl.float32, \4)"),
}
PAIRS: dict[str, tuple[str, Change]] = {
    "no waits at the end": (r"^    for _ in range\(\d+\):\n(?: {8}.*\n)+", r"    pass\n"),
}
"""What is edited -> the places that match, in the module or the file beside it, and what stands there then."""
SELDOM = ("a fence is gone",)
"""Edits for which a module may have no place: Triton itself places fences in front of copies out of shared memory."""


def survey(folder: Path) -> list[str]:
    """Which edits of a folder's module are not found; every edit has to have its place. Prints a line for each."""
    (path,) = (one for one in folder.glob("*_gluon.py") if one.name != FILE)
    texts = {file: (folder / file).read_text(encoding="utf-8") for file in (path.name, FILE)}
    missed: list[str] = []
    edits = BOTH | (BLACKWELL if "tcgen05_mma" in texts[path.name] else HOPPER)
    edits |= PAIRS if "num_ctas=" in texts[path.name] else {}
    for edit in edits:
        said = _found(folder, path.name, texts, edits[edit])
        missed += [] if said else [edit]
        print(f"{folder.name}: {edit}: {said or 'NOT FOUND'}", flush=True)
    return missed


def _found(folder: Path, module: str, texts: Mapping[str, str], edit: tuple[str, Change]) -> str:
    """What is told of an edit, at the first place at which it changes an instruction; that it changes none anywhere.
    Raises ValueError if it has no place."""
    before, after = edit
    places = 0
    for file, text in texts.items():
        for place in re.finditer(before, text, re.MULTILINE):
            places += 1
            changed = re.sub(before, after, place[0], count=1, flags=re.MULTILINE)
            edited = text[: place.start()] + changed + text[place.end() :]
            with tempfile.TemporaryDirectory() as copy:
                shutil.copytree(folder, copy, dirs_exist_ok=True)
                (Path(copy) / file).write_text(edited, encoding="utf-8")
                said, ptx = _told(Path(copy) / module)
            if said or instructions(ptx) != instructions(_told(folder / module)[1]):
                return said
    if not places and edit not in [
        edits[name] for edits in (BOTH, HOPPER, BLACKWELL) for name in SELDOM if name in edits
    ]:
        raise ValueError(f"{folder}: no place for `{before}`")
    return f"harmless: no instruction changes, at none of {places} places"


def _told(path: Path) -> tuple[str, str]:
    """What is told of a module, and what Triton made of it."""
    try:
        found = compared(path)
    except GluonRejected as error:
        return str(error), ""
    return "; ".join(one.describe(path.name) for one in found.differences), found.ptx


def instructions(ptx: str) -> list[str]:
    """A module of PTX without what only debuggers read, and from which line it is."""
    code = ptx.partition(".section")[0]
    return [line for line in code.splitlines() if not line.strip().startswith((".loc", ".file", "//", "$L__tmp"))]


def main(folders: Sequence[str]) -> int:
    """See the top of this file."""
    missed = [edit for folder in folders for edit in survey(Path(folder))]
    return int(len(missed) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
