"""What instructions do in the units that all schedulers share, and at barriers.

Each function is called as an instruction is issued and returns the cycle at which its scoreboard is released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from twill.codegen.targets.hopper.timing.program import Occupied, Timed
from twill.codegen.targets.hopper.timing.state import (
    NEVER,
    WARPS_OF_GROUP,
    MbarrierState,
    ThreadBarrier,
    Waiter,
    Warp,
)

if TYPE_CHECKING:
    from twill.codegen.targets.hopper.timing.sm import Sm

_LANES = 32
_MOST_ARRIVALS = 1 << 20  # an mbarrier is made with twice (this less its count), as ptxas writes it


# ---------------------------------------------------------------- memory


def use_port(sm: Sm, warp: Warp, one: Timed) -> int:
    """Shared memory and shuffles, in order of issue, by one port."""
    done = _take_port(sm, warp, one)
    figures = sm.figures
    return done + (figures.shuffle_latency.whole if one.kind is Occupied.SHUFFLE else figures.shared_latency.whole)


def use_memory(sm: Sm, warp: Warp, one: Timed) -> int:
    """Loads, stores and atomics beyond the SM."""
    done = _take_port(sm, warp, one)
    sm.units.memory = max(sm.units.memory, done - one.count) + one.bytes / one.rate
    return int(sm.units.memory) + sm.figures.global_latency.whole


def _take_port(sm: Sm, warp: Warp, one: Timed) -> int:
    start = max(sm.now + 1, sm.units.port)
    sm.units.port = start + one.count
    warp.scheduler.memory = sm.now + sm.figures.port_interval.whole
    if one.access is not None:
        one.access(warp.local if one.local else warp.cta.memory, warp.state)
    return start + one.count


# ---------------------------------------------------------------- tensor cores


def takes_product(sm: Sm, warp: Warp) -> bool:
    """Whether the tensor cores take its next product: so many are in flight at most, those that other warps of the
    warp group have issued among them. Warp groups that wait for a place get one in turn."""
    units, group = sm.units, warp.group
    if (group, warp.multiplies) in warp.cta.issued:
        return True
    if units.products < sm.figures.tensor_queue.whole and group in (units.in_turn or (group,))[:1]:
        return True
    if group not in units.in_turn:
        units.in_turn.append(group)
    return False


def multiplying(sm: Sm) -> bool:
    """Whether a product reads and writes registers now, whose ports other instructions find taken."""
    return sm.units.multiplies_from <= sm.now < sm.units.tensor


def multiply(sm: Sm, warp: Warp, one: Timed) -> int:
    """A product begins when all four warps have issued it, behind those that began before."""
    cta, group, key, units = warp.cta, warp.group, (warp.group, warp.multiplies), sm.units
    if key not in cta.issued and units.in_turn[:1] == [group]:
        units.in_turn.pop(0)
    warp.multiplies += 1
    warp.groups += one.commits
    units.products += key not in cta.issued
    cta.issued[key] = cta.issued.get(key, 0) + 1
    if cta.issued[key] < WARPS_OF_GROUP:
        return sm.now + 1
    del cta.issued[key]
    if units.tensor <= sm.now:
        units.multiplies_from = sm.now + sm.figures.tensor_start.whole
    units.tensor = max(units.tensor, sm.now + sm.figures.tensor_start.whole) + one.cycles

    def leaves() -> None:
        units.products -= 1
        sm.wake_all()

    def ends() -> None:
        cta.finished[group] = cta.finished.get(group, 0) + 1
        sm.wake_all()

    sm.at(units.tensor, leaves)
    if one.commits:
        sm.at(units.tensor + sm.figures.tensor_end.whole, ends)
    return sm.now + 1


# ---------------------------------------------------------------- bulk copies


def copy(sm: Sm, warp: Warp, one: Timed) -> int:
    """By a tensor map: what waits for it is an mbarrier (loads) or a scoreboard (stores)."""
    figures, units = sm.figures, sm.units
    size = sm.program.bytes_of(warp.state, one)
    if not one.loads:
        rate = figures.bulk_reduce_bytes.whole if one.adds else figures.bulk_store_bytes.whole
        units.storer = max(sm.now, units.storer) + size / rate
        return int(units.storer) + figures.bulk_store_latency.whole
    units.loader = max(sm.now, units.loader) + size / figures.bulk_load_bytes.whole
    barrier = warp.cta.mbarriers[warp.state[one.destination + 1] or 0]
    sm.at(units.loader + figures.bulk_load_latency.whole, lambda: _complete(sm, barrier.receive(size)))
    return sm.now + figures.bulk_read.whole


def end_stores(sm: Sm, warp: Warp, one: Timed) -> int:
    """Ends a group of stores: a scoreboard says when shared memory has been read."""
    done = int(max(sm.now, sm.units.storer)) + sm.figures.bulk_store_latency.whole
    warp.copies.append(done)
    return done


def await_stores(sm: Sm, warp: Warp, one: Timed) -> int:
    """Until all such groups but the last few have been read."""
    warp.copies = sorted(when for when in warp.copies if when > sm.now)
    if len(warp.copies) > one.count:
        warp.ready = max(warp.ready, warp.copies[len(warp.copies) - one.count - 1])
    return sm.now + 1


# ---------------------------------------------------------------- barriers


def synchronize(sm: Sm, warp: Warp, one: Timed) -> int:
    """SYNCS: an mbarrier is made, arrived at, or waited for."""
    where, value, figures = one.address(warp.state), one.value(warp.state) or 0, sm.figures
    assert where is not None, f"the address of a barrier is not known: {one.text}"
    if one.makes:
        warp.cta.mbarriers[where] = MbarrierState(_MOST_ARRIVALS - (value >> 1))
        return sm.now + 1
    barrier = warp.cta.mbarriers[where]
    if one.arrives:
        barrier.expect(value)
        sm.at(sm.now + figures.arrive_latency.whole, lambda: _complete(sm, barrier.arrive()))
        return sm.now + figures.arrive_latency.whole
    warp.state[one.predicate] = 1
    if barrier.passed(value >> 31):
        return sm.now + figures.try_latency.whole
    barrier.waiters.append((warp, one.writes, value >> 31))
    return NEVER


def _complete(sm: Sm, woken: list[Waiter]) -> None:
    for warp, number, _ in woken:
        warp.free[number] = sm.now + sm.figures.wake_latency.whole
        sm.wake(warp)


def meet(sm: Sm, warp: Warp, one: Timed) -> int:
    """BAR: threads arrive, and wait for the others with SYNC."""
    number, threads = one.address(warp.state), one.value(warp.state)
    assert number is not None, f"the number of a barrier is not known: {one.text}"
    count = threads or _LANES * sum(not each.done for each in warp.cta.warps)
    barrier = warp.cta.named.setdefault(number, ThreadBarrier())
    if one.waits_there:
        barrier.waiting.append((warp, warp.ready))
        warp.ready = NEVER
    barrier.arrived += _LANES
    if barrier.arrived >= count:
        met, barrier.arrived, barrier.waiting = barrier.waiting, 0, []

        def ends() -> None:
            for each, earliest in met:
                each.ready = max(sm.now, earliest)
                sm.wake(each)

        sm.at(sm.now + one.latency, ends)
    return sm.now + one.latency


def other(sm: Sm, warp: Warp, one: Timed) -> int:
    """Special registers, constants, fences between proxies, and what takes no time of a unit."""
    if one.fences:
        sm.units.fence = max(sm.now, sm.units.fence) + sm.figures.fence_interval.whole
        warp.ready = max(warp.ready, sm.units.fence + sm.figures.fence_latency.whole)
        return warp.ready
    if one.special is None:
        return sm.now + (sm.figures.constant_latency.whole if one.constant else 1)
    one.special(warp.state, warp.index, warp.cta.number)
    return sm.now + sm.figures.register_latency.whole


def await_products(sm: Sm, warp: Warp, one: Timed) -> int:
    """They have ended, or it would not have been issued."""
    return sm.now + 1


ACTIONS: Mapping[Occupied, Callable[[Sm, Warp, Timed], int]] = {
    Occupied.SHARED: use_port,
    Occupied.SHUFFLE: use_port,
    Occupied.GLOBAL: use_memory,
    Occupied.MULTIPLY: multiply,
    Occupied.WAIT_MULTIPLY: await_products,
    Occupied.BULK: copy,
    Occupied.FLUSH: end_stores,
    Occupied.WAIT_COPIES: await_stores,
    Occupied.SYNCS: synchronize,
    Occupied.BARRIER: meet,
    Occupied.OTHER: other,
}
