"""Dimension classes by dataflow: which axes of which tiles are forced to be the same index.

Union-find over (cell, axis). Elementwise operations, carries and matrix products tie axes
together; an axis of extent 1 belongs to no class (-1); a reshape that merges or splits axes
starts fresh classes. A class is *parallel*, so that tiles may be split along it, unless it is

- contracted by a product, or reduced or scanned, anywhere in the kernel, or
- merged or split by a reshape, a join or a slice, or
- both axes of one tile (as in a + trans(a)).

Rows of products in loops that follow one another are one class, too, where nothing has both and both are parallel: one
cut then gives every row block a part of each loop (attention backward with dK, dV and dQ of one block).

Exception: a class that is summed over (a product, or a reduction that adds) stays parallel if the
sum only ever flows, through linear operations of the same iteration, into additive reductions to
tensors that the kernel does not load. Each part of a split then adds its own partial sum to
memory (attention backward's dq). Different arguments are assumed not to overlap in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from twill.tile.flat import UNIFORM, Flat, Step
from twill.tile.vocabulary import ELEMENTWISE, MMA, SOURCES, VIEWS

AxisOf = tuple[int, int]  # (cell, axis)


@dataclass(frozen=True)
class Classes:
    """of: classes of a cell's axes (-1 for extent 1). size: extent by class. sequential: classes
    that are not parallel. letters: "m", "n" or "k" for a class, after its role in the first product
    with it, or as the rows or columns of a matrix, and the stretch of the kernel where that is.
    """

    of: dict[int, tuple[int, ...]]
    size: dict[int, int]
    sequential: frozenset[int]
    letters: dict[int, tuple[str, int]]


def dimension_classes(flat: Flat) -> Classes:
    """The classes of all axes, numbered in order of first appearance."""
    finder = _Finder(flat)
    for step in flat.steps:
        RULES.get(step.op.kind, _same if step.op.kind in ELEMENTWISE else _nothing)(step, finder)
    for carry in flat.carries:
        for cell in (carry.init, carry.yielded, carry.result):
            finder.link_all(carry.argument, cell)
    return finder.classes()


class _Finder:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.parent: dict[AxisOf, AxisOf] = {}
        self.mixed: list[AxisOf] = []  # axes that no split may touch
        self.summed: list[tuple[AxisOf, Step]] = []
        self.letters: list[tuple[AxisOf, tuple[str, int]]] = []

    def shape(self, cell: int) -> tuple[int, ...]:
        return self.flat.cells[cell].type.shape

    def find(self, axis: AxisOf) -> AxisOf:
        parent = self.parent.get(axis, axis)
        if parent == axis:
            return axis
        self.parent[axis] = self.find(parent)
        return self.parent[axis]

    def link(self, left: AxisOf, right: AxisOf) -> None:
        """Makes two axes one class if they have the same extent above 1."""
        extents = self.shape(left[0])[left[1]], self.shape(right[0])[right[1]]
        if extents[0] == extents[1] > 1:
            low, high = sorted((self.find(left), self.find(right)))
            self.parent[high] = low

    def link_all(self, left: int, right: int) -> None:
        """Links every axis of two cells of one shape (nothing to do for a uniform scalar)."""
        if UNIFORM in (left, right):
            return
        for axis in range(len(self.shape(left))):
            self.link((left, axis), (right, axis))

    def classes(self) -> Classes:
        numbers: dict[AxisOf, int] = {}
        of: dict[int, tuple[int, ...]] = {}
        size: dict[int, int] = {}
        for cell in self.flat.cells:
            found = []
            for axis, extent in enumerate(cell.type.shape):
                root = self.find((cell.id, axis))
                found.append(numbers.setdefault(root, len(numbers)) if extent > 1 else -1)
                size.setdefault(found[-1], extent)
            of[cell.id] = tuple(found)
        sequential = {of[mixed][axis] for mixed, axis in self.mixed}
        for classes in of.values():
            sequential.update(c for c in classes if classes.count(c) > 1)
        adders = _Adders(self.flat)
        sequential.update(of[left][axis] for (left, axis), step in self.summed if not adders.only_added(step))
        letters: dict[int, tuple[str, int]] = {}
        for (tile, axis), letter in self.letters:
            letters.setdefault(of[tile][axis], letter)
        for step in (step for step in self.flat.steps if step.op.kind not in SOURCES):
            for classes in (of[result] for result in step.results):
                for c, role in zip(classes, "mn"[-len(classes) :], strict=False):
                    letters.setdefault(c, (role, step.stretch))
        letters.pop(-1, None)
        found_classes = Classes(of, size, frozenset(sequential - {-1}), letters)
        return _with_rows_in_common(self.flat, found_classes)


def _with_rows_in_common(flat: Flat, classes: Classes) -> Classes:
    """The classes, of which some are one: rows of products that no other product has for columns or contracts."""
    roles: dict[str, set[int]] = {"m": set(), "n": set(), "k": set()}
    for step in (step for step in flat.steps if step.op.kind in MMA):
        (left, right), result = step.operands[:2], step.results[0]
        if UNIFORM not in (left, right):
            roles["m"].add(classes.of[result][-2])
            roles["n"].add(classes.of[result][-1])
            roles["k"].add(classes.of[left][-1])
    rows = sorted(roles["m"] - roles["n"] - roles["k"] - classes.sequential - {-1})
    same: dict[int, int] = {}
    together: dict[int, set[int]] = {}  # of each class, those that become it
    for row in rows:
        fits = (
            first
            for first, members in together.items()
            if classes.size[first] == classes.size[row]
            and classes.letters[first][1] != classes.letters[row][1]
            and not any(row in of and members & {*of} for of in classes.of.values())
        )
        same[row] = next(fits, row)
        together.setdefault(same[row], set()).add(row)
    if all(one == other for one, other in same.items()):
        return classes
    made = {cell: tuple(same.get(c, c) for c in of) for cell, of in classes.of.items()}
    letters = {c: letter for c, letter in classes.letters.items() if same.get(c, c) == c}
    return Classes(made, classes.size, classes.sequential, letters)


def _nothing(step: Step, finder: _Finder) -> None:
    """Sources relate no axes."""


def _access(step: Step, finder: _Finder) -> None:
    """The indices of an access, and its mask, run along the axes of its tile."""
    tile = step.results[0] if step.op.kind == "tile_load" else step.operands[0]
    access, mask = step.op.access, step.op.mask_operand
    if tile == UNIFORM and step.results:  # one number for all of it
        tile = step.results[0]
    if access is None or tile == UNIFORM:
        return
    for position, index in zip(step.op.index_operands, access.indices, strict=True):
        cell = step.operands[position]
        for own, axis in enumerate(index.axes if cell != UNIFORM else ()):
            finder.link((cell, own), (tile, axis))
    if mask is not None:
        finder.link_all(step.operands[mask], tile)
    for result in step.results if step.op.kind == "tile_reduce" else ():
        finder.link_all(tile, result)


def _same(step: Step, finder: _Finder) -> None:
    """Elementwise operations and scalars."""
    for operand in step.cells():
        finder.link_all(operand, step.results[0])


def _broadcast(step: Step, finder: _Finder) -> None:
    finder.link_all(step.operands[0], step.results[0])


def _reshape(step: Step, finder: _Finder) -> None:
    """Axes that keep their extent keep their class; those of a merged or split group are mixed."""
    operand, result = step.operands[0], step.results[0]
    for left, right in groups(finder.shape(operand), finder.shape(result)):
        if len(left) == len(right) == 1:
            finder.link((operand, left[0]), (result, right[0]))
            continue
        finder.mixed.extend((operand, axis) for axis in left)
        finder.mixed.extend((result, axis) for axis in right)


def groups(left: tuple[int, ...], right: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest runs of axes with equal numbers of elements, axes of extent 1 left out."""
    lefts = [axis for axis, extent in enumerate(left) if extent > 1]
    rights = [axis for axis, extent in enumerate(right) if extent > 1]
    while lefts or rights:
        ours, theirs = [lefts.pop(0)], [rights.pop(0)]
        size, other = left[ours[0]], right[theirs[0]]
        while size != other:
            if size < other:
                ours.append(lefts.pop(0))
                size *= left[ours[-1]]
            else:
                theirs.append(rights.pop(0))
                other *= right[theirs[-1]]
        yield ours, theirs


