"""Tensor maps that a warp group makes: those of tiles whose tensor only the numbers of a walk say.

A walk comes by one tensor many times: the tiles of a problem are visited one after the other. So the maps are made in
front of an instance only where the numbers that they are made of (counters of the walk, grid indices) are others than
in front of the instance before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.scalars import ScalarTable
from twill.codegen.lower.walk import walk_of
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Expr, Local, Lookup, Number, NumPrograms, ProgramId, Symbol
from twill.codegen.warp.resources import MAP_BYTES


@dataclass
class MadeMaps:
    """Those of one warp group. known: each map with the statement that makes it, by what it is made of. where: what
    must hold for that. cursors: of the rings that are filled through them."""

    memory: SharedMemoryPlan
    scalars: ScalarTable
    known: dict[ir.TensorMapSpec, tuple[ir.TensorMapSpec, ir.MakeMap]] = field(default_factory=dict)
    cursors: dict[int, None] = field(default_factory=dict)
    where: dict[int, Expr] = field(default_factory=dict)
    stores: bool = False

    def of(
        self, seen: ir.TensorMapSpec, line: int, cursor: int | None = None, where: Expr | None = None
    ) -> ir.TensorMapSpec:
        """The map of a tensor that is seen so. cursor: of the ring that is filled through it; None: tiles are stored,
        if `where` holds."""
        if cursor is not None:
            self.cursors[cursor] = None
        if seen not in self.known:
            scratch = self.memory.buffer("tensor map", (MAP_BYTES,), "i8", 1).id
            nothing = Number(0, "i64")
            template = replace(
                seen, sizes=tuple(None for _ in seen.sizes), strides=tuple(nothing for _ in seen.strides),
                offset=nothing, made=len(self.known) + 1,
            )  # fmt: skip
            made = self.memory.map(template)
            self.known[seen] = made, ir.MakeMap(made.id, scratch, seen.sizes, seen.strides, seen.offset, line=line)
            if where is not None:
                self.where[made.id] = where
            self.stores |= cursor is None
        return self.known[seen][0]

    def statements(self, loops: Sequence[ir.Stmt], behind: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
        """The group's stream with them, of what it has up to its last loop and behind it. Maps are made and shown in
        front of it all, behind the definitions of their scalars: while they are, the loads of the first tiles are on
        their way."""
        if not self.known:
            yield from (*loops, *behind)
            return
        makes = tuple(self.guarded(stmt) for _, stmt in self.known.values())
        show = ir.ShowMaps(tuple(stmt.map for _, stmt in self.known.values()))
        waits = tuple(ir.Settle(cursor) for cursor in self.cursors)
        stored = (ir.BulkWait(self.pending(loops, behind), read=False),) if self.stores else ()
        values = self.leaves(expr for _, stmt in self.known.values() for expr in expressions(stmt))
        early = (*waits, *stored, *makes, show)
        if values is None:
            yield from (*early, *loops, *behind)
            return
        alike = self.scalars.fresh("same_tensors")
        first = Apply("compare", (Local(alike), Number(0)), "i1", (("predicate", "eq"), ("signed", 1)))
        yield ir.CountReuse(alike, values)
        yield from (ir.If(first, early), *loops, *behind)

    def pending(self, loops: Sequence[ir.Stmt], behind: Sequence[ir.Stmt]) -> int:
        """How many of the copies from shared memory that were committed last may go on while maps are made anew: those
        of the instance before, which go through the map that is not made now. 0 where copies go through other maps,
        too, or an instance may have others than those for which a map is made."""
        stmts = (*loops, *behind)
        maps = {stmt.map for stmt in ir.walk(stmts) if isinstance(stmt, ir.TmaStore)}
        commits = sum(isinstance(stmt, ir.BulkCommit) for stmt in ir.walk(stmts))
        where = [self.where.get(number) for number in maps]
        bodies = [stmt.body for stmt in behind if isinstance(stmt, ir.If) and [stmt.condition] == where]
        always = sum(isinstance(stmt, ir.BulkCommit) for block in (behind, *bodies) for stmt in block)
        alone = [made.id for made, _ in self.known.values()] == [*maps]
        return commits if alone and always == commits else 0

    def guarded(self, stmt: ir.MakeMap) -> ir.Stmt:
        """The statement, where what it needs holds."""
        where = self.where.get(stmt.map)
        return stmt if where is None else ir.If(where, (stmt,), line=stmt.line)

    def leaves(self, exprs: Iterable[Expr]) -> tuple[Expr, ...] | None:
        """The numbers of the walk, and grid indices, that decide what the expressions are; None if others do, too."""
        visited = {local.name for local in walk_of(self.scalars.program).visited}
        defined = {let.name: let.value for let in self.scalars.lets.values()}
        found: dict[Expr, None] = {}
        pending, seen = list(exprs), set[Expr]()
        while pending:
            expr = pending.pop()
            if expr in seen:
                continue
            seen.add(expr)
            match expr:
                case Number() | Symbol() | NumPrograms():
                    continue
                case Apply():
                    pending += expr.operands
                case Lookup():
                    pending += [expr.index, *([] if expr.condition is None else [expr.condition])]
                case Local(name) if name in defined:
                    pending.append(defined[name])
                case Local(name, "i32") if name in visited:
                    found[expr] = None
                case ProgramId():
                    found[expr] = None
                case _:
                    return None
        return tuple(sorted(found, key=repr))


def expressions(stmt: ir.MakeMap) -> tuple[Expr, ...]:
    """What a map is made of."""
    return (*(size for size in stmt.sizes if size is not None), *stmt.strides, stmt.offset)
