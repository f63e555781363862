"""Whether CTAs of a cluster live as long as others of it use their memory.

Shared and tensor memory and mbarriers of a CTA are gone with its last thread (PTX ISA, "Cluster of Cooperative Thread
Arrays"). Its end must come behind every access and every arrival of another CTA: one of its warps has to know of it.
Of an asynchronous arrival (of a commit, or of the bytes of a copy) nothing tells but the phase of its mbarrier: that
one which began later has arrived says nothing of it.
"""

from __future__ import annotations

import numpy as np

from twill.codegen.verify.ptx.findings import PtxFindings
from twill.codegen.verify.ptx.order import Snapshot
from twill.codegen.verify.ptx.threads import Array, Cta, World
from twill.ptx.arrays import some

RULE, UNAWAITED = "exit", "exit-wait"


def check_exits(world: World, findings: PtxFindings) -> None:
    """Adds what other CTAs may do behind the end of each."""
    if len(world.ctas) < 2:
        return
    for cta in world.ctas:
        last = cta.gangs[0].code.function.instructions[-1].place
        for rule, said in ((RULE, _late(cta)), (UNAWAITED, _unawaited(cta))):
            if said:
                findings.add(rule, f"CTA {cta.index[0]} may have ended when {said}", last)


def _unawaited(cta: Cta) -> str:
    """What asynchronous of another CTA may still arrive at an mbarrier of this one; "" if nothing does."""
    for barrier in (*cta.barriers.objects.values(), *cta.barriers.invalidated):
        pending = any(one.foreign and one.barrier is barrier for one in cta.world.commits)
        if pending or barrier.foreign > barrier.seen:
            return f"a commit or a copy of another CTA arrives at its {barrier}, in a phase that nobody waits for"
    return ""


def _late(cta: Cta) -> str:
    """What of another CTA nothing orders in front of the end of this one; "" if nothing is so."""
    clocks = cta.world.clocks
    warps = np.arange(cta.warp, cta.warp + -(-cta.threads // 32))
    known = clocks.known[warps].max(axis=0)
    known[warps] = np.iinfo(np.int32).max  # what it did itself; its multiplies are in `tcgen05_multiplies.leftovers`
    if clocks.warps > clocks.threads:
        known[clocks.tensor_agent(0) + warps] = np.iinfo(np.int32).max
    memories: list[tuple[str, Array, Array, Array]] = [
        ("shared", cta.shadow.readers, cta.shadow.writer, cta.shadow.written)
    ]
    if cta.tensor is not None:
        order = cta.tensor.order
        memories.append(("tensor", order.readers, order.writer, order.written))
    for name, readers, writer, written in memories:
        reads = readers > known[: clocks.warps]
        if some(reads):
            return f"{clocks.name(int(np.argwhere(reads)[0][-1]))} reads its {name} memory"
        late = written > known[writer]
        if some(late):
            return f"{clocks.name(int(writer[late].flat[0]))} writes its {name} memory"
    for barrier in cta.barriers.objects.values():
        waiting = [one.snapshot for one in cta.world.commits if one.barrier is barrier]
        for snapshot in (barrier.done, barrier.arriving, *waiting):
            agent = _unknown(snapshot, known, clocks.warps)
            if agent >= 0:
                return f"{clocks.name(agent)} arrives at its {barrier}"
    return ""


def _unknown(snapshot: Snapshot | None, known: Array, warps: int) -> int:
    """The first warp, or its multiplies, of which a snapshot says more than is known; -1: none."""
    if snapshot is None:
        return -1
    late = np.flatnonzero(snapshot.known[:warps] > known[:warps])
    return int(late[0]) if len(late) else -1
