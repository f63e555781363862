"""What each statement does that is neither control nor a barrier: one small function a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twill.codegen.verify.abstract.actor import Actor, BulkStore, CtaState
from twill.codegen.verify.abstract.global_accesses import load_global, operand, store_global
from twill.codegen.verify.abstract.made_maps import box_of, goes_through, make_map, map_of, show_maps
from twill.codegen.verify.abstract.memory import undefined
from twill.codegen.verify.abstract.order import Event, SlotAccess
from twill.codegen.verify.abstract.scalars import evaluate, integer
from twill.codegen.verify.abstract.shared_tiles import generic, load_shared, store_scales, store_shared
from twill.codegen.verify.abstract.tensor_memory import (
    copy_scales,
    load_accumulator,
    store_accumulator,
    tensor_multiply,
)
from twill.codegen.warp import program as ir
from twill.codegen.warp.layout import LANES_OF_A_ROW, Along
from twill.graph.work import moved_bytes
from twill.tile.digits import histogram, rearranged
from twill.tile.interpret.arithmetic import Array, apply, reduce, rounded, scan
from twill.tile.interpret.arrays import np
from twill.tile.interpret.atomics import atomically
from twill.tile.operand_order import columns_in_order


def execute(actor: Actor, stmt: ir.Stmt) -> None:
    """Run a statement of `HANDLERS`."""
    HANDLERS[type(stmt)](actor, stmt)


# ---------------------------------------------------------------- registers
def _element_of(actor: Actor, meant: ir.Operand) -> str:
    """The element type of an operand."""
    return actor.fragments.of[meant.fragment].element if isinstance(meant, ir.Reg) else meant.element


def _fill(actor: Actor, stmt: ir.Fill) -> None:
    fragment = actor.fragments.of[stmt.result]
    value = rounded(evaluate(stmt.value, actor.scope), fragment.element)
    actor.fragments.write(stmt.result, np.full(actor.fragments.shape(stmt.result), value), actor.line)


def _count(actor: Actor, stmt: ir.Range) -> None:
    (size,) = actor.fragments.shape(stmt.result)
    assert isinstance(stmt.start, int)  # a PerGroup is in sections only
    actor.fragments.write(stmt.result, np.arange(stmt.start, stmt.start + size, dtype=np.int32), actor.line)


def _compute(actor: Actor, stmt: ir.Compute) -> None:
    fragments, element = actor.fragments, actor.fragments.of[stmt.result].element
    shape = fragments.shape(stmt.result)
    operands = [operand(actor, meant, shape) for meant in stmt.operands]
    sources = [_element_of(actor, meant) for meant in stmt.operands]
    value = apply(stmt.kind, operands, element, dict(stmt.attributes), sources)
    if ir.WARP_VOTE in dict(stmt.attributes):
        spread = next(n for n, meant in enumerate(stmt.operands) if isinstance(meant, ir.Reg) and meant.axes)
        value = np.where(operands[spread] == 1, fragments.read(stmt.result, actor.line), value)
    if np.shape(value) != shape:
        value = np.ascontiguousarray(np.broadcast_to(value, shape))
    fragments.write(stmt.result, value, actor.line)


def _reduction(actor: Actor, stmt: ir.Reduce) -> None:
    fragments = actor.fragments
    value = fragments.read(stmt.operand, actor.line)
    if stmt.scratch is not None:
        _exchange(actor, ir.SlotRef(stmt.scratch))
    axis = stmt.axis if value.ndim > 1 else 0
    if is_partial(fragments.of[stmt.operand]):
        result = value * LANES_OF_A_ROW
    else:
        result = reduce(value, axis, stmt.combine, fragments.of[stmt.result].element, dict(stmt.attributes))
    if is_partial(fragments.of[stmt.result]):  # what lanes have on an average: all that is done to parts is linear
        result = (result / LANES_OF_A_ROW).astype(value.dtype)
    fragments.write(stmt.result, np.asarray(result).reshape(fragments.shape(stmt.result)), actor.line)


def _scan(actor: Actor, stmt: ir.Scan) -> None:
    fragments, value = actor.fragments, actor.fragments.read(stmt.operand, actor.line)
    _exchange(actor, ir.SlotRef(stmt.scratch))
    attributes = {"axis": stmt.axis, "combine": stmt.combine, "reverse": stmt.reverse, **dict(stmt.attributes)}
    fragments.write(stmt.result, scan(value, fragments.of[stmt.result].element, attributes), actor.line)


def _rearrange(actor: Actor, stmt: ir.Rearrange) -> None:
    held = [actor.fragments.read(operand, actor.line) for operand in stmt.operands]
    picked = stmt.index is not None and (actor.fragments.read(stmt.index, actor.line), stmt.along, stmt.extent)
    if stmt.scratch is not None:
        _exchange(actor, ir.SlotRef(stmt.scratch))
    shape = actor.fragments.shape(stmt.result)
    value = rearranged(held, (stmt.first, stmt.extents, stmt.steps), shape, picked or None)
    actor.fragments.write(stmt.result, value, actor.line)


def _histogram(actor: Actor, stmt: ir.Histogram) -> None:
    numbers = actor.fragments.read(stmt.operand, actor.line)
    mask = () if stmt.mask is None else (actor.fragments.read(stmt.mask, actor.line),)
    generic(actor, ir.SlotRef(stmt.scratch), True, "the zeros of a histogram", None)
    actor.clock.learn(actor.clock.released())
    actor.clock.tick()
    _exchange(actor, ir.SlotRef(stmt.scratch))
    (bins,) = actor.fragments.shape(stmt.result)
    actor.fragments.write(stmt.result, histogram(numbers, bins, *mask), actor.line)


def is_partial(fragment: ir.Fragment) -> bool:
    """Whether lanes have parts of the numbers."""
    return isinstance(fragment.layout, Along) and fragment.layout.parts


def _exchange(actor: Actor, scratch: ir.SlotRef) -> None:
    """Values cross warps through scratch memory: all write, Sync, all read."""
    generic(actor, scratch, True, "the exchange of a reduction", None)
    actor.clock.learn(actor.clock.released())
    actor.clock.tick()
    generic(actor, scratch, False, "the exchange of a reduction", None)
    actor.clock.tick()


def _sum_parts(actor: Actor, stmt: ir.SumParts) -> None:
    value = actor.fragments.read(stmt.operand, actor.line)
    actor.clock.learn(actor.clock.released())  # all wait for one another before the word is written, too
    actor.clock.tick()
    _exchange(actor, ir.SlotRef(stmt.scratch))
    slot, part, parts = (integer(expr, actor.scope) for expr in (stmt.slot, stmt.part, stmt.parts))
    met = actor.machine.tensors.sums.add(slot, part, parts, value) if parts > 1 else value
    if isinstance(met, str):
        actor.report("parts", f"{actor.role} adds {met}")
    actor.scope.names[ir.LAST_PART] = not isinstance(met, str) and met is not None
    actor.fragments.write(stmt.result, met if actor.scope.names[ir.LAST_PART] else value, actor.line)


def _atomic(actor: Actor, stmt: ir.Atomic) -> None:
    """By one thread; where its mask does not hold the number is 0."""
    scope, tensors = actor.scope, actor.machine.tensors
    said = {"combine": stmt.combine.removeprefix("u"), "signed": not stmt.combine.startswith("u")}
    said |= {"element": stmt.element}
    values = [rounded(evaluate(value, scope), value.element)[()] for value in stmt.values]
    holds = stmt.condition is None or bool(evaluate(stmt.condition, scope))
    index = integer(stmt.index, scope)
    old, changed = atomically(tensors.tensors[stmt.argument], said, [index, *values, holds])
    actor.looked = True
    tensors.changes.count += changed
    if holds:
        tensors.order.atomic(actor.machine.cta.number, stmt.argument, index, stmt.order)
    scope.names[stmt.name] = int(old) if stmt.element in ("i32", "i64") else old


def _copy(actor: Actor, stmt: ir.Copy) -> None:
    if stmt.source not in actor.fragments.values:
        actor.fragments.values.pop(stmt.result, None)  # what is not defined may be copied as long as nobody uses it
        return
    value = actor.fragments.read(stmt.source, actor.line)
    actor.fragments.write(stmt.result, value[:, slice(*stmt.columns)] if stmt.columns else value, actor.line)


# ---------------------------------------------------------------- MMAs
def _fence(actor: Actor, stmt: ir.Fence) -> None:
    actor.fragments.fence(stmt.fragments)


def _multiply(actor: Actor, stmt: ir.Multiply) -> None:
    """Everything is checked when it is issued, and read and written when a WaitGroups covers it."""
    fragments, shared, index, line = actor.fragments, actor.machine.shared, actor.multiplies.index, actor.line
    what = f"the Multiply into `{fragments.name(stmt.accumulator)}`"
    fragments.use(stmt.accumulator, index, line, accumulator=True)

    def source(ref: ir.SlotRef, transposed: bool) -> Callable[[], Array]:
        access = SlotAccess(
            actor.group.id, ("mma", actor.group.id), index, "mma", False, shared.region(ref), line, what
        )
        slot = actor.touch(ref, access, actor.clock.collective())
        return lambda: shared.view(ref, slot).T if transposed else shared.view(ref, slot)

    if isinstance(stmt.a, ir.SlotRef):
        left = source(stmt.a, stmt.a_transposed)
    else:
        number = stmt.a
        fragments.use(number, index, line, accumulator=False)
        fragments.value(number, line)
        order = columns_in_order(stmt.depth) if stmt.quads else slice(None)
        left = lambda: fragments.value(number, line)[:, order]  # noqa: E731
    right = source(stmt.b, stmt.b_transposed)
    if (
        stmt.accumulate
        and stmt.accumulator not in fragments.values
        and not fragments.accumulating_now(stmt.accumulator)
    ):
        fragments.value(stmt.accumulator, line)

    def over() -> None:
        mma = np.matmul(left(), right())
        if stmt.accumulate:
            mma = mma + fragments.value(stmt.accumulator, line)
        fragments.values[stmt.accumulator] = mma

    actor.multiplies.open.append(over)


def _commit(actor: Actor, stmt: ir.Commit) -> None:
    actor.multiplies.commit()


def _wait_groups(actor: Actor, stmt: ir.WaitGroups) -> None:
    complete = actor.multiplies.wait(stmt.pending)
    actor.fragments.complete = complete
    actor.clock.own[("mma", actor.group.id)] = complete
    actor.fragments.ready(stmt.ready, actor.line)


# ---------------------------------------------------------------- the TMA, by the elected thread
def _tma_load(actor: Actor, stmt: ir.TmaLoad) -> None:
    """Into the CTA's own slot; of a load with a sender, into those of all CTAs of the cluster, by that one alone."""
    machine = actor.machine
    if stmt.sender < 0:
        _load(actor, stmt, machine)
    elif stmt.sender == machine.cta.rank:
        for cta in (machine, *machine.others):
            _load(actor, stmt, cta)