def _transpose(step: Step, finder: _Finder) -> None:
    order = step.op.attribute("order")
    assert isinstance(order, tuple)
    for axis, source in enumerate(order):
        finder.link((step.operands[0], source), (step.results[0], axis))


def _slice(step: Step, finder: _Finder) -> None:
    """One element of axis `axis`, which goes away."""
    gone = _axis(step)
    finder.mixed.append((step.operands[0], gone))
    _without(step, finder, gone)


def _join(step: Step, finder: _Finder) -> None:
    """Two tiles side by side in a new last axis."""
    last = len(finder.shape(step.results[0])) - 1
    finder.mixed.append((step.results[0], last))
    for operand in step.cells():
        for axis in range(last):
            finder.link((operand, axis), (step.results[0], axis))


def _reduce(step: Step, finder: _Finder) -> None:
    axis = _axis(step)
    reduced = (step.operands[0], axis)
    if step.op.attribute("combine") == "add":
        finder.summed.append((reduced, step))
    else:
        finder.mixed.append(reduced)
    _without(step, finder, axis)


def _scan(step: Step, finder: _Finder) -> None:
    finder.mixed.append((step.operands[0], _axis(step)))
    finder.link_all(step.operands[0], step.results[0])


def _rearrange(step: Step, finder: _Finder) -> None:
    """Elements that go anywhere."""
    for cell in (*step.cells(), *step.results):
        finder.mixed.extend((cell, axis) for axis in range(len(finder.shape(cell))))


