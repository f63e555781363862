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
from twill.codegen.verify.ptx.tcgen05_memory import Cells
from twill.codegen.verify.ptx.tcgen05_scales import TensorIssuer, scales_of_a_row, scaling
from twill.codegen.verify.ptx.threads import WARP, Array, Cta, Gang, World
from twill.codegen.verify.ptx.units import tcgen05
from twill.codegen.verify.ptx.units.block_scales import NARROW
from twill.codegen.verify.ptx.units.tcgen05_descriptors import SCALED, InstructionDescriptor, has_columns
from twill.codegen.verify.ptx.units.tensor_memory import LANES, rows_of
from twill.ptx.arrays import highest
from twill.ptx.program import AddressOperand, Immediate, InstructionPlace, PtxInstruction, Vector
from twill.ptx.registers import Operands, unsupported

KINDS = ("f16", "tf32", "f8f6f4", "i8")
UNKNOWN = {"sp", "ws", "ashift"}
PAIR = 2  # CTAs


@dataclass
class TensorProduct:
    """One that is in flight. run: does it. reads: of each CTA the bytes of shared memory. epoch: of its warp's
    multiplies."""

    run: Callable[[], None]
    reads: list[tuple[Cta, Array]]
    epoch: int
    place: InstructionPlace


@dataclass
class PendingCommit:
    """An arrival at an mbarrier when all multiplies of a warp up to an epoch are over. foreign: of another CTA."""

    multiplies: WarpMultiplies
    epoch: int
    barrier: MBarrier
    snapshot: Snapshot
    place: InstructionPlace
    foreign: bool

    def land(self, world: World) -> None:
        """It happens."""
        self.multiplies.finish(self.epoch)
        if self.foreign:
            self.barrier.arrives_from_afar()
        self.barrier.arrive(1, self.snapshot)
        world.commits.remove(self)
        world.progress += 1


@dataclass
class WarpMultiplies:
    """Multiplies that a warp's threads have issued. agent: among the clocks."""

    agent: int
    open: list[TensorProduct] = field(default_factory=list)

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


@dataclass(frozen=True)
class IssuedMultiply:
    """One multiply that a lane issues. ctas: whose memory it reads and writes. d, a, b: addresses in tensor memory and
    descriptors, the same in each CTA of a pair. adds: to D, times 2^-scale. scales: addresses of A's and B's; count: of
    scales of a row, 0 without."""

    ctas: list[Cta]
    does: InstructionDescriptor
    d: int
    a: int
    b: int
    from_tensor: bool
    adds: bool
    scale: int
    scales: tuple[int, ...]
    count: int
    place: InstructionPlace


@dataclass(frozen=True)
class MultiplyPart:
    """What one CTA has of a multiply. left, right: read its operands; scaled: apply its scales to A and to all of B."""

    cta: Cta
    left: Callable[[], Array]
    right: Callable[[], Array]
    scaled: Callable[[Array, Array], tuple[Array, Array]]
    lanes: Array
    columns: Array


def _multiply(operands: Operands, instruction: PtxInstruction) -> Step:
    kind = next((m.removeprefix("kind::") for m in instruction.modifiers if m.startswith("kind::")), "")
    target, left, right, what, *rest = instruction.operands
    count = scales_of_a_row(instruction, kind)
    scales = rest[:2] if count else []
    rest = rest[2:] if count else rest
    if kind not in (*KINDS, *SCALED) or UNKNOWN.intersection(instruction.modifiers) or isinstance(rest[0], Vector):
        raise unsupported(instruction)
    if not 1 <= len(rest) <= 2 or len(rest) == 2 and (count or not isinstance(rest[1], Immediate)):
        raise unsupported(instruction)
    group = group_of(instruction)
    d_at = address_of(operands, instruction, target)
    from_tensor = isinstance(left, AddressOperand)
    if from_tensor and count:
        raise unsupported(instruction, "A in tensor memory, with scales")
    a_at = address_of(operands, instruction, left) if from_tensor else operands.fetch(instruction, left, "u64")
    b_at = operands.fetch(instruction, right, "u64")
    described = operands.fetch(instruction, what, "u32")
    adds = operands.fetch(instruction, rest[0], "pred")
    scale = rest[1].value if len(rest) == 2 and isinstance(rest[1], Immediate) else 0
    scales_at = [address_of(operands, instruction, one) for one in scales]
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            d, a, b, bits, more, *at = (_of(one(g), lane) for one in (d_at, a_at, b_at, described, adds, *scales_at))
            does = InstructionDescriptor.decoded(bits, kind)
            if not has_columns(kind, does.m, does.n, group, from_tensor):
                raise Stopped("form", f"there is no product of {does.m} x {does.n} of kind {kind}")
            ctas = _ctas(g, group)
            _issue(
                g, lane, IssuedMultiply(ctas, does, d, a, b, from_tensor, bool(more), scale, tuple(at), count, place)
            )

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


