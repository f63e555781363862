"""A software-pipelined loop: prologue and epilogue stand beside it, guarded so that every trip count is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twill import exc
from twill.codegen.print.gluon import hopper
from twill.codegen.print.gluon.fold import without_dead_copies
from twill.codegen.print.gluon.pairs import GIVEN_BACK
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.scalars import ATOM, Text
from twill.codegen.print.gluon.states import joined_states
from twill.codegen.warp.expression import Apply, Expr, Local, Number
from twill.codegen.warp.program import If, Multiply, Pipeline, Stmt, WaitGroups, walk

PrintBlock = Callable[[Sequence[Stmt], Role], None]


def print_loop(loop: Pipeline, role: Role, print_block: PrintBlock) -> None:
    """The loop. A loop without stages and changes is `for step in range(steps)` and nothing else."""
    steps = _steps(loop, role)
    out = role.out
    if loop.name == GIVEN_BACK:
        out.line("# until products have given back every slot, in both CTAs")
        with out.block(f"for _ in range({steps})"):
            print_block(loop.steady, role)
        return
    if loop.trip == Number(1) and not loop.stages and loop.until is None:
        role.locals[loop.step] = Text("0")
        print_block(loop.steady, role)
        return
    if not loop.stages:
        _begin_in_flight(loop, role)
    begins = f"an iteration begins every I = {loop.interval} cycles"
    if not loop.stages:
        out.line(f"# {begins}")
    if not loop.stages and loop.until is None:
        _steady(loop, f"range({steps})", loop.steady, role, print_block)
        return
    with out.block(f"if {steps} > 0"):
        for step, block in enumerate(loop.prologue):
            if not step:
                out.line("# prologue")
            role.locals[loop.step] = Text(str(step))
            print_block(block, role)
        begin = str(loop.stages)
        if loop.stages:
            out.line(f"# steady state: {begins}")
        if loop.until is not None:
            change = _first(loop.until, loop.step, role)
            name = role.free_local("change")
            bounded = f"gl.maximum({change}, {begin})" if loop.stages else change
            out.line(f"{name} = gl.minimum({bounded}, {steps})")
            _states(loop, begin, name, steps, role, print_block)
        else:
            _steady(loop, f"range({begin}, {steps})", loop.steady, role, print_block)
        behind = steps if loop.stages == 1 else f"gl.maximum({steps}, {loop.stages})"
        for more, block in enumerate(loop.epilogue):
            if not more:
                out.line("# epilogue")
            role.locals[loop.step] = Text(behind) if not more else Text(f"{behind} + {more}", 3)
            print_block(without_dead_copies(block, role.stream), role)
    if role.tokens:
        raise exc.NotInGluon("a product is in flight behind the last iteration of a loop", line=loop.line)


def _states(loop: Pipeline, begin: str, change: str, steps: str, role: Role, print_block: PrintBlock) -> None:
    """Two steady states, of which the second begins at the step `change`."""
    joined = joined_states(
        loop, lambda one, other: role.products.waits.get(id(one)) == role.products.waits.get(id(other))
    )
    if joined is None:
        _steady(loop, f"range({begin}, {change})", loop.steady, role, print_block)
        _steady(loop, f"range({change}, {steps})", loop.later, role, print_block)
        return
    name = role.free_local(joined.second)
    role.locals[joined.second] = Text(name)
    role.out.line(f"# once for the steps before `{change}`, and once for those from it on")
    with role.out.block(f"for {name} in gl.static_range(2)"):
        over = f"range({change} if {name} else {begin}, {steps} if {name} else {change})"
        _steady(loop, over, joined.block, role, print_block)


def _steps(loop: Pipeline, role: Role) -> str:
    """The trip count as a number, a name, or a name and a number."""
    text = role.scalar(loop.trip)
    if isinstance(loop.trip, Number):
        return text.text
    if text.level == ATOM and text.text.isidentifier():
        return text.text
    match loop.trip:
        case Apply("add", (Local(), Number())):
            return text.text
    name = role.free_local("steps")
    role.out.line(f"{name} = {text.text}", loop.line)
    return name


def _steady(loop: Pipeline, over: str, block: tuple[Stmt, ...], role: Role, print_block: PrintBlock) -> None:
    """One steady state."""
    carried = _begin_in_flight(loop, role)
    if role.tokens != carried:
        raise _not_waited_for(role.tokens - carried, loop, role)
    if loop.step not in role.locals or not role.locals[loop.step].text.startswith("step"):
        role.locals[loop.step] = Text(role.free_local("step"))
    with role.out.block(f"for {role.locals[loop.step].text} in {over}", loop.line):
        print_block(block, role)
    if role.tokens != carried:
        raise _not_waited_for(role.tokens - carried, loop, role)


def _begin_in_flight(loop: Pipeline, role: Role) -> set[int]:
    """Makes the accumulators that no wait names behind their last product so from the first iteration on, since a
    variable of a loop keeps its type; which they are."""
    carried = {number for block in loop.steadies for number in left_in_flight(block)}
    for number in sorted(carried - role.tokens):
        note = "  # in flight from one iteration to the next"
        role.out.line(f"{role.name(number)} = {hopper.MMA_INIT}({role.name(number)}){note}", loop.line)
    role.tokens |= carried
    role.flying |= role.products.carried[id(loop)]
    return carried


def left_in_flight(block: Sequence[Stmt], before: frozenset[int] = frozenset()) -> frozenset[int]:
    """Accumulators of products that no wait names behind them when a block is over, on some path. before: of products
    that are in flight when it begins."""
    found = before
    for stmt in block:
        match stmt:
            case WaitGroups():
                found = frozenset()
            case If(_, body, otherwise):
                found = left_in_flight(body, found) | left_in_flight(otherwise, found)
            case _:
                found |= {inner.accumulator for inner in walk((stmt,)) if isinstance(inner, Multiply)}
    return found


def _not_waited_for(tokens: set[int], loop: Pipeline, role: Role) -> exc.NotInGluon:
    names = ", ".join(role.name(number) for number in sorted(tokens))
    what = f"products of `{names}` are waited for in some iterations, and unfinished at the end of others"
    return exc.NotInGluon(what, line=loop.line)


def _first(until: Expr, step: str, role: Role) -> str:
    """The first step at which a condition holds that is linear in the step."""
    match until:
        case Apply("compare", (left, bound), _, attributes) if ("predicate", "ge") in attributes:
            match left:
                case Local(name) if name == step:
                    return role.scalar(bound).text
                case Apply("mul", (Local(name), Number(int() as factor))) if name == step and factor > 0:
                    return f"gl.cdiv({role.scalar(bound).text}, {factor})"
    raise exc.NotInGluon("a steady state changes under a condition that is not linear in the iteration")
