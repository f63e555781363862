"""`tcgen05.mma` and `tcgen05.commit`: multiplies that threads issue, and the mbarriers that say when they are over.

Multiplies of a thread are done in order, when nobody can go on before a commit behind them has arrived: the latest that
is allowed. Until then shared memory that they read is theirs, and tensor memory is as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, into_space, noted, other_cta, shared_place, space_of
from twill.codegen.verify.ptx.barriers import MBarrier
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.order import Snapshot
from twill.codegen.verify.ptx.program import AddressOperand, Immediate, InstructionPlace, PtxInstruction, Vector
from twill.codegen.verify.ptx.registers import Operands, unsupported
from twill.codegen.verify.ptx.tcgen05_memory import Cells
from twill.codegen.verify.ptx.threads import WARP, Array, Cta, Gang, World
from twill.codegen.verify.ptx.units import tcgen05
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor
from twill.codegen.verify.ptx.units.tensor_memory import rows_of

KINDS = ("f16", "tf32", "f8f6f4", "i8")
UNKNOWN = {"sp", "ws", "block_scale", "ashift"}
PAIR = 2  # CTAs


@dataclass
class TensorMultiply:
    """One that is in flight. run: does it. reads: of each CTA the bytes of shared memory. epoch: of its warp's
    multiplies."""

    run: Callable[[], None]
    reads: list[tuple[Cta, Array]]
    epoch: int
    place: InstructionPlace


@dataclass
class PendingCommit:
    """An arrival at an mbarrier when all multiplies of a warp up to an epoch are over."""

    multiplies: WarpMultiplies
    epoch: int
    barrier: MBarrier
    snapshot: Snapshot
    place: InstructionPlace

    def land(self, world: World) -> None:
        """It happens."""
        self.multiplies.finish(self.epoch)
        self.barrier.arrive(1, self.snapshot)
        world.commits.remove(self)
        world.progress += 1


@dataclass
class WarpMultiplies:
    """Multiplies that a warp's threads have issued. agent: among the clocks."""

    agent: int
    open: list[TensorMultiply] = field(default_factory=list)

    def finish(self, epoch: int) -> None:
        """All up to an epoch are over."""
        while self.open and self.open[0].epoch <= epoch:
            multiply = self.open.pop(0)
            multiply.run()
            for cta, at in multiply.reads:
                cta.shadow.end_of(at, self.agent, multiply.epoch)


