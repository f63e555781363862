"""The rings in tensor memory: accumulators that MMAs make, and operands A that threads compute.

    tensor_rings(plan, memory) -> rings by the place that fills them

Who fills a ring and who gives its slots back follows from what becomes of it (`twill.codegen.lower.tensor_use`):

- SUM: the issuer of the MMAs fills a slot in a whole loop; those who read it behind the loop give it back. Loops that
  go on with one sum fill one slot.
- TILE, STATE: it fills one in every iteration; the threads that read it there give it back. A STATE has only one, to
  which the next iteration adds; so has what several MMAs of an iteration add up, whose TERMs have no ring.
- UPDATED: the threads that change it fill the ring's only slot in every iteration, and the MMA that adds to it gives it
  back when it is over. If another warp group reads the sum behind the loop, a second ring over the same columns hands
  it on, once a loop.
- An operand A that threads compute is filled by them, and given back by the MMA; it may lie over a TILE.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.multicast import CTAS
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place, Task
from twill.codegen.lower.tensor_columns import TensorColumns, TensorTile, allocate
from twill.codegen.lower.tensor_use import (
    TensorUse,
    begun_by,
    continues,
    readers_behind,
    readers_inside,
    sum_of,
    updater_of,
    use_of,
)
from twill.codegen.targets.base import LANES
from twill.codegen.warp.resources import COLUMN_BITS, Buffer
from twill.graph.work import BITS
from twill.machine.description import Machine

LANE_BYTES = COLUMN_BITS // 8


def most_columns(machine: Machine, lanes: int) -> int:
    """Columns of tensor memory."""
    return machine.capacity("tmem") // (lanes * LANE_BYTES)


def columns_of(plan: LoweringPlan) -> int:
    """Columns of tensor memory of the machine of a plan; 0 if its target has none."""
    mma = plan.tiles.target.mma
    return most_columns(plan.machine, mma.rows) if mma is not None and mma.tensor else 0


def tensor_rings(
    plan: LoweringPlan, memory: SharedMemoryPlan, pair: bool = False, scales: int = 0
) -> dict[Place, Ring]:
    """The rings of a plan; those that hand a sum on have the place of what changes it. memory: gets their buffers.
    pair: whether the CTAs of a cluster multiply together. scales: columns that are left for them. Raises
    UnsupportedInKernel for more columns than there are."""
    if plan.tiles.target.mma is None or not plan.tiles.target.has_tensor_memory:
        return {}
    return _TensorRings(plan, memory, pair, scales).made()


@dataclass
class _TensorRings:
    plan: LoweringPlan
    memory: SharedMemoryPlan
    pair: bool = False
    scales: int = 0
    names: dict[Place, str] = field(default_factory=dict)

    def made(self) -> dict[Place, Ring]:
        """All of them."""
        mmas = [task for _, task in sorted(self.plan.tasks.items()) if self.plan.is_in_tensor_memory(task)]
        products = [task for task in mmas if use_of(self.plan, task) is not TensorUse.TERM]
        going_on = [task for task in products if begun_by(self.plan, task) is not None]
        products = [task for task in products if task not in going_on]
        operands = [task for _, task in sorted(self.plan.tasks.items()) if self.is_operand(task)]
        columns = self.columns(products, operands)
        found: dict[Place, Ring] = {}
        for task in products:
            found |= self.of_product(task, self.buffer(task, self.element(task), columns))
        for task in going_on:
            found[task.place] = replace(found[sum_of(self.plan, task)[0].place], key=task.place)
        for task in operands:
            buffer = self.buffer(task, self.element(task), columns)
            found[task.place] = self.of_operand(task, buffer)
        return found

    # -- columns ------------------------------------------------------------------------------

    def columns(self, products: list[Task], operands: list[Task]) -> TensorColumns:
        """Where each of them lies. Raises UnsupportedInKernel."""
        tiles = []
        for task in (*products, *operands):
            name = self.names[task.place] = self.unique(task)
            host = self.host(task, products) if task in operands else None
            wide = self.shape(task)[1] * BITS[self.element(task)]
            summed = task in products and use_of(self.plan, task) is TensorUse.SUM
            over = self.names[host.place] if host is not None else ""
            tiles.append(TensorTile(name, wide // COLUMN_BITS, self.depth(task), over, extra=summed))
        most = columns_of(self.plan) - self.scales
        found = allocate(tiles, most)
        if isinstance(found, str) and not self.pair and not self.scales:
            found = self.of_loops(tiles, [task.region for task in (*products, *operands)], most) or found
        if isinstance(found, str):
            raise exc.UnsupportedInKernel(found, file=self.plan.wired.program.file, hint="smaller tiles")
        return found

    def of_loops(self, tiles: list[TensorTile], regions: list[int], most: int) -> TensorColumns | None:
        """Tiles of several loops beside one another, where each loop's own fit: the pass `tensor-overlay` finds columns
        that loops have one after the other. None where it can not."""
        own = [[tile for tile, other in zip(tiles, regions, strict=True) if other == region] for region in {*regions}]
        if len(own) < 2 or any(isinstance(allocate(of_loop, most), str) for of_loop in own):
            return None
        found = allocate(tiles, sum(tile.slots * tile.width for tile in tiles))
        assert not isinstance(found, str)
        return found

    def unique(self, task: Task) -> str:
        """What a ring is called: as the kernel calls its tile."""
        base = task.node.name or task.node.op_text.split()[0]
        base += "" if task.block < 0 else f".{task.block}"
        names = (base if number == 1 else f"{base} {number}" for number in count(1))
        return next(name for name in names if name not in self.names.values())

    def depth(self, task: Task) -> int:
        """Slots that the schedule gives a ring that is filled in every iteration."""
        if self.plan.is_in_tensor_memory(task) and (
            use_of(self.plan, task) is not TensorUse.TILE or continues(self.plan, task) is not None
        ):
            return 1
        found = [
            buffer.depth
            for buffer in self.plan.schedule.buffers
            if (buffer.name, buffer.block, buffer.loop) == (task.node.name, task.block, task.region)
            and buffer.space == "tmem"
        ]
        return max(found, default=1)

    def host(self, task: Task, products: list[Task]) -> Task | None:
        """The MMA over whose result the schedule lays an operand."""
        graph = next(loop.graph for loop in self.plan.schedule.loops if loop.loop == task.region)
        head = f"{task.node.name} over "
        for value in graph.values:
            if value.space == "tmem" and value.block == task.block and value.name.startswith(head):
                host = value.name.removeprefix(head)
                alike = (one for one in products if one.node.name == host and one.region == task.region)
                return next((one for one in alike if one.block == task.block), None)
        return None

    def cell(self, task: Task) -> int:
        """The cell of a task's result."""
        return self.plan.last_step(task).results[0]

    def element(self, task: Task) -> str:
        """The type of its elements."""
        return self.plan.flat.cells[self.cell(task)].type.element

    def shape(self, task: Task) -> tuple[int, int]:
        """Rows and columns of its tile."""
        rows, columns = self.plan.tiles.core(self.cell(task))
        return rows, columns

    def buffer(self, task: Task, element: str, columns: TensorColumns) -> Buffer:
        """The buffer of a task's ring."""
        name, shape = self.names[task.place], self.shape(task)
        first, stride, slots = columns.first[name], columns.stride[name], columns.slots(name)
        return self.memory.tensor_buffer(name, shape, element, slots, first, stride)

    # -- rings --------------------------------------------------------------------------------

    def of_product(self, task: Task, buffer: Buffer) -> dict[Place, Ring]:
        """The ring, or two, of an accumulator."""
        use, issuer = use_of(self.plan, task), task.groups[0]
        if use is TensorUse.UPDATED:
            return self.of_updated(task, buffer)
        readers = readers_inside(self.plan, task.place) or readers_behind(self.plan, sum_of(self.plan, task)[-1].place)
        consumers = self.groups(readers, task.block)
        counts = (1, self.arrivals(consumers) * (CTAS if self.pair else 1))
        aref = self.memory.aref(buffer.name, (buffer.id,), issuer, consumers, "mma", counts, pair=self.pair)
        return {task.place: Ring(task.place, aref, buffer, False, self.places(readers), False, use)}

    def of_updated(self, task: Task, buffer: Buffer) -> dict[Place, Ring]:
        """Between those who change an accumulator and the MMA; and to those who read it behind the loop."""
        updater, readers = updater_of(self.plan, task), readers_behind(self.plan, task.place)
        assert updater is not None
        owner, arrivals = updater.groups[0], self.arrivals(updater.groups)
        aref = self.memory.aref(buffer.name, (buffer.id,), owner, task.groups, "registers", (arrivals, 1))
        ring = Ring(task.place, aref, buffer, False, self.places(readers), False, TensorUse.UPDATED)
        consumers = self.groups(readers, task.block)
        if consumers == (owner,):
            return {task.place: ring}
        name, counts = f"{buffer.name} result", (arrivals, self.arrivals(consumers))
        handed = self.memory.aref(name, (buffer.id,), owner, consumers, "registers", counts)
        return {task.place: ring, updater.place: replace(ring, aref=handed, use=TensorUse.SUM)}

    def of_operand(self, task: Task, buffer: Buffer) -> Ring:
        """Between those who compute an operand A and the MMA that reads it."""
        readers = [reader for reader in self.plan.readers(task.place) if reader.node.kind == "mma"]
        consumers = tuple(sorted({group for reader in readers for group in reader.groups}))
        counts = (self.arrivals(task.groups), len(consumers))
        aref = self.memory.aref(buffer.name, (buffer.id,), task.groups[0], consumers, "registers", counts)
        return Ring(task.place, aref, buffer, False, self.places(readers), True)

    def is_operand(self, task: Task) -> bool:
        """Whether a task computes what MMAs alone read as their operand A, from tensor memory, as the schedule says."""
        if self.plan.schedule.cooperation.operand_a != "tmem" or task.node.kind != "elementwise":
            return False
        if task.region not in self.plan.loops or self.plan.is_updater(task):
            return False
        readers = self.plan.readers(task.place)
        if not readers or not all(self.multiplies_left(reader, task.place) for reader in readers):
            return False
        mma = self.plan.tiles.target.mma  # of fewer rows a product reads operand A twice, from both halves of the lanes
        return mma is not None and self.shape(task)[0] == mma.rows

    def multiplies_left(self, task: Task, place: Place) -> bool:
        """Whether an MMA reads what is made at `place` as operand A, as it is, and as nothing else."""
        if task.node.kind != "mma" or self.plan.parts(task) != (task.block,):
            return False
        step = self.plan.last_step(task)
        uses = [at for at, source in self.plan.sources(step, task.block) if self.plan.place_of(source) == place]
        return uses == [0] and not self.plan.tiles.is_transposed(step.operands[0])

    def groups(self, readers: list[Task], block: int) -> tuple[int, ...]:
        """The warp groups of readers; where nobody reads, the one whose tiles they would be."""
        found = tuple(sorted({group for reader in readers for group in reader.groups}))
        return found or (self.plan.home_group(block),)

    def arrivals(self, groups: tuple[int, ...]) -> int:
        """Of the warps of these groups."""
        return sum(self.plan.groups[group].threads // LANES for group in groups)

    def places(self, readers: list[Task]) -> tuple[Place, ...]:
        """Of tasks."""
        return tuple(reader.place for reader in readers)
