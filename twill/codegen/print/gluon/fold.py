"""Which values are printed where they are read, so that a line says what a line of the kernel says."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Local
from twill.codegen.warp.parameters import nodes

_PURE = (ir.Compute, ir.Reduce, ir.Fill, ir.Range, ir.Copy)  # but copies of some columns, which are printed in place
_WRITERS = (*_PURE, ir.LoadShared, ir.LoadGlobal, ir.LoadAccumulator)
_READERS = (ir.Compute, ir.Reduce, ir.StoreShared, ir.StoreGlobal, ir.StoreAccumulator)
_PASSED = (*_PURE, ir.BulkWait, ir.Sync)  # what stands between a value and its reader without being moved by it

FOLDED = 61  # characters of a value that is printed where it is read


@dataclass(frozen=True)
class FoldedBlock:
    """Statements in order."""

    stmts: tuple[ir.Stmt, ...]


def read_by(stmt: ir.Stmt) -> list[int]:
    """The fragments that a statement reads, as often as it does; those of nested statements too."""
    match stmt:
        case ir.If() | ir.Pipeline():
            return [number for block in ir.blocks_of(stmt) for one in block for number in read_by(one)]
        case ir.Compute(operands=operands):
            return [o.fragment for o in operands if isinstance(o, ir.Reg)]
        case ir.Reduce(operand) | ir.StoreShared(operand) | ir.StoreAccumulator(operand):
            return [operand]
        case ir.Copy(source):
            return [source]
        case ir.Multiply(accumulator, a, accumulate=accumulate):
            return [*([accumulator] if accumulate else []), *([a] if isinstance(a, int) else [])]
        case ir.StoreGlobal(operand=operand, mask=mask):
            return [*([operand.fragment] if isinstance(operand, ir.Reg) else []), *([mask] if mask is not None else [])]
        case ir.LoadGlobal(mask=mask):
            return [mask] if mask is not None else []
    return []


def written_by(stmt: ir.Stmt) -> set[int]:
    """The fragments that a statement writes; those of nested statements too."""
    every = tuple(ir.walk((stmt,)))
    return {one.result for one in every if isinstance(one, _WRITERS)} | {
        one.accumulator for one in every if isinstance(one, ir.Multiply)
    }


def folds(block: FoldedBlock, at: int, stream: ir.WarpGroup, made_of: Set[int]) -> bool:
    """Whether what the statement makes of the fragments `made_of` is read once, by a statement of the same block that
    it can be printed in, and nothing in between changes what it is made of."""
    stmt = block.stmts[at]
    if not isinstance(stmt, _PURE):
        return False
    result = stmt.result
    if not _local(result, stream):
        return False
    for place, other in enumerate(block.stmts[at + 1 :], at + 1):
        times = read_by(other).count(result)
        if times:
            return times == 1 and isinstance(other, _READERS) and not _again(block, place, result)
        if result in written_by(other) or made_of & written_by(other) or not isinstance(other, _PASSED):
            return False
    return False


def without_dead_copies(block: tuple[ir.Stmt, ...], stream: ir.WarpGroup) -> tuple[ir.Stmt, ...]:
    """A block of the stream without copies of values that nobody reads: of what a variable was one iteration before,
    where no iteration follows."""
    return tuple(stmt for at, stmt in enumerate(block) if not _is_dead(stmt, block[at + 1 :], stream))


def _is_dead(stmt: ir.Stmt, behind: tuple[ir.Stmt, ...], stream: ir.WarpGroup) -> bool:
    if not isinstance(stmt, ir.Copy) or stmt.columns is not None or not _local(stmt.result, stream):
        return False
    return not any(stmt.result in read_by(other) for other in behind)


def _again(block: FoldedBlock, at: int, result: int) -> bool:
    """Whether it is read behind a place before it is written again."""
    if result in written_by(block.stmts[at]):
        return False
    for other in block.stmts[at + 1 :]:
        if result in read_by(other):
            return True
        if result in written_by(other):
            return False
    return False


def _local(result: int, stream: ir.WarpGroup) -> bool:
    """Whether every block that reads it has written it before, by itself."""
    return all(_defined_first(part, result) for part in (stream.start, stream.body, stream.skip, stream.finish))


def _defined_first(stmts: tuple[ir.Stmt, ...], result: int) -> bool:
    defined = False
    for stmt in stmts:
        if isinstance(stmt, ir.If | ir.Pipeline):
            if not all(_defined_first(block, result) for block in ir.blocks_of(stmt)):
                return False
        elif result in read_by(stmt) and not defined:
            return False
        defined = defined or (result in written_by(stmt) and not isinstance(stmt, ir.If | ir.Pipeline))
    return True


def reads(stream: ir.WarpGroup, name: str) -> int:
    """How often the scalar `name` is asked for."""
    parts = (stream.start, stream.body, stream.skip, stream.finish)
    return sum(isinstance(node, Local) and node.name == name for node in nodes(parts))
