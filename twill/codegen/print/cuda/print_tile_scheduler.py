"""The tile scheduler: what a CTA computes of its launch, the loop over program instances, and what is in front of
each."""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import value_type
from twill.codegen.print.cuda.names import RESERVED
from twill.codegen.print.cuda.print_unsigned import print_unsigned
from twill.codegen.print.cuda.shared import answer_at, marks_at
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Expr, Local, Number, is_unsigned
from twill.codegen.warp.parameters import nodes, passed_as

ASKED = "asked"  # requests for the place of another CTA so far
ANSWER = 16  # bytes of an answer


def count(expr: Expr, ctx: PrintContext) -> str:
    """C of an expression of the tile scheduler."""
    return print_unsigned(compared(expr), ctx.expression) if is_unsigned(expr) else ctx.expression(expr)


def compared(expr: Expr) -> Expr:
    """An expression that compares the instance with what it is divided by: in a grid of one axis there is nothing to
    divide, which a CTA finds out in front of its first load."""
    match expr:
        case Apply("rem", (Local(name), extent)) if name == ir.INSTANCE:
            return _if_below(expr.operands[0], extent, expr.operands[0], expr)
        case Apply("rem", (Apply("div", (Local(name) as instance, extent)), _)) if name == ir.INSTANCE:
            return _if_below(instance, extent, Number(0, "u32"), expr)
        case Apply():
            return replace(expr, operands=tuple(map(compared, expr.operands)))
    return expr


def _if_below(left: Expr, right: Expr, there: Expr, otherwise: Expr) -> Expr:
    below = Apply("compare", (left, right), "i1", (("predicate", "lt"), ("signed", 0)))
    return Apply("select", (below, there, otherwise), "u32")


def _line(stmt: ir.SchedulingStmt, text: str, ctx: PrintContext) -> None:
    ctx.out.line(text + (f"  // {stmt.note}" if stmt.note else ""))


def _name(name: str, ctx: PrintContext) -> str:
    """The C name of a scalar of the tile scheduler: its own where no kernel's scalar can be called so."""
    if name not in RESERVED:
        return ctx.define(name)
    ctx.locals[name] = name
    return name


# ---------------------------------------------------------------- arithmetic
def print_define(stmt: ir.Define, ctx: PrintContext) -> None:
    """Constants of the scope, on one line."""
    made = []
    for name, value in zip(stmt.names, stmt.values, strict=True):
        text = count(value, ctx)
        made.append(f"{_name(name, ctx)} = {text}")
    _line(stmt, f"const {value_type(stmt.values[0].element)} {', '.join(made)};", ctx)


def print_given(stmt: ir.Given, ctx: PrintContext) -> None:
    """A scalar that the launch passes."""
    kind = value_type(stmt.value.element)
    ctx.out.line(f"const {kind} {ctx.define(stmt.name)} = ({kind}){passed_as(stmt.name)};")


def print_evenly(stmt: ir.Evenly, ctx: PrintContext) -> None:
    """The same as `twill.codegen.warp.scheduling.evenly`."""
    things, most, name = count(stmt.count, ctx), count(stmt.most, ctx), _name(stmt.name, ctx)
    less = f"({things} - 1)"
    ctx.out.line(f"u32 {name} = {less} / ({less} / {most} + 1) + 1;  // bands as wide as one another")
    ctx.out.line(f"while ({less} % {name} * 2 + 2 < {name}) --{name};  // no narrow last one")


def print_sum_over(stmt: ir.SumOver, ctx: PrintContext) -> None:
    """By every warp, of which a lane has every 32nd index; with marks by the whole CTA."""
    out, name, inside = ctx.out, _name(stmt.name, ctx), ctx.inside()
    if stmt.marks:
        _print_marks(stmt, name, ctx)
        return
    out.line(f"i32 {name}_sum = 0;")
    index, extent = inside.define(stmt.index), ctx.expression(stmt.extent)
    with out.block(f"for (i32 {index} = threadIdx.x % 32; {index} < {extent}; {index} += 32)"):
        _print_value(stmt, f"{name}_sum +=", inside)
    _line(stmt, f"const u32 {name} = __reduce_add_sync(~0u, {name}_sum) * {ctx.expression(stmt.each)};", ctx)


