"""Statements that do the same to one part of the columns of tensor memory after the other, as a loop over the parts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from twill.codegen.print.gluon.fold import read_by, written_by
from twill.codegen.warp.program import Compute, Fill, LoadAccumulator, Reg, SlotRef, Stmt, StoreAccumulator

_REPEATED = (Compute, Fill, LoadAccumulator, StoreAccumulator)
_FRAGMENTS = ("result", "operand")  # fields that are fragments, beside Reg


@dataclass(frozen=True)
class RepeatedParts:
    """window: the statements of the first part. parts: how many there are; width: columns of each."""

    window: tuple[Stmt, ...]
    parts: int
    width: int


def repeated(stmts: tuple[Stmt, ...], at: int) -> RepeatedParts | None:
    """The parts that begin at a place of a block, the most that there are; None for less than two."""
    size = next((n for n, stmt in enumerate(stmts[at:], 1) if isinstance(stmt, StoreAccumulator)), 0)
    window = stmts[at : at + size]
    if not window or not all(isinstance(stmt, _REPEATED) for stmt in window):
        return None
    columns = {ref.columns for ref in _places(window)}
    if len(columns) != 1 or (first := columns.pop()) is None or first[0]:
        return None
    width, parts = first[1], 1
    wanted = _normal(window, 0)
    while _normal(stmts[at + parts * size : at + (parts + 1) * size], parts * width) == wanted:
        parts += 1
    behind = stmts[at + parts * size :]
    own = set().union(*(written_by(stmt) for stmt in stmts[at : at + parts * size]))
    return RepeatedParts(window, parts, width) if parts > 1 and not _read(behind, own) else None


def _places(stmts: tuple[Stmt, ...]) -> list[SlotRef]:
    return [
        stmt.source if isinstance(stmt, LoadAccumulator) else stmt.target
        for stmt in stmts
        if isinstance(stmt, LoadAccumulator | StoreAccumulator)
    ]


def _read(stmts: tuple[Stmt, ...], fragments: set[int]) -> bool:
    """Whether one of the fragments is read before it is written again."""
    left = set(fragments)
    for stmt in stmts:
        if left.intersection(read_by(stmt)):
            return True
        left -= written_by(stmt)
    return False


def _normal(stmts: tuple[Stmt, ...], left: int) -> list[Stmt]:
    """Statements with their own variables numbered as they come, and columns counted from `left`."""
    own: dict[int, int] = {}
    for stmt in stmts:
        for number in written_by(stmt):
            own.setdefault(number, -1 - len(own))
    return [replace(stmt, **{f.name: _named(f.name, getattr(stmt, f.name), own, left) for f in fields(stmt)})
            for stmt in stmts]  # fmt: skip


def _named(name: str, value: Any, own: dict[int, int], left: int) -> Any:
    match value:
        case int() if name in _FRAGMENTS:
            return own.get(value, value)
        case Reg(fragment):
            return replace(value, fragment=own.get(fragment, fragment))
        case tuple() if name == "operands":
            return tuple(_named("", one, own, left) for one in value)
        case SlotRef(columns=(first, last)):
            return replace(value, columns=(first - left, last - left))
    return value
