"""Scalars, guards and software-pipelined loops."""

from __future__ import annotations

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import value_type
from twill.codegen.print.cuda.multiples import multiple_of
from twill.codegen.warp.from_memory import comes_from_memory
from twill.codegen.warp.program import CountReuse, If, Let, Pipeline, Stmt


def print_let(stmt: Let, ctx: PrintContext) -> None:
    """A constant of the scope."""
    value = ctx.expression(stmt.value)  # before the name changes its meaning
    name = ctx.define(stmt.name, multiple_of(stmt.value, ctx))
    ctx.out.line(f"const {value_type(stmt.value.element)} {name} = {value};")


def declare_reuse_counts(stmt: CountReuse, ctx: PrintContext) -> None:
    """What lives from one program instance to the next: the values of the last one, and how many had them. With -1 the
    first instance has none before it, whatever its values are."""
    count = ctx.define(stmt.name)
    ctx.out.line(f"i32 {count} = -1;")
    for number in range(len(stmt.values)):
        ctx.out.line(f"i32 {_last(count, number)} = 0;")


def print_count_reuse(stmt: CountReuse, ctx: PrintContext) -> None:
    """The count, then the values for the next instance."""
    count, values = ctx.locals[stmt.name], [ctx.expression(value) for value in stmt.values]
    same = " && ".join(f"{_last(count, number)} == {value}" for number, value in enumerate(values)) or "true"
    ctx.out.line(f"{count} = {same} ? {count} + 1 : 0;")
    for number, value in enumerate(values):
        ctx.out.line(f"{_last(count, number)} = {value};")


def _last(count: str, number: int) -> str:
    return f"{count}_last{number}"


def print_if(stmt: If, ctx: PrintContext) -> None:
    """A guard."""
    condition = _bare(ctx.expression(stmt.condition))
    with ctx.out.block(f"if (__builtin_expect({condition}, 0))" if stmt.rare else f"if ({condition})"):
        ctx.block(stmt.body, ctx.inside())
    if stmt.otherwise:
        with ctx.out.block("else"):
            ctx.block(stmt.otherwise, ctx.inside())


def print_pipeline(stmt: Pipeline, ctx: PrintContext) -> None:
    """Prologue, steady state, epilogue; nothing of them without an iteration."""
    out, inner = ctx.out, ctx.inside()
    trip = inner.names.fresh(f"{stmt.name}_trip")
    interval = f", an iteration every {stmt.interval} cycles" if stmt.interval else ""
    out.line(f"// ---- loop {stmt.name}: {stmt.stages + 1} stages{interval}")
    out.line(f"const {value_type(stmt.trip.element)} {trip} = {_trip(stmt, ctx)};")
    with out.block(f"if ({trip} > 0)"):
        for k, block in enumerate(stmt.prologue):
            _step(f"prologue {k}", stmt, str(k), block, inner)
        out.line(f"// -- {stmt.name}: steady state")
        body = inner.inside()
        step = body.define(stmt.step)
        if stmt.until is None:
            out.line("#pragma unroll 1")
            with out.block(f"for (i32 {step} = {stmt.stages}; {step} < {trip}; ++{step})"):
                ctx.block(stmt.steady, body)
        else:
            with out.block():
                out.line(f"i32 {step} = {stmt.stages};")
                out.line("#pragma unroll 1")
                with out.block(f"for (; {step} < {trip} && !{body.expression(stmt.until)}; ++{step})"):
                    ctx.block(stmt.steady, body.inside())
                out.line(f"// -- {stmt.name}: steady state from there on")
                out.line("#pragma unroll 1")
                with out.block(f"for (; {step} < {trip}; ++{step})"):
                    ctx.block(stmt.later, body.inside())
        first = f"max({trip}, {stmt.stages})" if stmt.stages else trip
        for j, block in enumerate(stmt.epilogue):
            _step(f"epilogue {j}", stmt, first + (f" + {j}" if j else ""), block, inner)


def _trip(stmt: Pipeline, ctx: PrintContext) -> str:
    """The number of iterations. One that comes out of memory is broadcast by lane 0: ptxas then knows that all lanes
    have the same, and keeps cursors and addresses of the loop in uniform registers."""
    trip = ctx.expression(stmt.trip)
    if ctx.group.issuer or not comes_from_memory(stmt.trip, ctx.loaded):
        return trip
    return f"shuffle_from({trip}, 0)"


def _step(title: str, stmt: Pipeline, k: str, block: tuple[Stmt, ...], ctx: PrintContext) -> None:
    """One block of the prologue or the epilogue, at a step that is known."""
    if not block:
        return
    inner = ctx.inside()
    ctx.out.line(f"// -- {stmt.name}: {title}")
    with ctx.out.block():
        ctx.out.line(f"const i32 {inner.define(stmt.step)} = {k};")
        ctx.block(block, inner)


def _bare(text: str) -> str:
    """Without parentheses around the whole of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]
