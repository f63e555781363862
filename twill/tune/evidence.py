"""The document of a tuning: every candidate with what was predicted and measured, and the winner with its schedule."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from twill.document import Document
from twill.schedule.document import Schedule

ARTIFACT = "tuning.json"  # under the key of the default tiles' schedule


class Tried(Document):
    """A candidate. const, sig: the flags that give its kernel. predicted: cycles at each size; measured: median
    milliseconds at each size, () if it was not. note: why not, or what was wrong. folder: where it was emitted, beside
    this document; "" if it was not. cluster: CTAs that load tiles together. split: parts of K."""

    name: str
    const: tuple[str, ...]
    sig: tuple[str, ...]
    blocks: int
    ii: int
    predicted: tuple[float, ...]
    measured: tuple[float, ...] = ()
    note: str = ""
    folder: str = ""
    cluster: int = 1
    split: int = 1


class Tuning(Document):
    """tried: the default first. winner: its index. gain: speed of the winner over the default, geometric mean over the
    sizes; None if nothing was measured. schedule: of the winner. device: where it was measured."""

    schema_version: Literal["twill.tuning/1"] = Field(default="twill.tuning/1", alias="schema")
    kernel: str
    spec: str
    machine: str
    machine_digest: str
    sizes: tuple[dict[str, int], ...]
    tried: tuple[Tried, ...]
    refused: tuple[tuple[str, str], ...]
    winner: int
    gain: float | None
    schedule: Schedule
    date: str
    device: str = ""

    @property
    def won(self) -> Tried:
        """The winner."""
        return self.tried[self.winner]