def _load(actor: Actor, stmt: ir.TmaLoad, machine: CtaState) -> None:
    """The box into the slot of one CTA, counted on its full barrier."""
    meant = map_of(actor, stmt.map)
    mine, slot, phase, _ = actor.place(stmt.cursor)
    told = machine.first if mine.aref.pair else machine
    ring = told.rings[mine.aref.id]
    barrier = ring.full[slot]
    if barrier.phase < phase:
        actor.settle(barrier, actor.landed(ring, slot))
    what = f"the TMA load of `{machine.program.buffers[stmt.target.buffer].name}`"
    for other in {id(one): one for one in (machine, told) if one is not actor.machine}.values():
        actor.reach(other, what)
    if barrier.phase != phase:
        actor.report("phase", f"{what} by {actor.role} means phase {phase} of {barrier.name}, which is in phase "
                              f"{barrier.phase}")  # fmt: skip
    region = machine.shared.region(stmt.target)
    event: Event = ("tma", ring.number, slot)
    access = SlotAccess(actor.group.id, event, phase + 1, "tma", True, region, actor.line, what)
    target = actor.touch(stmt.target, access, actor.clock.of_elected(), machine)
    goes_through(actor, stmt.map, event, phase + 1)
    if target != slot:
        actor.report("phase", f"{what} by {actor.role} goes to slot {target} and counts on that of slot {slot}")
    copy = machine.tensors.loading(meant, box_of(actor, stmt, what))
    view = machine.shared.view(stmt.target, target)
    view[...] = undefined(view.shape, meant.element)
    line, role = actor.line, actor.role

    def land() -> None:
        value, raced = copy()
        view[...] = value.reshape(view.shape)
        if raced:
            text = f"{what} by {role} may bring what `{meant.argument}` held before a store in front of it"
            machine.findings.add("order", f"{text}: nothing makes it wait", line, role)

    barrier.load(moved_bytes(meant.box, meant.element), land)
    if ring.aref.pair or ring.aref.shared:  # complete when the bytes of both CTAs are there: behind both threads' waits
        waits: Event = ("alone", actor.group.id)
        barrier.arrive(0, {waits: actor.clock.elected.get(waits, 0)})


