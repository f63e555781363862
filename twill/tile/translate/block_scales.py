"""`tl.dot_scaled`: which types of elements and scales it has, and what is not computed with."""

from __future__ import annotations

from typing import NoReturn

from twill.exc import UnsupportedOperation
from twill.tile.mlir import RawOp
from twill.tile.program import Attribute
from twill.tile.translate.builder import Made, ProgramBuilder
from twill.tile.translate.elementwise import emit

ELEMENTS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "fp16")  # by number, as Triton's IR has them
HELD = {"e4m3": "f8e4m3", "e5m2": "f8e5m2", "e2m1": "i8"}
"""Elements of those that are computed with, in tiles of what."""
OPERANDS = 5
BLOCKS = {"i8": 32, "f8e4m3": 16}
"""Elements that have one scale, by the type of scales (of e8m0 they are bytes)."""


def dot_scaled(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """`tt.dot_scaled a b c of_a of_b`. Raises UnsupportedOperation with the line."""
    kinds = [ELEMENTS[int(str(op.attributes[f"{name}_elem_type"]))] for name in ("a", "b")]
    if len(op.operands) < OPERANDS:
        _refuse(emitter, op, "tl.dot_scaled with scales of one operand alone", "scales of 1 (127 as e8m0) of the other")
    types = [emitter.type_of(operand) for operand in op.operands]
    held = [kind.element for kind in types[:2]]
    if held != [HELD.get(kind) for kind in kinds]:
        _refuse(emitter, op, f"tl.dot_scaled of {kinds[0]} x {kinds[1]}",
                f"{', '.join(HELD)} in any mixture, e2m1 as uint8")  # fmt: skip
    if not (op.attributes["lhs_k_pack"] and op.attributes["rhs_k_pack"]):
        _refuse(emitter, op, "tl.dot_scaled of e2m1 packed along M or N", "elements packed along K")
    of_a, of_b = types[3:]
    k = types[0].shape[-1] * (2 if kinds[0] == "e2m1" else 1)
    block = k // of_a.shape[-1]
    if len(of_a.shape) != 2 or of_a.element != of_b.element or BLOCKS.get(of_a.element) != block:
        _refuse(emitter, op, f"tl.dot_scaled with scales of {of_a.element} and {of_b.element} for blocks of {block}",
                "uint8 scales (e8m0) for blocks of 32, or float8e4nv scales for blocks of 16")  # fmt: skip
    if block == BLOCKS["f8e4m3"] and kinds != ["e2m1", "e2m1"]:
        _refuse(emitter, op, f"tl.dot_scaled of {' x '.join(dict.fromkeys(kinds))} in blocks of 16",
                "e2m1 of both, or blocks of 32")  # fmt: skip
    attributes: dict[str, Attribute] = {"a": kinds[0], "b": kinds[1], "block": block, "layout": "rows"}
    return emit(op, emitter, "dot_scaled", attributes)


def _refuse(emitter: ProgramBuilder, op: RawOp, what: str, instead: str) -> NoReturn:
    raise UnsupportedOperation(f"unsupported operation: {what}", file=emitter.file, line=op.line, hint=instead)
