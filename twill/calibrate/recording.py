"""What was measured, as it was: the document that figures are fitted from, and that a later run goes on with."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from twill import exc
from twill.codegen.targets.hopper.probes import PROBES
from twill.codegen.targets.probe import Sample, sample
from twill.document import Document


class MeasurementPlace(Document):
    """Where it was measured. driver: its version. source: digest of the microbenchmarks. l2: bytes of its L2 cache, if
    the driver said so."""

    device: str
    sms: int
    driver: str
    source: str
    l2: int | None = None


class Measurement(Document):
    """One microbenchmark. pairs: cycles of the short and of the long launch, one pair a repeat. date: UTC.

    attempts: how often it was measured until its spread was believed.
    """

    name: str
    counts: tuple[int, int]
    steps: int
    pairs: tuple[tuple[int, int], ...]
    attempts: int
    date: str

    @property
    def sample(self) -> Sample:
        """Cycles of a step."""
        rounds = (self.counts[1] - self.counts[0]) * self.steps
        return sample([(long - short) / rounds for short, long in self.pairs])


class Recording(Document):
    """clock: (cycles, nanoseconds) of the SMs while all tensor cores work, one pair a repeat."""

    schema_version: Literal["twill.calibration/1"] = Field(default="twill.calibration/1", alias="schema")
    place: MeasurementPlace
    clock: tuple[tuple[int, int], ...] = ()
    measured: tuple[Measurement, ...] = ()

    @property
    def samples(self) -> dict[str, Sample]:
        """By name."""
        return {one.name: one.sample for one in self.measured}

    @property
    def megahertz(self) -> Sample | None:
        """The clock, if it was measured."""
        return sample([1000 * cycles / ns for cycles, ns in self.clock]) if self.clock else None

    @property
    def date(self) -> str:
        """The last day on which something was measured; "" if nothing was."""
        return max((one.date for one in self.measured), default="")[:10]

    def with_measured(self, one: Measurement) -> Recording:
        """With `one` in place of an earlier measurement of that name; in the order of the table."""
        known = {entry.name: entry for entry in self.measured} | {one.name: one}
        order = [*(name for name in PROBES if name in known), *(name for name in known if name not in PROBES)]
        return self.model_copy(update={"measured": tuple(known[name] for name in order)})

    def text(self) -> str:
        """The document, a line a microbenchmark."""
        head = self.model_copy(update={"measured": ()}).canonical().removesuffix('"measured":[]}')
        return head + '"measured":[\n' + ",\n".join(one.canonical() for one in self.measured) + "\n]}\n"


def read_recording(path: Path) -> Recording:
    """Errors: FileMissing, MalformedRecording."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise exc.FileMissing(str(path), str(error)) from error
    try:
        return Recording.parse(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the text"
        raise exc.MalformedRecording(
            f"is no recording of `twill calibrate`: {where}: {first['msg']}", file=str(path), hint="another --raw FILE"
        ) from error
