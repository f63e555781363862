"""Statements of a warp program as lines of Gluon: one small printer for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twill import exc
from twill.codegen.print.gluon import blackwell, hopper
from twill.codegen.print.gluon.branches import print_branch
from twill.codegen.print.gluon.columns import print_columns
from twill.codegen.print.gluon.constants import HELPER, INDICES
from twill.codegen.print.gluon.elementwise import PRINTERS as ELEMENTWISE
from twill.codegen.print.gluon.elementwise import Elementwise, print_elementwise
from twill.codegen.print.gluon.error_function import print_tail
from twill.codegen.print.gluon.fetched import print_fetch, print_publish_instance, print_receive_instance
from twill.codegen.print.gluon.fold import FOLDED, FoldedBlock, folds
from twill.codegen.print.gluon.layouts import Layout, OperandA, Products, SlicedLayout
from twill.codegen.print.gluon.lets import print_let
from twill.codegen.print.gluon.loops import print_loop
from twill.codegen.print.gluon.memory import print_load_global, print_store_global, print_tma_load, print_tma_store
from twill.codegen.print.gluon.operands import print_views
from twill.codegen.print.gluon.repeats import RepeatedParts, repeated
from twill.codegen.print.gluon.rings import (
    print_acquire,
    print_advance,
    print_arrive,
    print_consumed,
    print_expect,
    print_get,
    print_publish,
    print_skip,
    print_sync,
)
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.role_names import base_of, free
from twill.codegen.print.gluon.scalars import ATOM, BITS, SUM, TYPES, Text, number
from twill.codegen.print.gluon.scales import print_copy_scales
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import shape_of

NAMELESS = "result"  # a tensor for which the kernel has no name


def print_block(stmts: Sequence[ir.Stmt], role: Role) -> None:
    """The lines of a block."""
    block = FoldedBlock(tuple(stmts))
    at = 0
    before = len(role.out.text)
    while at < len(block.stmts):
        stmt = block.stmts[at]
        role.reading.clear()
        if isinstance(stmt, ir.TmaLoad | ir.TmaStore):
            at += print_boxes(block.stmts[at:], role)
            continue
        if (parts := repeated(block.stmts, at)) is not None:
            print_parts(parts, role)
            at += parts.parts * len(parts.window)
            continue
        if isinstance(stmt, ir.Copy) and stmt.columns is not None:
            print_columns(stmt, role)
        elif isinstance(stmt, ir.WaitGroups):
            last = not any(isinstance(other, ir.WaitGroups | ir.Pipeline) for other in block.stmts[at + 1 :])
            print_wait(stmt, last, role)
        elif (made := value_of(stmt, role)) is not None:
            print_value(stmt, made, folds(block, at, role.stream, role.sharing(role.reading)), role)
        else:
            printer = PRINTERS.get(type(stmt))
            if printer is None:
                raise exc.NotInGluon(f"no Gluon for the statement {type(stmt).__name__}", line=stmt.line)
            printer(stmt, role)
        at += 1
    if len(role.out.text) == before:
        role.out.line("pass")


def print_parts(parts: RepeatedParts, role: Role) -> None:
    """What is done to each part of the columns of tensor memory, as a loop over them."""
    role.first_column = role.free_local("first")
    with role.out.block(f"for {role.first_column} in gl.static_range(0, {parts.parts * parts.width}, {parts.width})"):
        print_block(parts.window, role)
    role.taken.discard(role.first_column)
    role.first_column = ""


def print_boxes(stmts: Sequence[ir.Stmt], role: Role) -> int:
    """The copies of one tile, as one; how many they were."""
    first = stmts[0]
    assert isinstance(first, ir.TmaLoad | ir.TmaStore)
    same = [first]
    for other in stmts[1:]:
        if type(other) is not type(first) or other.map != first.map:
            break
        if _buffer(other) != _buffer(first):
            break
        same.append(other)
    if isinstance(first, ir.TmaLoad):
        print_tma_load([stmt for stmt in same if isinstance(stmt, ir.TmaLoad)], role)
    else:
        print_tma_store([stmt for stmt in same if isinstance(stmt, ir.TmaStore)], role)
    return len(same)


def _buffer(stmt: ir.Stmt) -> int:
    return (
        stmt.target.buffer
        if isinstance(stmt, ir.TmaLoad)
        else stmt.source.buffer
        if isinstance(stmt, ir.TmaStore)
        else -1
    )


# ---------------------------------------------------------------- values
Value = tuple[Text, Layout]


def value_of(stmt: ir.Stmt, role: Role) -> Value | None:
    """What a statement makes that does nothing else: a tensor and its layout; None for other statements."""
    match stmt:
        case ir.Fill(result, value):
            layout, said = role.layouts[result], role.scalar(value)
            return _full(result, said.text, role, zero=value in (Number(0.0, "f32"), Number(0, "i32"))), layout
        case ir.Range(result, start):
            (extent,), layout = shape_of(role.fragment(result).layout), role.layouts[result]
            begin = start if isinstance(start, int) else None
            within = f"gl.arange(0, {extent}, layout={role.layout(layout)})"
            if result in role.masking:
                within = f"{INDICES}({within})"
            if begin == 0:
                return Text(within), layout
            shift = number(begin).text if begin is not None else role.scalar(start).text  # type: ignore[arg-type]
            return Text(f"{shift} + {within}", SUM), layout
        case ir.Compute():
            return computed(stmt, role)
        case ir.Reduce(operand, _, axis, combine):
            text, layout = role.value(operand)
            if isinstance(layout, SlicedLayout) or dict(stmt.attributes).get("propagate_nan"):
                raise exc.NotInGluon(f"this reduction by `{combine}` has no printer for Gluon", line=stmt.line)
            rows = layout.rows if isinstance(layout, Products) else 0
            return Text(f"gl.{_REDUCTIONS[combine]}({text.text}, {axis})"), SlicedLayout(axis, layout.columns, rows)
        case ir.Copy(source):
            return role.value(source)
    return None


_REDUCTIONS = {"add": "sum", "max": "max", "min": "min"}


def _full(number_: int, value: str, role: Role, zero: bool) -> Text:
    fragment = role.fragment(number_)
    shape = ", ".join(map(str, shape_of(fragment.layout)))
    rest = f"gl.{TYPES[fragment.element]}, {role.layout(role.layouts[number_])})"
    return Text(f"gl.zeros([{shape}], {rest}" if zero else f"gl.full([{shape}], {value}, {rest}")


def computed(stmt: ir.Compute, role: Role) -> Value:
    """An elementwise operation. Its layout is that of its matrices; vectors are brought to slices of it."""
    given = [_operand(operand, role) for operand in stmt.operands]
    whole = [layout for _, layout, axes in given if layout is not None and len(axes) != 2]
    want = whole[0] if whole else role.layouts[stmt.result]
    if isinstance(want, OperandA):
        want = Products(want.columns)
    texts = tuple(_spread(text, layout, axes, want, role) for text, layout, axes in given)
    fragments = [o for o in stmt.operands if isinstance(o, ir.Reg)]
    element = role.fragment(fragments[0].fragment).element if fragments else stmt.operands[0].element  # type: ignore[union-attr]
    if stmt.kind == "select" and len(stmt.operands) == 3:
        element = role.fragment(stmt.result).element
    attributes = {name: value for name, value in stmt.attributes if name not in ("often_one", "natural")}
    operation = Elementwise(stmt.kind, texts, element, role.fragment(stmt.result).element, attributes)
    if stmt.kind == "erfc":
        return print_tail(operation), want
    return print_elementwise(operation), want


def _operand(operand: ir.Operand, role: Role) -> tuple[Text, Layout | None, tuple[int, ...]]:
    if isinstance(operand, ir.Reg):
        return *role.value(operand.fragment), operand.axes
    return role.scalar(operand), None, ()


def _spread(text: Text, have: Layout | None, axes: tuple[int, ...], want: Layout, role: Role) -> Text:
    """An operand as the result needs it."""
    if have is None:
        return text
    if len(axes) != 2 or not isinstance(have, SlicedLayout):
        return role.converted(text, have, want)
    assert not isinstance(want, SlicedLayout)
    rows = want.rows if isinstance(want, Products) else 0
    text = role.converted(text, have, SlicedLayout(have.axis, want.columns, rows))
    return Text(f"{text.within(ATOM)}{'[:, None]' if have.axis == 1 else '[None, :]'}")


def print_value(stmt: ir.Stmt, made: Value, folded: bool, role: Role) -> None:
    """A variable, or nothing if the value is printed where it is read."""
    text, layout = made
    result: int = stmt.result  # type: ignore[attr-defined]
    want = role.layouts[result]
    source = ""
    if isinstance(stmt, ir.Compute) and stmt.kind == "cast" and isinstance(stmt.operands[0], ir.Reg):
        read = stmt.operands[0].fragment
        source = role.names.get(read) or role.after.get(read) or _named(base_of(role.fragment(read).name))
    if folded and len(text.text) <= FOLDED and not isinstance(stmt, ir.Range):
        role.pending[result] = (text, layout, frozenset(role.reading))
        return
    if isinstance(want, OperandA) and result in role.known:
        role.out.call(f"{role.name(result, source)} = {HELPER}", [text.text, role.layout(want)], kernel=stmt.line)
        return
    said = role.converted(text, layout, want)
    if isinstance(stmt, ir.Range):
        role.names.setdefault(result, _name_of_indices(result, said.text, role))
    role.out.assign(role.name(result, source), said.text, stmt.line)


def _named(name: str) -> str:
    """A name that the kernel gives, or one for what has none and is called as its operation."""
    return NAMELESS if base_of(name) in ELEMENTWISE else name


def _name_of_indices(result: int, text: str, role: Role) -> str:
    """Of indices along an axis: where the kernel has one variable for those of both, the second is that of columns.
    Indices that are made again in another block have one name."""
    base = base_of(role.fragment(result).name)
    key = (base, text)
    if key not in role.indices:
        layout = role.layouts[result]
        columns = isinstance(layout, SlicedLayout) and layout.axis == 0
        role.indices[key] = free("columns" if columns and base in role.taken else base, role.taken)
    return role.indices[key]


# ---------------------------------------------------------------- products
def print_multiply(stmt: ir.Multiply, role: Role) -> None:
    """One product, begun and not waited for."""
    if stmt.operand not in hopper.OPERANDS:
        raise exc.NotInGluon(f"products of {stmt.operand} have no printer for Gluon", line=stmt.line)
    if stmt.quads:
        raise exc.NotInGluon("an operand whose columns lie as in a result has no layout in Gluon", line=stmt.line)
    layout = role.layouts[stmt.accumulator]
    role.layout(layout)
    name = role.name(stmt.accumulator)
    before = name if stmt.accumulate else _full(stmt.accumulator, "0.0", role, zero=True).text
    left = role.value(stmt.a)[0].text if isinstance(stmt.a, int) else _shared(role.place(stmt.a), stmt.a_transposed)
    right = _shared(role.place(stmt.b), stmt.b_transposed)
    head, more = f"{name} = {hopper.MMA}", [before, "is_async=True"]
    if not role.out.fits(head, [left, right, *more]):
        operands = ((stmt.a, stmt.a_transposed, left), (stmt.b, stmt.b_transposed, right))
        left, right = print_views(operands, (0, 1), lambda said: False, stmt.line, role)
    role.tokens.add(stmt.accumulator)
    role.flying |= {stmt.accumulator, *([stmt.a] if isinstance(stmt.a, int) else [])}
    source = "registers" if isinstance(stmt.a, int) else "shared memory"
    shape = hopper.instruction(layout.columns, BITS[stmt.operand])
    role.out.fact(f"warpgroup_mma: {shape} of {hopper.OPERANDS[stmt.operand]}, A from {source}", stmt.line)
    role.out.call(head, [left, right, *more], kernel=stmt.line)


def _shared(text: str, transposed: bool) -> str:
    return f"{text}.permute((1, 0))" if transposed else text


def print_wait(stmt: ir.WaitGroups, last: bool, role: Role) -> None:
    """A wait, if anything may be unfinished; what it makes ready is named again, so that nothing is read before it."""
    found = role.products.waits.get(id(stmt))
    if found is None:
        return
    touched = role.flying & {number for number in role.names}
    ready = touched & found.ready - found.unfinished or touched & role.tokens
    ready |= role.tokens if last else set()
    if not ready:
        return
    role.flying &= found.unfinished
    names = [role.name(number) for number in sorted(ready)]
    comma = "," if len(names) == 1 else ""
    role.out.fact(f"warpgroup_mma_wait: {found.outstanding} products unfinished", stmt.line)
    deps = f"deps=({', '.join(names)}{comma})"
    role.out.call(
        f"{', '.join(names)} = {hopper.MMA_WAIT}", [f"num_outstanding={found.outstanding}", deps], kernel=stmt.line
    )
    role.tokens -= ready


# ---------------------------------------------------------------- memory
def print_load_shared(stmt: ir.LoadShared, role: Role) -> None:
    """A tile comes into registers, as what reads it needs it."""
    text = _shared(role.place(stmt.source), stmt.transposed)
    name = role.name(stmt.result)
    role.out.line(f"{name} = {text}.load({role.layout(role.layouts[stmt.result])})", stmt.line)


def print_store_shared(stmt: ir.StoreShared, role: Role) -> None:
    """A tile goes to shared memory."""
    text, _ = role.value(stmt.operand)
    role.out.line(f"{_shared(role.place(stmt.target), stmt.transposed)}.store({text.text})", stmt.line)


def print_proxy_fence(stmt: ir.ProxyFence, role: Role) -> None:
    """What threads did in shared memory is seen by TMA and products."""
    role.out.fact(hopper.FENCED, stmt.line)
    role.out.line(hopper.FENCE, stmt.line)


def print_bulk_wait(stmt: ir.BulkWait, role: Role) -> None:
    """Until stores have read shared memory. Each copy of a tile is a group of its own in Gluon: all are waited for."""
    role.out.line("tma.store_wait(0)", stmt.line)


# ---------------------------------------------------------------- control
def print_if(stmt: ir.If, role: Role) -> None:
    """A branch that all threads of the partition take."""
    print_branch(stmt, role, print_block)


def nothing(stmt: ir.Stmt, role: Role) -> None:
    """What Triton's compiler does by itself, or a product of its own says."""


