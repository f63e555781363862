"""Dropping what nothing reads, and numbering what is left densely in program order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from twill.reach import reach
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Axis, Carry, Items, Loop, Op, TileProgram, every, reads

EFFECTS = frozenset({"store", "atomic_add", "descriptor_store", "descriptor_reduce", "tile_store", "tile_reduce",
                     "visit", "elected"})  # fmt: skip


def compact(program: TileProgram) -> TileProgram:
    """The same program without operations and carried values that reach no store; arguments stay."""
    needs = dict(_needs(program.body, ()))
    live = reach(_roots(program.body, ()), lambda value: needs.get(value, ()))
    return _renumber(program, _sweep(program.body, live))


def _needs(items: Items, bounds: tuple[int, ...]) -> Iterable[tuple[int, tuple[int, ...]]]:
    """For every value, the values that must be made if it is; `bounds` are those of the loops around."""
    for item in items:
        if isinstance(item, Op):
            yield from ((result, reads(item) + bounds) for result in item.results)
            continue
        inner = (*bounds, item.lower, item.upper, item.step)
        for carry in item.carried:
            yield carry.argument, (carry.init, carry.yielded, *inner)
            yield carry.result, (carry.init, carry.yielded, *inner)
        yield from _needs(item.body, inner)


def _roots(items: Items, bounds: tuple[int, ...]) -> Iterable[int]:
    for item in items:
        if isinstance(item, Loop):
            yield from _roots(item.body, (*bounds, item.lower, item.upper, item.step))
        elif item.kind in EFFECTS:
            yield from reads(item) + item.results + bounds


def _sweep(items: Items, live: set[int]) -> Items:
    retained: list[Op | Loop] = []
    for item in items:
        if isinstance(item, Op):
            if item.kind in EFFECTS or live.intersection(item.results):
                retained.append(item)
            continue
        carried = tuple(carry for carry in item.carried if live & {carry.argument, carry.result})
        body = _sweep(item.body, live)
        if body or carried:
            retained.append(replace(item, carried=carried, body=body))
    return tuple(retained)


@dataclass(frozen=True)
class _Numbering:
    """New ids by old ones, for values and for operations and loops."""

    values: Mapping[int, int]
    items: Mapping[int, int]


def _renumber(program: TileProgram, body: Items) -> TileProgram:
    order = [argument.value for argument in program.arguments]
    order.extend(_defined(body))
    numbering = _Numbering(
        {old: new for new, old in enumerate(order)},
        {old: new for new, old in enumerate(item.id for item in every(body))},
    )
    return replace(
        program,
        arguments=tuple(replace(argument, value=numbering.values[argument.value]) for argument in program.arguments),
        values=tuple(replace(program.values[old], id=new) for new, old in enumerate(order)),
        body=_renumbered(body, numbering),
    )


def _defined(items: Items) -> Iterable[int]:
    """Every value that the items define, in program order."""
    for item in items:
        if isinstance(item, Op):
            yield from item.results
            continue
        yield item.induction
        yield from (carry.argument for carry in item.carried)
        yield from _defined(item.body)
        yield from (carry.result for carry in item.carried)


def _renumbered(items: Items, numbering: _Numbering) -> Items:
    return tuple(_renumbered_item(item, numbering) for item in items)


def _renumbered_item(item: Op | Loop, numbering: _Numbering) -> Op | Loop:
    new = numbering.values
    if isinstance(item, Op):
        return replace(
            item,
            id=numbering.items[item.id],
            operands=tuple(new[operand] for operand in item.operands),
            results=tuple(new[result] for result in item.results),
            access=item.access and _renumbered_access(item.access, new),
        )
    return Loop(
        id=numbering.items[item.id],
        induction=new[item.induction],
        lower=new[item.lower],
        upper=new[item.upper],
        step=new[item.step],
        carried=tuple(
            Carry(carry.name, new[carry.init], new[carry.argument], new[carry.yielded], new[carry.result])
            for carry in item.carried
        ),
        body=_renumbered(item.body, numbering),
        line=item.line,
    )


def _renumbered_access(access: Access, new: Mapping[int, int]) -> Access:
    def renumbered(polynomial: Polynomial) -> Polynomial:
        return polynomial.substitute({symbol: Polynomial.symbol(new[symbol]) for symbol in polynomial.symbols()})

    axes = tuple(
        Axis(
            axis.extent,
            renumbered(axis.stride),
            renumbered(axis.offset),
            None if axis.lower is None else renumbered(axis.lower),
            None if axis.upper is None else renumbered(axis.upper),
        )
        for axis in access.axes
    )
    indices = tuple(replace(index, scale=renumbered(index.scale)) for index in access.indices)
    return replace(access, axes=axes, constant=renumbered(access.constant), indices=indices)
