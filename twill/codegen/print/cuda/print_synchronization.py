"""Arefs, barriers and the TMA: who waits, who arrives, which thread issues."""

from __future__ import annotations

from contextlib import nullcontext

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.print_made_maps import map_name
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr


def one_thread(text: str, ctx: PrintContext) -> None:
    """A statement of the thread that issues for its group."""
    ctx.out.line(text if ctx.group.issuer else f"if (leader) {text}")


def _at_barrier(does: str, barrier: int, ctx: PrintContext) -> None:
    if ctx.group.issuer:
        raise exc.UnsupportedInKernel(f"role '{ctx.group.role}' is one thread and cannot take part in a named barrier")
    ctx.out.line(ctx.barrier(does, barrier))


# ---------------------------------------------------------------- arefs
def declared(cursor: ir.Cursor, ctx: PrintContext) -> str:
    """The declaration of a cursor of a warp group, which counts where slots are settled."""
    settles = any(isinstance(stmt, ir.Settle) and stmt.cursor == cursor.id for stmt in ctx.group.stmts)
    kind = "CountedCursor" if settles else "Cursor"
    return f"{kind}<{ctx.program.arefs[cursor.aref].depth}> {ctx.cursors[cursor.id]};"


def print_acquire(stmt: ir.Acquire, ctx: PrintContext) -> None:
    """All threads wait if all of them will write the slot, else the one that fills it by TMA."""
    wait = f"mbar_wait({ctx.empty(stmt.cursor)}, {ctx.cursors[stmt.cursor]}.parity ^ 1);"
    if ctx.aref(stmt.cursor).transport == "registers":
        ctx.out.line(wait)
    else:
        one_thread(wait, ctx)
    _fence(stmt.cursor, "after", ctx)


def print_expect(stmt: ir.Expect, ctx: PrintContext) -> None:
    """One arrival, and bytes to come if there are any."""
    if not stmt.bytes:
        one_thread(f"mbar_arrive({ctx.full(stmt.cursor)});", ctx)
        return
    one_thread(f"mbar_arrive_tx({ctx.full(stmt.cursor)}, {stmt.bytes});", ctx)


def print_publish(stmt: ir.Publish, ctx: PrintContext) -> None:
    """One arrival of each warp; or one when the products before it are over."""
    if stmt.behind:
        ctx.out.line(f"{_commit(stmt.cursor, ctx)}({ctx.full(stmt.cursor)});")
    else:
        _fence(stmt.cursor, "before", ctx)
        _arrive(ctx.full(stmt.cursor), ctx)


def print_get(stmt: ir.Get, ctx: PrintContext) -> None:
    """All threads wait."""
    ctx.out.line(f"mbar_wait({ctx.full(stmt.cursor)}, {ctx.cursors[stmt.cursor]}.parity);")
    _fence(stmt.cursor, "after", ctx)


def _fence(cursor: int, which: str, ctx: PrintContext) -> None:
    """Of tensor memory, where a ring is in it: before an arrival, after a wait."""
    if any(ctx.program.buffers[number].tensor for number in ctx.aref(cursor).buffers):
        ctx.out.line(f"tensor_fence_{which}();")


def print_consumed(stmt: ir.Consumed, ctx: PrintContext) -> None:
    """One arrival of each warp, or one when the products before it are over; everywhere: in each CTA of the cluster, of
    warps by as many lanes."""
    if stmt.behind and stmt.everywhere:
        ctx.out.line(f"tensor_commit_multicast({ctx.empty(stmt.cursor)}, {_everybody(ctx)});")
        return
    if stmt.behind:
        ctx.out.line(f"{_commit(stmt.cursor, ctx)}({ctx.empty(stmt.cursor)});")
        return
    _fence(stmt.cursor, "before", ctx)
    if ctx.aref(stmt.cursor).pair:
        ctx.out.line("warp_sync();")
        ctx.out.line(f"if (lane == 0) mbar_arrive_at({ctx.empty(stmt.cursor)}, 0);")
        return
    if not stmt.everywhere:
        _arrive(ctx.empty(stmt.cursor), ctx)
        return
    assert ctx.program.cluster is not None
    ctas, barrier = ctx.program.cluster.ctas, ctx.empty(stmt.cursor)
    if ctx.group.issuer:
        for cta in range(ctas):
            ctx.out.line(f"mbar_arrive_at({barrier}, {cta});")
        return
    ctx.out.line("warp_sync();")
    ctx.out.line(f"if (lane < {ctas}) mbar_arrive_at({barrier}, lane);")


def _commit(cursor: int, ctx: PrintContext) -> str:
    """C: which arrival behind products; of a pair in both CTAs."""
    return "tensor_commit_pair" if ctx.aref(cursor).pair else "tensor_commit"


def _everybody(ctx: PrintContext) -> int:
    """The mask of all CTAs of the cluster."""
    assert ctx.program.cluster is not None
    return (1 << ctx.program.cluster.ctas) - 1