def _issue(g: Gang, lane: int, one: IssuedMultiply) -> None:
    """A multiply is on its way."""
    warp = int(g.warps[lane])
    mine = multiplies_of(g, warp)
    does, count = one.does, len(one.ctas)
    if count == PAIR and does.m != 2 * PAIR * 64:
        raise Stopped("form", f"a pair's multiply of {does.m} rows is not executed")
    if does.d == "f16":
        raise Stopped("form", "an f16 accumulator in tensor memory is not executed")
    if one.count and (does.m // count != LANES or one.from_tensor):
        raise Stopped("form", f"a product with block scales of {does.m} rows")
    by = TensorIssuer(g, warp, mine.agent, int(g.cta.world.clocks.known[mine.agent, mine.agent]), one.place)
    m, n = does.m // count, does.n // count
    reads: list[tuple[Cta, Array]] = []
    parts: list[MultiplyPart] = []
    for cta in one.ctas:
        b_bytes = tcgen05.bytes_of(one.b, n, does.b, does.mn_major[1])
        reads.append((cta, b_bytes))
        right = _shared(cta, b_bytes, n, does.b, does.mn_major[1])
        if one.from_tensor:
            left = _tensor(cta, by, one.a, m, does.a)
        else:
            a_bytes = tcgen05.bytes_of(one.a, m, does.a, does.mn_major[0])
            reads.append((cta, a_bytes))
            left = _shared(cta, a_bytes, m, does.a, does.mn_major[0])
        applied = scaling(cta, by, does, one.scales, one.count, m)
        parts.append(MultiplyPart(cta, left, right, applied, *_result(cta, by, one, m)))
    begin_reading(by, lane, reads)

    def run() -> None:
        whole = np.concatenate([part.right() for part in parts])
        for part in parts:
            assert part.cta.tensor is not None
            cells = part.cta.tensor.cells
            at = (part.lanes[:, None], part.columns[None])
            a, b = part.scaled(part.left(), whole)
            cells[at] = tcgen05.multiply(does, a, b, cells[at] if one.adds else None, one.scale)

    mine.open.append(TensorProduct(run, reads, by.epoch, one.place))


def begin_reading(by: TensorIssuer, lane: int, reads: list[tuple[Cta, Array]]) -> None:
    """Asynchronous reads of shared memory are on their way. Stopped: bounds."""
    for cta, at in reads:
        last = highest(at[..., -1])
        if last >= len(cta.shared):
            raise Stopped("bounds", f"shared address {last:#x} is read, of {len(cta.shared):#x}")
        noted(by.gang, cta.shadow.begin_alone(at, by.warp, lane % WARP), by.place)


def _shared(cta: Cta, at: Array, rows: int, kind: str, mn_major: bool) -> Callable[[], Array]:
    return lambda: tcgen05.shared_operand(cta.shared, at, rows, kind, mn_major)


def _tensor(cta: Cta, by: TensorIssuer, address: int, m: int, kind: str) -> Callable[[], Array]:
    assert cta.tensor is not None
    memory = cta.tensor
    lane, columns = memory.place(address, np.arange(tcgen05.CELLS))
    if kind in NARROW:
        raise Stopped("form", f"operands {kind} in tensor memory are not executed")
    lanes = rows_of(m, lane)
    by.reads(memory, Cells.of(lanes, columns))
    return lambda: tcgen05.tensor_operand(memory.cells[lanes[:, None], columns[None]], kind)


def _result(cta: Cta, by: TensorIssuer, one: IssuedMultiply, m: int) -> tuple[Array, Array]:
    """Lanes and columns of D."""
    assert cta.tensor is not None
    order = cta.tensor.order
    lane, columns = cta.tensor.place(one.d, np.arange(one.does.n))
    lanes = rows_of(m, lane)
    cells = Cells.of(lanes, columns)
    known = order.known(by.warp, by.agent)
    noted(by.gang, (order.read(cells, known) if one.adds else "") or order.overwrite(cells, known), by.place)
    order.wrote(cells, by.agent, by.epoch)
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
                world.commits.append(PendingCommit(mine, epoch, barrier, snapshot, place, one is not g.cta))

    return step


def leftovers(world: World) -> list[InstructionPlace]:
    """Multiplies that nobody has waited for, at the end. An arrival that nobody needs is none."""
    return [one.place for mine in world.multiplies.values() for one in mine.open]
