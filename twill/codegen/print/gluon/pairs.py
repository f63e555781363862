"""Two CTAs that multiply together, as one program of Gluon.

In the warp program each CTA of a pair has a program instance of its own: its rows of A and of the result, half of B.
In Gluon both are one program whose tensors are as large as both CTAs' parts together; a layout says along which axis
they are divided (`cga_layout`), and Triton adds the second CTA's offset to what a copy is given. So tiles are twice as
large here, and where a copy begins is said for the first CTA. Triton also lets the first CTA alone issue products and
wait for what they need, so that the conditions on it are left out.

A slot's full barrier, which is the first CTA's, counts both CTAs: each expects the bytes of its own copies there, where
in the warp program the first one expects all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from twill.codegen.passes.cluster import FIRST, TOGETHER
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms, ProgramId, add, less, subtract
from twill.codegen.warp.layout import THREADS, Accumulator, Along
from twill.codegen.warp.parameters import nodes

CTAS = 2
ROWS_OF_CTA = THREADS  # of a result: lanes of tensor memory, one for each thread of a warp group
BOTH, WORKED = "both", "worked_on"  # scalars: whether instances are one pair; whether it is the turn of one of them
TOLD = (ir.PRESENT, WORKED)  # scalars of a pair that a role may ask for beside its grid indices
GIVEN_BACK = "given back"  # the name of the loop that waits until all slots of rings are
_SECOND = Local(ir.RANK, "i32")
Reason = tuple[int, str]
Copies = TypeVar("Copies", ir.TmaLoad, ir.TmaStore)


@dataclass(frozen=True)
class _Whole:
    """What is known while a program is made one of both CTAs. divided: the axis along which each buffer is divided.
    first: whether the grid index of a pair is that of its first instance wherever it stands; else each CTA's own."""

    program: ir.WarpProgram
    axis: int
    divided: Mapping[int, int]
    first: bool


def divided_axes(program: ir.WarpProgram) -> dict[int, int]:
    """The axis along which two CTAs have parts of each buffer, if it is known: rows of A, columns of B, rows of
    results."""
    found = {buffer.id: 0 for buffer in program.buffers if buffer.tensor}
    for group in program.groups:
        for stmt in group.stmts:
            match stmt:
                case ir.TensorMultiply(a=a, b=b):
                    found.setdefault(a.buffer, int(stmt.a_transposed))
                    found.setdefault(b.buffer, int(not stmt.b_transposed))
                case ir.StoreShared(operand=number, target=ref) | ir.LoadShared(source=ref, result=number):
                    if isinstance(group.fragment(number).layout, Accumulator):
                        found.setdefault(ref.buffer, int(stmt.transposed))
    return found


def reasons_of_pairs(program: ir.WarpProgram) -> Iterator[Reason]:
    """Why the two CTAs of a pair are no program of Gluon: line of the kernel, and what."""
    assert program.cluster is not None
    known = divided_axes(program)
    if any(buffer.tensor and buffer.shape[0] != ROWS_OF_CTA for buffer in program.buffers):
        yield 0, f"results of two CTAs have {ROWS_OF_CTA} rows each"
    if program.once or program.walk:
        yield 0, "pairs of CTAs have instances in the order of the grid only"
    for stmt in (stmt for group in program.groups for stmt in group.stmts):
        if not isinstance(stmt, ir.TmaLoad | ir.TmaStore | ir.StoreShared | ir.LoadShared):
            continue
        ref = stmt.target if isinstance(stmt, ir.TmaLoad | ir.StoreShared) else stmt.source
        if ref.buffer not in known:
            yield stmt.line, f"`{program.buffers[ref.buffer].name}` is no tile that two CTAs have parts of"
        elif len(program.buffers[ref.buffer].shape) != 2:
            yield stmt.line, f"`{program.buffers[ref.buffer].name}` has no two axes"
    for group in program.groups:
        for stmt in group.stmts:
            match stmt:
                case ir.Reduce(axis=0) | ir.Reduce(operand=_, scratch=int()):
                    yield stmt.line, "what is reduced along rows would be reduced over both CTAs"
                case ir.Range(result) if _has_rows(group.fragment(result)):
                    yield stmt.line, "numbers of rows are not those of both CTAs"
                case ir.TmaStore(combine=combine) if combine:
                    yield stmt.line, f"stores that combine by `{combine}` have no printer for Gluon"