def _tma_store(actor: Actor, stmt: ir.TmaStore) -> None:
    machine, meant = actor.machine, actor.machine.program.maps[stmt.map]
    what = f"the TMA store of `{machine.program.buffers[stmt.source.buffer].name}`"
    region, index = machine.shared.region(stmt.source), len(actor.bulk_groups) + 1
    access = SlotAccess(actor.group.id, ("read", actor.group.id), index, "tma", False, region, actor.line, what)
    slot = actor.touch(stmt.source, access, actor.clock.of_elected())
    goes_through(actor, stmt.map, ("bulk", actor.group.id), index)
    elements = box_of(actor, stmt, what)
    view = machine.shared.view(stmt.source, slot)
    actor.bulk_open.append(BulkStore(view, meant.argument, elements, stmt.combine, meant.element, actor.line))


def _bulk_commit(actor: Actor, stmt: ir.BulkCommit) -> None:
    actor.bulk_groups.append(actor.bulk_open)
    actor.bulk_open = []


def _bulk_wait(actor: Actor, stmt: ir.BulkWait) -> None:
    upto = max(0, len(actor.bulk_groups) - stmt.pending)
    actor.read_bulk(upto)
    actor.clock.elected[("read", actor.group.id)] = actor.bulk_read
    if not stmt.read:
        actor.finish_bulk(upto)
        actor.clock.elected[("bulk", actor.group.id)] = actor.bulk_done


