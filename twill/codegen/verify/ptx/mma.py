"""`mma.sync`: a warp's product of matrices in registers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.threads import WARP, Array, Gang
from twill.codegen.verify.ptx.units.matrix import mma
from twill.ptx.program import PtxInstruction, Vector
from twill.ptx.registers import Fetch, Operands, unsupported

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_KINDS = ("f32", "f16", "bf16", "tf32", "e4m3", "e5m2", "s32", "s8", "u8")


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of an `mma.sync`; None if it is none."""
    if instruction.name != "mma":
        return None
    shape = next((found for m in instruction.modifiers if (found := _SHAPE.fullmatch(m))), None)
    kinds = [m for m in instruction.modifiers if m in _KINDS]
    vectors = [operand.parts if isinstance(operand, Vector) else (operand,) for operand in instruction.operands]
    if shape is None or len(kinds) != 4 or kinds[0] != kinds[3] or len(vectors) != 4 or "sp" in instruction.modifiers:
        raise unsupported(instruction)
    puts = [operands.put(instruction, part, "b32") for part in vectors[0]]
    a, b, c = ([operands.fetch(instruction, part, "b32") for part in parts] for parts in vectors[1:])
    m, n, k = map(int, shape.groups())

    def step(g: Gang) -> None:
        x, y, z = (_fragment(g, fetches) for fetches in (a, b, c))
        found = mma((m, n, k), (kinds[0], kinds[1], kinds[2]), x, y, z, "satfinite" in instruction.modifiers)
        flat = found.reshape(-1, len(puts))
        for number, put in enumerate(puts):
            put(g, np.ascontiguousarray(flat[:, number]))

    return step


def _fragment(g: Gang, fetches: Sequence[Fetch]) -> Array:
    """Registers of all warps: [warps, 32, registers]."""
    return np.stack([np.asarray(g.full(one(g))) for one in fetches], axis=-1).reshape(-1, WARP, len(fetches))