def _print_value(stmt: ir.SumOver | ir.Seek, target: str, ctx: PrintContext) -> None:
    """What the statement says of its index goes to a variable."""
    for name, value in zip(stmt.names, stmt.values, strict=True):
        text = ctx.expression(value)
        ctx.out.line(f"const {value_type(value.element)} {ctx.define(name)} = {text};")
    ctx.out.line(f"{target} {ctx.expression(stmt.value)};")


def _print_marks(stmt: ir.SumOver, name: str, ctx: PrintContext) -> None:
    """Each thread adds up what is between two marks; a warp adds up these sums, of which a lane has neighbours."""
    out, marks, each = ctx.out, f"smem + {marks_at(ctx.program)}", ctx.expression(stmt.each)
    part, extent, run = ctx.define(_part(stmt.index)), ctx.expression(stmt.extent), ir.MARKS // 32
    out.line(f"const i32 {part} = ({extent} + {ir.MARKS - 1}) / {ir.MARKS};  // indices from mark to mark")
    threads = sum(group.threads for group in ctx.program.groups)
    with out.block(f"for (i32 mark = threadIdx.x; mark < {ir.MARKS}; mark += {threads})"):
        inside = ctx.inside()
        index = inside.define(stmt.index)
        out.line("u32 sum = 0;")
        bounds = f"i32 {index} = mark * {part}; {index} < {extent} && {index} < (mark + 1) * {part}; ++{index}"
        with out.block(f"for ({bounds})"):
            _print_value(stmt, "sum +=", inside)
        out.line(f"store_shared({marks} + mark * 4, sum * {each});")
    out.line("__syncthreads();")
    with out.block("if (warps_before == 0)"):
        out.line(f"u32 sums[{run}], sum = 0;  // of a lane, in front of each of its marks")
        out.line("#pragma unroll")
        with out.block(f"for (u32 i = 0; i < {run}; ++i)"):
            out.line("sums[i] = sum;")
            out.line(f"sum += load_shared({marks} + (threadIdx.x * {run} + i) * 4);")
        out.line("u32 before = sum;  // of this lane and all before it")
        out.line("#pragma unroll")
        with out.block("for (u32 lanes = 1; lanes < 32; lanes *= 2)"):
            out.line("const u32 other = shuffle_up(before, lanes);")
            out.line("if (threadIdx.x >= lanes) before += other;")
        out.line("#pragma unroll")
        with out.block(f"for (u32 i = 0; i < {run}; ++i)"):
            out.line(f"store_shared({marks} + (threadIdx.x * {run} + i) * 4, before - sum + sums[i]);")
        out.line(f"if (threadIdx.x == 31) store_shared({marks} + {4 * ir.MARKS}, before);")
    out.line("__syncthreads();")
    _line(stmt, f"const u32 {name} = load_shared({marks} + {4 * ir.MARKS});", ctx)
    out.line("warp_sync();  // a thread that arrives for its warp arrives behind the others' reads")


def _part(index: str) -> str:
    """What the number of indices from mark to mark is called."""
    return f"{index}_part"


def declare_seeks(stmts: tuple[ir.Stmt, ...], ctx: PrintContext) -> None:
    """In front of the loop over instances: in front of the first index."""
    for stmt in ir.walk(stmts):
        if isinstance(stmt, ir.Seek):
            index, before, here = (_name(name, ctx) for name in (stmt.index, stmt.before, stmt.here))
            ctx.out.line(
                f"i32 {index} = -1, {here} = 0;  // which has {here} instances, and those in front of it {before}"
            )
            ctx.out.line(f"u32 {before} = 0;")


