"""What a strict kernel promises of a tensor at a launch: which functions that the hardware approximates are behind it.

A tensor with none behind it is a matter of additions and products alone. Exponentials to base 2 of whole numbers are
powers of two, on the hardware too, so that a launch whose exponents are whole has exact exponentials. Where sums are
exact as well (`whole`: small integers) every bit of a tensor with nothing approximate behind it must be that of the
tile program, whatever the order of its sums: inside an MMA, along a row, of atomic additions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.tile.interpret import arithmetic
from twill.tile.interpret.sequential import run
from twill.tile.program import Op, TileProgram, loops_of

EXACT = frozenset({"floor", "ceil", "abs", "trunc", "rint", "round", "neg"})
APPROXIMATE = frozenset({*(arithmetic.UNARY.keys() - EXACT), "pow", "atan2", "hypot", "div"})
SPARSE = 0.12  # of the elements of operands are 1: scores of rows of 128 stay below 20
LN2 = float(np.float32(1) / np.float32(1.4426950408889634))


def functions_behind(program: TileProgram) -> dict[str, frozenset[str]]:
    """Of each tensor that the program writes: the kinds of approximate functions that any of its elements, or whether
    one is written, may depend on."""
    tensors = {a.name: a.value for a in program.arguments}
    roots = {a.value: a.name for a in program.arguments}
    found: dict[int, frozenset[str]] = {}
    while True:
        before = dict(found)
        for op in program.ops():
            read = [*op.operands, *([tensors[op.access.base]] if op.access is not None else [])]
            taint = frozenset[str]().union(*(found.get(value, frozenset()) for value in read), _function(program, op))
            written = op.results or (tensors[written_by(program, op, roots)],)
            for value in written:
                found[value] = found.get(value, frozenset()) | taint
            for name in () if op.results else (written_by(program, op, roots),):
                found.setdefault(tensors[name], taint)
        for loop in loops_of(program.body):
            bounds = frozenset[str]().union(*(found.get(v, frozenset()) for v in (loop.lower, loop.upper, loop.step)))
            for carry in loop.carried:
                taint = found.get(carry.init, frozenset()) | found.get(carry.yielded, frozenset()) | bounds
                for value in (carry.argument, carry.result):
                    found[value] = found.get(value, frozenset()) | taint
        if found == before:
            break
    names = {written_by(program, op, roots) for op in program.ops() if not op.results}
    return {name: found[tensors[name]] for name in sorted(names)}


def _function(program: TileProgram, op: Op) -> frozenset[str]:
    if op.kind not in APPROXIMATE or dict(op.attributes).get("rounding") == "rn":
        return frozenset()
    return frozenset({op.kind} if program.type_of(op.results[0]).element.startswith(("f", "b")) else ())


def written_by(program: TileProgram, op: Op, roots: Mapping[int, str]) -> str:
    """The argument that an operation without a result writes to."""
    if op.access is not None:
        return op.access.base
    pending, seen = [op.operands[0]], set[int]()
    makers = {result: one for one in program.ops() for result in one.results}
    while pending:
        value = pending.pop()
        if value in roots:
            return roots[value]
        if value not in seen:
            seen.add(value)
            pending += makers[value].operands[:1] if value in makers else ()
    raise AssertionError(f"line {op.line}: nothing says what `{op.kind}` writes to")


def inexact(program: TileProgram, launch: CheckedLaunch) -> tuple[dict[str, Any], frozenset[str]]:
    """The tensors after the sequential program, and the kinds of functions with a value that is not exact here."""
    written = program.original or program
    after, met = {name: array.copy() for name, array in launch.arrays.items()}, set[str]()
    with _listening(met):
        run(written, launch.grid, after, launch.scalars)
    kinds = {op.kind for op in written.ops()} & APPROXIMATE
    return after, frozenset(kinds - {"exp2"} | kinds & met)


@contextmanager
def _listening(met: set[str]) -> Iterator[None]:
    power = arithmetic.UNARY["exp2"]

    def heard(x: Any) -> Any:
        finite = np.asarray(x)[np.isfinite(x)]
        if np.any(finite != np.trunc(finite)):
            met.add("exp2")
        return power(x)

    arithmetic.UNARY["exp2"] = heard
    try:
        yield
    finally:
        arithmetic.UNARY["exp2"] = power


def integers(launch: CheckedLaunch, random: np.random.Generator) -> CheckedLaunch:
    """The launch with integers from -2 to 2 in its tensors."""
    arrays = {name: random.integers(-2, 3, array.shape).astype(array.dtype) for name, array in launch.arrays.items()}
    return replace(launch, arrays=arrays)


def whole(program: TileProgram, launch: CheckedLaunch, random: np.random.Generator) -> CheckedLaunch:
    """The launch with whole exponents, where a scale of softmax is among its scalars: few ones in operands of 16 bits
    and less, integers from -2 to 2 elsewhere, and ln 2 for float scalars, which is 1 beside log2(e)."""
    elements = {a.name: a.type.element.partition(":") for a in program.arguments}
    small = {name for name, (_, _, element) in elements.items() if element in ("bf16", "f16", "f8e4m3", "f8e5m2")}
    made = integers(launch, random)
    arrays = {
        name: (random.random(array.shape) < SPARSE).astype(array.dtype) if name in small else array
        for name, array in made.arrays.items()
    }
    floats = {name: LN2 for name, (kind, _, _) in elements.items() if kind == "f32"}
    return replace(made, arrays=arrays, scalars={**launch.scalars, **floats})
