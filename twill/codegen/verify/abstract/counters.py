"""Launches of programs in which one thread does something to memory for all: locks and counters begin as zeros, and
tensors that are accessed where it says have room for that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from twill.exc import UnknownProblem
from twill.tile.interpret.arrays import np
from twill.tile.interpret.elements import OutsideOfTensor
from twill.tile.interpret.sequential import run
from twill.tile.program import TileProgram
from twill.tile.scalar_region import Endless

if TYPE_CHECKING:
    from twill.codegen.verify.abstract.inputs import CheckedLaunch

MOST = 1 << 20  # elements of a tensor whose size follows from what is found out


def counters(program: TileProgram) -> frozenset[str]:
    """The tensors that one thread touches for all."""
    return frozenset[str]().union(*(op.region.touched() for op in program.ops() if op.region is not None))


def with_counters(
    program: TileProgram, made: CheckedLaunch, sized: Collection[str], filled: Collection[str]
) -> CheckedLaunch:
    """The launch with zeros in locks and counters, and tensors as long as it takes. sized, filled: tensors of which the
    size, and what is in them, is given. Errors: UnknownProblem."""
    written, zeros = program.original or program, counters(program) - set(filled)
    given = {*sized, *filled}
    arrays = {name: array if array.size else np.zeros(1, array.dtype) for name, array in made.arrays.items()}
    for name in zeros:
        if arrays[name].dtype.kind == "i":
            arrays[name] = np.zeros_like(arrays[name])
    while True:
        copies = {name: array.copy() for name, array in arrays.items()}
        try:
            run(written, made.grid, copies, made.scalars)
        except OutsideOfTensor as outside:
            short = [name for name, array in copies.items() if outside.is_of(array) and name not in given]
            if not short or outside.least < 0 or outside.most >= MOST:
                raise _unknown(program, "accesses what no tensor has") from None
            arrays |= {name: np.resize(arrays[name], outside.most + 1) for name in short}
        except Endless:
            raise _unknown(program, "waits for ever") from None
        else:
            return replace(made, arrays=arrays)


def _unknown(program: TileProgram, what: str) -> UnknownProblem:
    return UnknownProblem(
        f"at sizes that were made up, with zeros in its locks and counters, `{program.kernel}` {what}",
        file=program.file, hint="a table [specialization.problem] in its sidecar (docs/problem-sizes.md)",
    )  # fmt: skip
