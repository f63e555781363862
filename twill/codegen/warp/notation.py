"""How each kind of thing inside a line of a warp program's text is written, and read back: one `Kind` for each.

Names and scalar expressions are in `twill.codegen.warp.scalars`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twill.codegen.warp import layout
from twill.codegen.warp.expression import Element, Expr, Number
from twill.codegen.warp.resources import Reg, SlotRef, Window, WindowAxis, WindowIndex
from twill.codegen.warp.scalars import (
    ScalarNames,
    read_attribute,
    read_count,
    read_expr,
    read_int,
    read_list,
    read_number,
    read_word,
    write_count,
    write_expr,
    write_value,
)
from twill.codegen.warp.tokens import Reader, quoted


@dataclass(frozen=True)
class Kind:
    """One kind of thing in a line: how it is written and how it is read back."""

    write: Callable[[Any, ScalarNames], str]
    read: Callable[[Reader, ScalarNames], Any]


# ---------------------------------------------------------------- attributes
def _write_attributes(attributes: Sequence[tuple[str, object]], names: ScalarNames) -> str:
    return "".join(f" {name}={write_value(value)}" for name, value in attributes)


def _read_attributes(r: Reader, names: ScalarNames) -> tuple[tuple[str, Any], ...]:
    found = []
    while r.peek().kind == "word" and r.peek(1).text == "=":
        found.append(read_attribute(r))
    return tuple(found)


# ---------------------------------------------------------------- slots, operands, windows
def _span(span: tuple[int, int] | None) -> str:
    return ":" if span is None else f"{span[0]}:{span[1]}"


def _read_span(r: Reader) -> tuple[int, int] | None:
    if r.accept(":"):
        return None
    low = read_int(r)
    r.expect(":")
    return low, read_int(r)


def _write_slot(ref: SlotRef, names: ScalarNames) -> str:
    """`a[load]`, `c`, `c[out][0:64, 64:128]`."""
    text = names.buffer.write(ref.buffer)
    text += f"[{names.cursor.write(ref.cursor)}]" if ref.cursor is not None else ""
    return text if ref.rows is None and ref.columns is None else f"{text}[{_span(ref.rows)}, {_span(ref.columns)}]"


def _read_slot(r: Reader, names: ScalarNames) -> SlotRef:
    buffer = names.buffer.read(r)
    cursor, rows, columns = None, None, None
    if r.peek().text == "[" and r.peek(1).kind in ("word", "string", "id"):
        r.expect("[")
        cursor = names.cursor.read(r)
        r.expect("]")
    if r.accept("["):
        rows = _read_span(r)
        r.expect(",")
        columns = _read_span(r)
        r.expect("]")
    return SlotRef(buffer, cursor, rows, columns)


def _write_operand(operand: Reg | Expr, names: ScalarNames) -> str:
    """A fragment, with the axes it is spread along, or a scalar (one in a fragment stands in parentheses)."""
    if not isinstance(operand, Reg):
        return f"({write_expr(operand, names)})" if isinstance(operand, Element) else write_expr(operand, names)
    spread = ", ".join("*" if axis < 0 else str(axis) for axis in operand.axes)
    return f"%{names.fragment.write(operand.fragment)}" + (f"[{spread}]" if operand.axes else "")


def _read_operand(r: Reader, names: ScalarNames) -> Reg | Expr:
    if not r.accept("%"):
        return read_expr(r, names)
    fragment = names.fragment.read(r)
    axes = read_list(r, lambda r: -1 if r.accept("*") else read_int(r), "]") if r.accept("[") else ()
    return Reg(fragment, tuple(axes))


def _write_window(window: Window, names: ScalarNames) -> str:
    """`f32 out + 5 [128 from row by stride in 0..M, ...] pad 0.0`."""
    start = f" + {write_expr(window.constant, names)}" if window.constant != Number(0) else ""
    axes = ", ".join(_axis(axis, names) for axis in window.axes)
    picked = ", ".join(f"{_write_operand(i.tile, names)} by {write_expr(i.scale, names)}" for i in window.indices)
    where = ", ".join(_write_operand(tile, names) for tile in window.where)
    more = (f" at {picked}" if picked else "") + (f" if {where}" if where else "")
    return f"{quoted(window.element)} {quoted(window.argument)}{start} [{axes}]{more} pad {write_value(window.pad)}"


def _axis(axis: WindowAxis, names: ScalarNames) -> str:
    bounds = [write_expr(bound, names) if bound is not None else "" for bound in (axis.lower, axis.upper)]
    inside = f" in {bounds[0]}..{bounds[1]}" if any(bounds) else ""
    return f"{axis.extent} from {write_expr(axis.offset, names)} by {write_expr(axis.stride, names)}{inside}"


def _read_window(r: Reader, names: ScalarNames) -> Window:
    element, argument = read_word(r), read_word(r)
    constant = read_expr(r, names) if r.accept("+") else Number(0)
    r.expect("[")
    axes = read_list(r, lambda r: _read_axis(r, names), "]")
    indices = _several(Kind(lambda v, n: "", _read_index)).read(r, names) if r.accept("at") else ()
    where = _several(Kind(_write_operand, _read_reg)).read(r, names) if r.accept("if") else ()
    r.expect("pad")
    return Window(argument, element, tuple(axes), constant, read_number(r), indices, where)


def _read_reg(r: Reader, names: ScalarNames) -> Reg:
    operand = _read_operand(r, names)
    if not isinstance(operand, Reg):
        r.fail("a tile in registers")
    return operand


def _read_index(r: Reader, names: ScalarNames) -> WindowIndex:
    tile = _read_reg(r, names)
    r.expect("by")
    return WindowIndex(tile, read_expr(r, names))


def _read_axis(r: Reader, names: ScalarNames) -> WindowAxis:
    extent = read_int(r)
    r.expect("from")
    offset = read_expr(r, names)
    r.expect("by")
    stride = read_expr(r, names)
    lower = upper = None
    if r.accept("in"):
        lower = None if r.peek().text == ".." else read_expr(r, names)
        r.expect("..")
        upper = r.attempt(lambda r: read_expr(r, names))
    return WindowAxis(extent, stride, offset, lower, upper)


# ---------------------------------------------------------------- layouts
def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "()"


def _read_shape(r: Reader) -> tuple[int, ...]:
    if r.accept("("):
        r.expect(")")
        return ()
    if r.peek().kind == "number":
        return (read_int(r),)
    return tuple(map(int, r.take("shape", "a shape, as 64x128").split("x")))


def _write_layout(made: layout.Layout, names: ScalarNames) -> str:
    match made:
        case layout.Accumulator():
            return f"{layout.text(made)} {_matrix(made)}"
        case layout.Along(parent):
            return f"{layout.text(made)} of {_matrix(parent)}"
        case layout.Blocked():
            return f"blocked {_dealt(made)}"
        case layout.Slice(parent):
            return f"{layout.text(made)} of {_dealt(parent)}"
        case layout.AlongBlocked(parent):
            return f"{layout.text(made)} {_dealt(parent)}"
    return layout.text(made)


def _dealt(made: layout.Blocked) -> str:
    return f"{_by(made.shape)} by {made.run}" + (f" to {made.threads}" if made.threads != layout.THREADS else "")


def _matrix(made: layout.Accumulator) -> str:
    return f"{made.rows}x{made.columns}" + (f" by {made.warp_rows}" if made.warp_rows != layout.WARP_ROWS else "")


def _read_layout(r: Reader, names: ScalarNames) -> layout.Layout:
    if r.accept("uniform"):
        return layout.Uniform()
    if r.accept("blocked"):
        sliced = 1 if r.accept("rows") else 0 if r.accept("columns") else None
        if sliced is not None:
            r.expect("of")
        blocked = _read_blocked(r)
        return blocked if sliced is None else layout.Slice(blocked, sliced)
    if r.accept("accumulator"):
        return _read_accumulator(r)
    parts = r.accept("parts")
    if parts:
        r.expect("of")
    axis = 1 if r.accept("rows") else 0
    if not axis and not r.accept("columns"):
        r.fail("a layout (accumulator, rows, parts of rows, columns, blocked, uniform)")
    r.expect("of")
    if r.accept("blocked"):
        return layout.AlongBlocked(_read_blocked(r), axis)
    return layout.Along(_read_accumulator(r), axis, parts)


def _read_blocked(r: Reader) -> layout.Blocked:
    shape = _read_shape(r)
    r.expect("by")
    run = read_int(r)
    return layout.Blocked(shape, run, read_int(r) if r.accept("to") else layout.THREADS)


def _read_accumulator(r: Reader) -> layout.Accumulator:
    shape = _read_shape(r)
    if len(shape) != 2:
        r.fail("a shape of rows and columns")
    return layout.Accumulator(shape[0], shape[1], read_int(r) if r.accept("by") else layout.WARP_ROWS)


# ---------------------------------------------------------------- the kinds
def _one(table: str) -> Kind:
    return Kind(lambda v, n: getattr(n, table).write(v), lambda r, n: getattr(n, table).read(r))


def _several(one: Kind) -> Kind:
    """A list with commas; it ends where no comma follows, and may be empty where nothing of the kind stands."""

    def read(r: Reader, names: ScalarNames) -> tuple[Any, ...]:
        first = r.attempt(lambda r: (one.read(r, names),))
        found = list(first or ())
        while found and r.accept(","):
            found.append(one.read(r, names))
        return tuple(found)

    return Kind(lambda v, n: ", ".join(one.write(item, n) for item in v), read)


def _read_fragment(r: Reader, names: ScalarNames) -> int:
    r.expect("%")
    return names.fragment.read(r)


def _read_multiplied(r: Reader, names: ScalarNames) -> int | SlotRef:
    return names.fragment.read(r) if r.accept("%") else _read_slot(r, names)


def _read_share(r: Reader, names: ScalarNames) -> tuple[int, int]:
    number = read_int(r)
    r.expect("of")
    return number, read_int(r)


def _yes(r: Reader) -> bool:
    if r.accept("no"):
        return False
    r.expect("yes")
    return True


def _sign(r: Reader, names: ScalarNames) -> bool:
    if r.accept("+="):
        return True
    r.expect("=")
    return False


def _write_size(value: Expr | None, names: ScalarNames) -> str:
    return "?" if value is None else write_expr(value, names)


_NUMBER = Kind(lambda v, n: write_value(v), lambda r, n: read_number(r))
_EXPR = Kind(write_expr, read_expr)
_FRAGMENT = Kind(lambda v, n: f"%{n.fragment.write(v)}", _read_fragment)
_SIZE = Kind(_write_size, lambda r, n: None if r.accept("?") else read_expr(r, n))

_WORD = Kind(lambda v, n: quoted(v), lambda r, n: read_word(r))
_COUNT = Kind(write_count, read_count)


KINDS: dict[str, Kind] = {
    "int": Kind(lambda v, n: str(v), lambda r, n: read_int(r)),
    "ints": _several(Kind(lambda v, n: str(v), lambda r, n: read_int(r))),
    "number": _NUMBER,
    "word": _WORD,
    "flag": Kind(lambda v, n: "", lambda r, n: True),
    "bool": Kind(lambda v, n: "yes" if v else "no", lambda r, n: _yes(r)),
    "gains": Kind(lambda v, n: "+=" if v else "=", _sign),
    "expr": _EXPR,
    "exprs": _several(_EXPR),
    "count": _COUNT,
    "counts": _several(_COUNT),
    "words": _several(_WORD),
    "sizes": _several(_SIZE),
    "shape": Kind(lambda v, n: _by(v), lambda r, n: _read_shape(r)),
    "layout": Kind(_write_layout, _read_layout),
    "span": Kind(lambda v, n: _span(v), lambda r, n: _read_span(r)),
    "share": Kind(lambda v, n: f"{v[0]} of {v[1]}", _read_share),
    "slot": Kind(_write_slot, _read_slot),
    "operand": Kind(_write_operand, _read_operand),
    "operands": _several(Kind(_write_operand, _read_operand)),
    "multiplied": Kind(lambda v, n: _FRAGMENT.write(v, n) if isinstance(v, int) else _write_slot(v, n),
                       _read_multiplied),
    "window": Kind(_write_window, _read_window),
    "attributes": Kind(_write_attributes, _read_attributes),
    "fragment": _FRAGMENT,
    "fragments": _several(_FRAGMENT),
    **{name: _one(name) for name in ("map", "buffer", "aref", "barrier", "group", "cursor")},
    **{f"{name}s": _several(_one(name)) for name in ("buffer", "group", "map")},
}  # fmt: skip
