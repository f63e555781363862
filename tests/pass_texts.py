"""What passes make of small programs, both as text, one file a pass.

    (lines that stand in front of every program of the file that does not begin with a head of its own)
    == what the pass does here [an option, another=1]
    (the program in front of the pass)
    -- becomes
    (the program behind it)
    == another case
    (a program that the pass leaves alone)
    -- stays, for (the reason)

`pytest --update-golden` writes what a program becomes; the diff is part of the review.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEADS = ("kernel ", "warp program ")
BECOMES, STAYS = "-- becomes\n", "-- stays, for "


@dataclass(frozen=True)
class PassCase:
    """One case of a file. options: what stands in brackets behind its title. before, after: whole programs."""

    path: Path
    around: str
    title: str
    options: tuple[str, ...]
    before: str
    after: str

    @property
    def name(self) -> str:
        """Of the pass."""
        return self.path.stem

    @property
    def changes(self) -> bool:
        """Whether the pass changes the program."""
        return self.before != self.after

    def check(self, run: Callable[[str], str], update: bool) -> None:
        """run: from the program in front of the pass to the one behind it."""
        made = run(self.before)
        if update and self.changes:
            written, now = (BECOMES + one.removeprefix(self.around) for one in (self.after, made))
            text = self.path.read_text(encoding="utf-8")
            place = text.index(written, text.index(f"== {self.title}"))
            self.path.write_text(text[:place] + now + text[place + len(written) :], encoding="utf-8")
        else:
            assert made == self.after


def pass_cases(folder: Path) -> tuple[PassCase, ...]:
    """All cases of a folder."""
    return tuple(case for path in sorted(folder.glob("*.txt")) for case in _cases(path))


def _cases(path: Path) -> list[PassCase]:
    around, *parts = re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for part in parts:
        head, _, text = part.partition("\n")
        title, _, options = head.removesuffix("]").partition(" [")
        before, becomes, after = text.partition(BECOMES)
        if not becomes:
            before, stays, reason = text.partition(STAYS)
            assert stays and reason.strip(), f"{path.name}: {title}: neither becomes anything nor stays, for a reason"
            after = before
        else:
            assert before != after, f"{path.name}: {title}: becomes what it is; say `{STAYS}` and why"
        whole = tuple(one if one.startswith(HEADS) else around + one for one in (before, after))
        found.append(PassCase(path, around, title, tuple(options.split(", ")) if options else (), *whole))
    return found
