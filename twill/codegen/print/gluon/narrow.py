"""Narrower parts of tensor memory for partitions of few registers.

What threads change in tensor memory they have in registers some columns at a time. Triton's code needs more registers
for addresses and captures than the CUDA form's, so that a partition with few of them gets half as many columns.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.print.gluon.blackwell import FEW_REGISTERS
from twill.codegen.print.gluon.fold import read_by, written_by
from twill.codegen.print.gluon.repeats import repeated
from twill.codegen.warp import program as ir
from twill.codegen.warp.layout import Accumulator


def with_narrow_parts(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program whose partitions of few registers have half as many columns in them at a time."""
    groups = (_narrowed(g) if 0 < g.registers <= FEW_REGISTERS and not g.issuer else g for g in program.groups)
    return replace(program, groups=tuple(groups))


def _narrowed(group: ir.WarpGroup) -> ir.WarpGroup:
    parts = [stmt for block in ir.blocks_within(group.body) for stmt in _repeated(block)]
    own = {number for stmt in parts for number in written_by(stmt)}
    others = [s for s in ir.walk(group.body) if not any(s is part for part in parts) and not isinstance(s, ir.If)]
    if not parts or any(own.intersection((*read_by(s), *written_by(s))) for s in others if not ir.blocks_of(s)):
        return group
    made = []
    for fragment in group.fragments:
        if fragment.id in own:
            assert isinstance(fragment.layout, Accumulator)
            fragment = replace(fragment, layout=replace(fragment.layout, columns=fragment.layout.columns // 2))
        made.append(fragment)
    return replace(group, fragments=tuple(made), body=_halved(group.body))


def _repeated(block: tuple[ir.Stmt, ...]) -> list[ir.Stmt]:
    """The statements of a block that do the same to one part after the other."""
    found: list[ir.Stmt] = []
    at = 0
    while at < len(block):
        parts = repeated(block, at)
        length = parts.parts * len(parts.window) if parts is not None else 1
        found += block[at : at + length] if parts is not None else ()
        at += length
    return found


def _halved(block: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    made: list[ir.Stmt] = []
    at = 0
    while at < len(block):
        parts = repeated(block, at)
        if parts is None:
            made.append(ir.with_blocks(block[at], _halved))
            at += 1
            continue
        half = parts.width // 2
        for number in range(2 * parts.parts):
            made += [_at(stmt, half * number, half) for stmt in parts.window]
        at += parts.parts * len(parts.window)
    return tuple(made)


def _at(stmt: ir.Stmt, first: int, width: int) -> ir.Stmt:
    """A statement on the columns from `first` on."""

    def part(ref: ir.SlotRef) -> ir.SlotRef:
        return replace(ref, columns=(first, first + width))

    match stmt:
        case ir.LoadAccumulator(source):
            return replace(stmt, source=part(source))
        case ir.StoreAccumulator(target=target):
            return replace(stmt, target=part(target))
    return stmt
