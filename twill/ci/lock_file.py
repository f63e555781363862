"""The lock file of `twill ci`: the figures of every kernel's schedule, to be kept under version control.

It is JSON of one figure a line, so that its differences are read in a review.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from twill.document import Document
from twill.exc import FileMissing, MalformedLock
from twill.schedule.document import Schedule

INDENT = 2
EVERY = "*"
AGAIN = "write it again with `twill ci --update`"


class Locked(Document):
    """One kernel, specialization and machine. file: relative to the lock file, with "/".

    fuse: program instances that one I serves. registers: summed budgets, registers per thread. bound: None, or of a
    schedule that is the best known and not proven, the lower bound of I that is.
    """

    file: str
    kernel: str
    spec: str
    machine: str
    ii: int
    fuse: int
    copies: int
    registers: int
    crossing: int
    length: int
    key: str
    bound: int | None = None

    @property
    def name(self) -> tuple[str, str, str, str]:
        """The key of the entry: file, kernel, specialization and machine."""
        return self.file, self.kernel, self.spec, self.machine

    @property
    def title(self) -> str:
        """The kernel, its specialization and the machine, in words."""
        return f"{self.kernel}[{self.spec}] on {self.machine}"


class Excluded(Document):
    """A specialization without a schedule that can be held to: it is not solved. Written by hand, with the reason.

    file, spec: as `Locked` has them. machine: a name, or "*" for all.
    """

    file: str
    spec: str
    machine: str = EVERY
    reason: Annotated[str, Field(min_length=1)]

    def covers(self, file: str, spec: str, machine: str) -> bool:
        """Whether it is about that specialization on that machine."""
        return (self.file, self.spec) == (file, spec) and self.machine in (EVERY, machine)


class Lock(Document):
    """Every schedule of a repository, in the order of their names, and what is left out."""

    schema_version: Literal["twill.lock/1"] = Field(default="twill.lock/1", alias="schema")
    schedules: tuple[Locked, ...]
    excluded: tuple[Excluded, ...] = ()

    def text(self) -> str:
        """The file's content."""
        without = None if self.excluded else {"excluded"}
        return self.model_dump_json(indent=INDENT, exclude_none=True, exclude=without) + "\n"

    def why_excluded(self, file: str, spec: str, machine: str) -> str:
        """The reason why a specialization is not solved for a machine; "" if it is."""
        return next((one.reason for one in self.excluded if one.covers(file, spec, machine)), "")


def locked(file: str, schedule: Schedule) -> Locked:
    """What the lock file has of a schedule, proven or not."""
    proven = all(loop.certificate.optimal for loop in schedule.loops)
    return Locked(
        file=file,
        kernel=schedule.kernel,
        spec=schedule.spec,
        machine=schedule.machine,
        ii=schedule.ii,
        fuse=schedule.cooperation.fuse,
        copies=schedule.copies,
        registers=schedule.objective.registers,
        crossing=schedule.objective.crossing,
        length=schedule.length,
        key=schedule.key,
        bound=None if proven else schedule.certificate.lower_bound,
    )


def load_lock(path: Path) -> Lock | None:
    """The lock file at `path`, None if there is none. Raises FileMissing, MalformedLock."""
    try:
        lock = Lock.parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileMissing(str(path), error.strerror or str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise MalformedLock(
            f"not a lock file of this version: {where}: {first['msg']}", file=str(path), hint=AGAIN
        ) from None
    names = [one.name for one in lock.schedules]
    if len(set(names)) < len(names):
        raise MalformedLock("it has a schedule twice", file=str(path), hint=AGAIN)
    for one in lock.schedules:
        if lock.why_excluded(one.file, one.spec, one.machine):
            hint = "its schedule, or its exclusion"
            raise MalformedLock(f"it has {one.title}, and excludes it", file=str(path), hint=hint)
    return lock
