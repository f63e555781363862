"""`tl.inline_asm_elementwise`: an operation of the tile program for each result, with its text."""

from __future__ import annotations

import re
from typing import NoReturn

from twill.exc import MalformedPtx, UnsupportedOperation, UnsupportedPtx
from twill.ptx.inline import InlineAsm, assembled, moves_only
from twill.tile.mlir import RawOp
from twill.tile.program import Attribute
from twill.tile.translate.builder import Made, ProgramBuilder

WHAT = "tl.inline_asm_elementwise"
BETWEEN_GRIDS = re.compile(r"(\s*griddepcontrol\.\w+\s*;\s*(//[^\n]*)?)+")
"""What Triton says `gdc_wait` and `gdc_launch_dependents` with where it has no operation for them."""
HINT = "PTX that computes on registers alone, one instruction after the other, or the function of tl.math or tl itself"


def inline_asm(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """`tt.elementwise_inline_asm`. What it says of its purity makes no difference: a text that is known has no effect
    but its results. One that only moves is no operation. Raises UnsupportedOperation, naming the instruction."""
    sources = [emitter.type_of(operand) for operand in op.operands]
    results = [result.type for result in op.results]
    asm = InlineAsm(
        str(op.attributes["asm_string"]),
        str(op.attributes["constraints"]),
        int(op.attributes["packed_element"]),
        tuple(kind.element for kind in results),
        tuple(kind.element for kind in sources),
    )
    if BETWEEN_GRIDS.fullmatch(asm.text):
        return emitter.emit(op, "constant", (), results, (("value", 0),))
    try:
        made = assembled(asm)
    except (UnsupportedPtx, MalformedPtx) as error:
        _refuse(op, emitter, error.message)
    operands = [emitter.value(operand) for operand in op.operands]
    if moves_only(made):
        if sources[0].element == results[0].element:
            return (operands[0],)
        return emitter.emit(op, "bitcast", operands, results)
    return tuple(
        emitter.emit(op, "inline_asm", operands, (kind,), attributes(asm, number))[0]
        for number, kind in enumerate(results)
    )


def attributes(asm: InlineAsm, output: int) -> tuple[tuple[str, Attribute], ...]:
    """Those of the operation that gives this one of its results; `twill.ptx.inline.of_attributes` reads them."""
    return (
        ("text", asm.text), ("constraints", asm.constraints), ("pack", asm.pack), ("output", output),
        ("results", ",".join(asm.results)), ("sources", ",".join(asm.sources)),
    )  # fmt: skip


def _refuse(op: RawOp, emitter: ProgramBuilder, why: str) -> NoReturn:
    raise UnsupportedOperation(f"unsupported operation: {WHAT}: {why}", file=emitter.file, line=op.line, hint=HINT)
