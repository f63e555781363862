"""A tile program with every float of 16 or 8 bits as float32, or with all floats as float64: what a kernel's roundings
are measured against."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from twill.tile.program import Op, TileProgram, TileType

NARROW = ("f16", "bf16", "f8e4m3", "f8e5m2")

Wide = Literal["f32", "f64"]


def widened(program: TileProgram, to: Wide = "f32") -> TileProgram:
    """The program without the roundings of narrow floats, or with every float of 64 bits. Its tensors of narrower
    floats hold wide ones, too."""
    return replace(
        program,
        arguments=tuple(replace(one, type=_type(one.type, to)) for one in program.arguments),
        values=tuple(replace(one, type=_type(one.type, to)) for one in program.values),
    ).with_ops(partial(_op, to=to))


def wide(element: str, to: Wide = "f32") -> str:
    """The element type instead of `element`, which may be a pointer's or a descriptor's."""
    prefix, colon, kind = element.rpartition(":")
    return prefix + colon + (to if kind in NARROW or (to, kind) == ("f64", "f32") else kind)


def _type(kind: TileType, to: Wide) -> TileType:
    return TileType(kind.shape, wide(kind.element, to))


def _op(op: Op, to: Wide) -> Op:
    return op if op.access is None else replace(op, access=replace(op.access, element=wide(op.access.element, to)))
