"""What a launch tells the process that prepares kernels, and what that answers: one JSON document a line each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from twill.manifest.document import Constant
from twill.manifest.record import from_json, to_json

Form = Literal["cuda", "gluon"]
State = Literal["emitted", "missing", "unsupported", "failed", "asks"]
"""asks: for what a launch is made with (`PrepareRequest.recorded`), without which nothing can be checked."""


@dataclass(frozen=True)
class DefaultedParameter:
    """A parameter that a call may leave out, with its default."""

    name: str
    optional: bool
    default: Constant


@dataclass(frozen=True)
class Typed:
    """An argument with its type."""

    name: str
    type: str


@dataclass(frozen=True)
class Valued:
    """A constant with its value."""

    name: str
    value: Constant


@dataclass(frozen=True)
class PrepareRequest:
    """A kernel to prepare.

    key: of the artifact. module: Triton's TTIR of this variant. machine: a name or a file. solve: whether to solve
    what nobody has solved, in at most `seconds`. strict, form: `strict_math` and `emit` of `JitSettings`. store,
    server: as there. split: parts that K is split into along axis `split_axis` of the launch grid, if it can be.
    recorded: what a launch was made with (`twill.runtime.recording`), "" until that is asked for; may_ask: whether it
    can be told.
    """

    key: str
    kernel: str
    file: str
    parameters: tuple[DefaultedParameter, ...]
    signature: tuple[Typed, ...]
    constants: tuple[Valued, ...]
    divisible: tuple[str, ...]
    module: str
    machine: str
    solve: bool
    seconds: float
    store: str
    server: str
    strict: bool = False
    form: Form = "cuda"
    split: int = 1
    split_axis: int = 1
    recorded: str = ""
    may_ask: bool = False

    def line(self) -> str:
        """As it is sent."""
        return json.dumps(to_json(self))


@dataclass(frozen=True)
class Prepared:
    """What became of a request. reason: why there is no kernel, or none yet. notes: what went wrong and did no harm.
    artifact: `to_text` of what `twill.runtime.artifact` makes, if `state` is "emitted"."""

    key: str
    state: State
    reason: str = ""
    notes: tuple[str, ...] = ()
    artifact: str = ""

    def line(self) -> str:
        """As it is sent."""
        return json.dumps(to_json(self))


def read_request(line: str) -> PrepareRequest:
    """Errors: ValueError."""
    return from_json(PrepareRequest, json.loads(line))


def read_answer(line: str) -> Prepared:
    """Errors: ValueError."""
    return from_json(Prepared, json.loads(line))
