"""A tile program with every float of 16 or 8 bits as float32: what a kernel's roundings are measured against."""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Argument, Loop, Op, TileProgram, TileType, Value

NARROW = ("f16", "bf16", "f8e4m3", "f8e5m2")


def widened(program: TileProgram) -> TileProgram:
    """The program without the roundings of narrow floats. Its tensors of narrow floats hold float32 too."""
    return replace(
        program,
        arguments=tuple(map(_argument, program.arguments)),
        values=tuple(map(_value, program.values)),
        body=tuple(map(_item, program.body)),
    )


def wide(element: str) -> str:
    """The element type instead of `element`, which may be a pointer's or a descriptor's."""
    prefix, colon, kind = element.rpartition(":")
    return prefix + colon + ("f32" if kind in NARROW else kind)


def _type(kind: TileType) -> TileType:
    return TileType(kind.shape, wide(kind.element))


def _argument(argument: Argument) -> Argument:
    return replace(argument, type=_type(argument.type))


def _value(value: Value) -> Value:
    return replace(value, type=_type(value.type))


def _item(item: Op | Loop) -> Op | Loop:
    if isinstance(item, Loop):
        return replace(item, body=tuple(map(_item, item.body)))
    if item.access is None:
        return item
    return replace(item, access=replace(item.access, element=wide(item.access.element)))
