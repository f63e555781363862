"""What follows a loop in parts of columns: accumulators in tensor memory are read some columns at a time, and each part
is finished and stored before the next is read.

A wide accumulator, or two of them at once, are as many registers of each thread as leave no room for what is computed.
Elementwise work, vectors of columns and stores are the same for some columns as for all, so variables become narrower
and everything from the first accumulator on is said once for each part. What is the same for all parts (scalars,
vectors of rows) is computed with the first; slots go back with the last.

Left alone is what brings columns together (a reduction of rows, a rearrangement, a sum of parts), and what reads a
tensor that it stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from twill.codegen.lower.staging import panel_columns
from twill.codegen.passes.staged_stores import Read, Staged, StagedStore, Whole, items
from twill.codegen.passes.tensor_overlay import columns_taken
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.effects import effects
from twill.codegen.warp.expression import Element, Number, add
from twill.codegen.warp.layout import Accumulator, Along, Layout, Uniform, elements_of
from twill.codegen.warp.verifier import named, own_nodes

_ONCE = (  # for all parts
    ir.Let, ir.Acquire, ir.Get, ir.Fill, ir.Copy, ir.Compute, ir.Range, ir.LoadGlobal, ir.LoadShared,
    ir.StoreGlobal,
)  # fmt: skip
NARROWEST = 32  # columns of a part: what a row of a part has of a float, a panel of a staging buffer


def in_parts(group: ir.WarpGroup, program: ir.WarpProgram, registers: int, in_turn: bool = False) -> ir.WarpGroup:
    """The group with its accumulators read in parts, if they take more than `registers` of a thread together; as it is
    if they do not, or cannot be cut. in_turn: all of one before the next, where they have nothing to do with one
    another."""
    loads = [stmt for top in group.body for stmt in behind_loops(top)]
    read = [group.fragment(number) for number in {stmt.result for stmt in loads}]
    taken = sum(elements_of(fragment.layout) for fragment in read)
    layouts = {fragment.layout for fragment in read}
    if not registers or taken <= registers or len(layouts) != 1:
        return group
    (layout,) = layouts
    assert isinstance(layout, Accumulator)
    start = next(n for n, stmt in enumerate(group.body) if behind_loops(stmt))
    try:
        return cut(group, program, layout, start, registers // 2 // len(read), in_turn=in_turn)
    except Whole:
        return group


def behind_loops(stmt: ir.Stmt) -> list[ir.LoadAccumulator]:
    """The accumulators that a statement reads, those of iterations aside."""
    return [] if isinstance(stmt, ir.Pipeline) else [s for s in ir.walk((stmt,)) if isinstance(s, ir.LoadAccumulator)]


def cut(
    group: ir.WarpGroup,
    program: ir.WarpProgram,
    layout: Accumulator,
    start: int,
    most: int,
    whole: frozenset[int] = frozenset(),
    in_turn: bool = False,
) -> ir.WarpGroup:
    """The group whose body is done in parts of at most `most` columns from the statement `start` on. whole: fragments
    that stay as they are, of which a part is copied. in_turn: as for `in_parts`. Raises Whole."""
    found = _Cut.of(group, program, layout, start, whole)
    width = found.width(most)
    body = found.body(width, in_turn)
    return replace(group, fragments=tuple(found.narrow(f, width) for f in group.fragments), body=body)


@dataclass(frozen=True)
class _Cut:
    """A group's body that can be cut. layout: of its accumulators; start: of what is done in parts. wide: fragments
    that have something for each column. rows: vectors of rows beside them."""

    group: ir.WarpGroup
    program: ir.WarpProgram
    layout: Accumulator
    start: int
    wide: frozenset[int]
    rows: frozenset[int]

    @classmethod
    def of(
        cls, group: ir.WarpGroup, program: ir.WarpProgram, layout: Accumulator, start: int, whole: frozenset[int]
    ) -> _Cut:
        """Raises Whole."""
        beside = {f.id: f.layout for f in group.fragments if is_beside(f.layout, layout) and f.id not in whole}
        rows = frozenset(n for n, one in beside.items() if isinstance(one, Along) and one.axis == 1)
        made = cls(group, program, layout, start, frozenset(beside) - rows, rows)
        for stmt in ir.walk((*group.body[:start], *group.start, *group.next, *group.skip, *group.finish)):
            if made.touches(stmt):
                raise Whole
        made.refuse_order(group.body[start:])
        return made

    def touches(self, stmt: ir.Stmt) -> bool:
        """Whether a statement, without those in it, reads or writes something for each column."""
        return bool(fragments_of(stmt) & self.wide)

    def refuse_order(self, tail: Sequence[ir.Stmt]) -> None:
        """Raises Whole where parts would see other values: of what is made once and changed behind its first reader, of
        what is not made anew in each part, or of a tensor that is stored."""
        made: set[int] = set()
        used: set[int] = set()
        read: set[str] = set()
        stored: set[str] = set()
        for stmt in ir.walk(tuple(tail)):
            result = getattr(stmt, "result", None)
            mine = fragments_of(stmt)
            others = mine - {result} if not isinstance(stmt, ir.Compute | ir.Copy) else effects(stmt)[1]
            if (others & self.wide) - made:
                raise Whole
            if isinstance(result, int) and result not in self.wide and (result in used or others & self.wide):
                raise Whole
            if isinstance(result, int):
                made.add(result)
            if mine & self.wide:
                used |= mine - self.wide
            match stmt:
                case ir.LoadGlobal(window=window):
                    read.add(window.argument)
                case ir.StoreGlobal(window=window):
                    stored.add(window.argument)
                case ir.TmaStore(map=number):
                    stored.add(self.program.maps[number].argument)
        if read & stored:
            raise Whole

    # -- widths -------------------------------------------------------------------------------

    def width(self, most: int) -> int:
        """Columns of a part: at most so many, but whole panels of what is stored. Raises Whole."""
        panels = [self.panel(store) for store in self.stores()]
        width = max([NARROWEST, most, *panels])
        width = 1 << width.bit_length() - 1
        if self.layout.columns % width or width >= self.layout.columns or any(width % panel for panel in panels):
            raise Whole
        return width

    def stores(self) -> Iterator[StagedStore]:
        """Every store by the TMA."""
        return (item for item in items(self.group.body[self.start :]) if isinstance(item, StagedStore))

    def panel(self, store: StagedStore) -> int:
        """Columns of a panel of what is stored."""
        if store.panel is not None:
            return store.panel[1] - store.panel[0]
        element = self.program.buffers[store.store.target.buffer].element
        return panel_columns((self.layout.rows, self.layout.columns), element)

    def narrow(self, fragment: ir.Fragment, width: int) -> ir.Fragment:
        """A fragment of a part."""
        if fragment.id not in self.wide | self.rows:
            return fragment
        if isinstance(fragment.layout, Along):
            parent = replace(fragment.layout.parent, columns=width)
            return replace(fragment, layout=replace(fragment.layout, parent=parent))
        return replace(fragment, layout=replace(self.layout, columns=width))

    # -- statements ---------------------------------------------------------------------------

    def body(self, width: int, in_turn: bool) -> tuple[ir.Stmt, ...]:
        """The body in parts of so many columns. Raises Whole."""
        staged = Staged()
        made = [*self.group.body[: self.start]]
        tail = items(self.group.body[self.start :])
        for section in self.sections(tail) if in_turn else [tail]:
            for first in range(0, self.layout.columns, width):
                part = _Part(self, first, first + width, first == 0, first + width == self.layout.columns)
                for item in section:
                    made += part.stored(item, staged) if isinstance(item, StagedStore) else part.of((item,))
        return tuple(made)

    def sections(self, tail: Sequence[ir.Stmt | StagedStore]) -> list[Sequence[ir.Stmt | StagedStore]]:
        """What follows the loops, cut in front of accumulators where nothing that is done in parts goes on behind."""
        used = [self.used(item) for item in tail]
        cuts = [
            at
            for at, item in enumerate(tail)
            if not isinstance(item, StagedStore) and behind_loops(item)
            if not frozenset().union(*used[:at]) & frozenset().union(*used[at:])
        ]
        return [tail[begin:end] for begin, end in pairwise([0, *(at for at in cuts if at), len(tail)])]

    def used(self, item: ir.Stmt | StagedStore) -> frozenset[tuple[str, int]]:
        """What an item touches: fragments that parts are of, and slots."""
        stmts = [*ir.walk((item,) if isinstance(item, ir.Stmt) else (item.store, *item.sends))]
        fragments = {("fragment", number) for stmt in stmts for number in fragments_of(stmt) & (self.wide | self.rows)}
        cursors = {one for stmt in stmts for one in named(stmt) if one[0] == "cursor"}
        return frozenset(fragments | cursors)


@dataclass(frozen=True)
class _Part:
    """One of them: columns [first, last). begins, ends: whether it is the first one, the last one."""

    cut: _Cut
    first: int
    last: int
    begins: bool
    ends: bool

    def of(self, stmts: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
        """What the part does of some statements."""
        for stmt in stmts:
            if isinstance(stmt, ir.If):
                body, otherwise = tuple(self.of(stmt.body)), tuple(self.of(stmt.otherwise))
                if body or otherwise:
                    yield replace(stmt, body=body, otherwise=otherwise)
            elif self.cut.touches(stmt):
                yield self.narrowed(stmt)
            elif isinstance(stmt, ir.Consumed | ir.Advance):
                if self.ends:
                    yield stmt
            elif isinstance(stmt, _ONCE):
                if self.begins:
                    yield stmt
            else:
                raise Whole

    def narrowed(self, stmt: ir.Stmt) -> ir.Stmt:
        """A statement on something for each column, for those of the part."""
        cut = self.cut
        match stmt:
            case ir.LoadAccumulator(source=source) if source.columns is None:
                return replace(stmt, source=self.slot(source))
            case ir.LoadShared(source=source, transposed=False) if source.columns is None:
                return replace(stmt, source=self.slot(source))
            case ir.Range(start=int(start)):
                return replace(stmt, start=start + self.first)
            case ir.LoadGlobal(window=window, result=result) if result in cut.wide:
                return replace(stmt, window=self.window(window, result, stmt.transposed))
            case ir.StoreGlobal(window=window, operand=ir.Reg(fragment, ())) if fragment in cut.wide:
                return replace(stmt, window=self.window(window, fragment, stmt.transposed))
            case ir.Compute(operands=operands) if not any(isinstance(o, ir.Reg) and o.axes == (1, 0) for o in operands):
                return stmt
            case ir.Reduce(operand=operand, axis=0) if isinstance(cut.group.fragment(operand).layout, Accumulator):
                return stmt
            case ir.Copy(source=source, columns=None) if source not in cut.wide:
                return replace(stmt, columns=(self.first, self.last))
            case ir.Fill() | ir.Copy():
                return stmt
        raise Whole

    def slot(self, ref: ir.SlotRef) -> ir.SlotRef:
        """The part of a slot."""
        return replace(ref, columns=(self.first, self.last))

    def window(self, window: ir.Window, fragment: int, transposed: bool) -> ir.Window:
        """The part of a window of global memory. Raises Whole."""
        cut = self.cut
        beside = [*(index.tile for index in window.indices), *window.where]
        if any(reg.fragment not in cut.wide | cut.rows and not self.uniform(reg) for reg in beside):
            raise Whole
        moved = [number for number, axis in enumerate(window.axes) if axis.extent > 1]
        matrix = isinstance(cut.group.fragment(fragment).layout, Accumulator)
        extents = (cut.layout.rows, cut.layout.columns) if matrix else (cut.layout.columns,)
        if tuple(window.axes[n].extent for n in moved) != (extents[::-1] if transposed else extents):
            raise Whole
        number = moved[0 if transposed else -1]
        axis = window.axes[number]
        offset = add(axis.offset, Number(self.first, axis.offset.element))
        part = replace(axis, extent=self.last - self.first, offset=offset)
        return replace(window, axes=(*window.axes[:number], part, *window.axes[number + 1 :]))

    def uniform(self, reg: ir.Reg) -> bool:
        """Whether an operand is one number."""
        return isinstance(self.cut.group.fragment(reg.fragment).layout, Uniform)

    def stored(self, item: StagedStore, staged: Staged) -> Iterator[ir.Stmt]:
        """What leaves by the TMA of a part's columns. Raises Whole."""
        store, panel = item.store, item.panel
        if store.transposed or store.target.columns is not None:
            raise Whole
        if panel is None:
            target, columns, sends = self.slot(store.target), None, tuple(self.sent(item.sends))
            read: Read = store.target.buffer, (self.first, self.last)
        elif self.first <= panel[0] and panel[1] <= self.last:
            inside = (panel[0] - self.first, panel[1] - self.first)
            target, sends = store.target, item.sends
            columns = None if inside == (0, self.last - self.first) else inside
            read = store.target.buffer, None
        else:
            return
        yield from staged.waits(item, read)
        yield replace(store, target=target, columns=columns)
        yield ir.ProxyFence()
        yield item.barrier
        yield from sends
        yield ir.BulkCommit()

    def sent(self, sends: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
        """The copies of a whole tile that are of the part."""
        for stmt in sends:
            if isinstance(stmt, ir.If):
                yield replace(stmt, body=tuple(self.sent(stmt.body)))
                continue
            columns = stmt.source.columns if isinstance(stmt, ir.TmaStore) else None
            if columns is None or columns[0] < self.first < columns[1] or columns[0] < self.last < columns[1]:
                raise Whole
            if self.first <= columns[0] < self.last:
                yield stmt


def is_beside(layout: Layout, matrix: Accumulator) -> bool:
    """Whether a fragment lies as a matrix does, or as a vector that is left of it. How many rows the parent of a vector
    of columns has says nothing."""
    if isinstance(layout, Along) and layout.axis == 0:
        return replace(layout.parent, rows=matrix.rows) == matrix
    return (layout.parent if isinstance(layout, Along) else layout) == matrix


def fragments_of(stmt: ir.Stmt) -> set[int]:
    """The fragments that a statement, without those in it, reads or writes."""
    mine = {number for kind, number in named(stmt) if kind == "fragment"}
    return mine | {node.fragment for node in own_nodes(stmt) if isinstance(node, ir.Reg | Element)}


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass. Where tensor memory has fewer columns than all tiles, slots go back as early as they can."""
    short = 0 < choices.columns < columns_taken(program.buffers)
    groups = tuple(in_parts(group, program, choices.accumulator_registers, short) for group in program.groups)
    return replace(program, groups=groups)
