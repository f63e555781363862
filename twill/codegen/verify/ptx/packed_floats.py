"""Float instructions of sm_100: two f32 in a register of 64 bits, the least and the largest of three.

PTX ISA, "add", "sub", "mul", "fma" (`.f32x2`), "min" and "max" (three inputs).
"""

from __future__ import annotations

import numpy as np

from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.threads import Array
from twill.ptx.floats import Function, function_of
from twill.ptx.integers import applied
from twill.ptx.program import PtxInstruction
from twill.ptx.registers import Operands

_PACKED = {"add": 2, "sub": 2, "mul": 2, "fma": 3}


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none."""
    name, modifiers = instruction.name, instruction.modifiers
    if name in _PACKED and "f32x2" in modifiers:
        count = _PACKED[name]
        return applied(operands, instruction, "b64", ("b64",) * count, _on_pairs(function_of(instruction, "f32")))
    if name in ("min", "max") and "f32" in modifiers and len(instruction.operands) == 4:
        two = function_of(instruction, "f32")
        return applied(operands, instruction, "f32", ("f32",) * 3, lambda a, b, c: two(two(a, b), c))
    return None


def _on_pairs(function: Function) -> Function:
    def both(*given: Array) -> Array:
        pairs = [np.ascontiguousarray(part).view(np.float32).reshape(-1, 2) for part in given]
        return np.ascontiguousarray(function(*pairs), np.float32).view(np.uint64).reshape(-1)

    return both
