"""The walk of a tile program (`twill.tile.walks`) as statements: every warp group finds its instances by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from twill import exc
from twill.codegen.lower.scalar_loops import lowered_region
from twill.codegen.warp.expression import Apply, Expr, Local, Lookup, Number, NumPrograms, ProgramId, Symbol, add
from twill.codegen.warp.expression import multiply as times
from twill.codegen.warp.program import INSTANCE, INSTANCES, PLACE, Let, ScalarLoop, Stmt, Visit
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Loop, Op, TileProgram
from twill.tile.vocabulary import VISIT


@dataclass(frozen=True)
class Walk:
    """stmts: of `WarpProgram.walk`. visited: what each number that a visit says is called, with its element. names: all
    scalars that it defines."""

    stmts: tuple[Stmt, ...]
    visited: tuple[Local, ...]
    names: frozenset[str]


NOWHERE = Walk((), (), frozenset())


@lru_cache(maxsize=8)
def walk_of(program: TileProgram) -> Walk:
    """The walk of a program; `NOWHERE` if it has none. Errors: UnsupportedInKernel."""
    if program.walk is None:
        return NOWHERE
    lowered = _Lowering(program.walk)
    stmts = tuple(lowered.block(program.walk.body))
    return Walk(stmts, tuple(lowered.visited), frozenset(lowered.taken))


@dataclass
class _Lowering:
    """A program of scalars while it is lowered. known: what each value is by now."""

    program: TileProgram
    known: dict[int, Expr] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {INSTANCE, INSTANCES, PLACE})
    visited: list[Local] = field(default_factory=list)

    def __post_init__(self) -> None:
        for argument in self.program.arguments:
            self.known[argument.value] = Symbol(argument.value, argument.name, argument.type.element)

    def block(self, items: Sequence[Op | Loop]) -> Iterator[Stmt]:
        """Operations and loops in order."""
        for item in items:
            if isinstance(item, Loop):
                yield self.loop(item)
            elif item.kind == VISIT:
                self.visited = [self.local(operand) for operand in item.operands]
                yield Visit(line=item.line)
            else:
                yield from self.op(item)

    def loop(self, loop: Loop) -> Stmt:
        """A counted loop: its counter is one of the scalars that it changes."""
        lower, upper, step = (self.known[value] for value in (loop.lower, loop.upper, loop.step))
        inits = (lower, *(self.known[carry.init] for carry in loop.carried))
        changed = (loop.induction, *(carry.argument for carry in loop.carried))
        for value in changed:
            self.known[value] = self.fresh(value)
        counter = self.known[loop.induction]
        body = tuple(self.block(loop.body))
        yields = (add(counter, step), *(self.known[carry.yielded] for carry in loop.carried))
        for carry in loop.carried:
            self.known[carry.result] = self.known[carry.argument]
        more = Apply("compare", (counter, upper), "i1", (("predicate", "lt"), ("signed", 1)))
        names = tuple(self.local(value).name for value in changed)
        return ScalarLoop(names, inits, more, yields, body, line=loop.line)

    def op(self, op: Op) -> Iterator[Stmt]:
        """A scalar operation, by name."""
        value, attributes = op.results[0], dict(op.attributes)
        element = self.program.type_of(value).element
        match op.kind:
            case "constant":
                number = attributes["value"]
                assert isinstance(number, int | float)
                self.known[value] = Number(number, element)
                return
            case "scalar_loop":
                made_loop = lowered_region(op, [self.known[operand] for operand in op.operands], self.free)
                self.known.update(zip(op.results, made_loop.results, strict=True))
                yield from made_loop.stmts
                return
            case "program_id":
                self.known[value] = ProgramId(int(str(attributes["axis"])))
                return
            case "num_programs":
                self.known[value] = NumPrograms(int(str(attributes["axis"])))
                return
        if op.access is not None:
            made: Expr = self.lookup(op, op.access)
        else:
            made = Apply(op.kind, tuple(self.known[operand] for operand in op.operands), element, op.attributes)
        self.known[value] = name = self.fresh(value)
        yield Let(name.name, made, line=op.line)

    def lookup(self, op: Op, access: Access) -> Expr:
        """A number from a tensor that the kernel does not write."""
        if access.axes or access.indices:
            raise exc.UnsupportedInKernel(
                "a loop around the kernel's work depends on a tile", file=self.program.file, line=op.line,
                hint="numbers that are loaded one by one",
            )  # fmt: skip
        mask = None if op.mask_operand is None else self.known[op.operands[op.mask_operand]]
        return Lookup(access.base, self.polynomial(access.constant), access.element, mask, access.pad)

    def polynomial(self, polynomial: Polynomial) -> Expr:
        """Elements, in 64 bits."""
        total: Expr = Number(0, "i64")
        for monomial, coefficient in reversed(polynomial.terms):
            term: Expr = Number(coefficient, "i64")
            for symbol, power in monomial:
                factor = self.known[symbol]
                wide = factor if factor.element == "i64" else Apply("cast", (factor,), "i64")
                for _ in range(power):
                    term = times(term, wide)
            total = add(total, term)
        return total

    def fresh(self, value: int) -> Local:
        """A name for a value that no other one has."""
        kind, wish = self.program.type_of(value), self.program.values[value].name.split(".")[0] or "s"
        return Local(self.free(wish), kind.element)

    def free(self, wish: str) -> str:
        """A name that nothing has."""
        name, number = wish, 0
        while name in self.taken:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name

    def local(self, value: int) -> Local:
        """A value that has a name."""
        found = self.known[value]
        assert isinstance(found, Local)
        return found
