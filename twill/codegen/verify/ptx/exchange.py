"""Lanes of a warp that exchange values: PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.threads import WARP, Array, Gang
from twill.codegen.verify.ptx.units.matrix import movmatrix
from twill.ptx.arrays import some
from twill.ptx.program import DestinationPair, Nothing, PtxInstruction
from twill.ptx.registers import TYPES, Operands, Put, types_of, unsupported


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of an exchange; None if it is none. All lanes that take part run it together."""
    maker = _TABLE.get(instruction.name)
    return maker(operands, instruction) if maker else None


def by_warps(g: Gang, value: Array) -> Array:
    """[warps, 32], with zeros for lanes that a last, partial warp has not."""
    whole = np.zeros(-(-g.size // WARP) * WARP, value.dtype)
    whole[: g.size] = value
    return whole.reshape(-1, WARP)


def _here(g: Gang) -> Array:
    return by_warps(g, g.running())


def _flat(g: Gang, value: Array) -> Array:
    return np.ascontiguousarray(value).reshape(-1)[: g.size]


def _pair(operands: Operands, instruction: PtxInstruction) -> tuple[Put, Put]:
    target = instruction.operands[0]
    first, second = (target.first, target.second) if isinstance(target, DestinationPair) else (target, Nothing())
    return operands.put(instruction, first, "b32"), operands.put(instruction, second, "pred")


def _shuffle(operands: Operands, instruction: PtxInstruction) -> Step:
    put, found = _pair(operands, instruction)
    value = operands.fetch(instruction, instruction.operands[1], "b32")
    by, clamp = (operands.fetch(instruction, operand, "u32") for operand in instruction.operands[2:4])
    mode = next(m for m in instruction.modifiers if m in ("idx", "up", "down", "bfly"))

    def step(g: Gang) -> None:
        given = by_warps(g, g.full(value(g)))
        lane = np.broadcast_to(np.arange(WARP), given.shape)
        b = by_warps(g, g.full(by(g))).astype(np.int64) & 31
        c = by_warps(g, g.full(clamp(g))).astype(np.int64)
        limit, segment = c & 31, c >> 8 & 31
        least = lane & segment
        most = least | limit & ~segment
        if mode == "up":
            source, inside = lane - b, lane - b >= most
        elif mode == "down":
            source, inside = lane + b, lane + b <= most
        elif mode == "bfly":
            source, inside = lane ^ b, (lane ^ b) <= most
        else:
            source = least | b & ~segment
            inside = source <= most
        source = np.where(inside, source, lane)
        put(g, _flat(g, np.take_along_axis(given, source, axis=1)))
        found(g, _flat(g, inside))

    return step


def _vote(operands: Operands, instruction: PtxInstruction) -> Step:
    predicate = operands.fetch(instruction, instruction.operands[1], "pred")
    if "ballot" in instruction.modifiers:
        put = operands.put(instruction, instruction.operands[0], "b32")

        def ballot(g: Gang) -> None:
            bits = (by_warps(g, g.full(predicate(g))) & _here(g)).astype(np.uint32) << np.arange(WARP, dtype=np.uint32)
            put(g, _flat(g, np.repeat(bits.sum(axis=1, dtype=np.uint32)[:, None], WARP, axis=1)))

        return ballot
    put = operands.put(instruction, instruction.operands[0], "pred")
    mode = next(m for m in instruction.modifiers if m in ("any", "all", "uni"))

    def step(g: Gang) -> None:
        given, here = by_warps(g, g.full(predicate(g))), _here(g)
        some = (given & here).any(axis=1)
        every = (given | ~here).all(axis=1)
        result = {"any": some, "all": every, "uni": every | ~some}[mode]
        put(g, _flat(g, np.repeat(result[:, None], WARP, axis=1)))

    return step


def _reduce(operands: Operands, instruction: PtxInstruction) -> Step:
    type = types_of(instruction)[-1]
    if type == "f32":
        raise unsupported(instruction)
    put = operands.put(instruction, instruction.operands[0], type)
    value = operands.fetch(instruction, instruction.operands[1], type)
    name = next(m for m in instruction.modifiers if m in _UFUNCS)
    function, dtype = _UFUNCS[name], TYPES[type]

    def step(g: Gang) -> None:
        given, here = by_warps(g, g.full(value(g))), _here(g)
        result = np.zeros(given.shape, dtype)
        for row, (values, lanes) in enumerate(zip(given, here, strict=True)):
            if some(lanes):
                result[row] = function.reduce(values[lanes])
        put(g, _flat(g, result))

    return step


_UFUNCS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
           "xor": np.bitwise_xor}  # fmt: skip


def _elect(operands: Operands, instruction: PtxInstruction) -> Step:
    """The lowest lane that takes part."""
    target = instruction.operands[0]
    if not isinstance(target, DestinationPair):
        raise unsupported(instruction)
    number, elected = operands.put(instruction, target.first, "b32"), operands.put(instruction, target.second, "pred")

    def step(g: Gang) -> None:
        here = _here(g)
        leader = here.argmax(axis=1)[:, None]
        number(g, _flat(g, np.broadcast_to(leader, here.shape).astype(np.uint32)))
        elected(g, _flat(g, np.broadcast_to(np.arange(WARP), here.shape) == leader))

    return step


def _match(operands: Operands, instruction: PtxInstruction) -> Step:
    type = types_of(instruction)[-1]
    put, same = _pair(operands, instruction)
    value = operands.fetch(instruction, instruction.operands[1], type)
    every = "all" in instruction.modifiers

    def step(g: Gang) -> None:
        given, here = by_warps(g, g.full(value(g))), _here(g)
        equal = (given[:, :, None] == given[:, None, :]) & here[:, None, :]
        bits = (equal.astype(np.uint32) << np.arange(WARP, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
        whole = (equal == here[:, None, :]).all(axis=2)
        put(g, _flat(g, np.where(whole, bits, np.uint32(0)) if every else bits))
        same(g, _flat(g, whole))

    return step


def _active(operands: Operands, instruction: PtxInstruction) -> Step:
    put = operands.put(instruction, instruction.operands[0], "b32")

    def step(g: Gang) -> None:
        bits = _here(g).astype(np.uint32) << np.arange(WARP, dtype=np.uint32)
        put(g, _flat(g, np.repeat(bits.sum(axis=1, dtype=np.uint32)[:, None], WARP, axis=1)))

    return step


def _transpose(operands: Operands, instruction: PtxInstruction) -> Step:
    put = operands.put(instruction, instruction.operands[0], "b32")
    value = operands.fetch(instruction, instruction.operands[1], "b32")
    return lambda g: put(g, _flat(g, movmatrix(by_warps(g, g.full(value(g))))))


_TABLE: dict[str, Callable[[Operands, PtxInstruction], Step]] = {
    "shfl": _shuffle, "vote": _vote, "redux": _reduce, "elect": _elect, "match": _match, "activemask": _active,
    "movmatrix": _transpose,
}  # fmt: skip
