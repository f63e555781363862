"""The document of a family: emitted variants of one kernel in one directory, and what each is predicted to take.

JSON, `family.json`, beside a folder for each member (as `twill emit --out` writes it). `twill tune --out` writes it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from twill import exc
from twill.manifest.evaluate import Scalar, evaluate
from twill.manifest.record import Misfit, from_json, to_json

FAMILY = "family.json"
SCHEMA = "twill.family/1"
MOST_PARTS = 16  # that K is split into


@dataclass(frozen=True)
class MemberCost:
    """Cycles of a program instance: `interval` for each iteration, `length` for the first one, `straight` for what is
    around the loop. iterations: of the loop, from the arguments of a launch; None: not known in front of one. written,
    read: cycles of the way of one part's sums to the workspace and back."""

    interval: float
    length: float
    straight: float
    iterations: Scalar | None
    written: float = 0.0
    read: float = 0.0

    def cycles(self, instances: int, sms: int, values: dict[str, int | float], parts: int = 1) -> float | None:
        """Of the busiest SM, for a launch of so many program instances, each in so many parts; None: not known."""
        if self.iterations is None:
            return None
        try:
            count = int(evaluate(self.iterations, values))
        except (KeyError, ArithmeticError):
            return None
        loop = (-(-count // parts) - 1) * self.interval + self.length if count > 0 else 0.0
        waves = math.ceil(instances * parts / sms)
        meeting = waves * self.written + math.ceil(instances / sms) * parts * self.read if parts > 1 else 0.0
        return waves * (self.straight + loop) + meeting


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
