"""Raw accesses -> tile accesses: a tile access is one thing, whatever its spelling.

`resolve_accesses` replaces loads and stores through pointers and descriptors by "tile_load",
"tile_store" and "tile_reduce" with an `Access`, and drops address arithmetic, masks that became
bounds, and carried pointers. What the new operations look like:

- tile_load [mask] -> tile; tile_store tile [mask]; tile_reduce tile [mask], attribute combine.
- Elements outside the axes' bounds are not touched and read as `pad`. A mask that bounds do not
  say in full is kept as the last operand: elements where it is false are not touched either.
- Tiles lie as in memory: the axis of stride 1 comes last, axes of extent 1 and (of loads) axes
  that repeat one element are left out; views after a load and before a store restore the shape.
- An axis is bounded if the kernel masks it (a descriptor bounds every axis, from 0 on).
- The symbols of an access are scalars that are available where it stands.

Block pointers are plain pointers by the time Triton's own passes are through (and gone in 3.9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twill.exc import AddressNotAffine, AtomicResultUsed
from twill.reach import reach
from twill.tile.access.address import Address, address_of_block, address_of_tile
from twill.tile.access.analysis import PURE, Analysis
from twill.tile.access.conditions import some_within
from twill.tile.access.data import DataScalars
from twill.tile.access.garbage import GarbageAnalysis, GarbageNeeded, idle_masks, implied
from twill.tile.access.hoist import hoist_scalars
from twill.tile.access.layout import MemoryLayout, layout_of
from twill.tile.access.promised import with_promises
from twill.tile.access.transport import Movement, choose
from twill.tile.access.value import EVERYWHERE, UNKNOWN_MASK, AffineTile, DescriptorWindow, IndexBound, Mask, NotAffine
from twill.tile.affine import Polynomial
from twill.tile.dead_code import compact
from twill.tile.nests import flatten_nests, nowhere_unless
from twill.tile.program import Access, Index, Loop, Op, TileProgram, TileType, loops_of
from twill.tile.vocabulary import combining

POINTER_KINDS = {"load": "tile_load", "store": "tile_store", "atomic_add": "tile_reduce"}
DESCRIPTOR_KINDS = {
    "descriptor_load": "tile_load", "descriptor_store": "tile_store", "descriptor_reduce": "tile_reduce",
}  # fmt: skip


def resolve_accesses(program: TileProgram) -> TileProgram:
    """The program with tile accesses only. Raises `AddressNotAffine`, `AtomicResultUsed`, `NestedLoop`.

    A loop in a loop is one loop then (`twill.tile.nests`), and `original` has them both."""
    resolved = flatten_nests(_resolved(program))
    return resolved if program.walk is None else replace(resolved, walk=_resolved(program.walk))


def _resolved(program: TileProgram) -> TileProgram:
    """The program with tile accesses, its nests as they are."""
    program = with_promises(hoist_scalars(program))
    rewriter = _Rewriter(bounded_where_it_may_be(program))
    body = tuple(rewriter.block(program.body))
    return compact(replace(program, body=body, values=tuple(rewriter.analysis.numbering.values)))


def bounded_where_it_may_be(program: TileProgram) -> Analysis:
    """The analysis in which an index that wraps around, or is clipped, is affine within bounds where no result depends
    on what lies beyond them, and is computed element by element where one does."""
    computed = frozenset[int]()
    while True:
        analysis = Analysis(program, computed).run()
        found = next(iter(needed_beyond_bounds(analysis)), None)
        if found is None:
            return analysis
        computed |= {first_bounded(analysis, found).results[0]}


def needed_beyond_bounds(analysis: Analysis) -> Iterator[int]:
    """Addresses that are affine within bounds only, and needed beyond them: by a result, or by a store that is not
    masked so."""
    try:
        GarbageAnalysis(analysis).block(analysis.program.body)
    except GarbageNeeded as needed:
        yield needed.load.operands[0]
    for op in analysis.program.ops():
        tile = analysis.forms.get(op.operands[0]) if op.kind in ("store", "atomic_add") else None
        if isinstance(tile, AffineTile):
            masks = unguarded(op)[0][2:3]
            mask = mask_form(analysis, masks[0]) if masks else EVERYWHERE
            if not all(implied(bound, mask.bounds) for bound in tile.within):
                yield op.operands[0]


def first_bounded(analysis: Analysis, address: int) -> Op:
    """Where a tile of addresses stops being affine: the operation that bounded it first."""
    program = analysis.program
    sources = {result: op.operands for op in program.ops() for result in op.results}
    for carry in (carry for loop in loops_of(program.body) for carry in loop.carried):
        sources |= dict.fromkeys((carry.argument, carry.result), (carry.init, carry.yielded))
    reached = reach([address], lambda value: sources.get(value, ()))
    made = (op for op in program.ops() if op.results and op.results[0] in reached)
    return next(op for op in made if bounds_more(analysis, op))


def bounds_more(analysis: Analysis, op: Op) -> bool:
    """Whether the result is affine within closer bounds than the operands."""
    forms = [analysis.forms.get(value) for value in (*op.results, *op.operands)]
    made, *read = [form.within if isinstance(form, AffineTile) else frozenset() for form in forms]
    return len(made) > len(frozenset[IndexBound]().union(*read))


def mask_form(analysis: Analysis, value: int) -> Mask:
    """The symbolic form of a mask."""
    form = analysis.forms.get(value)
    if isinstance(form, AffineTile):  # a scalar condition
        return EVERYWHERE if form.origin.is_constant and form.origin else UNKNOWN_MASK
    return form if isinstance(form, Mask) else UNKNOWN_MASK


def unguarded(op: Op) -> tuple[tuple[int, ...], int | None]:
    """The operands of a raw access but for its guard, and that."""
    return (op.operands[:-1], op.operands[-1]) if dict(op.attributes).get("guarded") else (op.operands, None)


class _Rewriter:
    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.program = analysis.program
        self.idle, self.data = idle_masks(analysis), DataScalars(analysis)
        self.makers = self.program.makers
        self.uses = {operand for op in self.program.ops() for operand in op.operands}
        loops = list(loops_of(self.program.body))
        for loop in loops:
            self.uses |= {loop.lower, loop.upper, loop.step}
            self.uses |= {value for carry in loop.carried for value in (carry.init, carry.yielded)}
        self.carried = {value for loop in loops for carry in loop.carried for value in (carry.argument, carry.result)}
        self.arguments = {argument.name: argument for argument in self.program.arguments}
        self.names = {value.id: value.name or f"[line {value.line}]" for value in analysis.numbering.values}
        self.names |= {argument.value: argument.name for argument in self.program.arguments}

    def block(self, items: tuple[Op | Loop, ...]) -> Iterator[Op | Loop]:
        for item in items:
            if isinstance(item, Loop):
                yield from self.analysis.before.get(item.id, ())
                start = self.analysis.start.get(item.id, ())
                yield replace(item, body=(*start, *self.block(item.body)))
            elif item.kind in POINTER_KINDS:
                yield from self.pointers(item)
            elif item.kind in DESCRIPTOR_KINDS:
                yield from self.descriptor(item)
            else:
                yield item

    def pointers(self, op: Op) -> Iterator[Op]:
        """A load, store or atomic addition through a tile of pointers."""
        kind = POINTER_KINDS[op.kind]
        old = op.results if op.kind == "atomic_add" and op.results[0] in self.uses else ()
        tile = self.analysis.forms.get(op.operands[0])
        if not isinstance(tile, AffineTile) or not tile.base:
            raise self.not_affine(op, tile)
        operands, guard = unguarded(op)
        values, masks = operands[1:2], operands[2:3]
        other: tuple[int, ...] = ()
        if kind == "tile_load":
            values, masks, other = (), operands[1:2], operands[2:3]
        mask = self.data.unbounded(mask_form(self.analysis, masks[0]), kind) if masks else EVERYWHERE
        idle = self.idle.get(op.id, frozenset())
        bounds = [bound for bound in mask.bounds if bound not in idle]
        mask = replace(mask, bounds=tuple(dict.fromkeys((*bounds, *sorted(tile.within, key=repr)))))
        fixed = self.far if self.arguments[tile.base].is_pointee else self.analysis.scalars.fixed
        address = address_of_tile(tile, mask, fixed)
        layout = layout_of(address, load=kind == "tile_load")
        if old and layout.views_before_store():
            what = "of a tile with an axis of one element, or with rows that are columns in memory"
            raise AtomicResultUsed(what, file=self.program.file, line=op.line)
        pad = self.constant(other[0]) if other else 0.0
        access = self.access(op, kind, layout.in_memory(address), 0.0 if pad is None else pad, promised=False)
        picked, indices = self.picked(op, address)
        yield from picked
        masks = () if address.complete else masks
        if masks and address.terms and address_of_tile(tile, replace(mask, complete=True), fixed).complete:
            conjunctions: list[Op] = []
            masks = self.unbounded(op, masks[0], conjunctions)
            yield from conjunctions
        if idle:
            made, some = some_within(self.analysis.numbering, op, idle, tile.shape)
            yield from made
            made, access, masks = self.under_guard(op, kind, access, masks, some)
            yield from made
        if guard is not None:
            made, access, masks = self.under_guard(op, kind, access, masks, guard)
            yield from made
        if old:
            access = replace(access, transport="plain", transport_reason="its old values are read")
            yield self.moved(op, kind, (values[0], *indices, *masks), old, access)
        elif kind != "tile_load":
            yield from self.give(op, kind, access, values[0], (*indices, *masks), layout)
        elif pad is None:
            loaded = self.analysis.numbering.value(self.analysis.type_of(op.results[0]), op)
            yield from self.take(op, access, (*indices, *masks), layout, loaded)
            chosen = (op.operands[1], loaded, other[0])
            yield self.analysis.numbering.op("select", chosen, op.results[0], op)
        else:
            yield from self.take(op, access, (*indices, *masks), layout, op.results[0])

    def far(self, polynomial: Polynomial) -> bool:
        """Whether a part of a looked-up address moves the whole tile: what a launch fixes, and numbers of 64 bits,
        which are no index along an axis."""
        wide = (self.analysis.type_of(symbol).element == "i64" for symbol in polynomial.symbols())
        return any(wide) or self.analysis.scalars.fixed(polynomial)

    def unbounded(self, op: Op, mask: int, made: list[Op]) -> tuple[int, ...]:
        """What is left of a mask without the sides of conjunctions that are bounds and nothing else: it may be the same
        along an axis then. made: gets the operations that make it."""
        maker = self.makers.get(mask)
        if mask_form(self.analysis, mask).complete:
            return ()
        if maker is None or maker.kind != "and":
            return (mask,)
        sides = [left for operand in maker.operands for left in self.unbounded(op, operand, made)]
        if len(sides) < 2 or tuple(sides) == maker.operands:
            return (mask,) if len(sides) == 2 else tuple(sides)
        both = self.analysis.numbering.value(self.analysis.type_of(mask), op)
        made.append(self.analysis.numbering.op("and", tuple(sides), both, op))
        return (both,)

    def picked(self, op: Op, address: Address) -> tuple[list[Op], tuple[int, ...]]:
        """The tiles of integers in an address, without axes of extent 1, and the operations that make them so."""
        numbering = self.analysis.numbering
        made, values = [], []
        for term in address.terms:
            kind = self.analysis.type_of(term.value)
            value, shape = term.value, tuple(extent for extent in kind.shape if extent > 1)
            if shape != kind.shape:
                value = numbering.value(TileType(shape, kind.element), op)
                made.append(numbering.op("reshape", (term.value,), value, op))
            values.append(value)
        return made, tuple(values)

    def descriptor(self, op: Op) -> Iterator[Op]:
        """A load, store or reduction of a descriptor's block."""
        kind = DESCRIPTOR_KINDS[op.kind]
        window = self.analysis.forms.get(op.operands[0])
        if not isinstance(window, DescriptorWindow):
            raise self.not_affine(op, window)
        block = self.analysis.type_of(op.operands[0]).shape
        first = 1 if kind == "tile_load" else 2
        operands, guard = unguarded(op)
        address = address_of_block(window, block, tuple(map(self.analysis.integer, operands[first:])))
        access = self.access(op, kind, address, window.pad if kind == "tile_load" else 0.0, promised=True)
        masks: tuple[int, ...] = ()
        described = self.arguments[window.base].type.element.startswith("desc:")  # by the host: the tensor is there
        if guard is not None and not (described and kind == "tile_load"):
            made, access, masks = self.under_guard(op, kind, access, masks, guard)
            yield from made
        # The kernel's tile may lack leading axes of extent 1 that the block has.
        if kind == "tile_load":
            result = op.results[0]
            if self.analysis.type_of(result).shape != block:
                result = self.analysis.numbering.value(TileType(block, access.element), op)
            yield self.moved(op, kind, masks, (result,), access)
            if result != op.results[0]:
                yield self.analysis.numbering.op("reshape", (result,), op.results[0], op)
            return
        value = op.operands[1]
        if self.analysis.type_of(value).shape != block:
            seen = self.analysis.numbering.value(TileType(block, self.analysis.type_of(value).element), op)
            yield self.analysis.numbering.op("reshape", (value,), seen, op)
            value = seen
        yield self.moved(op, kind, (value, *masks), (), access)

    def under_guard(
        self, op: Op, kind: str, access: Access, masks: tuple[int, ...], guard: int
    ) -> tuple[list[Op], Access, tuple[int, ...]]:
        """An access that touches nothing where the guard does not hold, its masks, and the operations that make them.

        A load has it in its address, and stays with the TMA; a store has it as its mask, a scalar. A guard that comes
        from memory is a mask of elements, and threads move the tile.
        """
        if self.is_loaded(guard):
            made, masks = self.masked_by(op, masks, guard, access)
            why = "it is under a condition on data"
            return made, replace(access, transport="plain", transport_reason=why), masks
        if kind != "tile_load" or not access.axes:
            made, masks = self.masked_by(op, masks, guard)
            return made, access, masks
        made, access = self.out_of_bounds(op, access, guard)
        return made, access, masks

    def is_loaded(self, value: int) -> bool:
        """Whether a scalar comes from memory: then it is no part of addresses, which are made ahead of data."""
        made_of = reach([value], lambda one: self.makers[one].operands if one in self.makers else ())
        return any(self.makers[one].kind not in PURE if one in self.makers else one in self.carried for one in made_of)

    def masked_by(
        self, op: Op, masks: tuple[int, ...], guard: int, access: Access | None = None
    ) -> tuple[list[Op], tuple[int, ...]]:
        """The mask of an access under a guard: the guard itself, a scalar, if there is no mask besides. access: whose
        tile the guard is to be spread over."""
        numbering = self.analysis.numbering
        if not masks:
            shape = tuple(axis.extent for axis in access.axes) if access is not None else ()
            if not shape:
                return [], (guard,)
            spread = numbering.value(TileType(shape, "i1"), op)
            return [numbering.op("splat", (guard,), spread, op)], (spread,)
        kind = self.analysis.type_of(masks[0])
        spread, mask = numbering.value(kind, op), numbering.value(kind, op)
        if not kind.shape:
            return [numbering.op("and", (masks[0], guard), mask, op)], (mask,)
        return [numbering.op("splat", (guard,), spread, op), numbering.op("and", (masks[0], spread), mask, op)], (mask,)

    def out_of_bounds(self, op: Op, access: Access, guard: int) -> tuple[list[Op], Access]:
        """The access with no element inside its bounds where the guard does not hold (`nowhere_unless`)."""
        numbering, kind = self.analysis.numbering, TileType((), "i32")
        one, zero, holds = (numbering.value(kind, op) for _ in range(3))
        made = [
            numbering.op("constant", (), one, op, value=1),
            numbering.op("constant", (), zero, op, value=0),
            numbering.op("select", (guard, one, zero), holds, op),
        ]
        return made, nowhere_unless(access, self.analysis.scalars.declare(holds))

    def take(self, op: Op, access: Access, more: tuple[int, ...], layout: MemoryLayout, result: int) -> Iterator[Op]:
        """A load as memory has the tile, then views to `result`, the tile as the kernel sees it."""
        numbering, element = self.analysis.numbering, self.analysis.type_of(result).element
        views = layout.views_after_load()
        shapes = [layout.memory, *(shape for _, _, shape in views)][:-1]
        made = [*(numbering.value(TileType(shape, element), op) for shape in shapes), result]
        yield self.moved(op, "tile_load", more, (made[0],), access)
        for (kind, attributes, _), operand, view in zip(views, made, made[1:], strict=False):
            yield numbering.op(kind, (operand,), view, op, **attributes)

    def give(
        self, op: Op, kind: str, access: Access, value: int, more: tuple[int, ...], layout: MemoryLayout
    ) -> Iterator[Op]:
        """Views from the value that the kernel stores to the tile as memory has it, then the store. more: operands."""
        numbering, element = self.analysis.numbering, self.analysis.type_of(value).element
        for view, attributes, shape in layout.views_before_store():
            seen = numbering.value(TileType(shape, element), op)
            yield numbering.op(view, (value,), seen, op, **attributes)
            value = seen
        yield self.moved(op, kind, (value, *more), (), access)

    def moved(self, op: Op, kind: str, operands: tuple[int, ...], results: tuple[int, ...], access: Access) -> Op:
        """The tile access that replaces `op`."""
        given = {"combine": "add", **dict(op.attributes)}
        retained = tuple(
            (name, given[name])
            for name in ("combine", "signed", *(("order",) if results else ()))
            if kind == "tile_reduce" and name in given
        )
        return Op(op.id, kind, operands, results, retained, op.line, op.name, access)

    def access(self, op: Op, kind: str, address: Address, pad: float, promised: bool) -> Access:
        """The access at an address in memory's order, with its transport."""
        element = self.analysis.type_of(op.operands[0]).element.partition(":")[2]
        combine = combining(dict(op.attributes))
        alignment = self.arguments[address.base].divisibility
        declared = self.arguments[address.base].type.element.partition(":")[2]
        movement = Movement(kind, combine, element, declared, address, pad, alignment, promised, self.names,
                            located=not self.arguments[address.base].is_pointee,
                            walks=self.program.walk is not None)  # fmt: skip
        chosen = choose(movement, self.analysis.scalars)
        indices = tuple(Index(tuple(a for a in term.axes if a >= 0), term.scale) for term in address.terms)
        return Access(address.base, element, address.axes, address.constant, pad, chosen.kind, chosen.reason, indices,
                      chosen.made)  # fmt: skip

    def constant(self, value: int) -> float | None:
        """The number that every element of a tile is, if that is known."""
        op = self.makers.get(value)
        while op is not None and op.kind in ("splat", "broadcast", "expand_dims", "reshape"):
            op = self.makers.get(op.operands[0])
        return float(op.attribute("value")) if op is not None and op.kind == "constant" else None  # type: ignore[arg-type]

    def not_affine(self, op: Op, form: object) -> AddressNotAffine:
        """The error for an address without a symbolic form."""
        if not isinstance(form, NotAffine):
            form = NotAffine(op.operands[0], "is no address in an argument", "a pointer or descriptor argument")
        value = self.analysis.numbering.values[form.value]
        what = f"`{value.name}`" if value.name else "an index"
        where = f" (line {value.line})" if value.line and value.line != op.line else ""
        whose = f"`{op.name}`" if op.name else "this access"
        return AddressNotAffine(whose, f"{what}{where} {form.reason}", form.hint, file=self.program.file, line=op.line)