def _arrive(barrier: str, ctx: PrintContext) -> None:
    if ctx.group.issuer:
        ctx.out.line(f"mbar_arrive({barrier});")
        return
    ctx.out.line("warp_sync();")
    ctx.out.line(f"if (lane == 0) mbar_arrive({barrier});")


def print_advance(stmt: ir.Advance, ctx: PrintContext) -> None:
    """The cursor of all threads."""
    ctx.out.line(f"{ctx.cursors[stmt.cursor]}.advance();")


def print_skip(stmt: ir.Skip, ctx: PrintContext) -> None:
    """The cursor of all threads."""
    ctx.out.line(f"{ctx.cursors[stmt.cursor]}.skip({ctx.expression(stmt.count)});")


# ---------------------------------------------------------------- named barriers and fences
def print_proxy_fence(stmt: ir.ProxyFence, ctx: PrintContext) -> None:
    """Of each thread for itself."""
    ctx.out.line("fence_proxy_async_global();" if stmt.memory else "fence_proxy_async();")


def print_sync(stmt: ir.Sync, ctx: PrintContext) -> None:
    """All threads of the group wait."""
    _at_barrier("sync", stmt.barrier, ctx)


def print_arrive(stmt: ir.Arrive, ctx: PrintContext) -> None:
    """All threads of the group arrive."""
    _at_barrier("arrive", stmt.barrier, ctx)


# ---------------------------------------------------------------- the TMA
def print_tma_load(stmt: ir.TmaLoad, ctx: PrintContext) -> None:
    """One box into a slot or a part of it; with a sender, by that CTA into the slots of all; of a pair, counted on the
    barrier of its first CTA."""
    to, coordinates = _part(stmt.target, ctx), _coordinates(stmt.coordinates, stmt.map, ctx)
    through = map_name(stmt.map, ctx.program)
    if (
        stmt.passing != ir.NEVER
    ):  # not by a policy for both: copies with one are not joined with other SMs' on their way
        first = f"tma_load_hint({to}, {through}, {ctx.full(stmt.cursor)}, l2_evict_first(), {coordinates});"
        plain = f"tma_load({to}, {through}, {ctx.full(stmt.cursor)}, {coordinates});"
        with nullcontext() if ctx.group.issuer else ctx.out.block("if (leader)"):
            ctx.out.line(f"if ({ctx.expression(stmt.passing)}) {first}")
            ctx.out.line(f"else {plain}")
        return
    if stmt.sender < 0:
        load = "tma_load_pair" if ctx.aref(stmt.cursor).pair else "tma_load"
        one_thread(f"{load}({to}, {through}, {ctx.full(stmt.cursor)}, {coordinates});", ctx)
        return
    load = f"tma_load_multicast({to}, {through}, {ctx.full(stmt.cursor)}, {_everybody(ctx)}, {coordinates});"
    mine = f"cta == {stmt.sender}"
    ctx.out.line(f"if ({mine if ctx.group.issuer else f'leader && {mine}'}) {load}")


def print_tma_store(stmt: ir.TmaStore, ctx: PrintContext) -> None:
    """One box out of a slot or a part of it; added to what is there with `combine`."""
    if stmt.combine not in ("", "add", "min", "max", "and", "or", "xor"):
        raise exc.UnsupportedInKernel(f"the TMA has no reduction '{stmt.combine}'")
    name = f"tma_reduce_{stmt.combine}" if stmt.combine else "tma_store_hint" if stmt.passing else "tma_store"
    policy = ", l2_evict_first()" if stmt.passing else ""
    through, coordinates = map_name(stmt.map, ctx.program), _coordinates(stmt.coordinates, stmt.map, ctx)
    moved = f"{through}, {_part(stmt.source, ctx)}{policy}, {coordinates}"
    one_thread(f"{name}({moved});", ctx)


def _part(ref: ir.SlotRef, ctx: PrintContext) -> str:
    offset = ctx.part(ref)
    return ctx.slot(ref) + (f" + {offset}" if offset else "")


def _coordinates(coordinates: tuple[Expr, ...], number: int, ctx: PrintContext) -> str:
    """Innermost first, as the hardware counts; there in what the map has for elements."""
    together = ctx.program.maps[number].together
    texts = [ctx.index(coordinate) for coordinate in reversed(coordinates)]
    return ", ".join([f"{texts[0]} >> {together.bit_length() - 1}" if together > 1 else texts[0], *texts[1:]])


def print_await_earlier_grids(_: ir.AwaitEarlierGrids, ctx: PrintContext) -> None:
    """By every thread."""
    ctx.out.line("await_earlier_grids();")


def print_bulk_commit(stmt: ir.BulkCommit, ctx: PrintContext) -> None:
    """The stores of the issuing thread."""
    one_thread("bulk_commit();", ctx)


def print_bulk_wait(stmt: ir.BulkWait, ctx: PrintContext) -> None:
    """The issuing thread waits."""
    one_thread(f"bulk_wait{'_read' if stmt.read else ''}<{stmt.pending}>();", ctx)
