"""Addresses of one space as those of another: PTX ISA, "cvta", "isspacep", "mapa"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twill.codegen.verify.ptx.memory import LOCAL, PARAMETERS, RANK, RANK_0, SHARED, WINDOW
from twill.ptx.integers import applied
from twill.ptx.program import PtxInstruction
from twill.ptx.registers import Operands, types_of
from twill.ptx.step import Step

_STARTS = {"shared": SHARED, "shared::cta": SHARED, "shared::cluster": SHARED, "param": PARAMETERS, "local": LOCAL}


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none."""
    maker = _TABLE.get(instruction.name)
    return maker(operands, instruction) if maker else None


def _generic(operands: Operands, instruction: PtxInstruction) -> Step:
    """`cvta`: generic addresses are offsets in windows, those of global memory are themselves."""
    type = types_of(instruction)[-1]
    space = next((m for m in instruction.modifiers if m in _STARTS or m in ("global", "const")), "")
    start = np.uint64(_STARTS.get(space, 0))
    if "to" in instruction.modifiers:
        return applied(operands, instruction, type, (type,), lambda a: a - start.astype(a.dtype))
    return applied(operands, instruction, type, (type,), lambda a: a + start.astype(a.dtype))


def _is_space(operands: Operands, instruction: PtxInstruction) -> Step:
    space = next(m for m in instruction.modifiers if m in _STARTS or m in ("global", "const"))
    if space in _STARTS:
        start = np.uint64(_STARTS[space])
        return applied(
            operands, instruction, "pred", ("u64",), lambda a: (a >= start) & (a < start + np.uint64(WINDOW))
        )
    if space == "const":
        return applied(operands, instruction, "pred", ("u64",), lambda a: np.zeros(len(a), bool))
    return applied(operands, instruction, "pred", ("u64",), lambda a: a < np.uint64(SHARED))


def _mapped(operands: Operands, instruction: PtxInstruction) -> Step:
    """`mapa`: the same place in another CTA of the cluster."""
    type = types_of(instruction)[-1]
    rank = np.uint64(RANK)
    return applied(
        operands,
        instruction,
        type,
        (type, "u32"),
        lambda a, cta: a & ~a.dtype.type(0xFF << RANK) | ((cta.astype(np.uint64) + RANK_0) << rank).astype(a.dtype),
    )


_TABLE: dict[str, Callable[[Operands, PtxInstruction], Step]] = {
    "cvta": _generic, "isspacep": _is_space, "mapa": _mapped,
}  # fmt: skip
