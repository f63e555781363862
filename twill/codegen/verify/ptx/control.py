"""What ends a block: branches, barriers, waits, and instructions that lanes execute together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twill.codegen.verify.ptx import exchange, matrix_accesses, mma, tcgen05_allocation, wgmma_in_flight
from twill.codegen.verify.ptx.accesses import address_of, space_of
from twill.codegen.verify.ptx.barriers import unfinished
from twill.codegen.verify.ptx.code import End, Step
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.synchronize import barriers_of, first_of_each
from twill.codegen.verify.ptx.threads import WARP, Array, Budget, Gang, Strand, Wait
from twill.ptx import program as ptx
from twill.ptx.arrays import every, highest, some
from twill.ptx.registers import Operands, unsupported

LEAST, MOST, GRANULE = 24, 256, 8  # of setmaxnreg
ENDS = {
    "bra", "brx", "ret", "exit", "trap", "bar", "barrier", "wgmma", "setmaxnreg", "shfl", "vote", "redux", "elect",
    "match", "ldmatrix", "stmatrix", "movmatrix", "mma", "call",
}  # fmt: skip
WAYS = ("bra", "brx", "ret", "exit", "trap")
"""What lanes take without waiting for others."""


def ends_block(instruction: ptx.PtxInstruction) -> bool:
    """Whether it must be the last of its block."""
    if instruction.name == "tcgen05":
        return tcgen05_allocation.is_aligned(instruction)
    if instruction.name == "mbarrier":
        return instruction.modifiers[0] in ("try_wait", "test_wait")
    return instruction.name in ENDS


def may_wait(instruction: ptx.PtxInstruction) -> bool:
    """Whether lanes may wait at the end that it makes."""
    return ends_block(instruction) and instruction.name not in WAYS


def build(operands: Operands, instruction: ptx.PtxInstruction, following: int, labels: dict[str, int]) -> End:
    """The end that an instruction makes. following, labels: blocks."""
    name = instruction.name
    if name == "bra":
        return _branch(operands, instruction, following, labels)
    if name in ("ret", "exit"):
        inner: End = _leave
    elif name == "trap":
        inner = _trap
    elif name in ("bar", "barrier"):
        inner = _barrier(operands, instruction, following)
    elif name == "mbarrier":
        inner = _wait(operands, instruction, following)
    elif name == "wgmma":
        inner = _together(_group_step(operands, instruction), following, whole_gang=True)
    elif name == "brx":
        inner = _indexed_branch(operands, instruction, labels)
    elif name == "setmaxnreg":
        inner = _budget(instruction, following)
    else:
        step = tcgen05_allocation.build_aligned(operands, instruction) if name == "tcgen05" else None
        for room in (exchange, matrix_accesses, mma):
            step = step or room.build(operands, instruction)
        if step is None:
            raise unsupported(instruction)
        inner = _together(step, following, whole_gang=False)
    if instruction.guard is None:
        return inner
    return _guarded(operands, instruction, inner, following)


def falls_through(following: int) -> End:
    """The next block."""
    return lambda g, strand: g.go(strand, following)


# ---------------------------------------------------------------- ways


def predicate(operands: Operands, guard: ptx.Register | ptx.Negated) -> Callable[[Gang], Array]:
    """A guard's value."""
    number = operands.registers[guard.of.name if isinstance(guard, ptx.Negated) else guard.name]
    if isinstance(guard, ptx.Negated):
        return lambda g: ~g.registers[number]
    return lambda g: g.registers[number]


def _branch(operands: Operands, instruction: ptx.PtxInstruction, following: int, labels: dict[str, int]) -> End:
    (target,) = instruction.operands
    if not isinstance(target, ptx.PtxSymbol) or target.name not in labels:
        raise unsupported(instruction, "a branch to what is no label")
    there = labels[target.name]
    if instruction.guard is None:
        return falls_through(there)
    holds = predicate(operands, instruction.guard)

    def end(g: Gang, strand: Strand) -> None:
        taken = holds(g)
        if len(taken) == 1:
            g.go(strand, there if taken[0] else following)
            return
        lanes = taken & strand.lanes
        if not some(lanes):
            g.go(strand, following)
        elif every(lanes == strand.lanes):
            g.go(strand, there)
        else:
            strand.block = following
            g.part(strand, lanes, there)
            g.go(strand, following)

    return end


def _indexed_branch(operands: Operands, instruction: ptx.PtxInstruction, labels: dict[str, int]) -> End:
    """`brx.idx`: to the label of that number in a table."""
    number, table = instruction.operands
    names = (
        [part.name for part in table.parts if isinstance(part, ptx.PtxSymbol)] if isinstance(table, ptx.Vector) else []
    )
    if not names or any(name not in labels for name in names):
        raise unsupported(instruction, "a branch by a table that is not known")
    targets, index = [labels[name] for name in names], operands.fetch(instruction, number, "u32")

    def end(g: Gang, strand: Strand) -> None:
        chosen = np.where(strand.lanes, g.full(index(g)), 0)
        if highest(chosen) >= len(targets):
            raise Stopped("form", f"a branch to entry {highest(chosen)} of a table of {len(targets)}")
        first, *others = np.unique(chosen[strand.lanes]).tolist()
        strand.block = targets[first]
        for other in others:
            g.part(strand, strand.lanes & (chosen == other), targets[other])
        g.go(strand, targets[first])

    return end


