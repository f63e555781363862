"""Elements that are loaded for nothing: what an index that wraps around or is clipped brings in beyond its bounds.

`offs = (pid * BLOCK + tl.arange(0, BLOCK)) % M` reads rows of the tensor's beginning where the last tile sticks out. A
tile access that ends at row M reads zeros there. Both are right if no store takes what is made of those rows: rows of
a product come of the same rows of its left operand, and the store masks them. So are zeros in the place of numbers
that a mask leaves out of a load, where the address is the same along the axis of the mask (a scale for 128 columns):
without the mask it is the load of one number (`idle_masks`). This is a data flow analysis: the
elements beyond a bound of an axis are garbage, through operations element by element, views, products and loops, up to
a store whose mask leaves them out. Where they meet others (a sum along that axis), or a store takes them, the kernel
depends on what it wraps around to, and the address is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from twill.tile.access.address import address_of_tile
from twill.tile.access.analysis import Analysis
from twill.tile.access.rules import SymbolicStep, axis_map
from twill.tile.access.value import EVERYWHERE, UNKNOWN_MASK, AffineTile, DescriptorWindow, IndexBound, Mask
from twill.tile.program import Loop, Op
from twill.tile.vocabulary import ELEMENTWISE, MMA

STORES = ("store", "atomic_add", "descriptor_store", "descriptor_reduce")
SHAPED = ("splat", "expand_dims", "broadcast", "reshape", "transpose")

Garbage = Mapping[IndexBound, Op]
"""What is garbage in a tile: elements beyond each of the bounds, and the load that they come from."""


@dataclass(frozen=True)
class GarbageNeeded(Exception):
    """An operation depends on elements of `load` beyond the bounds within which its address is affine."""

    load: Op


@dataclass
class GarbageAnalysis:
    """The analysis of one program. idle: bounds of loads' masks that are to be left out, by operation. found: by value,
    what is garbage in it, if anything is."""

    analysis: Analysis
    idle: Mapping[int, frozenset[IndexBound]] = field(default_factory=dict)
    found: dict[int, dict[IndexBound, Op]] = field(default_factory=dict)

    def block(self, items: Iterable[Op | Loop]) -> None:
        """What is garbage in everything that the items make. Raises `GarbageNeeded`."""
        for item in items:
            if isinstance(item, Op):
                self.op(item)
                continue
            for carry in item.carried:
                self.join(carry.argument, self.of(carry.init))
            while True:
                self.block(item.body)
                before = {carry.argument: len(self.of(carry.argument)) for carry in item.carried}
                for carry in item.carried:
                    self.join(carry.argument, self.of(carry.yielded))
                if before == {carry.argument: len(self.of(carry.argument)) for carry in item.carried}:
                    break
            for carry in item.carried:
                self.join(carry.result, {**self.of(carry.init), **self.of(carry.yielded)})

    def of(self, value: int) -> Garbage:
        """What is garbage in a value."""
        return self.found.get(value, {})

    def join(self, value: int, garbage: Garbage) -> None:
        """More of a value is garbage."""
        if garbage:
            self.found.setdefault(value, {}).update(garbage)

    def op(self, op: Op) -> None:
        """What is garbage in the results of an operation. Raises `GarbageNeeded`."""
        garbage = self.loaded(op) if op.kind == "load" else {}
        read = [self.of(operand) for operand in op.operands]
        if op.kind in STORES:
            self.stored(op, read)
        elif any(read):
            garbage = {**garbage, **self.passed(op, read)}
        for result in op.results if op.kind not in STORES else ():
            self.join(result, garbage)

    def loaded(self, op: Op) -> Garbage:
        """What a load brings in beyond the bounds of its address, if its mask does not leave it out."""
        form = self.analysis.forms.get(op.operands[0])
        within = form.within if isinstance(form, AffineTile) else frozenset()
        mask = self.mask(op.operands[1]) if len(op.operands) > 1 else UNKNOWN_MASK
        bounds = [bound for bound in mask.bounds if bound not in self.idle.get(op.id, ())]
        lacking = (*within, *self.idle.get(op.id, ()))
        return {bound: op for bound in lacking if not implied(bound, bounds)}

    def stored(self, op: Op, read: list[Garbage]) -> None:
        """A store takes none of it."""
        form = self.analysis.forms.get(op.operands[0])
        if isinstance(form, DescriptorWindow):
            first = list(map(self.analysis.integer, op.operands[2 : 2 + len(form.shape)]))
            bounds = [IndexBound(axis, "upper", size - first[axis]) for axis, size in enumerate(form.shape)]
            bounds += [IndexBound(axis, "lower", -offset) for axis, offset in enumerate(first)]
        else:
            mask = self.mask(op.operands[2]) if len(op.operands) > 2 else EVERYWHERE
            bounds = [*mask.bounds, *self.from_zero(form, mask)]
        for garbage in read:
            self.clean({bound: load for bound, load in garbage.items() if not implied(bound, bounds)})

    def from_zero(self, form: object, mask: Mask) -> Iterable[IndexBound]:
        """An index of a tensor that something is stored to is no negative number, as every tensor map has it."""
        if isinstance(form, AffineTile):
            axes = address_of_tile(form, mask, self.analysis.scalars.fixed).axes
            yield from (IndexBound(n, "lower", -axis.offset) for n, axis in enumerate(axes) if axis.extent > 1)

    def passed(self, op: Op, read: list[Garbage]) -> Garbage:
        """What is garbage in the result because it is in an operand."""
        everything = {bound: load for garbage in read for bound, load in garbage.items()}
        if op.kind == "select":
            mask, retained, other = read
            bounds = self.mask(op.operands[0]).bounds
            return {**mask, **other, **{bound: load for bound, load in retained.items() if not implied(bound, bounds)}}
        if op.kind in ELEMENTWISE or op.kind == "load":
            return everything
        if op.kind in SHAPED:
            shapes = tuple(self.analysis.type_of(operand).shape for operand in op.operands)
            step = SymbolicStep(op, (), shapes, self.analysis.type_of(op.results[0]), self.analysis.scalars.nonnegative)
            axes = axis_map(step, shapes[0])
            self.clean({} if axes is not None else everything)
            return {replace(bound, axis=(axes or {})[bound.axis]): load for bound, load in everything.items()}
        if op.kind in ("reduce", "scan", "slice"):
            return self.along(op, everything)
        if op.kind == "join":
            return everything
        if op.kind in MMA:
            left, right, *others = read
            for scales in others[1:]:
                self.clean(scales)
            self.clean({bound: load for bound, load in left.items() if bound.axis != 0})
            self.clean({bound: load for bound, load in right.items() if bound.axis != 1})
            return everything
        self.clean(everything)
        return {}

    def along(self, op: Op, garbage: Garbage) -> Garbage:
        """A reduction, scan or slice along an axis. A scan upwards carries nothing below the bound."""
        axis, rank = int(str(op.attribute("axis"))), len(self.analysis.type_of(op.operands[0]).shape)
        axis = axis % rank
        met = {bound: load for bound, load in garbage.items() if bound.axis == axis}
        if op.kind == "scan":
            downwards = dict(op.attributes).get("reverse")
            side = "lower" if downwards else "upper"
            self.clean({bound: load for bound, load in met.items() if bound.side != side})
            return garbage
        self.clean(met)
        return {replace(bound, axis=bound.axis - (bound.axis > axis)): load for bound, load in garbage.items()}

    def mask(self, value: int) -> Mask:
        """The symbolic form of a mask."""
        form = self.analysis.forms.get(value)
        return form if isinstance(form, Mask) else UNKNOWN_MASK

    def clean(self, garbage: Garbage) -> None:
        """There is no such garbage. Raises `GarbageNeeded` if there is."""
        for load in garbage.values():
            raise GarbageNeeded(load)


def idle_masks(analysis: Analysis) -> dict[int, frozenset[IndexBound]]:
    """Bounds of loads' masks along axes on which nothing moves, that no result needs, by operation."""
    idle = {}
    for op in analysis.program.ops():
        form = analysis.forms.get(op.operands[0]) if op.kind == "load" and len(op.operands) > 1 else None
        mask = analysis.forms.get(op.operands[1]) if isinstance(form, AffineTile) else None
        if isinstance(form, AffineTile) and isinstance(mask, Mask) and mask.complete and not form.terms:
            still = [bound for bound in mask.bounds if not form.steps[bound.axis] and is_narrow(analysis, bound)]
            axes = Counter(bound.axis for bound in still)
            idle[op.id] = frozenset(bound for bound in still if axes[bound.axis] == 1)
    idle = {op: bounds for op, bounds in idle.items() if bounds}
    while idle:
        try:
            GarbageAnalysis(analysis, idle).block(analysis.program.body)
        except GarbageNeeded as needed:
            if idle.pop(needed.load.id, None) is None:
                return {}
        else:
            break
    return idle


def is_narrow(analysis: Analysis, bound: IndexBound) -> bool:
    """Whether a bound is made of numbers of 32 bits."""
    return all(analysis.type_of(symbol).element == "i32" for symbol in bound.limit.symbols())


def implied(bound: IndexBound, by: Iterable[IndexBound]) -> bool:
    """Whether what is within one of `by` is within `bound`."""
    return any(other.implies(bound) for other in by)
