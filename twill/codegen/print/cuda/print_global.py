"""Tiles between registers and global memory: addresses and bounds once for each thread, then the registers.

Element (i, j, ...) of a window lies at argument + constant + Σ stride·(offset + i). What depends on the thread is added
to the pointer and taken off the bounds before the loop, so that inside of it indices are constants. Neighbours go in
one access where they are contiguous and their address is known to be aligned.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import gcd, prod

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import (
    BYTES,
    SMALL,
    from_memory,
    is_packed,
    memory_type,
    to_memory,
    value_type,
    vector_from_memory,
    vector_in_memory,
    words_in_memory,
)
from twill.codegen.print.cuda.multiples import argument_multiple, multiple_of
from twill.codegen.print.cuda.places import LaneIndex, indices, inside, owner
from twill.codegen.print.cuda.print_elected import atom
from twill.codegen.print.cuda.print_expression import literal
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import (
    WARP_ROWS,
    Accumulator,
    Along,
    AlongBlocked,
    Blocked,
    Layout,
    Slice,
    Uniform,
    elements_of,
    shape_of,
)
from twill.codegen.warp.program import LoadGlobal, Operand, Reg, StoreGlobal, Window, WindowAxis

_WIDEST = 16  # bytes of one access
UNIT = WindowAxis(1, Number(0, "i64"), Number(0), None, None)


@dataclass(frozen=True)
class _Access:
    """A window seen from a layout. axes: of the window, one for each axis of the layout; fixed: others, of extent 1.

    Printed names: `at` a pointer to this thread's first element, high<k> and low<k> bounds of axis k.
    """

    ctx: PrintContext
    window: Window
    layout: Layout
    mask: int | None
    axes: tuple[WindowAxis, ...]
    fixed: tuple[WindowAxis, ...]

    @property
    def size(self) -> int:
        return BYTES[self.window.element]

    @property
    def type(self) -> str:
        return memory_type(self.window.element)


def _access(ctx: PrintContext, window: Window, layout: Layout, mask: int | None, transposed: bool) -> _Access:
    rank, axes = len(shape_of(layout)), window.axes
    fixed: tuple[WindowAxis, ...] = ()
    if len(axes) > rank:
        fixed = tuple(axis for axis in axes if axis.extent == 1)
        axes = tuple(axis for axis in axes if axis.extent != 1)
        while len(axes) < rank:  # an axis of extent 1 that the tile has too
            axes, fixed = (fixed[-1], *axes), fixed[:-1]
    if transposed:
        axes = axes[::-1]
    shape = shape_of(layout)
    if len(axes) < rank:  # one number that a tile of one element has
        axes = tuple(UNIT for extent in shape if extent == 1)[: rank - len(axes)] + axes
    if tuple(axis.extent for axis in axes) != shape:
        raise exc.UnsupportedInKernel(f"a tile {shape} does not fit the window {tuple(a.extent for a in window.axes)}")
    return _Access(ctx, window, layout, mask, axes, fixed)


def print_load_global(stmt: LoadGlobal, ctx: PrintContext) -> None:
    """Masked elements get the window's pad."""
    fragment = ctx.fragment(stmt.result)
    if fragment.element != stmt.window.element:
        raise exc.UnsupportedInKernel(f"'{fragment.name}' of {fragment.element} is loaded from {stmt.window.element}")
    with ctx.out.block():
        access = _access(ctx.inside(), stmt.window, fragment.layout, stmt.mask, stmt.transposed)
        _load(access, stmt.result)


def print_store_global(stmt: StoreGlobal, ctx: PrintContext) -> None:
    """Each element once, by one of the threads that hold it."""
    layout = _store_layout(stmt, ctx)
    with ctx.out.block():
        inner = ctx.inside()
        operand = inner.hoisted(stmt.operand)
        access = _access(inner, stmt.window, layout, stmt.mask, stmt.transposed)
        condition = owner(layout)
        if stmt.old is not None:
            if condition or ctx.fragment(stmt.old).layout != layout:
                raise exc.UnsupportedInKernel("the old values of a tile that several threads have", line=stmt.line)
            _exchange(access, operand, stmt)
            return
        with ctx.out.block(f"if ({condition})") if condition else nullcontext():
            _store(access, operand, stmt.combine)


