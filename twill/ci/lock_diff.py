"""Compares every schedule with the lock file: better, equal or worse by I, then copies, then registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from twill.ci.lock_file import Locked

Verdict = Literal["same", "changed", "better", "new", "worse", "missing", "failed", "excluded"]
BAD: frozenset[Verdict] = frozenset({"worse", "missing", "failed"})
FROZEN: frozenset[Verdict] = BAD | {"new"}
"""What makes a run fail whose lock file has to have everything."""


@dataclass(frozen=True)
class MissingSchedule:
    """Why a kernel has no schedule. line: 0 if it is of no line; seconds: spent on it."""

    message: str
    line: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Found:
    """A schedule of today. line: of its main loop; origin: "solved", "store" or "service"."""

    figures: Locked
    line: int
    seconds: float
    origin: str


@dataclass(frozen=True)
class Left:
    """A specialization that the lock file excludes. reason: as it says."""

    reason: str


@dataclass(frozen=True)
class ScheduleChange:
    """One schedule, then and now. before: None if it is new; now: None if there is none."""

    name: tuple[str, str, str, str]
    verdict: Verdict
    before: Locked | None
    now: Found | None
    problem: MissingSchedule | None = None
    bad_ones: frozenset[Verdict] = BAD

    @property
    def bad(self) -> bool:
        """Whether it makes the run fail."""
        return self.verdict in self.bad_ones

    @property
    def title(self) -> str:
        """The kernel, its specialization and the machine, in words."""
        _, kernel, spec, machine = self.name
        return f"{kernel}[{spec}] on {machine}"

    @property
    def line(self) -> int:
        """The kernel's line that it is about; 1 if none is known."""
        known = self.now.line if self.now else self.problem.line if self.problem else 0
        return known or 1


Results = Mapping[tuple[str, str, str, str], Found | MissingSchedule | Left]


def changes(past: Iterable[Locked], results: Results, frozen: bool = False) -> tuple[ScheduleChange, ...]:
    """What became of every schedule of the lock file that was asked about, and of every one of today, by name.

    frozen: one that the lock file does not have is bad, too.
    """
    before = {one.name: one for one in past}
    found = (change(name, before.get(name), results.get(name)) for name in sorted(before.keys() | set(results)))
    return tuple(replace(one, bad_ones=FROZEN if frozen else BAD) for one in found)


def change(
    name: tuple[str, str, str, str], before: Locked | None, now: Found | MissingSchedule | Left | None
) -> ScheduleChange:
    """The difference of one schedule."""
    if isinstance(now, Left):
        return ScheduleChange(name, "excluded", before, None, MissingSchedule(now.reason))
    if now is None:
        return ScheduleChange(
            name, "missing", before, None, MissingSchedule("it is in the lock file, but no longer in the repository")
        )
    if isinstance(now, MissingSchedule):
        return ScheduleChange(name, "failed", before, None, now)
    if before is None:
        return ScheduleChange(name, "new", None, now)
    return ScheduleChange(name, judged(before, now.figures), before, now)


def judged(before: Locked, now: Locked) -> Verdict:
    """By the first of I for each program instance, copies and registers that is not as it was."""
    then, today = rank(before), rank(now)
    if today != then:
        return "worse" if today > then else "better"
    return "same" if before == now else "changed"


def proof(figures: Locked) -> str:
    """What is proven of I."""
    return "optimal" if figures.bound is None else f"I >= {figures.bound:,}"


def rank(figures: Locked) -> tuple[Fraction, int, int]:
    """Smaller is better."""
    return Fraction(figures.ii, figures.fuse), figures.copies, figures.registers


def differences(before: Locked, now: Locked) -> Iterator[str]:
    """A line for each figure that matters or differs."""
    if before.key != now.key:
        yield f"key        {before.key[:12]} -> {now.key[:12]} (the kernel, the machine or Twill changed)"
    names = {"ii": "I", "fuse": "instances fused", "copies": "copies", "registers": "registers"}
    names |= {"crossing": "crossing", "length": "L"}
    if before.bound != now.bound:
        yield f"proof      {proof(before)} -> {proof(now)}"
    for field, name in names.items():
        old, new = getattr(before, field), getattr(now, field)
        if old != new:
            part = f" ({(new - old) / old:+.1%})" if old else ""
            yield f"{name:<10} {old:,} -> {new:,}{part}"
        elif field in ("ii", "copies", "registers"):
            yield f"{name:<10} {old:,}"
