"""Second step of lowering: the rings that carry tiles through shared memory, between tasks and between warp groups.

    place(plan, sharing) -> Placement

First a ring for each tile that some task reads from shared memory or from another group, as deep as the schedule says;
then what memory is left makes the rings of loads deeper, and tiles that are stored get buffers of their own. Where the
rings of all loops do not fit beside one another, tiles of one shape that one group hands to the same others in
different loops go through one ring: the loops run one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from twill import exc
from twill.codegen.lower.cross_loop_reuse import family_of, overlap, position
from twill.codegen.lower.load_order import LoadOrder, load_orders
from twill.codegen.lower.memory import BARRIER_BYTES, SharedMemoryPlan
from twill.codegen.lower.multicast import CTAS, Sharing
from twill.codegen.lower.placement import Placement, Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scale_rings import ScaleColumns
from twill.codegen.lower.staging import choose_panels, enough, hosts, staged, staging_bytes
from twill.codegen.lower.store_order import store_orders
from twill.codegen.lower.streamed_tiles import keep_up, streamed
from twill.codegen.lower.task import Place, Task
from twill.codegen.lower.tensor_rings import tensor_rings
from twill.codegen.targets.base import LANES
from twill.machine.occupancy import share

PAIR = 2  # slots of a loop's ring, so that one is filled while the other is read


def place(plan: LoweringPlan, sharing: Sharing | None = None, reserved: int = 0) -> Placement:
    """The rings of a plan. sharing: of tiles between the CTAs of a cluster, if there are clusters. reserved: bytes that
    are used otherwise."""
    file, ctas = plan.wired.program.file, plan.candidate.ctas
    if ctas > 1 and keep_up(plan, ctas - 1):
        raise exc.MoreCtasThanMemoryFeeds(ctas, file=file)
    rings = _Rings(plan, SharedMemoryPlan(file, threads=plan.tiles.target.threads), sharing, reserved)
    rings.make()
    if not rings.fit():
        rings = _Rings(plan, SharedMemoryPlan(file, threads=plan.tiles.target.threads), sharing, reserved, joining=True)
        rings.make()
    orders = store_orders(plan, rings.memory, sharing is not None)
    rings.reserved += BARRIER_BYTES * sum(order.aref.depth for order in orders)
    panels = rings.deepen()
    rings.scales.lay(rings.by_place)
    made, memory = rings.by_place, rings.memory
    buffers, arefs = tuple(memory.buffers), tuple(memory.arefs)
    return Placement(plan, sharing, made, panels, buffers, arefs, memory.used(), orders, rings.arriving)


@dataclass
class _Rings:
    """The rings that are made so far, and the memory that they take."""

    plan: LoweringPlan
    memory: SharedMemoryPlan
    sharing: Sharing | None
    reserved: int = 0
    joining: bool = False
    by_place: dict[Place, Ring] = field(default_factory=dict)
    alike: dict[tuple[object, ...], list[Ring]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scales = ScaleColumns(self.plan, self.memory)
        self.arriving: Mapping[Place, tuple[LoadOrder, ...]] = load_orders(self.plan)

    def make(self) -> None:
        """A ring for each tile that some task reads from shared memory or from another group."""
        shared: dict[tuple[object, ...], list[Ring]] = {}
        pair = self.sharing is not None and self.sharing.pair
        least = self.scales.taken({place: self.depth(self.plan.tasks[place]) for place in self.scales.tiles})
        self.by_place = tensor_rings(self.plan, self.memory, pair, least)
        for place in sorted(self.plan.tasks):
            task = self.plan.tasks[place]
            if place in self.by_place or self.plan.is_updater(task):
                continue
            slot = [reader for reader in self.plan.possible_readers(place) if self.in_place(reader, place)]
            away = [*self.away(task), *(order.store for order in self.arriving.get(place, ()))]
            if slot or away:
                self.by_place[place] = self.ring(task, slot, away, shared)

    def fit(self) -> bool:
        """Whether the rings with their barriers, and one panel of each tile that is stored, are no more than shared
        memory."""
        barriers = sum(BARRIER_BYTES * ring.depth for ring in self.memory.arefs)
        taken = self.memory.used() + barriers + staging_bytes(staged(self.plan), 1)
        return self.reserved + taken <= self.plan.capacity

    def in_place(self, reader: Task, place: Place) -> bool:
        """Whether a task reads what is made at `place` from shared memory."""
        return any(self.plan.place_of(source) == place for source in self.plan.slot_sources(reader))

    def away(self, task: Task) -> list[Task]:
        """Readers in registers of a warp group that does not make the value itself."""
        if task.node.kind == "load" and task.region not in self.plan.loops:
            return []  # every group that needs it loads it
        mine, readers = set(task.groups), self.plan.readers(task.place, slots=False)
        if task.region in self.plan.loops and not self.plan.is_in_tensor_memory(task):
            readers += self.plan.starting_with(task.place)
        return [reader for reader in readers if set(reader.groups) - mine]

    def ring(
        self, task: Task, slot: list[Task], away: list[Task], shared: dict[tuple[object, ...], list[Ring]]
    ) -> Ring:
        """The ring that a task fills; loads of one tensor in several loops share one, also with straight-line code
        in front of them."""
        cell = self.plan.last_step(task).results[0]
        shape, element = self.plan.tiles.core(cell) or (1,), self.plan.flat.cells[cell].type.element
        if task.place in self.scales.tiles:
            shape = (prod(shape),)  # chunks one behind the other
        loads = task.node.kind == "load"
        if len(shape) > 2 and not loads and not slot:
            shape = (prod(shape),)  # from threads to threads: a row of elements, which no swizzle moves
        producer = self.producer(task)
        consumers = tuple(sorted({g for r in (*slot, *away) for g in r.groups} - (set() if slot else {producer})))
        held = task.region not in self.plan.loops
        together = self.sharing is not None and task.place in self.sharing.same
        halved = self.sharing.halved.get(task.place, -1) if self.sharing is not None else -1
        shape = tuple(extent // CTAS if axis == halved else extent for axis, extent in enumerate(shape))
        pair = self.sharing is not None and (halved >= 0 or task.place in self.sharing.whole)
        tensor, sharers = task.node.tensor, self.sharers(task.place)
        copied = loads and task.node.transport == "tma"  # threads may reach what the TMA does not
        known_by = (tensor, copied, shape, element, producer, consumers, task.block, together, pair, sharers)
        readers = tuple(r.place for r in (*slot, *away))
        known = next((one for one in self.known(task, shared.get(known_by, ())) if self.may_join(task, one)), None)
        if loads and not held and known is not None:
            made = self.joined(task, known, readers)
            return self.deepened(made, self.depth(task)) if self.joining else made
        multiplied = any(r.node.kind == "mma" for r in slot)
        alike = (copied, multiplied, shape, element, producer, consumers, task.block, together, held, pair)
        other = next((one for one in self.alike.get(alike, ()) if self.may_join(task, one)), None)
        if self.joining and other is not None:
            return self.deepened(self.joined(task, other, readers), 1 if held else self.depth(task))
        name = f"{self.name(task)}{'' if task.block < 0 else f'.{task.block}'}"
        buffer = self.memory.buffer(name, shape, element, 1 if held else self.depth(task))
        full = 1 if copied else self.plan.groups[producer].threads // LANES
        warps = self.plan.tiles.target.warps
        empty = sum(1 if self.plan.groups[g].issuer else warps for g in consumers) * (CTAS if together else 1)
        transport = "tma" if copied else "registers"
        every = tuple(sorted(copy for g in consumers for copy in self.plan.same_stream(g)))
        aref = self.memory.aref(name, (buffer.id,), producer, every, transport, (full, empty), together, pair)
        made = Ring(task.place, aref, buffer, held, readers, multiplied)
        shared.setdefault(known_by, []).append(made)
        self.alike.setdefault(alike, []).append(made)
        return made

    def known(self, task: Task, rings: Sequence[Ring]) -> Sequence[Ring]:
        """Of the rings that a load might go through, that of the loops before it which read the same tiles, if there
        is one."""
        family = family_of(self.plan.reuse_groups, task.place)
        return [self.by_place[place] for place in family if place in self.by_place][:1] or rings

    def sharers(self, place: Place) -> int:
        """Loops that read the same tiles, of a load of them."""
        return position(self.plan.reuse_groups, place)[1]

    def may_join(self, task: Task, ring: Ring) -> bool:
        """Whether a loop's loads can go through a ring that is there: another load of the loop does not, and what
        straight-line code put into it is given back before the loop begins."""
        members = [member for member in self.by_place.values() if member.aref.id == ring.aref.id]
        if any(member.key[0] == task.region for member in members):
            return False
        if any(self.sharers(member.key) != self.sharers(task.place) for member in members):
            return False  # each of them has cursors of its own, which tiles that fewer loops read do not move
        if any(overlap(self.plan.reuse_groups, member.key, task.place) for member in members):
            return False  # tiles stay in their slots until the last of those loops has read them
        return all(place[0] < task.region for member in members if member.held for place in member.readers)

    def joined(self, task: Task, ring: Ring, readers: tuple[Place, ...]) -> Ring:
        """The ring for the loads of another loop, at least as deep as that needs."""
        if not ring.held or task.region not in self.plan.loops:
            return replace(ring, key=task.place, readers=readers)
        slots = max(ring.aref.depth, self.depth(task))
        aref, buffer = self.memory.with_depth(ring.aref, slots), replace(ring.buffer, slots=slots)
        return replace(ring, key=task.place, aref=aref, buffer=buffer, held=False, readers=readers)

    def deepened(self, ring: Ring, slots: int) -> Ring:
        """A ring that loops share, at least as deep as each of them needs."""
        slots = max(slots, self.memory.arefs[ring.aref.id].depth)
        aref, buffer = self.memory.with_depth(ring.aref, slots), replace(ring.buffer, slots=slots)
        for place, member in self.by_place.items():
            if member.aref.id == aref.id:
                self.by_place[place] = replace(member, aref=aref, buffer=buffer)
        return replace(ring, aref=aref, buffer=buffer)

    def deepen(self) -> int:
        """Shared memory that is left over makes the shallowest rings of loads deeper, all of them by one slot, again
        and again: the model's latencies are those of a quiet memory.

        As soon as loops have PAIR slots, tiles that a whole program instance reads get another one: those of the next
        instance are loaded while this one still reads its own, and the first tiles of its loops after them.

        The answer is how many panels of a tile that is stored have a buffer; 0: it leaves through a ring."""
        tiles = staged(self.plan)
        loops = {r.aref.id: r for r in self.copied().values() if not r.held}
        wanted = max((enough(self.plan, ring.key[0]) for ring in loops.values()), default=1)

        def least(taken: int) -> int:
            depth = self.depths(taken)
            return min([wanted, *(depth[number] for number in loops)])

        panels = choose_panels(tiles, least)
        if tiles and not least(staging_bytes(tiles, panels)) and len(hosts(self.plan, self.by_place)) == len(tiles):
            panels = 0
        depth = self.depths(staging_bytes(tiles, panels))
        self.refuse_single_slots(depth, staging_bytes(tiles, panels))
        for place, ring in list(self.by_place.items()):
            slots = max(ring.aref.depth, depth.get(ring.aref.id, 0))
            aref = self.memory.with_depth(ring.aref, slots)
            self.by_place[place] = replace(ring, aref=aref, buffer=replace(ring.buffer, slots=slots))
        return panels

    def refuse_single_slots(self, depth: Mapping[int, int], taken: int) -> None:
        """A CTA with one slot for each tile of its loops waits for every one of them. Another on the SM fills that
        time, but where the SM, with one CTA less, has more tiles on their way, that is faster: memory is kept busy.
        Errors: SharedMemoryFull."""
        loops, ctas = [number for number, ring in self.copied().items() if not ring.held], self.plan.candidate.ctas
        slots = min((depth[number] for number in loops), default=PAIR)
        if ctas == 1 or slots >= PAIR:
            return
        capacity = share(self.plan.machine, ctas - 1)
        fewer = self.depths(taken, capacity)
        if min(fewer[number] for number in loops) * (ctas - 1) > slots * ctas:
            raise exc.SharedMemoryFull(
                f"with {ctas} CTAs on an SM the rings of loops have {slots} slot, and fewer tiles are on their way than"
                f" with {ctas - 1}",
                needed=self.memory.used() + self.slots_bytes(loops),
                capacity=self.plan.capacity,
                file=self.plan.wired.program.file,
                hint="smaller tiles",
            )

    def copied(self) -> dict[int, Ring]:
        """The rings that the TMA fills, by aref."""
        return {r.aref.id: r for r in self.by_place.values() if r.aref.transport == "tma"}

    def depths(self, taken: int, capacity: int = 0) -> dict[int, int]:
        """How deep those rings can be if something else takes so many bytes of shared memory; 0 if not even as deep as
        they are. capacity: of a CTA, in bytes; the plan's if 0."""
        copied = self.copied()
        depth = {number: ring.aref.depth for number, ring in copied.items()}
        deepest = self.deepest()
        left = (capacity or self.plan.capacity) - self.reserved - self.memory.used() - taken
        left -= self.plan.machine.emitting.spare_shared.whole
        if left < 0:
            return dict.fromkeys(depth, 0)
        while True:
            loops = {number: slots for number, slots in depth.items() if not copied[number].held}
            least = min(loops.values(), default=deepest)
            single = [number for number, slots in depth.items() if slots == 1 and self.waits(copied[number])]
            if single and least >= PAIR and self.slots_bytes(single) <= left:
                growing = single
            else:
                growing = [number for number, slots in loops.items() if slots == least < deepest]
            need, deeper = self.slots_bytes(growing), {number: depth[number] + 1 for number in growing}
            if not growing or need > left or not self.scales.fits(self.by_place, {**depth, **deeper}):
                return depth
            left -= need
            depth.update(deeper)

    def deepest(self) -> int:
        """Slots of a ring at most: where all tiles come from memory, those of all rings of loops are no more bytes than
        keep it busy, with those of the other CTAs on the SM, but PAIR slots."""
        most = self.plan.machine.emitting.ring_slots.whole
        loops = [number for number, ring in self.copied().items() if not ring.held]
        if not loops or not streamed(self.plan):
            return most
        streams = self.plan.machine.emitting.streamed.whole // self.plan.candidate.ctas
        return min(most, max(PAIR, streams // self.slots_bytes(loops)))

    def waits(self, ring: Ring) -> bool:
        """Whether a tile keeps its slot for a whole program instance."""
        return ring.held and ring.key not in self.plan.register_operands

    def slots_bytes(self, arefs: list[int]) -> int:
        """Bytes of one slot of each of these rings."""
        return sum(self.memory.buffers[b].bytes for number in arefs for b in self.memory.arefs[number].buffers)

    def name(self, task: Task) -> str:
        """The kernel's name for a task's result."""
        return task.node.name or task.node.tensor or task.node.op_text.split()[0]

    def producer(self, task: Task) -> int:
        """The group that fills a task's ring."""
        if task.region in self.plan.loops or task.node.kind != "load":
            return task.groups[0]
        issuers = (g.id for g in self.plan.groups if g.issuer and task.node.transport == "tma")
        return next(issuers, self.plan.home_group(task.block))

    def depth(self, task: Task) -> int:
        """Slots that the schedule gives the ring; the most of any loop for loads that share one. Where memory is short
        only those of the loop itself, and whoever joins makes it deeper."""
        tensor = task.node.tensor
        depths = [
            b.depth
            for b in self.plan.schedule.buffers
            if b.block == task.block
            and b.space == "shared"
            and (b.name == task.node.name)
            and (b.loop == task.region or (not self.joining and tensor and b.loop in self.plan.loops))
        ]
        return max([*depths, self.alive(task)]) if depths or task.node.kind == "load" else max(PAIR, self.alive(task))

    def alive(self, task: Task) -> int:
        """Slots of a ring that a warp group fills in a loop for tiles that it computes: from when it makes a tile until
        the last reader is done with it, in iterations. The schedule knows of no ring where it has the tile in registers
        and a reader in another group."""
        if task.region not in self.plan.loops:
            return 1
        interval = self.plan.interval(task.region)
        if task.node.kind == "load":
            times = [order.time + 1 - task.start for order in self.arriving.get(task.place, ())]
            return max([1, *(-(-time // interval) for time in times)])
        ends = [
            reader.start + source.distance * interval + (reader.latency if reader.node.kind == "mma" else reader.hold)
            for reader in self.plan.possible_readers(task.place)
            if reader.region == task.region and reader.place != task.place
            for source in (*self.plan.slot_sources(reader), *self.plan.register_sources(reader))
            if self.plan.place_of(source) == task.place
        ]
        return max((-(-(end - task.start) // interval) for end in ends), default=1)
