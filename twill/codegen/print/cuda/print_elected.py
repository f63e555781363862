"""What one thread of a warp group does for all of them."""

from __future__ import annotations

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import value_type
from twill.codegen.warp.program import Atomic, Elect, ReceiveElected

PLACE = 8  # bytes of a result in shared memory
BITS = {"i32": "u32", "f32": "u32", "i64": "u64", "f64": "u64"}
SIGNED = ("max", "min")
OF_FLOATS = ("add",)


def print_elect(stmt: Elect, ctx: PrintContext) -> None:
    """Both waits are of all threads of the group: the first one brings what they did in front of the atomic operations,
    the second one what these acquire to all of them."""
    out = ctx.out
    sync = ctx.barrier("sync", stmt.barrier)
    at = f"smem + {ctx.shared.buffers[stmt.scratch]}" if stmt.scratch is not None else ""
    out.line(sync)
    with out.block("if (leader)"):
        inside = ctx.inside()
        ctx.block(stmt.body, inside)
        for number, value in enumerate(stmt.values):
            out.line(f"write_shared({at} + {PLACE * number}, {_held(value.element)}({inside.expression(value)}));")
    out.line(sync)
    for number, (name, value) in enumerate(zip(stmt.names, stmt.values, strict=True)):
        read = f"read_shared<{_held(value.element)}>({at} + {PLACE * number})"
        out.line(f"const {value_type(value.element)} {ctx.define(name)} = {read}{' != 0' * (value.element == 'i1')};")


def print_receive(stmt: ReceiveElected, ctx: PrintContext) -> None:
    """What a thread of another group told, by every thread."""
    at = ctx.slot(stmt.source)
    for number, (name, element) in enumerate(zip(stmt.names, stmt.elements, strict=True)):
        read = f"read_shared<{_held(element)}>({at} + {PLACE * number})"
        ctx.out.line(f"const {value_type(element)} {ctx.define(name)} = {read}{' != 0' * (element == 'i1')};")


def _held(element: str) -> str:
    """The C type that a result has in shared memory."""
    return "i32" if element == "i1" else value_type(element)


def print_atomic(stmt: Atomic, ctx: PrintContext) -> None:
    """One operation, by the thread that is there alone. Errors: UnsupportedInKernel."""
    place = f"({ctx.arguments[stmt.argument]} + {ctx.expression(stmt.index)})"
    values = tuple(ctx.expression(value) for value in stmt.values)
    made = atom(stmt.combine, stmt.order, stmt.element, place, values)
    condition = None if stmt.condition is None else ctx.expression(stmt.condition)
    if stmt.combine == "store":
        ctx.out.line(f"if ({condition}) {made};" if condition else f"{made};")
        return
    kind = value_type(stmt.element)
    made = f"{condition} ? {made} : ({kind})0" if condition else made
    ctx.out.line(f"const {kind} {ctx.define(stmt.name)} = {made};")


def atom(combine: str, order: str, element: str, place: str, values: tuple[str, ...]) -> str:
    """C of an atomic operation on a number at `place`: what was there. Errors: UnsupportedInKernel."""
    if element not in BITS or (element[0] == "f" and combine not in ("add", "xchg", "cas", "load", "store")):
        raise exc.UnsupportedInKernel(f"no atomic '{combine}' on {element} in memory that gives the old value")
    floats = element[0] == "f" and combine in OF_FLOATS
    held = element if combine in SIGNED else value_type(element) if floats else BITS[element]
    words = [f"({held}*){place}", *(_as_bits(value, element, held) for value in values)]
    call = f"atom_{combine}_{order}({', '.join(words)})"
    return call if held == value_type(element) or combine == "store" else _from_bits(call, element)


def _as_bits(text: str, element: str, held: str) -> str:
    """A number as the type that the operation has."""
    if element[0] != "f" or held == value_type(element):
        return f"({held})({text})"
    return f"__float_as_uint({text})" if element == "f32" else f"(u64)__double_as_longlong({text})"


def _from_bits(text: str, element: str) -> str:
    """The other way round."""
    if element[0] != "f":
        return f"({value_type(element)}){text}"
    return f"__uint_as_float({text})" if element == "f32" else f"__longlong_as_double((long long){text})"