def _trap(g: Gang, strand: Strand) -> None:
    raise Stopped("trap", "a trap: the launch ends with an error")


def _leave(g: Gang, strand: Strand) -> None:
    g.cta.copies.leave(g, strand.lanes)
    for product in (*g.products.open, *(one for group in g.products.groups for one in group)):
        g.cta.world.findings.add("leftover", "nobody waits for a multiply", product.place, g.who(strand.lanes))
    g.leave(strand)


def _guarded(operands: Operands, instruction: ptx.PtxInstruction, inner: End, following: int) -> End:
    """Lanes for which the guard does not hold go on."""
    assert instruction.guard is not None
    holds = predicate(operands, instruction.guard)

    def end(g: Gang, strand: Strand) -> None:
        lanes = g.full(holds(g)) & strand.lanes
        if not some(lanes):
            g.go(strand, following)
            return
        if not every(lanes == strand.lanes):
            g.part(strand, strand.lanes & ~lanes, following)
            g.mask = strand.lanes
        inner(g, strand)

    return end


def _met(g: Gang, strand: Strand, whole_gang: bool) -> bool:
    """Whether all lanes that an instruction needs are here; those of complete warps go on without the others."""
    if len(g.strands) == 1:
        return True
    lanes = strand.lanes
    if whole_gang:
        strand.meeting = not every(lanes == g.alive)
        return not strand.meeting
    complete = np.zeros(g.size, bool)
    for warp in g.warps_of(lanes):
        own = (g.warps == warp) & g.alive
        if every(lanes[own]):
            complete |= own
    if not some(complete):
        strand.meeting = True
        return False
    rest = lanes & ~complete
    if some(rest):
        strand.lanes = complete
        g.strands.append(Strand(strand.block, rest, meeting=True))
        g.mask = complete
    return True


def _together(step: Step, following: int, whole_gang: bool) -> End:
    def end(g: Gang, strand: Strand) -> None:
        if _met(g, strand, whole_gang):
            step(g)
            g.go(strand, following)

    return end


# ---------------------------------------------------------------- barriers


def _barrier(operands: Operands, instruction: ptx.PtxInstruction, following: int) -> End:
    modifiers = instruction.modifiers
    if "warp" in modifiers:
        return _together(Gang.meet, following, whole_gang=False)
    if "cluster" in modifiers:
        return _cluster(instruction, following)
    if "red" in modifiers:
        raise unsupported(instruction, "reductions at barriers")
    waits = "arrive" not in modifiers
    given = instruction.operands
    number = operands.fetch(instruction, given[0], "u32")
    threads = operands.fetch(instruction, given[1] if len(given) > 1 else ptx.Immediate(0), "u32")

    def end(g: Gang, strand: Strand) -> None:
        if not _met(g, strand, whole_gang=False):
            return
        lanes = strand.lanes
        which = _one(g, number(g), lanes, "number of a barrier")
        count = _one(g, threads(g), lanes, "count of a barrier")
        warps = g.warps_of(lanes)
        barrier = g.cta.barriers.sync(which, count, _whole(g), warps, WARP * len(warps), waits)
        if waits:
            g.meet()
        phase = barrier.phase
        done = barrier.arrived == barrier.expected
        g.cta.world.progress += 1
        if not waits or done:
            g.go(strand, following)
            return
        strand.block = following
        said = f"barrier {which}, where {barrier.arrived} of {barrier.expected} threads are"
        strand.wait = Wait(lambda: not unfinished(barrier, phase), said)

    return end