def multiplies_of(g: Gang, warp: int) -> WarpMultiplies:
    """Those of a warp."""
    world = g.cta.world
    if warp not in world.multiplies:
        world.multiplies[warp] = WarpMultiplies(world.clocks.tensor_agent(warp))
    return world.multiplies[warp]


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none."""
    kind = instruction.modifiers[0]
    if kind == "mma":
        return _multiply(operands, instruction)
    return _commit(operands, instruction) if kind == "commit" else None


def group_of(instruction: PtxInstruction) -> int:
    """CTAs of `.cta_group`."""
    found = next((m for m in instruction.modifiers if m.startswith("cta_group::")), "")
    if found not in ("cta_group::1", "cta_group::2"):
        raise unsupported(instruction)
    return int(found[-1])


# ---------------------------------------------------------------- multiplies


def _multiply(operands: Operands, instruction: PtxInstruction) -> Step:
    kind = next((m.removeprefix("kind::") for m in instruction.modifiers if m.startswith("kind::")), "")
    target, left, right, what, *rest = instruction.operands
    if kind not in KINDS or UNKNOWN.intersection(instruction.modifiers) or rest and isinstance(rest[0], Vector):
        raise unsupported(instruction)
    if not 1 <= len(rest) <= 2 or len(rest) == 2 and not isinstance(rest[1], Immediate):
        raise unsupported(instruction)
    group = group_of(instruction)
    d_at = address_of(operands, instruction, target)
    from_tensor = isinstance(left, AddressOperand)
    a_at = address_of(operands, instruction, left) if from_tensor else operands.fetch(instruction, left, "u64")
    b_at = operands.fetch(instruction, right, "u64")
    described = operands.fetch(instruction, what, "u32")
    adds = operands.fetch(instruction, rest[0], "pred")
    scale = rest[1].value if len(rest) == 2 and isinstance(rest[1], Immediate) else 0
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            d, a, b, bits, more = (_of(fetch(g), lane) for fetch in (d_at, a_at, b_at, described, adds))
            does = InstructionDescriptor.decoded(bits, kind)
            _issue(g, lane, _ctas(g, group), does, d, a, b, from_tensor, bool(more), scale, place)

    return step


def _of(value: Array, lane: int) -> int:
    return int(value[0] if len(value) == 1 else value[lane])


def _ctas(g: Gang, group: int) -> list[Cta]:
    """Those whose memory a multiply reads and writes. Stopped: not issued by the first of a pair."""
    if group == 1:
        return [g.cta]
    if g.cta.rank % PAIR:
        raise Stopped(
            "form", f"CTA {g.cta.rank} of the cluster issues a pair's multiply, which CTA {g.cta.rank - 1} does"
        )
    return [g.cta, other_cta(g, g.cta.rank + 1)]


def _issue(
    g: Gang,
    lane: int,
    ctas: list[Cta],
    does: InstructionDescriptor,
    d: int,
    a: int,
    b: int,
    from_tensor: bool,
    adds: bool,
    scale: int,
    place: InstructionPlace,
) -> None:
    """A multiply is on its way. d, a, b: addresses in tensor memory and descriptors, the same in each CTA of a pair."""
    warp = int(g.warps[lane])
    mine = multiplies_of(g, warp)
    epoch = int(g.cta.world.clocks.known[mine.agent, mine.agent])
    if len(ctas) == PAIR and does.m != 2 * PAIR * 64:
        raise Stopped("form", f"a pair's multiply of {does.m} rows is not executed")
    m, n = does.m // len(ctas), does.n // len(ctas)
    reads: list[tuple[Cta, Array]] = []
    parts: list[tuple[Cta, Callable[[], Array], Callable[[], Array], Array, Array]] = []
    for cta in ctas:
        b_bytes = tcgen05.bytes_of(b, n, does.b, does.mn_major[1])
        reads.append((cta, b_bytes))
        right = _shared(cta, b_bytes, n, does.b, does.mn_major[1])
        if from_tensor:
            left = _tensor(cta, warp, mine.agent, epoch, a, m, does.a, g, place)
        else:
            a_bytes = tcgen05.bytes_of(a, m, does.a, does.mn_major[0])
            reads.append((cta, a_bytes))
            left = _shared(cta, a_bytes, m, does.a, does.mn_major[0])
        lanes, columns = _result(cta, warp, mine.agent, epoch, d, m, does.n, adds, g, place)
        parts.append((cta, left, right, lanes, columns))
    for cta, at in reads:
        if int(at.max()) >= len(cta.shared):
            raise Stopped("bounds", f"a multiply reads shared address {int(at.max()):#x} of {len(cta.shared):#x}")
        noted(g, cta.shadow.begin_alone(at, warp, lane % WARP), place)

    def run() -> None:
        whole = np.concatenate([right() for _, _, right, _, _ in parts])
        for cta, left, _, lanes, columns in parts:
            assert cta.tensor is not None
            cells = cta.tensor.cells
            at = (lanes[:, None], columns[None])
            cells[at] = tcgen05.multiply(does, left(), whole, cells[at] if adds else None, scale)

    mine.open.append(TensorMultiply(run, reads, epoch, place))


def _shared(cta: Cta, at: Array, rows: int, kind: str, mn_major: bool) -> Callable[[], Array]:
    return lambda: tcgen05.shared_operand(cta.shared, at, rows, kind, mn_major)


def _tensor(
    cta: Cta, warp: int, agent: int, epoch: int, address: int, m: int, kind: str, g: Gang, place: InstructionPlace
) -> Callable[[], Array]:
    assert cta.tensor is not None
    memory = cta.tensor
    lane, columns = memory.place(address, np.arange(tcgen05.CELLS))
    lanes = rows_of(m, lane)
    cells = Cells.of(lanes, columns)
    noted(g, memory.order.read(cells, memory.order.known(warp, agent)), place)
    memory.order.was_read(cells, agent, epoch)
    return lambda: tcgen05.tensor_operand(memory.cells[lanes[:, None], columns[None]], kind)


def _result(
    cta: Cta, warp: int, agent: int, epoch: int, address: int, m: int, n: int, adds: bool, g: Gang,
    place: InstructionPlace,
) -> tuple[Array, Array]:  # fmt: skip
    """Lanes and columns of D."""
    assert cta.tensor is not None
    order = cta.tensor.order
    lane, columns = cta.tensor.place(address, np.arange(n))
    lanes = rows_of(m, lane)
    cells = Cells.of(lanes, columns)
    known = order.known(warp, agent)
    noted(g, (order.read(cells, known) if adds else "") or order.overwrite(cells, known), place)
    order.wrote(cells, agent, epoch)
    return lanes, columns


# ---------------------------------------------------------------- commits


def _commit(operands: Operands, instruction: PtxInstruction) -> Step:
    at, *rest = instruction.operands
    address, space = address_of(operands, instruction, at), space_of(instruction)
    several = operands.fetch(instruction, rest[0], "u16") if "multicast::cluster" in instruction.modifiers else None
    if bool(rest) != (several is not None):
        raise unsupported(instruction)
    group_of(instruction)
    place = instruction.place

    def step(g: Gang) -> None:
        clocks, world = g.cta.world.clocks, g.cta.world
        for lane in g.lanes().tolist():
            warp = int(g.warps[lane])
            mine = multiplies_of(g, warp)
            given = np.array([_of(address(g), lane)], np.uint64)
            cta, offsets = shared_place(g, given if space else into_space(given)[1], 8)
            mask = None if several is None else _of(several(g), lane)
            ctas = [cta] if mask is None else [one for one in world.ctas if mask >> one.rank & 1]
            epoch = int(clocks.known[mine.agent, mine.agent])
            snapshot = clocks.release(warp, np.arange(WARP) == lane % WARP)
            assert snapshot.tensor is not None
            snapshot.tensor[mine.agent] = epoch
            snapshot.known[mine.agent] = snapshot.visible[mine.agent] = epoch  # who waits learns more than who issued
            clocks.known[mine.agent, mine.agent] += 1
            for one in ctas:
                barrier = one.barriers.at(int(offsets[0]), warp)
                world.commits.append(PendingCommit(mine, epoch, barrier, snapshot, place))

    return step


def leftovers(world: World) -> list[InstructionPlace]:
    """Multiplies that nobody has waited for, at the end. An arrival that nobody needs is none."""
    return [one.place for mine in world.multiplies.values() for one in mine.open]