def print_pipeline(stmt: ir.Pipeline, role: Role) -> None:
    """The loop; `twill.codegen.print.gluon.loops`."""
    print_loop(stmt, role, print_block)


Printer = Callable[[Any, Role], None]
PRINTERS: dict[type[ir.Stmt], Printer] = {
    ir.Let: print_let, ir.If: print_if, ir.Pipeline: print_pipeline,
    ir.Acquire: print_acquire, ir.Expect: print_expect, ir.Publish: print_publish, ir.Get: print_get,
    ir.Consumed: print_consumed,
    ir.Advance: print_advance, ir.Skip: print_skip,
    ir.Fence: nothing, ir.Multiply: print_multiply, ir.Commit: nothing,
    ir.TensorMultiply: blackwell.print_tensor_multiply, ir.LoadAccumulator: blackwell.print_load_accumulator,
    ir.StoreAccumulator: blackwell.print_store_accumulator, ir.CopyScales: print_copy_scales,
    ir.LoadShared: print_load_shared, ir.StoreShared: print_store_shared,
    ir.LoadGlobal: print_load_global, ir.StoreGlobal: print_store_global,
    ir.ProxyFence: print_proxy_fence, ir.Sync: print_sync, ir.Arrive: print_arrive,
    ir.BulkCommit: nothing, ir.BulkWait: print_bulk_wait,
    ir.FetchInstance: print_fetch, ir.PublishInstance: print_publish_instance,
    ir.ReceiveInstance: print_receive_instance,
}  # fmt: skip