def _whole(g: Gang) -> int:
    return -(-g.cta.threads // WARP) * WARP


def _one(g: Gang, value: Array, lanes: Array, what: str) -> int:
    if len(value) == 1:
        return int(value[0])
    of = value[lanes]
    if some(of != of[0]):
        raise Stopped("form", f"the {what} differs between threads that run together")
    return int(of[0])


def _cluster(instruction: ptx.PtxInstruction, following: int) -> End:
    """`barrier.cluster`: of all threads of the cluster that have not ended."""
    arrives = "arrive" in instruction.modifiers

    def end(g: Gang, strand: Strand) -> None:
        if not _met(g, strand, whole_gang=False):
            return
        barrier = g.cta.world.cluster
        warps = g.warps_of(strand.lanes)
        if arrives:
            for warp in warps:
                barrier.arrive(warp, g.cta.world.clocks.release(warp))
            g.cta.world.progress += 1
            g.go(strand, following)
            return
        waiting = [warp for warp in warps if not barrier.passed(warp)]
        if waiting:
            strand.wait = Wait(lambda: all(map(barrier.passed, warps)), "the barrier of the cluster")
            return
        for warp in warps:
            g.cta.world.clocks.acquire(warp, barrier.done)
        g.meet()
        g.go(strand, following)

    return end


def _wait(operands: Operands, instruction: ptx.PtxInstruction, following: int) -> End:
    """try_wait and test_wait; the token of an arrival is its phase, whose lowest bit is its parity.

    Both may fail although the phase will be over at once, so the first time they do. One that is repeated before
    anything else happened waits until it can hold, or nothing else can happen.
    """
    target, address, state = instruction.operands[:3]
    put = operands.put(instruction, target.first if isinstance(target, ptx.DestinationPair) else target, "pred")
    at = address_of(operands, instruction, address)
    parity = operands.fetch(instruction, state, "u32" if "parity" in instruction.modifiers else "b64")
    space = space_of(instruction)

    def end(g: Gang, strand: Strand) -> None:
        lanes = g.lanes()
        given, addresses = parity(g), at(g)
        asking, like = first_of_each(g, lanes, given, addresses)
        wanted = []
        for warp, value, (cta, offset) in zip(
            g.warps[asking].tolist(),
            g.of_lanes(given, asking).tolist(),
            barriers_of(g, addresses, asking, space),
            strict=True,
        ):
            wanted.append((warp, value, cta.barriers.at(offset, warp)))
        distinct = list({(id(b), value): (value, b) for _, value, b in wanted}.values())
        done = {(id(b), value): b.passed(value & 1) for value, b in distinct}
        world = g.cta.world
        state = (strand.block, world.progress)
        if all(done.values()) or strand.gave_up or strand.refused != state:
            strand.gave_up = False
            strand.refused = state
            result = np.zeros(g.size, bool)
            result[lanes] = np.array([done[id(barrier), value] for _, value, barrier in wanted])[like]
            for warp, barrier in {(warp, id(b)): (warp, b) for warp, v, b in wanted if done[id(b), v]}.values():
                world.clocks.acquire(warp, barrier.done)
                barrier.seen = barrier.phase
            put(g, result)
            g.go(strand, following)
            return
        waits = [(value & 1, b) for value, b in distinct if not done[id(b), value]]
        said = "; ".join(f"{barrier.state()}, awaited with parity {value}" for value, barrier in waits)
        strand.wait = Wait(lambda: all(b.passed(v) for v, b in waits), said, tuple(b for _, b in waits), polls=True)

    return end


# ---------------------------------------------------------------- warp groups


def _group_step(operands: Operands, instruction: ptx.PtxInstruction) -> Step:
    kind = instruction.modifiers[0]
    if kind == "mma_async":
        return wgmma_in_flight.issue(operands, instruction)
    if kind == "fence":
        return lambda g: g.products.fence()
    if kind == "commit_group":
        return lambda g: g.products.commit()
    (count,) = instruction.operands
    if kind != "wait_group" or not isinstance(count, ptx.Immediate):
        raise unsupported(instruction)
    left = count.value
    return lambda g: g.products.wait(g, left)


def _budget(instruction: ptx.PtxInstruction, following: int) -> End:
    (operand,) = instruction.operands
    if not isinstance(operand, ptx.Immediate):
        raise unsupported(instruction)
    wanted, grows, place = operand.value, "inc" in instruction.modifiers, instruction.place

    def end(g: Gang, strand: Strand) -> None:
        if not _met(g, strand, whole_gang=not g.cta.world.scattered_budgets):
            return
        if g.asking is None or g.asking.granted:
            g.asking = Budget(wanted, grows, np.zeros(g.size, bool))
        asking = g.asking
        if (asking.wanted, asking.grows) != (wanted, grows):
            said = f"setmaxnreg to {wanted} and to {asking.wanted} by warps of one warp group"
            raise Stopped("registers", said)
        asking.lanes |= strand.lanes
        if some(g.alive & ~asking.lanes):
            strand.block = following
            strand.wait = Wait(lambda: asking.granted, "setmaxnreg by the other warps of the warp group")
            return
        cta = g.cta
        had = g.budget
        if not LEAST <= wanted <= MOST or wanted % GRANULE:
            raise Stopped("registers", f"{wanted} registers, no multiple of {GRANULE} from {LEAST} to {MOST}")
        if wanted < had if grows else wanted > had:
            way = "inc" if grows else "dec"
            cta.world.findings.add(
                "registers", f"setmaxnreg.{way} to {wanted} of a thread that has {had}", place, g.who()
            )
        more = (wanted - had) * g.size
        if more > cta.pool:
            strand.wait = Wait(lambda: more <= cta.pool, f"{more} registers, of which the CTA has {cta.pool} left")
            return
        cta.pool -= more
        g.budget = wanted
        asking.granted = True
        cta.world.progress += 1
        g.go(strand, following)

    return end