def _dot(step: Step, finder: _Finder) -> None:
    """A[m,k] B[k,n] + C[m,n]; scales are not split."""
    a, b = step.operands[:2]
    result = step.results[0]
    finder.link((a, 0), (result, 0))
    finder.link((b, 1), (result, 1))
    finder.link((a, 1), (b, 0))
    for c in step.operands[2:3]:
        finder.link_all(c, result)
    for scales in step.operands[3:]:
        finder.mixed.extend((scales, axis) for axis in range(len(finder.shape(scales))))
    finder.summed.append(((a, 1), step))
    for axis, letter in (((a, 0), "m"), ((b, 1), "n"), ((a, 1), "k")):
        finder.letters.append((axis, (letter, step.stretch)))


def _without(step: Step, finder: _Finder, gone: int) -> None:
    retained = [axis for axis in range(len(finder.shape(step.operands[0]))) if axis != gone]
    for axis, source in enumerate(retained):
        finder.link((step.operands[0], source), (step.results[0], axis))


def _axis(step: Step) -> int:
    axis = step.op.attribute("axis")
    assert isinstance(axis, int)
    return axis


RULES: dict[str, Callable[[Step, _Finder], None]] = {
    "update": _broadcast, "broadcast": _broadcast, "expand_dims": _reshape, "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice, "join": _join, "splat": _nothing, "constant": _nothing, "range": _nothing,
    "reduce": _reduce, "scan": _scan, "rearrange": _rearrange, "gather": _rearrange, "histogram": _rearrange,
    "dot": _dot, "dot_scaled": _dot,
    "tile_load": _access, "tile_store": _access, "tile_reduce": _access,
}  # fmt: skip

LINEAR = frozenset({"cast", "neg", *VIEWS}) - {"slice", "join", "update"}


class _Adders:
    """Answers whether a sum only flows into additive reductions to memory, as linear terms."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.users: dict[int, list[Step]] = {}
        for step in flat.steps:
            for cell in dict.fromkeys(step.cells()):
                self.users.setdefault(cell, []).append(step)
        self.carried = {cell for carry in flat.carries for cell in (carry.init, carry.yielded)}
        self.loaded = {s.op.access.base for s in flat.steps if s.op.kind == "tile_load" and s.op.access}
        self.makers = {result: step for step in flat.steps for result in step.results}

    def only_added(self, step: Step) -> bool:
        """Whether adding up the sums of the parts in memory adds the whole sum."""
        if any(not self._is_zero(c) for c in step.operands[2:]):
            return False
        tainted = set(step.results)
        pending = list(step.results)
        reached = False
        while pending:
            cell = pending.pop()
            if cell in self.carried:
                return False
            for user in self.users.get(cell, ()):
                if user.stretch != step.stretch:
                    return False
                if self._adds(user):
                    reached = True
                    continue
                if not self._linear(user, tainted):
                    return False
                pending.extend(set(user.results) - tainted)
                tainted.update(user.results)
        return reached

    def _adds(self, user: Step) -> bool:
        access = user.op.access
        if user.op.kind != "tile_reduce" or access is None or access.base in self.loaded:
            return False
        return user.op.attribute("combine") == "add"

    def _linear(self, user: Step, tainted: set[int]) -> bool:
        kind = user.op.kind
        if kind in LINEAR:
            return all(self.flat.cells[result].type.element[0] != "i" for result in user.results)
        if kind == "mul":
            return len([operand for operand in user.operands if operand in tainted]) == 1
        return kind == "div" and user.operands[1] not in tainted

    def _is_zero(self, cell: int) -> bool:
        maker = self.makers.get(cell)
        while maker is not None and maker.op.kind in VIEWS and maker.cells():
            maker = self.makers.get(maker.operands[0])
        return maker is not None and maker.op.kind == "constant" and maker.op.attribute("value") == 0