def _store_layout(stmt: StoreGlobal, ctx: PrintContext) -> Layout:
    """Which thread stores what."""
    extents = tuple(axis.extent for axis in stmt.window.axes)
    extents = extents[::-1] if stmt.transposed else extents
    if isinstance(stmt.operand, Reg):
        layout = ctx.fragment(stmt.operand.fragment).layout
        if -1 in stmt.operand.axes and not isinstance(layout, Uniform):
            rows, columns = extents
            return Accumulator(rows, columns, layout.parent.warp_rows if isinstance(layout, Along) else WARP_ROWS)
        if not isinstance(layout, Uniform) or prod(extents) == 1:
            return layout
    return Uniform() if prod(extents) == 1 else Blocked(extents, 1, ctx.group.threads)


# ---------------------------------------------------------------- addresses and bounds
def _prepare(access: _Access) -> None:
    """Print the pointer and the bounds."""
    ctx, window, out = access.ctx, access.window, access.ctx.out
    places = indices(access.layout)
    terms = [] if window.constant == Number(0, window.constant.element) else [_wide(ctx.expression(window.constant))]
    for axis, lane in _bounded(access, places):
        offset = "0" if _is(axis.offset, 0) else ctx.expression(axis.offset)
        element = " + ".join(part for part in (offset, lane) if part != "0")
        if element and not _is(axis.stride, 0):
            terms.append(_wide(f"({element})") + ("" if _is(axis.stride, 1) else f" * {ctx.expression(axis.stride)}"))
    name = ctx.arguments[window.argument]
    if memory_type(ctx.pointers[window.argument]) != access.type:
        name = f"({access.type}*){name}"
    out.line(f"{access.type}* const at = {' + '.join([name, *terms])};")
    for k, (axis, lane) in enumerate(_bounded(access, places)):
        for label, limit in (("low", axis.lower), ("high", axis.upper)):
            if limit is not None:
                less = "" if lane == "0" else f" - {lane}"
                offset = "" if _is(axis.offset, 0) else f" - {ctx.expression(axis.offset)}"
                out.line(f"const i32 {label}{k} = bound((i64){ctx.expression(limit)}{offset}{less});")


def _is(expr: object, value: int) -> bool:
    return isinstance(expr, Number) and expr.value == value


def _wide(text: str) -> str:
    return f"(i64){text}"


def _bounded(access: _Access, places: tuple[LaneIndex, ...]) -> list[tuple[WindowAxis, str]]:
    """Axes with the part of their index that depends on the thread; the fixed ones last."""
    return [*zip(access.axes, (place.lane for place in places), strict=True), *((axis, "0") for axis in access.fixed)]


def _offset(access: _Access, e: int) -> str:
    """C: elements from `at` to the element in register i + e."""
    terms, i = [], f"(i + {e})" if e else "i"
    for index in access.window.indices:
        scale = "" if _is(index.scale, 1) else f" * {access.ctx.expression(index.scale)}"
        terms.append(f"(i64){access.ctx.operand(index.tile, access.layout, i)}{scale}")
    for axis, place in zip(access.axes, indices(access.layout, i), strict=True):
        if place.constant != "0" and not _is(axis.stride, 0):
            stride = "" if _is(axis.stride, 1) else f" * {access.ctx.expression(axis.stride)}"
            terms.append(f"(i64)({place.constant}){stride}" if stride else f"({place.constant})")
    return " + ".join(terms) or "0"


def _conditions(access: _Access, e: int) -> list[str]:
    """C: all that must hold for the element in register i + e to be touched, without padding and mask."""
    i = f"(i + {e})" if e else "i"
    constants = [place.constant for place in indices(access.layout, i)] + ["0"] * len(access.fixed)
    out = []
    for k, (axis, constant) in enumerate(zip((*access.axes, *access.fixed), constants, strict=True)):
        if axis.lower is not None:
            out.append(f"{constant} >= low{k}")
        if axis.upper is not None:
            out.append(f"{constant} < high{k}")
    if padding := inside(access.layout, i):
        out.append(padding)
    if access.mask is not None:
        out.append(access.ctx.operand(Reg(access.mask), access.layout, i))
    return out + [access.ctx.operand(tile, access.layout, i) for tile in access.window.where]


