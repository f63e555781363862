"""The document of a family: emitted variants of one kernel in one directory, and what each is predicted to take.

JSON, `family.json`, beside a folder for each member (as `twill emit --out` writes it). `twill tune --out` writes it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from twill import exc
from twill.manifest.document import SHARED_SUMS
from twill.manifest.evaluate import Scalar, evaluate
from twill.manifest.record import Misfit, from_json, to_json

FAMILY = "family.json"
SCHEMA = "twill.family/2"
PARTS = (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 33, 36, 40, 44, 50, 58, 66)  # that K may be split into
MOST_PARTS = 16  # that a kernel is emitted for; more are a matter of the launch


@dataclass(frozen=True)
class MemberLoad:
    """A tile that every iteration loads by a tensor map. argument: of the kernel. lines: of the L2 cache, if its rows
    begin with one. bytes: of a CTA's own load, half of the tile where two share it."""

    argument: str
    lines: float
    bytes: float


@dataclass(frozen=True)
class LaunchRates:
    """What a launch takes beside the schedule, as `twill.machine.description.LaunchFigures` has it."""

    line_bytes: float
    line: float
    port: float
    memory: float
    shown: float
    blend: float
    meeting: float
    part: float
    cluster: float


@dataclass(frozen=True)
class TensorSize:
    """Of a tensor that is loaded: bytes of it, and from row to row."""

    bytes: float
    row: int


@dataclass(frozen=True)
class MemberCost:
    """Cycles of a program instance: `interval` for each iteration, `length` for the first one, `straight` for what is
    around the loop. iterations: of the loop, from the arguments of a launch; None: not known in front of one. written,
    read: cycles of the way of one part's sums to the workspace and back. sums: elements of them. loads: of an
    iteration; rates: what else takes time (None: nothing is known of that)."""

    interval: float
    length: float
    straight: float
    iterations: Scalar | None
    written: float = 0.0
    read: float = 0.0
    sums: float = 0.0
    loads: tuple[MemberLoad, ...] = ()
    rates: LaunchRates | None = None

    def cycles(self, instances: int, sms: int, values: dict[str, int | float], parts: int = 1) -> float | None:
        """Of the busiest SM by the schedule alone, for a launch of so many program instances, each in so many parts;
        None: not known."""
        count = self.count(values)
        if count is None:
            return None
        loop = (-(-count // parts) - 1) * self.interval + self.length if count > 0 else 0.0
        waves = math.ceil(instances * parts / sms)
        meeting = waves * self.written + math.ceil(instances / sms) * parts * self.read if parts > 1 else 0.0
        return waves * (self.straight + loop) + meeting

    def count(self, values: dict[str, int | float]) -> int | None:
        """Of iterations."""
        try:
            return None if self.iterations is None else int(evaluate(self.iterations, values))
        except (KeyError, ArithmeticError):
            return None

    def launch(
        self,
        instances: int,
        sms: int,
        values: dict[str, int | float],
        tensors: Mapping[str, TensorSize],
        parts: int = 1,
        cluster: int = 1,
    ) -> float | None:
        """As `cycles`, with the ways of data: of lines to an SM, of bytes to it, and from memory. None also where so
        many parts are not worth their sums. tensors: sizes of arguments, as far as they are known."""
        count, rates = self.count(values), self.rates
        if parts > 1 and count is not None and not worth_splitting(instances, sms, count, parts):
            return None
        if rates is None or count is None or not instances:
            return self.cycles(instances, sms, values, parts)
        each = -(-count // parts)
        known = {load.argument: tensors[load.argument] for load in self.loads if load.argument in tensors}
        lines = sum(load.lines * (2 if self.parted(load, known, rates) else 1) for load in self.loads)
        loop = max(0, each - 1) * max(self.interval, lines * rates.line) + (self.length if each else 0.0)
        work = math.ceil(instances * parts / sms) * (self.straight * rates.shown + loop)
        busy = min(sms, instances * parts)
        carried = instances * parts * each * sum(load.bytes for load in self.loads) / busy / rates.port
        memory = sum(size.bytes for size in known.values()) / rates.memory
        total: float = (work**rates.blend + carried**rates.blend + memory**rates.blend) ** (1 / rates.blend)
        if parts > 1:
            together = instances * parts <= sms and parts * self.sums >= SHARED_SUMS
            meetings, moved = (MEETINGS, min(parts, MOVED)) if together else (1, parts)
            total += meetings * rates.meeting + rates.part * moved * self.sums / SUMS
        return total + (rates.cluster if cluster > 1 else 0.0)

    def parted(self, load: MemberLoad, known: Mapping[str, TensorSize], rates: LaunchRates) -> bool:
        """Whether rows of a tile begin within a line."""
        return load.argument in known and known[load.argument].row % rates.line_bytes != 0


SUMS = 4096  # elements that `LaunchRates.part` is for
MEETINGS = 3  # of instances that add slices of a sum: all parts are there, a slice is taken, all slices are done
MOVED = 3  # elements of so many parts: its own, its slice of all of them, and in the end the sum
WAVES, LEAST = 4, 2  # of CTAs that parts make at most; iterations of a part at least


def worth_splitting(instances: int, sms: int, iterations: int, parts: int) -> bool:
    """Whether a loop may be split into so many parts. More instances fill a GPU by themselves; where there are so many
    that counters have no room, they are launched whole (`SplitK.instances`), whatever the number of parts."""
    return instances * parts <= WAVES * sms and iterations >= LEAST * parts


@dataclass(frozen=True)
class Member:
    """A variant. folder: its own, in the family's. cost: None if nothing is predicted."""

    folder: str
    cost: MemberCost | None = None


@dataclass(frozen=True)
class Family:
    """members: the one that is taken where nothing else is known first."""

    schema: str
    kernel: str
    members: tuple[Member, ...]

    def text(self) -> str:
        """The document. Ends with a newline."""
        return json.dumps(to_json(self), indent=1) + "\n"

    def without(self, folders: frozenset[str]) -> Family:
        """The others."""
        return replace(self, members=tuple(one for one in self.members if one.folder not in folders))

    @property
    def digest(self) -> str:
        """What choices among its members are kept under."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def read_family(directory: Path) -> Family:
    """The document in a directory. Errors: FileMissing, MalformedManifest."""
    file = directory / FAMILY
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        raise exc.FileMissing(str(file), why, "a directory that `twill tune --out` wrote") from None
    except (ValueError, RecursionError) as error:
        raise exc.MalformedManifest(f"not JSON: {error}", file=str(file), hint=AGAIN) from None
    try:
        family = from_json(Family, data)
    except Misfit as misfit:
        raise exc.MalformedManifest(str(misfit), file=str(file), hint=AGAIN) from None
    if family.schema != SCHEMA:
        raise exc.MalformedManifest(f"schema is {family.schema!r}", file=str(file), hint=AGAIN)
    return family


AGAIN = "tune the kernel again (`twill tune --out`)"
