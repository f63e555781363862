"""Edits of emitted modules of Gluon, one at a time: whether reading back what Triton makes of them finds each.

python -m tests.gluon_edits DIR...     # as `twill emit --as gluon --out DIR` left them; exit code 1 if one is not found
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from twill.exc import GluonRejected
from twill.trial.gluon_edits import compared

Change = str | Callable[[re.Match[str]], str]
BOTH: dict[str, tuple[str, Change]] = {
    "the parity of a wait": (r"( // \w+_STAGES & 1)\)", r"\1 ^ 1)"),
    "the slot of a wait": (r"(mbarrier\.wait\(\w+\.index\()(\w+) %", r"\1(\2 + 1) %"),
    "expected bytes": (r"(mbarrier\.expect\(.*, )(\d+)\)$", r"\g<1>1\2)"),
    "an arrival is gone": (r"^( +)mbarrier\.arrive\(.*$", r"\1pass"),
    "budgets": (
        r"\[([\d, ]+)\],  # registers of",
        lambda found: f"[{', '.join(str(int(one) - 8) for one in found[1].split(', '))}],  # registers of",
    ),
}
HOPPER: dict[str, tuple[str, Change]] = {
    "arrivals of a barrier": (r"(mbarrier\.init\(\w+_empty\.index\(slot\), count=)(\d+)", r"\g<1>1\2"),
    "unfinished products": (r"num_outstanding=(\d+)", r"num_outstanding=1\1"),
}
BLACKWELL: dict[str, tuple[str, Change]] = {
    "arrivals of a barrier": (r"(ring_barriers\(.*, empty=)(\d+)", r"\g<1>1\2"),
    "the slot of a commit": (r"(tcgen05_commit\(\w+\.index\()(\w+)( %|\))", r"\1(\2 + 1)\3"),
    "a commit is gone": (r"^( +)tcgen05_commit\(.*$", r"\1pass"),
    "a read is gone": (r"^( +\w+ = ).*\.load\((MMA_(\d+))\)$", r"\1gl.zeros([128, \3], gl.float32, \2)"),
}  # fmt: skip
"""What is edited -> the first place that matches, and what stands there then."""


def survey(folder: Path) -> list[str]:
    """Which edits of a folder's module are not found; every edit has to have its place. Prints a line for each."""
    (path,) = folder.glob("*_gluon.py")
    text = path.read_text(encoding="utf-8")
    missed: list[str] = []
    edits = BOTH | (BLACKWELL if "tcgen05_mma" in text else HOPPER)
    for edit, (before, after) in edits.items():
        edited, count = re.subn(before, after, text, count=1, flags=re.MULTILINE)
        if not count:
            raise ValueError(f"{path}: no place for `{edit}`")
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(folder, place, dirs_exist_ok=True)
            (Path(place) / path.name).write_text(edited, encoding="utf-8")
            said = _found(Path(place) / path.name)
        missed += [] if said else [edit]
        print(f"{folder.name}: {edit}: {said or 'NOT FOUND'}", flush=True)
    return missed


def _found(path: Path) -> str:
    try:
        return "; ".join(one.describe(path.name) for one in compared(path).differences)
    except GluonRejected as error:
        return str(error)


def main(folders: Sequence[str]) -> int:
    """See the top of this file."""
    missed = [edit for folder in folders for edit in survey(Path(folder))]
    return int(len(missed) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