# ---------------------------------------------------------------- width
def _width(access: _Access) -> tuple[int, bool]:
    """How many neighbouring registers are one access, and whether bounds can part them."""
    layout = access.layout
    match layout:
        case Accumulator() | Along(_, 0):
            most = 2
        case Blocked(_, run):
            most = run & -run
        case Slice(Blocked(shape, run), 0) | AlongBlocked(Blocked(shape, run), 0) if shape[1] % run == 0:
            most = run & -run
        case _:
            return 1, False
    inner = access.axes[-1]
    if not _is(inner.stride, 1) or access.mask is not None:
        return 1, False
    tiles = (*(index.tile for index in access.window.indices), *access.window.where)
    if any(along(tile, access.layout)[-1] >= 0 for tile in tiles):
        return 1, False
    ctx, size = access.ctx, access.size
    known = gcd(argument_multiple(access.window.argument, ctx) // size, multiple_of(access.window.constant, ctx))
    for axis in (*access.axes, *access.fixed):
        known = gcd(known, multiple_of(axis.stride, ctx) * multiple_of(axis.offset, ctx))
    for axis in access.axes[:-1]:
        known = gcd(known, multiple_of(axis.stride, ctx))
    for index in access.window.indices:
        known = gcd(known, multiple_of(index.scale, ctx))
    width = most
    while width > 1 and (width * size > _WIDEST or known % width or inner.extent % width):
        width //= 2
    limits = [limit for limit in (inner.lower, inner.upper) if limit is not None]
    even = all(gcd(multiple_of(limit, ctx), multiple_of(inner.offset, ctx)) % width == 0 for limit in limits)
    return width, not even


def along(tile: Reg, layout: Layout) -> tuple[int, ...]:
    """For each axis of a tile in registers, that of the operand spread over it; -1 along which it repeats."""
    return tile.axes or tuple(range(len(shape_of(layout))))


def _loop(access: _Access, width: int) -> str:
    return f"i32 i = 0; i < {elements_of(access.layout)}; i += {width}"


# ---------------------------------------------------------------- loads
def _load(access: _Access, result: int) -> None:
    width, parted = _width(access)
    fragment, out = access.ctx.fragment(result), access.ctx.out
    packed = is_packed(fragment.element, fragment.layout)
    _prepare(access)
    pad = literal(access.window.pad, access.window.element)
    step = max(width, 2) if packed else width
    with out.unrolled(_loop(access, step)):
        if width > 1:
            _load_vector(access, result, width, parted)
            return
        values = []
        for e in range(step):
            value = from_memory(access.window.element, f"at[{_offset(access, e)}]")
            conditions = _conditions(access, e)
            values.append(f"{' && '.join(conditions)} ? {value} : {pad}" if conditions else value)
        _assign(access, result, values)


def _load_vector(access: _Access, result: int, width: int, parted: bool) -> None:
    """All elements in one access; one by one only where a bound parts them."""
    out, element = access.ctx.out, access.window.element
    pad = literal(access.window.pad, element)
    kind, values = vector_from_memory(element, width, "held")
    conditions = list(dict.fromkeys(c for e in ((0, width - 1) if parted else (0,)) for c in _conditions(access, e)))
    whole = f"*(const {kind}*)(at + {_offset(access, 0)})"
    if not conditions:
        out.line(f"const {kind} held = {whole};")
    else:
        made, padding = vector_in_memory(element, [pad] * width)
        if made != kind:  # fp8: stored by words, loaded by bytes
            padding = f"{kind}{{{{{', '.join([to_memory(element, pad)] * width)}}}}}"
        out.line(f"{kind} held = {padding};")
        out.line(f"if ({' && '.join(conditions)}) held = {whole};")
    if parted:
        elements = f"(({access.type}*)&held)"
        with out.block("else"):
            for e in range(width):
                single = " && ".join(_conditions(access, e))
                out.line(f"if ({single}) {elements}[{e}] = at[{_offset(access, e)}];")
    if is_packed(element, access.layout):
        name = access.ctx.fragments[result]
        for word in range(width // 2):
            out.line(f"{name}[i / 2{f' + {word}' if word else ''}] = held{f'.at[{word}]' if width > 2 else ''};")
        return
    _assign(access, result, values)


def _assign(access: _Access, result: int, values: list[str]) -> None:
    """Registers i, i + 1, ... of the fragment."""
    fragment, name, out = access.ctx.fragment(result), access.ctx.fragments[result], access.ctx.out
    if not is_packed(fragment.element, fragment.layout):
        for e, value in enumerate(values):
            out.line(f"{name}[i{f' + {e}' if e else ''}] = {value};")
        return
    out.line(f"{name}[i / 2] = pack_{SMALL[fragment.element]}({', '.join(values)});")


# ---------------------------------------------------------------- stores
def _store(access: _Access, operand: Operand, combine: str) -> None:
    ctx, out, element = access.ctx, access.ctx.out, access.window.element
    width, parted = _width(access)
    if ctx.element_of(operand) != element:
        raise exc.UnsupportedInKernel(f"a tile of {ctx.element_of(operand)} is stored to {element}")
    if combine:
        width = min(width, 2) if combine == "add" and element in ("bf16", "f16") else 1
    _prepare(access)
    with out.unrolled(_loop(access, width)):
        if width > 1:
            _store_vector(access, operand, combine, width, parted)
        else:
            _store_single(access, operand, combine, 0)


def _exchange(access: _Access, operand: Operand, stmt: StoreGlobal) -> None:
    """Atomic operations, and what they give; 0 where there are none."""
    assert stmt.old is not None
    ctx, element = access.ctx, access.window.element
    if ctx.element_of(operand) != element:
        raise exc.UnsupportedInKernel(f"a tile of {ctx.element_of(operand)} is stored to {element}")
    _prepare(access)
    with ctx.out.unrolled(_loop(access, 1)):
        value = ctx.operand(operand, access.layout, "i")
        call = atom(stmt.combine, stmt.order, element, f"(at + {_offset(access, 0)})", (value,))
        conditions = _conditions(access, 0)
        none = f"({value_type(element)})0"
        made = f"{' && '.join(conditions)} ? {call} : {none}" if conditions else call
        ctx.out.line(f"{ctx.fragments[stmt.old]}[i] = {made};")


def _store_single(access: _Access, operand: Operand, combine: str, e: int) -> None:
    element = access.window.element
    value = access.ctx.operand(operand, access.layout, f"(i + {e})" if e else "i")
    place = _offset(access, e)
    action = _atomic(combine, element, place, value) if combine else f"at[{place}] = {to_memory(element, value)};"
    conditions = _conditions(access, e)
    access.ctx.out.line((f"if ({' && '.join(conditions)}) " if conditions else "") + action)


def _store_vector(access: _Access, operand: Operand, combine: str, width: int, parted: bool) -> None:
    ctx, out, element = access.ctx, access.ctx.out, access.window.element
    values = [ctx.operand(operand, access.layout, f"(i + {e})" if e else "i") for e in range(width)]
    place = f"at + {_offset(access, 0)}"
    if combine:
        action = f"reduce_add_{element}x2({place}, pack_{SMALL[element]}({', '.join(values)}));"
    else:
        words = _words(access, operand, width)
        kind, value = words_in_memory(words) if words else vector_in_memory(element, values)
        action = f"*({kind}*)({place}) = {value};"
    conditions = list(dict.fromkeys(c for e in ((0, width - 1) if parted else (0,)) for c in _conditions(access, e)))
    out.line((f"if ({' && '.join(conditions)}) " if conditions else "") + action)
    if parted:
        with out.block("else"):
            for e in range(width):
                _store_single(access, operand, combine, e)


def _words(access: _Access, operand: Operand, width: int) -> list[str]:
    """C: `width` 16-bit numbers from register i on as they are, if the operand is packed alike."""
    if isinstance(operand, Reg):
        fragment = access.ctx.fragment(operand.fragment)
        if is_packed(fragment.element, fragment.layout) and fragment.layout == access.layout:
            name = access.ctx.fragments[operand.fragment]
            return [f"{name}[i / 2{f' + {word}' if word else ''}]" for word in range(width // 2)]
    return []


def _atomic(combine: str, element: str, place: str, value: str) -> str:
    """C of one atomic reduction without a result."""
    if combine == "add" and element in ("f32", "f64", "i32", "i64"):
        kind = "u64" if element == "i64" else value_type(element)
        return f"reduce_add(({kind}*)(at + {place}), ({kind}){value});"
    if combine == "add" and element in ("bf16", "f16"):
        return f"reduce_add_{element}(at + {place}, {to_memory(element, value)});"
    if combine in ("umax", "umin") and element in ("i32", "i64"):
        kind = element.replace("i", "u")
        return f"reduce_{combine}(({kind}*)(at + {place}), ({kind}){value});"
    if combine in ("max", "min", "and", "or", "xor") and element in ("i32", "i64"):
        return f"reduce_{combine}(at + {place}, {value});"
    raise exc.UnsupportedInKernel(f"no atomic '{combine}' on {element} in memory")
