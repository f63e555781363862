"""Which fragments a statement writes, and which it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Element


def effects(stmt: ir.Stmt) -> tuple[set[int], set[int]]:
    """Fragments that a statement overwrites whole, and those that it reads."""
    read = set(_elements(stmt))
    match stmt:
        case ir.Multiply(accumulator=accumulator, a=a):
            read |= {a} if isinstance(a, int) else set()
            return (set(), read | {accumulator}) if stmt.accumulate else ({accumulator}, read)
        case (
            ir.Fill(result=result)
            | ir.Range(result=result)
            | ir.LoadShared(result=result)
            | ir.LoadAccumulator(result=result)
        ):
            return {result}, read
        case ir.Compute(operands=operands, result=result):
            return {result}, read | {operand.fragment for operand in operands if isinstance(operand, ir.Reg)}
        case ir.Reduce(operand=operand, result=result) | ir.Scan(operand=operand, result=result):
            return {result}, read | {operand}
        case ir.SumParts(operand=operand, result=result):
            return {result}, read | {operand}
        case ir.Rearrange(operands=operands, result=result, index=index):
            return {result}, read | set(operands) | ({index} if index is not None else set())
        case ir.Histogram(operand=operand, result=result, mask=mask):
            return {result}, read | {operand} | ({mask} if mask is not None else set())
        case ir.Copy(source=source, result=result):
            return {result}, read | {source}
        case ir.LoadGlobal(window=window, result=result, mask=mask):
            read |= {tile.fragment for tile in tiles_of(window)}
            return {result}, read | ({mask} if mask is not None else set())
        case ir.StoreShared(operand=operand) | ir.StoreAccumulator(operand=operand) | ir.StoreScales(operand=operand):
            return set(), read | {operand}
        case ir.StoreGlobal(window=window, operand=value, mask=mask):
            read |= {tile.fragment for tile in tiles_of(window)}
            read |= {value.fragment} if isinstance(value, ir.Reg) else set()
            return set() if stmt.old is None else {stmt.old}, read | ({mask} if mask is not None else set())
    return set(), read


def tiles_of(window: ir.Window) -> tuple[ir.Reg, ...]:
    """The tiles in registers that the addresses and masks of a window are made of."""
    return (*(index.tile for index in window.indices), *window.where)


def _elements(thing: object) -> Iterator[int]:
    """Fragments that expressions anywhere in a statement read."""
    if isinstance(thing, Element):
        yield thing.fragment
    elif isinstance(thing, Apply):
        for operand in thing.operands:
            yield from _elements(operand)
    elif isinstance(thing, tuple):
        for item in thing:
            yield from _elements(item)
    elif hasattr(thing, "__dataclass_fields__") and not isinstance(thing, ir.If | ir.Pipeline):
        for field in fields(thing):  # type: ignore[arg-type]
            yield from _elements(getattr(thing, field.name))
