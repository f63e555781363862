"""Moves, selections and comparisons: PTX ISA, "Comparison and Selection", "Data Movement"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twill.ptx.formats import decode
from twill.ptx.integers import applied
from twill.ptx.program import DestinationPair, Nothing, PtxInstruction, Vector, width
from twill.ptx.registers import TYPES, Fetch, Operands, types_of, unsupported
from twill.ptx.step import Array, Step

Function = Callable[..., Array]


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none."""
    maker = _TABLE.get(instruction.name)
    return maker(operands, instruction) if maker else None


def _move(operands: Operands, instruction: PtxInstruction) -> Step:
    (type,) = types_of(instruction)
    target, source = instruction.operands
    if isinstance(target, Vector):
        return _unpack(operands, instruction, target, type)
    if isinstance(source, Vector):
        return _pack(operands, instruction, source, type)
    return applied(operands, instruction, type, (type,), lambda a: a)


def _unpack(operands: Operands, instruction: PtxInstruction, target: Vector, type: str) -> Step:
    size = width(type) // len(target.parts)
    fetch = operands.fetch(instruction, instruction.operands[1], f"b{8 * width(type)}")
    puts = [operands.put(instruction, part, f"b{8 * size}") for part in target.parts]
    dtype = TYPES[f"b{8 * size}"]

    def step(g):  # type: ignore[no-untyped-def]
        parts = np.ascontiguousarray(fetch(g)).view(dtype).reshape(-1, len(puts))
        for number, put in enumerate(puts):
            put(g, np.ascontiguousarray(parts[:, number]))

    return step


def _pack(operands: Operands, instruction: PtxInstruction, source: Vector, type: str) -> Step:
    size = width(type) // len(source.parts)
    fetches = [operands.fetch(instruction, part, f"b{8 * size}") for part in source.parts]
    put = operands.put(instruction, instruction.operands[0], f"b{8 * width(type)}")
    dtype = TYPES[f"b{8 * width(type)}"]

    def step(g):  # type: ignore[no-untyped-def]
        parts = np.broadcast_arrays(*(fetch(g) for fetch in fetches))
        put(g, np.stack(parts, axis=-1).view(dtype)[:, 0])

    return step


def _select(operands: Operands, instruction: PtxInstruction) -> Step:
    (type,) = types_of(instruction)
    return applied(operands, instruction, type, (type, type, "pred"), lambda a, b, p: np.where(p, a, b))


def _select_by_sign(operands: Operands, instruction: PtxInstruction) -> Step:
    type, by = types_of(instruction)
    return applied(operands, instruction, type, (type, type, by), lambda a, b, c: np.where(c >= 0, a, b))


# ---------------------------------------------------------------- comparisons

_ORDERED: dict[str, Function] = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}


def comparison(instruction: PtxInstruction, type: str) -> tuple[str, Function]:
    """The type that it compares, and how. f16 is compared as float32."""
    name = next((m for m in instruction.modifiers if m in _ORDERED or m in _UNORDERED or m == "ne"), None)
    if name is None:
        raise unsupported(instruction)
    floats = type[0] == "f" or type.startswith("bf")
    if name in _UNORDERED:
        opposite = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[_UNORDERED[name]]
        inner = _plain(opposite, floats)
        function: Function = lambda a, b: ~inner(a, b)  # noqa: E731
    else:
        function = _plain(name, floats)
    if type in ("f16", "bf16"):
        halves = function
        function = lambda a, b: halves(decode(a, type).astype(np.float32), decode(b, type).astype(np.float32))  # noqa: E731
    elif type in ("f16x2", "bf16x2"):
        raise unsupported(instruction)
    elif name in ("lo", "ls", "hi", "hs"):
        type = f"u{8 * width(type)}"
    return type, function


def _plain(name: str, floats: bool) -> Function:
    """Ordered: false of a NaN."""
    if name != "ne":
        return _ORDERED[name]
    return (lambda a, b: (a < b) | (a > b)) if floats else np.not_equal


_JOINED: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _set_predicate(operands: Operands, instruction: PtxInstruction) -> Step:
    target = instruction.operands[0]
    type, compare = comparison(instruction, types_of(instruction)[-1])
    join = next((function for name, function in _JOINED.items() if name in instruction.modifiers), None)
    if join is None and not isinstance(target, DestinationPair):
        return applied(operands, instruction, "pred", (type, type), compare)
    first = operands.put(instruction, target.first if isinstance(target, DestinationPair) else target, "pred")
    second = operands.put(instruction, target.second if isinstance(target, DestinationPair) else Nothing(), "pred")
    a, b = (operands.fetch(instruction, operand, type) for operand in instruction.operands[1:3])
    if join is None:
        return _two(first, second, lambda g: compare(a(g), b(g)), None, None)
    third = operands.fetch(instruction, instruction.operands[3], "pred")
    return _two(first, second, lambda g: compare(a(g), b(g)), join, third)


def _two(first, second, result: Fetch, join: Function | None, third: Fetch | None) -> Step:  # type: ignore[no-untyped-def]
    def step(g):  # type: ignore[no-untyped-def]
        found = result(g)
        if join is None or third is None:
            first(g, found)
            second(g, ~found)
        else:
            given = third(g)
            first(g, join(found, given))
            second(g, join(~found, given))

    return step


def _set(operands: Operands, instruction: PtxInstruction) -> Step:
    """`set`: 1.0 or all ones where it holds."""
    target, given = types_of(instruction)
    if any(name in instruction.modifiers for name in _JOINED):
        raise unsupported(instruction)
    type, compare = comparison(instruction, given)
    dtype = TYPES[target]
    yes = dtype(1.0) if target == "f32" else np.array([-1]).astype(dtype)[0]
    return applied(operands, instruction, target, (type, type), lambda a, b: np.where(compare(a, b), yes, dtype(0)))


_TABLE: dict[str, Callable[[Operands, PtxInstruction], Step]] = {
    "mov": _move, "selp": _select, "slct": _select_by_sign, "setp": _set_predicate, "set": _set,
}  # fmt: skip
