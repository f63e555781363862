"""Which arguments must not share memory: what a launch checks, because emitted code takes different ones for apart.

Emitted code loads a tile as early as the schedule has it, ahead of stores to other arguments that the kernel has before
it. That changes nothing where the load comes before every store in the kernel (`y[i] = f(x[i])` with y = x), for
program instances are independent, and within a loop where each iteration stores just the tile that it has loaded and
no other iteration loads any of it.

Whether a loop stores what it has loaded may depend on numbers of the call: a kernel that goes through X and dX with a
row stride for each does so where dX is X, both strides are equal, and rows do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from twill.graph.alias import LoopCounter, counter_of, first_meeting
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Loop, Op, TileProgram
from twill.tile.vocabulary import ELECTED

WRITES = ("tile_store", "tile_reduce")
MOST_ALIKE = 3  # numbers of either argument that are compared with one another

Alike = tuple[str, ...]
"""Conditions on numbers of a call, each of two names, or of a name and a number: `sy==sx`, `sy>=n`, `sy>=64`."""


@dataclass(frozen=True)
class _Accesses:
    """Every access of a program: its operation, the place of that in the program, and the loops around it."""

    op: Op
    access: Access
    order: int
    loops: tuple[Loop, ...]


def must_be_apart(program: TileProgram) -> tuple[tuple[str, ...], ...]:
    """(written argument, loaded argument), for each pair that a launch must find in different memory; and behind them,
    where the two may be one tensor if certain numbers are as they should be, these conditions (`Alike`)."""
    every = list(_accesses(program))
    constants = {
        op.results[0]: number
        for op in program.ops()
        if op.kind == "constant" and op.results and isinstance(number := op.attribute("value"), int)
    }
    names = {a.value: a.name for a in program.arguments if "." not in a.name}  # not of what a descriptor holds
    unknown = {a.name for a in program.arguments if a.is_pointee}  # to a launch: taken to be apart
    found: dict[tuple[str, str], dict[str, None] | None] = {}
    for store in (one for one in every if one.op.kind in WRITES):
        for load in (one for one in every if one.op.kind == "tile_load"):
            pair = (store.access.base, load.access.base)
            if load.access.base == store.access.base or unknown.intersection(pair) or not _in_the_way(store, load):
                continue
            alike = _alike(store, load, names, constants)
            known = found.setdefault(pair, {})
            found[pair] = None if alike is None or known is None else {**known, **dict.fromkeys(alike)}
    loaded = [one.access.base for one in every if one.op.kind == "tile_load"]
    for op in (op for op in program.ops() if op.kind == ELECTED and op.region is not None):
        assert op.region is not None
        for base in sorted(op.region.written()):  # numbers that are looked up are, ahead of what one thread does
            pairs = ((base, other) for other in dict.fromkeys(loaded) if other != base)
            found.update((pair, None) for pair in pairs if not unknown.intersection(pair))
    return tuple((*pair, *(alike or ())) for pair, alike in found.items() if alike != {})


def _accesses(program: TileProgram) -> Iterator[_Accesses]:
    """In program order."""
    order = {op.id: number for number, op in enumerate(program.ops())}

    def inside(items: Sequence[Op | Loop], loops: tuple[Loop, ...]) -> Iterator[_Accesses]:
        for item in items:
            if isinstance(item, Loop):
                yield from inside(item.body, (*loops, item))
            elif item.access is not None:
                yield _Accesses(item, item.access, order[item.id], loops)

    yield from inside(program.body, ())


def _in_the_way(store: _Accesses, load: _Accesses) -> bool:
    """Whether emitted code may load ahead of the store what the kernel loads after it."""
    return load.order > store.order or bool(store.loops and load.loops and store.loops[0] is load.loops[0])


def _alike(store: _Accesses, load: _Accesses, names: Mapping[int, str], constants: Mapping[int, int]) -> Alike | None:
    """What has to hold if both arguments may be one tensor; None if they must not be."""
    if load.order > store.order or store.access.indices or load.access.indices:
        return None
    if store.access.element != load.access.element or len(store.loops) != 1 or len(load.loops) != 1:
        return None
    alike = _renaming(store.access, load.access, names)
    if alike is None:
        return None
    loop, same = store.loops[0], replace(load.access, base=store.access.base)
    counter = counter_of(loop, constants.get(loop.step))
    if first_meeting(same, same, counter) is None:
        return alike
    moves = _moves(same, counter, names)
    return None if moves is None else (*alike, moves)


def _moves(access: Access, counter: LoopCounter, names: Mapping[int, str]) -> str | None:
    """The condition under which a tile that every iteration begins further on shares nothing with those of others: the
    argument that it moves by is no less than the elements from the tile's first to behind its last."""
    symbols = {s for p in _said(access)[1:] if p is not None for s in p.symbols()}
    strides = [axis.stride.constant for axis in access.axes if axis.stride.is_constant]
    if counter.induction in symbols or counter.step is None or counter.step < 1 or len(strides) < len(access.axes):
        return None
    try:
        growth = access.constant.coefficient_of(counter.induction)
    except ValueError:
        return None
    moved = [number for number in names if growth == Polynomial.symbol(number)]
    if not moved:
        return None
    bound: str | int = 1 + sum(
        (axis.extent - 1) * abs(stride) for axis, stride in zip(access.axes, strides, strict=True)
    )
    if len(access.axes) == 1 and strides == [1] and not access.axes[0].offset and access.axes[0].lower is None:
        upper = access.axes[0].upper
        bound = next((names[number] for number in names if upper == Polynomial.symbol(number)), bound)
    return f"{names[moved[0]]}>={bound}"


def _renaming(store: Access, load: Access, names: Mapping[int, str]) -> Alike | None:
    """The arguments that, put in one another's place, make both accesses the same elements; None if none do."""
    ours, theirs = _said(store), _said(load)
    if [axis.extent for axis in store.axes] != [axis.extent for axis in load.axes]:
        return None
    symbols = [frozenset().union(*(p.symbols() for p in said if p is not None)) for said in (ours, theirs)]
    mine, other = sorted(symbols[0] - symbols[1]), sorted(symbols[1] - symbols[0])
    if len(mine) != len(other) or len(mine) > MOST_ALIKE or not names.keys() >= {*mine, *other}:
        return None
    for order in permutations(other):
        becomes = dict(zip(mine, order, strict=True))
        if tuple(None if p is None else _renamed(p, becomes) for p in ours) == theirs:
            return tuple(f"{names[one]}=={names[two]}" for one, two in sorted(becomes.items()))
    return None


def _said(access: Access) -> tuple[Polynomial | None, ...]:
    """All that says which elements an access touches."""
    return (access.constant, *(p for a in access.axes for p in (a.stride, a.offset, a.lower, a.upper)))


def _renamed(polynomial: Polynomial, becomes: Mapping[int, int]) -> Polynomial:
    """The same of other symbols."""
    one = Polynomial.constant_of(1)
    total = Polynomial()
    for monomial, coefficient in polynomial.terms:
        term = one * coefficient
        for symbol, power in monomial:
            for _ in range(power):
                term = term * Polynomial.symbol(becomes.get(symbol, symbol))
        total = total + term
    return total