def print_seek(stmt: ir.Seek, ctx: PrintContext) -> None:
    """From where it was, or from the last mark that is not behind the place, found by bisection: in as many steps as
    there are indices from mark to mark at most, and as there are indices for all instances of a CTA together."""
    index, before, here = (ctx.locals[name] for name in (stmt.index, stmt.before, stmt.here))
    place, each, last = count(stmt.place, ctx), ctx.expression(stmt.each), ctx.expression(stmt.extent)
    part, out, marks = ctx.locals[_part(stmt.index)], ctx.out, f"smem + {marks_at(ctx.program)}"
    beyond = f"{place} - {before} >= (u32)({here} * {each}) && {index} + 1 < {last}"
    with out.block(f"if ({beyond})"):
        out.line("u32 mark = 0;")
        out.line("#pragma unroll")
        with out.block(f"for (u32 step = {ir.MARKS // 2}; step > 0; step /= 2)"):
            out.line(f"if (load_shared({marks} + (mark + step) * 4) <= {place}) mark += step;")
        out.line(f"mark = min(mark, (u32)(({last} - 1) / {part}));")
        with out.block(f"if ((i32)mark * {part} > {index})"):
            out.line(f"{index} = (i32)mark * {part};")
            out.line(f"{before} = load_shared({marks} + mark * 4);")
            _print_value(stmt, f"{here} =", ctx.inside())
        out.line("#pragma unroll 1")
        with out.block(f"while ({beyond})"):
            out.line(f"{before} += {here} * {each};")
            out.line(f"++{index};")
            _print_value(stmt, f"{here} =", ctx.inside())


def print_keep(stmt: ir.Keep, ctx: PrintContext) -> None:
    """By the thread that computed it."""
    values = ", ".join(count(value, ctx) for value in stmt.values)
    _line(stmt, f"store_shared4(smem + {ctx.shared.order}, {{{values}}});", ctx)


def print_recall(stmt: ir.Recall, ctx: PrintContext) -> None:
    """By all threads."""
    ctx.locals.update({name: name for name in ir.RECALLED})
    _line(stmt, f"const Vec4 walk = load_shared4(smem + {ctx.shared.order});", ctx)


def print_set_program_id(stmt: ir.SetProgramId, ctx: PrintContext) -> None:
    """What the kernel's own code calls it."""
    _line(stmt, f"const i32 program_id_{stmt.axis} = {count(stmt.value, ctx)};", ctx)


def print_stop_unless(stmt: ir.StopUnless, ctx: PrintContext) -> None:
    """The end of the loop over instances."""
    _line(stmt, f"if (!{print_unsigned(stmt.condition, ctx.expression, 9)}) break;", ctx)


# ---------------------------------------------------------------- a walk
def print_scalar_loop(stmt: ir.ScalarLoop, ctx: PrintContext) -> None:
    """Variables, and a loop that changes them all at once."""
    inits = [ctx.expression(init) for init in stmt.inits]
    for name, init, begin in zip(stmt.names, stmt.inits, inits, strict=True):
        ctx.out.line(f"{value_type(init.element)} {ctx.define(name)} = {begin};")
    ctx.out.line("#pragma unroll 1")
    with ctx.out.block(f"while ({ctx.expression(stmt.condition)})"):
        inner = ctx.inside()
        ctx.block(stmt.body, inner)
        made = []
        for name, value in zip(stmt.names, stmt.yields, strict=True):
            then = inner.names.fresh(f"{name}_then")
            ctx.out.line(f"const {value_type(value.element)} {then} = {inner.expression(value)};")
            made.append(f"{ctx.locals[name]} = {then};")
        ctx.out.line(" ".join(made))


def print_visit(stmt: ir.Visit, ctx: PrintContext) -> None:
    """The body of the warp group."""
    assert ctx.visit is not None
    with ctx.out.block(""):
        ctx.visit(ctx.inside())


