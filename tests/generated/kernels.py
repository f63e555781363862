"""Whole kernels, those of `examples/` and others with a table of sizes: both interpreters at a small size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import triton_interpreter
from tests.generated.holding import DIGITS, differing, numbers
from tests.generated.values import INTEGERS, inputs
from tests.generated.writer import Output
from tests.triton_interpreter import Block
from twill.kernel.importing import load
from twill.kernel.problem import Case
from twill.kernel.specialization import Specialization
from twill.kernel.ttir import constants_of
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret import sequential
from twill.tile.launch_grid import instance_case
from twill.tile.program import TileProgram
from twill.tile.translate.translate import tile_program

Array = Any


@dataclass(frozen=True)
class Held:
    """An array after a launch by both. furthest: the largest distance, in epsilons of its type times its largest
    number."""

    output: str
    dtype: str
    furthest: float


def held(
    spec: Specialization, case: Case, *, raw: bool = False, given: Mapping[str, Array] | None = None
) -> list[Held]:
    """Every array of one launch, by both. raw: the accesses as Triton spells them. given: arrays that are not made up,
    as Triton's interpreter takes them."""
    program = tile_program(spec)
    if not raw:
        program = resolve_accesses(program)
    dtypes = {name: element_of(kind) for name, kind in spec.signature if name in case.shapes}
    rng = np.random.default_rng(0)
    data = {
        name: inputs(dtype, "small" if dtype in INTEGERS else "moderate", math.prod(case.shapes[name]), rng)
        for name, dtype in dtypes.items()
    }
    data |= given or {}
    wanted = by_triton(spec, case, data)
    found = by_twill(program, case, {name: numbers(array, dtypes[name]).copy() for name, array in data.items()})
    return [
        Held(name, dtype, distance(found[name], numbers(wanted[name], dtype), dtype)) for name, dtype in dtypes.items()
    ]


def element_of(kind: str) -> str:
    """The element type in Triton's type of a pointer or descriptor."""
    return kind[1:] if kind.startswith("*") else kind[len("tensordesc<") : kind.index("[")]


def by_triton(spec: Specialization, case: Case, data: dict[str, Array]) -> dict[str, Array]:
    """The arrays as Triton's interpreter leaves them."""
    kernel = load(spec.file).functions[spec.kernel]
    given: dict[str, Any] = {name: aligned(array) for name, array in data.items()}
    arguments: dict[str, Any] = dict(case.scalars)
    for name, kind in spec.signature:
        if kind.startswith("tensordesc"):
            block = tuple(int(extent) for extent in kind[kind.index("[") + 1 : kind.index("]")].split(","))
            arguments[name] = Block(given[name].reshape(case.shapes[name]), block)
        elif name in given:
            arguments[name] = given[name]
    with triton_interpreter.interpreting():
        triton_interpreter.run(kernel, case.grid, dict(spec.signature), arguments, constants_of(spec))
    return given


def aligned(array: Array) -> Array:
    """A copy that begins at a multiple of 16 bytes."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    copy = room[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def by_twill(program: TileProgram, case: Case, data: dict[str, Array]) -> dict[str, Array]:
    """The arrays as the tile program leaves them."""
    scalars = {**case.scalars, **sequential.descriptor_scalars(program, case.shapes)}
    sequential.run(program, instance_case(program, case).grid, data, scalars)
    return data


def distance(found: Array, wanted: Array, dtype: str) -> float:
    """The largest difference, in epsilons times the largest number; infinity where only one is a number."""
    if not differing(found, wanted, Output(dtype, found.size)).size:
        return 0.0
    if dtype not in DIGITS or np.any(np.isfinite(found) != np.isfinite(wanted)):
        return math.inf
    finite = np.isfinite(wanted)
    apart = np.abs(found[finite].astype(np.float64) - wanted[finite])
    return float(apart.max() / (max(np.abs(wanted[finite]).max(), 2.0**-100) * 2.0 ** -DIGITS[dtype]))