def _has_rows(fragment: ir.Fragment) -> bool:
    """Whether the two CTAs have different parts of a tile."""
    match fragment.layout:
        case Along(_, axis):
            return axis == 1
    return True


def of_both(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program of both CTAs, for the printer alone: no machine executes it. Of others than pairs the program itself.
    The program has no `reasons_of_pairs`."""
    if not program.pairs:
        return program
    assert program.cluster is not None
    axis, divided = program.cluster.axis, divided_axes(program)
    own = sum(_indices(group, axis) for group in program.groups)
    affine = _Whole(program, axis, divided, first=True)
    moved = sum(_told(stmt, affine) for group in program.groups for stmt in group.stmts)
    whole = replace(affine, first=own == moved)
    buffers = tuple(_widened(buffer, divided.get(buffer.id)) for buffer in program.buffers)
    groups = tuple(_group(group, whole) for group in program.groups)
    return replace(program, buffers=buffers, groups=groups)


def _indices(group: ir.WarpGroup, axis: int) -> int:
    """How often a group asks for the index of its instance along an axis."""
    asked = (node for node in nodes((group.start, group.body, group.finish)) if isinstance(node, ProgramId))
    return sum(node.axis == axis for node in asked)


def _told(stmt: ir.Stmt, whole: _Whole) -> int:
    """How many of those are in coordinates that go on from one CTA to the other."""
    return sum(
        isinstance(node, ProgramId) and node.axis == whole.axis
        for start, extent in _starts(stmt, whole)
        if _coefficient(start, whole) == extent
        for node in nodes(start)
    )


def _starts(stmt: ir.Stmt, whole: _Whole) -> Iterator[tuple[Expr, int]]:
    """Where a statement begins in a tensor, along axes that are divided, and how much of it a CTA has."""
    match stmt:
        case ir.TmaLoad(target=ref, coordinates=at) | ir.TmaStore(source=ref, coordinates=at):
            axis = whole.divided[ref.buffer]
            yield at[axis], whole.program.buffers[ref.buffer].shape[axis]
        case ir.LoadGlobal() | ir.StoreGlobal():
            for axis in _divided_of_window(stmt, whole):
                yield stmt.window.axes[axis].offset, stmt.window.axes[axis].extent


# ---------------------------------------------------------------- expressions
def _coefficient(expr: Expr, whole: _Whole) -> int | None:
    """By how much an expression grows from one CTA to the other, if all of that is in plain sums; None if not."""
    match expr:
        case ProgramId(axis) if axis == whole.axis:
            return 1
        case Local(name) if name == ir.RANK:
            return 1
        case Apply("add" | "sub" as kind, (left, right)):
            one, other = _coefficient(left, whole), _coefficient(right, whole)
            if one is None or other is None:
                return None
            return one + other if kind == "add" else one - other
        case Apply("mul", (left, right)):
            one, other = _coefficient(left, whole), _coefficient(right, whole)
            if isinstance(left, Number) and other is not None:
                return int(left.value) * other
            if isinstance(right, Number) and one is not None:
                return one * int(right.value)
            return 0 if (one, other) == (0, 0) else None
        case Apply("cast", (operand,)):
            return _coefficient(operand, whole)
    varies = any(
        (isinstance(node, ProgramId) and node.axis == whole.axis) or (isinstance(node, Local) and node.name == ir.RANK)
        for node in nodes(expr)
    )
    return None if varies else 0


def _start(expr: Expr, extent: int, whole: _Whole) -> Expr:
    """Where the first CTA's part begins, of an expression that says where each CTA's does. extent: of a part."""
    if _coefficient(expr, whole) == extent and (whole.first or not _asks(expr, whole.axis)):
        return _at_first(expr)
    return subtract(_signed(expr), Apply("mul", (Number(extent), _SECOND), "i32"))


def _asks(expr: Expr, axis: int) -> bool:
    return any(isinstance(node, ProgramId) and node.axis == axis for node in nodes(expr))


def _at_first(expr: Expr) -> Expr:
    """An expression in the first CTA, whose number is 0."""
    match expr:
        case Local(name, element) if name == ir.RANK:
            return Number(0, element)
        case Apply("add", (left, right)):
            return add(_at_first(left), _at_first(right))
        case Apply("mul", (left, right)):
            sides = _at_first(left), _at_first(right)
            zero = any(isinstance(side, Number) and side.value == 0 for side in sides)
            return Number(0, expr.element) if zero else replace(expr, operands=sides)
        case Apply("cast", (operand,)) if isinstance(inner := _at_first(operand), Number):
            return Number(inner.value, expr.element)
        case Apply():
            return replace(expr, operands=tuple(map(_at_first, expr.operands)))
    return expr


def _signed(expr: Expr) -> Expr:
    """Numbers of CTAs and turns are small: their arithmetic is that of signed numbers."""
    match expr:
        case Local(name, "u32"):
            return Local(name, "i32")
        case Number(value, "u32"):
            return Number(value, "i32")
        case Apply("cast", (Local(name, "u32"),), "i32"):
            return Local(name, "i32")
        case Apply(kind, operands, element, attributes):
            equality = kind == "compare" and dict(attributes)["predicate"] in ("eq", "ne")
            said = tuple((n, 1 if n == "signed" and equality else value) for n, value in attributes)
            return Apply(kind, tuple(map(_signed, operands)), "i32" if element == "u32" else element, said)
    return expr


# ---------------------------------------------------------------- tiles
def _widened(buffer: ir.Buffer, axis: int | None) -> ir.Buffer:
    """A buffer of both CTAs."""
    if axis is None:
        return buffer
    shape = tuple(CTAS * extent if at == axis else extent for at, extent in enumerate(buffer.shape))
    return replace(buffer, shape=shape)


def _fragment(fragment: ir.Fragment) -> ir.Fragment:
    match fragment.layout:
        case Accumulator(rows):
            return replace(fragment, layout=replace(fragment.layout, rows=CTAS * rows))
        case Along(parent):
            return replace(fragment, layout=replace(fragment.layout, parent=replace(parent, rows=CTAS * parent.rows)))
    return fragment


def _ref(ref: ir.SlotRef, whole: _Whole) -> ir.SlotRef:
    """A part of a buffer, along the axis that is not divided."""
    axis = whole.divided.get(ref.buffer)
    if axis is None:
        return ref
    return replace(ref, rows=None) if axis == 0 else replace(ref, columns=None)


def _boxes(stmt: Copies, ref: ir.SlotRef, whole: _Whole) -> Iterator[tuple[ir.SlotRef, tuple[Expr, ...]]]:
    """A copy of one CTA as those of both: where in the tile, and where in the tensor."""
    axis = whole.divided[ref.buffer]
    extent = whole.program.buffers[ref.buffer].shape[axis]
    begin, end = (ref.rows if axis == 0 else ref.columns) or (0, extent)
    origin = _origin(stmt.coordinates[axis], begin)
    start = _start(origin, extent, whole)
    for cta in range(CTAS):
        part = (cta * extent + begin, cta * extent + end)
        moved = part[0]
        at = tuple(
            (add(start, Number(moved, start.element)) if moved else start) if number == axis else coordinate
            for number, coordinate in enumerate(stmt.coordinates)
        )
        yield (replace(ref, rows=part) if axis == 0 else replace(ref, columns=part)), at


def _origin(expr: Expr, begin: int) -> Expr:
    """Where a tile begins, of the place of a box that is so far from it."""
    if not begin:
        return expr
    match expr:
        case Apply("add", (left, Number(value))) if value == begin:
            return left
        case Apply("add", (left, Number(value, element))):
            return add(left, Number(value - begin, element))
    return subtract(expr, Number(begin))


def _divided_of_window(stmt: ir.LoadGlobal | ir.StoreGlobal, whole: _Whole) -> tuple[int, ...]:
    """The axes of a window that have rows of the tile in registers."""
    number = stmt.result if isinstance(stmt, ir.LoadGlobal) else getattr(stmt.operand, "fragment", -1)
    group = next(g for g in whole.program.groups if any(f.id == number for f in g.fragments))
    match group.fragment(number).layout:
        case Along(_, 1):
            return (0,)
        case Accumulator():
            return (int(stmt.transposed),)
    return ()


def _window(window: ir.Window, axes: Sequence[int], whole: _Whole) -> ir.Window:
    made = tuple(
        replace(axis, extent=CTAS * axis.extent, offset=_start(axis.offset, axis.extent, whole)) if at in axes else axis
        for at, axis in enumerate(window.axes)
    )
    return replace(window, axes=made)


# ---------------------------------------------------------------- statements
def _group(group: ir.WarpGroup, whole: _Whole) -> ir.WarpGroup:
    fragments = tuple(map(_fragment, group.fragments))
    body, finish = tuple(_block(_in_turns(group.body), whole)), tuple(_given_back(group.finish, whole))
    following = tuple(made for stmt in group.next for made in _next(stmt, whole))
    start = tuple(_block(group.start, whole))
    return replace(group, fragments=fragments, start=start, body=body, finish=finish, next=following)


def _next(stmt: ir.Stmt, whole: _Whole) -> Iterator[ir.Stmt]:
    """The index of a pair: of its first instance, or of each CTA's own. Behind the scalar that says whether instances
    are one pair stands whether anything is done in this turn."""
    if whole.first and isinstance(stmt, ir.SetProgramId) and stmt.axis == whole.axis:
        yield ir.SetProgramId(stmt.axis, Local("pair", "u32"))
        return
    yield stmt
    if isinstance(stmt, ir.Define) and BOTH in stmt.names:
        yield ir.Define((WORKED,), (Apply("or", (_is_zero(Local("turn", "u32")), _is_zero(Local(BOTH, "i1"))), "i1"),))


def _is_zero(expr: Expr) -> Expr:
    return Apply("compare", (expr, Number(0, expr.element)), "i1", (("predicate", "eq"), ("signed", 1)))


def _in_turns(block: Sequence[ir.Stmt]) -> Sequence[ir.Stmt]:
    """A body that asks whether it is its turn by what was found for the pair: whether its instances are together does
    not depend on which of them is asked."""
    match block:
        case (ir.Let(name), ir.If(Apply("compare", (Apply("select"), Number(0))), body)) if name == TOGETHER:
            return [ir.If(Local(WORKED, "i1"), body)]
    return block


def _block(block: Sequence[ir.Stmt], whole: _Whole) -> Iterator[ir.Stmt]:
    for stmt in block:
        match stmt:
            case ir.If(condition, body) if condition == FIRST:
                yield from _block(body, whole)
            case ir.If(Local(name), body) if name == ir.PRESENT and whole.first:
                own = add(ProgramId(whole.axis), _SECOND)
                yield ir.If(less(own, NumPrograms(whole.axis)), tuple(_block(body, whole)), line=stmt.line)
            case ir.If(condition):
                made = ir.with_blocks(stmt, lambda inner: _block(inner, whole))
                assert isinstance(made, ir.If)
                yield replace(made, condition=_signed(condition))
            case ir.Expect(cursor, size) if _of_pair(cursor, whole):
                yield replace(stmt, bytes=size // CTAS)
            case ir.TmaLoad(target=ref):
                for part, at in _boxes(stmt, ref, whole):
                    yield replace(stmt, target=part, coordinates=at)
            case ir.TmaStore(source=ref):
                for part, at in _boxes(stmt, ref, whole):
                    yield replace(stmt, source=part, coordinates=at)
            case ir.LoadGlobal() | ir.StoreGlobal():
                yield replace(stmt, window=_window(stmt.window, _divided_of_window(stmt, whole), whole))
            case ir.StoreShared(target=ref):
                yield replace(stmt, target=_ref(ref, whole))
            case ir.LoadShared(source=ref):
                yield replace(stmt, source=_ref(ref, whole))
            case _:
                yield ir.with_blocks(stmt, lambda inner: _block(inner, whole))


def _of_pair(cursor: int, whole: _Whole) -> bool:
    program = whole.program
    found = next(c for group in program.groups for c in group.cursors if c.id == cursor)
    return program.arefs[found.aref].pair


def _given_back(finish: tuple[ir.Stmt, ...], whole: _Whole) -> Iterator[ir.Stmt]:
    """What comes last, with the waits for all slots of rings as loops: one for those of as many slots."""
    waits = [stmt for stmt in finish if isinstance(stmt, ir.Acquire)]
    rings: dict[int, list[int]] = {}
    for cursor in dict.fromkeys(stmt.cursor for stmt in waits):
        rings.setdefault(sum(stmt.cursor == cursor for stmt in waits), []).append(cursor)
    yield from _block([stmt for stmt in finish if not isinstance(stmt, ir.Acquire | ir.Advance)], whole)
    for depth, cursors in rings.items():
        body = (*map(ir.Acquire, cursors), *map(ir.Advance, cursors))
        yield ir.Pipeline(GIVEN_BACK, "slot", Number(depth), 0, (), body, ())