# ---------------------------------------------------------------- the loop
def loop_head(loop: ir.InstanceLoop | None, counted: bool, ctx: PrintContext) -> str:
    """C of the loop over the instances of a CTA, or the pairs of a cluster. counted: whether it counts them."""
    if loop is None:
        return f"for (;;{f' ++{ir.INSTANCES}' if counted else ''})"
    first, end, step = (count(bound, ctx) for bound in (loop.first, loop.end, loop.step))
    ctx.locals[ir.INSTANCE] = ir.INSTANCE
    begin, more = (f", {ir.INSTANCES} = 0", f", ++{ir.INSTANCES}") if counted else ("", "")
    return f"for (u32 {ir.INSTANCE} = {first}{begin}; {ir.INSTANCE} < {end}; {ir.INSTANCE} += {step}{more})"


def past(loop: ir.InstanceLoop, ctx: PrintContext) -> str:
    """C of how many instances the loop had."""
    first, end, step = loop.first, loop.end, loop.step
    length = Apply("add", (Apply("sub", (end, first), "u32"), step), "u32")
    turns = Apply("div", (Apply("sub", (length, Number(1, "u32")), "u32"), step), "u32")
    any_of_them = Apply("compare", (first, end), "i1", (("predicate", "lt"),))
    return count(Apply("select", (any_of_them, turns, Number(0, "u32")), "u32"), ctx)


# ---------------------------------------------------------------- a dynamic order
def print_fetch_instance(stmt: ir.FetchInstance, ctx: PrintContext) -> None:
    """`place` is read at the next PublishInstance only, so the thread goes on while the atomic operation is under way.

    The counter counts the fetches of a launch. CTA t has place t without one; a CTA fetches until it finds no place, so
    that there are as many fetches as instances: those that find one, instances - CTAs, and one of each CTA
    that does not. `atomic_count` makes the counter 0 after that many: each launch leaves it as it found it.

    With `cancel` the answer to a request is waited for, and read, at the next PublishInstance.
    """
    if stmt.cancel:
        at = answer_at(ctx.program)
        ctx.out.line(f"try_cancel(smem + {at}, smem + {at + ANSWER}); ++{ASKED};")
        return
    ctx.out.line(f"{ir.PLACE} = gridDim.x + atomic_count(claims, instances - 1);")


def print_publish_instance(stmt: ir.PublishInstance, ctx: PrintContext) -> None:
    """The message, in a scope of its own."""
    out = ctx.out
    if ctx.program.cancels:
        at = answer_at(ctx.program)
        with out.block(f"if ({ASKED} != 0)"):
            out.line(f"mbar_wait(smem + {at + ANSWER}, ({ASKED} - 1) & 1);")
            out.line(f"{ir.PLACE} = cancelled(smem + {at});")
    out.line("Vec4 told;  // the place in the grid, and whether there is one")
    with out.block(""):
        inside = ctx.inside()
        ctx.block(stmt.body, inside)
        words = [count(word, inside) for word in (*stmt.index, stmt.exists)]
        out.line(f"told = {{{', '.join(words)}}};")
    ctx.locals.update({name: name for name in ir.RECEIVED})
    out.line(f"store_shared4({ctx.slot(stmt.target)}, told);")


def print_receive_instance(stmt: ir.ReceiveInstance, ctx: PrintContext) -> None:
    """By one lane of each warp, which passes it on: the compiler then knows that all lanes have the same, and the lane
    that gives the slot back is the one that read it."""
    at = ctx.slot(stmt.source)
    ctx.locals.update({name: name for name in ir.RECEIVED})
    if ctx.group.issuer:
        ctx.out.line(f"const Vec4 told = load_shared4({at});")
        return
    ctx.out.line("Vec4 told = {0, 0, 0, 0};")
    ctx.out.line(f"if (lane == 0) told = load_shared4({at});")
    wanted = {node.name for node in nodes(ctx.group.next) if isinstance(node, Local)}
    for word in ir.RECEIVED:
        if word in wanted:
            ctx.out.line(f"{word} = warp_uniform({word});")