# ---------------------------------------------------------------- program instances
def _fetch_instance(actor: Actor, stmt: ir.FetchInstance) -> None:
    assignment = actor.machine.assignment
    if assignment.fetches >= len(assignment.places):
        actor.report("walk", f"{actor.role} fetches again after a fetch that found no instance: the counter is not 0 "
                             "at the end of the launch")  # fmt: skip
    assignment.fetches += 1


def _publish_instance(actor: Actor, stmt: ir.PublishInstance) -> None:
    assignment, number, scope = actor.machine.assignment, actor.number, actor.scope
    slot = generic(actor, stmt.target, True, "what publishes an instance", None)
    x, y, z, exists = (integer(expr, scope) for expr in (*stmt.index, stmt.exists))
    if assignment.fetches != number:
        wrong = "an instance once more" if assignment.fetches < number else "not all instances that it fetched"
        actor.report(
            "walk", f"{actor.role} publishes {wrong}: {assignment.fetches} fetches before its instance {number}"
        )
        exists = 0  # an end, whatever was fetched
    actor.fetched = (x, y, z, exists)
    assignment.published.append(actor.fetched)
    actor.machine.shared.view(stmt.target, slot)[...] = actor.fetched
    scope.names.update(zip(ir.RECEIVED, actor.fetched, strict=True))


def _receive_instance(actor: Actor, stmt: ir.ReceiveInstance) -> None:
    slot = generic(actor, stmt.source, False, "the look at the next instance", None)
    x, y, z, exists = (int(word) for word in actor.machine.shared.view(stmt.source, slot))
    actor.fetched = actor.machine.assignment.message(actor.number)
    if (x, y, z, exists) != actor.fetched:
        actor.report("walk", f"{actor.role} learns of instance {(x, y, z, exists)} where instance {actor.number} of "
                             f"its CTA is {actor.fetched} (the last number: whether there is one)")  # fmt: skip
    actor.scope.names.update(zip(ir.RECEIVED, actor.fetched, strict=True))


def _receive_elected(actor: Actor, stmt: ir.ReceiveElected) -> None:
    generic(actor, stmt.source, False, "what a thread of another group tells", None)
    told = actor.machine.told.get(stmt.source.buffer, ())
    actor.scope.names.update(zip(stmt.names, told, strict=True))


def _proxy_fence(actor: Actor, stmt: ir.ProxyFence) -> None:
    if not stmt.memory:
        actor.clock.fence()


HANDLERS: dict[type[ir.Stmt], Callable[[Actor, Any], None]] = {
    ir.Fill: _fill, ir.Range: _count, ir.Compute: _compute, ir.Reduce: _reduction, ir.Scan: _scan,
    ir.SumParts: _sum_parts,
    ir.Atomic: _atomic,
    ir.Copy: _copy, ir.Rearrange: _rearrange, ir.Histogram: _histogram,
    ir.LoadShared: load_shared, ir.StoreShared: store_shared,
    ir.StoreScales: store_scales,
    ir.LoadGlobal: load_global, ir.StoreGlobal: store_global, ir.Fence: _fence, ir.Multiply: _multiply,
    ir.Commit: _commit, ir.TensorMultiply: tensor_multiply, ir.CopyScales: copy_scales,
    ir.LoadAccumulator: load_accumulator,
    ir.StoreAccumulator: store_accumulator, ir.WaitGroups: _wait_groups,
    ir.MakeMap: make_map, ir.ShowMaps: show_maps, ir.TmaLoad: _tma_load, ir.TmaStore: _tma_store,
    ir.BulkCommit: _bulk_commit,
    ir.BulkWait: _bulk_wait,
    ir.ProxyFence: _proxy_fence, ir.FetchInstance: _fetch_instance, ir.PublishInstance: _publish_instance,
    ir.ReceiveInstance: _receive_instance, ir.ReceiveElected: _receive_elected,
}  # fmt: skip
