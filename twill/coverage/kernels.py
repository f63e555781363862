"""The kernels of a file, and how each is specialized: by its sidecar, else by a guess that Triton compiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from triton.runtime.jit import JITFunction

from twill.coverage.guess import Guess, guesses
from twill.coverage.source import literals, said_of
from twill.exc import TwillError
from twill.kernel.importing import KernelFile, line_of_def
from twill.kernel.sidecar import Constant, read_sidecar
from twill.kernel.specialization import read_constant, resolve
from twill.kernel.ttir import ttir

TILE = re.compile(r"tensor<(\d+(?:x\d+)*)x")
LARGEST = 16384  # elements of a tile: as many as a warp group usually has room for
STORES = ('"tt.store"', '"tt.atomic', '"tt.descriptor_store"', '"tt.descriptor_reduce"', "tma_store")


@dataclass(frozen=True)
class FoundKernel:
    """A kernel. spec: of its sidecar, "" if it has none there. sig, const: flags of its guess."""

    file: str
    kernel: str
    line: int
    spec: str = ""
    sig: tuple[str, ...] = ()
    const: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """As commands take it."""
        return f"{self.file}::{self.kernel}"


def kernels_of(loaded: KernelFile) -> tuple[FoundKernel, ...]:
    """Every kernel of a file that stores something, once for each specialization that its sidecar has of it.

    Raises the errors of a sidecar.
    """
    sidecar = read_sidecar(loaded.path)
    tables = sidecar.tables if sidecar is not None else ()
    found: list[FoundKernel] = []
    for name in loaded.kernels:
        function = loaded.functions[name]
        specs = [
            table.name for table in tables if table.kernel == name or (not table.kernel and len(loaded.kernels) == 1)
        ]
        if is_gluon(function) or (not specs and not said_of(function).stores):
            continue  # no Triton; or somebody else calls it
        one = FoundKernel(loaded.path, name, line_of_def(function))
        found.extend(replace(one, spec=spec) for spec in specs or ("",))
    return tuple(found)


def specialized(found: FoundKernel, loaded: KernelFile) -> tuple[FoundKernel, TwillError | None]:
    """The kernel with a specialization that Triton compiles: of its sidecar, or the first guess that stores something.

    The error: what Triton says of the sidecar's, or of the first guess if it compiles none.
    """
    if found.spec:
        return found, _compiled(found)[1]
    function = loaded.functions[found.kernel]
    launched = literals(Path(loaded.path).read_text(encoding="utf-8")).get(found.kernel, {})
    first: tuple[FoundKernel, TwillError | None] | None = None
    for guess in guesses(function, loaded.wrapped[found.kernel], said_of(function), launched):
        one = as_guessed(found, guess)
        text, error = _compiled(one)
        if error is None and any(store in text for store in STORES):
            return of_usual_size(one, guess, text), None
        first = first or (one, error)
    assert first is not None
    return first


def as_guessed(found: FoundKernel, guess: Guess) -> FoundKernel:
    """The kernel with the flags of a guess."""
    return replace(found, sig=flags(guess.types), const=flags(guess.constants))


def of_usual_size(found: FoundKernel, guess: Guess, text: str) -> FoundKernel:
    """A guessed kernel, with the sizes that were guessed by name halved until no tile has more than LARGEST elements:
    two sizes that are usual each for itself may make a tile that nobody launches. text: Triton's module of it."""
    while largest_tile(text) > LARGEST and (smaller := guess.halved()) != guess:
        guess, one = smaller, as_guessed(found, smaller)
        text, error = _compiled(one)
        if error is not None or not any(store in text for store in STORES):
            break
        found = one
    return found


def largest_tile(text: str) -> int:
    """Elements of the largest tile in a module."""
    return max((prod(map(int, shape.split("x"))) for shape in TILE.findall(text)), default=1)


def is_gluon(function: JITFunction) -> bool:
    """Whether it is written in the other language of Triton's, which has layouts and no tiles to schedule."""
    return bool(getattr(function, "is_gluon", lambda: False)())


def flags(values: Mapping[str, Constant]) -> tuple[str, ...]:
    """NAME=VALUE for each."""
    return tuple(f"{name}={said(value)}" for name, value in values.items())


def said(value: Constant) -> str:
    """A constant as a flag says it; a text that would be another constant stands in quotes."""
    return f'"{value}"' if isinstance(value, str) and read_constant(value) != value else str(value)


def _compiled(found: FoundKernel) -> tuple[str, TwillError | None]:
    """Triton's module, or why there is none."""
    try:
        return ttir(resolve(found.target, spec=found.spec or None, sig=found.sig, const=found.const)), None
    except TwillError as error:
        return "", error
