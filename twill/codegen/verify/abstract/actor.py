"""One warp group as an actor: what it knows and holds, rings and barriers.

What statements compute is in `statements`, the order in which they are executed in `control`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from twill.codegen.verify.abstract.barriers import Mbarrier, NamedBarrierState
from twill.codegen.verify.abstract.instance_assignment import InstanceAssignment, Message
from twill.codegen.verify.abstract.memory import GlobalTensors, SharedTiles
from twill.codegen.verify.abstract.order import Clock, Event, Knowledge, SlotAccess
from twill.codegen.verify.abstract.registers import Fragments, Multiplies
from twill.codegen.verify.abstract.scalars import EvaluationScope, Scalar
from twill.codegen.verify.abstract.scheduling import CommonScalars, LaunchedCta
from twill.codegen.verify.abstract.violation import Findings
from twill.codegen.warp.program import Acquire, Aref, Get, SlotRef, Stmt, TensorMapSpec, WarpGroup, WarpProgram
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.elements import Elements


@dataclass(frozen=True)
class Waiting:
    """What a warp group waits for. ready: whether it may go on. polls: it asks again from time to time, whether or not
    it is. gives_way: other CTAs have their turn first."""

    ready: Callable[[], bool]
    text: Callable[[], str]
    line: int
    polls: bool = False
    gives_way: bool = False


@dataclass
class RingState:
    """The barriers of an aref, one of each a slot. number: which no other ring has, of any CTA."""

    aref: Aref
    number: int
    full: list[Mbarrier]
    empty: list[Mbarrier]

    @classmethod
    def of(cls, aref: Aref, number: int, where: str = "") -> RingState:
        """Fresh barriers."""
        names = [f"slot {slot} of ring `{aref.name}`{where}" for slot in range(aref.depth)]
        full, empty = (
            [
                Mbarrier(f"the {side} barrier of {name}", count, ("ended", number, slot, bit))
                for slot, name in enumerate(names)
            ]
            for bit, side, count in ((1, "full", aref.full_count), (0, "empty", aref.empty_count))
        )
        return cls(aref, number, full, empty)


@dataclass
class CtaState:
    """What the warp groups of one CTA share. program: with numbers of warp groups that no other CTA of its cluster has.
    others: the CTAs of its cluster besides it. touched: (event, time, what, line, role) of what others did to it."""

    program: WarpProgram
    shared: SharedTiles
    tensors: GlobalTensors
    rings: list[RingState]
    barriers: list[NamedBarrierState]
    findings: Findings
    scalars: Mapping[str, int | float]
    grid: tuple[int, int, int]
    roles: dict[int, str]
    assignment: InstanceAssignment
    cta: LaunchedCta
    common: CommonScalars
    watch: Callable[[Actor, Stmt], None] | None = None  # is told of every statement before it is executed
    current: Actor | None = None  # who executes a statement
    told: dict[int, tuple[Scalar, ...]] = field(default_factory=dict)  # by one thread, by the buffer it wrote to
    preempt: bool = False  # whether others have their turn behind every Elect
    others: list[CtaState] = field(default_factory=list)
    touched: list[tuple[Event, int, str, int, str]] = field(default_factory=list)

    @property
    def first(self) -> CtaState:
        """The first CTA of its cluster."""
        return min((self, *self.others), key=lambda one: one.cta.rank)

    def begun(self) -> Clock:
        """What every thread knows from the start: which CTAs have made their barriers."""
        cluster = self.program.cluster
        known = range(cluster.ctas) if cluster is not None and cluster.meets_first else (self.cta.rank,)
        return {("begun", rank): 1 for rank in known}


@dataclass
class BulkStore:
    """A TMA store that was issued. source: a view of shared memory; data: what was read from it."""

    source: Array
    argument: str
    elements: Elements
    combine: str
    element: str
    line: int
    data: Array | None = None


class Actor:
    """A warp group that runs."""

    def __init__(self, machine: CtaState, group: WarpGroup) -> None:
        self.machine, self.group, self.role = machine, group, group.role
        self.findings = machine.findings
        self.clock = Knowledge(group.id, group.issuer)
        self.clock.learn(machine.begun())
        self.cursors = {cursor.id: 0 for cursor in group.cursors}
        self.ring_of = {cursor.id: machine.rings[cursor.aref] for cursor in group.cursors}
        self.fragments = Fragments(group, self.findings)
        self.multiplies = Multiplies()
        self.bulk_open: list[BulkStore] = []
        self.bulk_groups: list[list[BulkStore]] = []
        self.bulk_read = self.bulk_done = 0
        self.arrivals = 1 if group.issuer else group.threads // 32
        self.number = 0  # of instances before this one
        self.alike: dict[str, tuple[tuple[Scalar, ...], int]] = {}  # by name: the last values, how many had them before
        self.fetched: Message | None = None  # of this one; None if nothing was published or received
        self.stopped = False  # by the statements in front of an instance
        names = dict(machine.common.names)
        self.scope = EvaluationScope(
            machine.scalars, machine.grid, (0, 0, 0), self._element, names, machine.cta.says(), machine.tensors.tensors
        )
        self.line = 0
        self.looked = False  # at memory, since the last turn of a loop began
        self.seen = -1  # how often memory had changed then
        self.maps: dict[int, TensorMapSpec] = {}  # that the group has made, as they are now
        self.unseen: dict[int, TensorMapSpec] = {}  # that it has made, and not shown
        self.through: dict[int, list[list[tuple[Event, int, int]]]] = {}  # of each making, copies: (event, phase, line)
        self.settled: dict[int, int] = {}  # by cursor: slots that were filled at the last Settle

    # ------------------------------------------------------------ rings
    def place(self, cursor: int) -> tuple[RingState, int, int, int]:
        """(ring, slot, phase, count) at a cursor."""
        ring, count = self.ring_of[cursor], self.cursors[cursor]
        return ring, count % ring.aref.depth, count // ring.aref.depth, count

    def slot(self, ref: SlotRef) -> int:
        """The slot of a buffer that is meant."""
        if ref.cursor is None:
            return 0
        slot, slots = self.place(ref.cursor)[1], self.machine.program.buffers[ref.buffer].slots
        if slot >= slots:
            name = self.machine.program.buffers[ref.buffer].name
            self.report("slots", f"{self.role} uses slot {slot} of `{name}`, which has {slots}")
        return slot % slots

    def landed(self, ring: RingState, slot: int) -> Event | None:
        """The event that counts phases of a full barrier."""
        return ("tma", ring.number, slot)

    def settle(self, barrier: Mbarrier, landed: Event | None) -> bool:
        """Complete a barrier's phase if it can be; the rules of completion."""
        phase, clock, issued, expected = barrier.phase, barrier.clock, barrier.issued, barrier.expected
        if not barrier.complete(landed):
            return False
        if issued != expected:
            self.report("bytes", f"{barrier.name} is told of {expected} bytes, {issued} land in phase {phase}")
        for event, time, waited, line in barrier.waits:
            if waited == phase - 1 and clock.get(event, 0) < time:
                (group,) = event[1:]
                self.findings.add(
                    "phase",
                    f"{self.machine.roles[group]} may wait for phase {waited} of {barrier.name} only after phase "
                    f"{phase} is complete: a wait knows one phase only, and nothing makes the second wait for it",
                    line, self.machine.roles[group], self.role,
                )  # fmt: skip
        barrier.waits = [wait for wait in barrier.waits if wait[2] >= phase]
        return True

    def wait(self, stmt: Acquire | Get) -> Iterator[Waiting]:
        """Wait until a slot is empty or full."""
        ring, slot, phase, _ = self.place(stmt.cursor)
        get = isinstance(stmt, Get)
        yield from self.wait_for(ring, slot, phase if get else phase - 1, "Get" if get else "Acquire")
        if self.in_tensor_memory(ring):
            self.clock.tensor_after()

    def in_tensor_memory(self, ring: RingState) -> bool:
        """Whether a ring has tiles in tensor memory: its waits and arrivals have fences then."""
        return any(self.machine.program.buffers[number].tensor for number in ring.aref.buffers)

    def wait_for(self, ring: RingState, slot: int, wanted: int, verb: str) -> Iterator[Waiting]:
        """Wait for a phase of the full barrier of a slot, or (Acquire) of the empty one."""
        full = verb != "Acquire"
        barrier = ring.full[slot] if full else ring.empty[slot]
        landed = self.landed(ring, slot) if full else None
        line = self.line
        if wanted > 0 and not self.knows(barrier, wanted - 1):
            self.report(
                "phase", f"{verb} by {self.role} waits for phase {wanted} of {barrier.name} without knowing that phase "
                f"{wanted - 1} is complete: a wait cannot tell phase {wanted} from phase {wanted - 2}",
            )  # fmt: skip

        def ready() -> bool:
            self.settle(barrier, landed)
            return barrier.passes(wanted)

        if not ready():
            if barrier.phase > wanted + 1:
                self.report("phase", f"{verb} by {self.role} comes after phase {barrier.phase - 1} of {barrier.name}, "
                                     f"but it waits for phase {wanted}")  # fmt: skip
            yield Waiting(ready, lambda: f"{verb}: {barrier.missing()}", line)
        if barrier.phase != wanted + 1:
            self.line = line
            self.report("phase", f"{verb} by {self.role} waits for phase {wanted} of {barrier.name}, and passes in "
                                 f"phase {barrier.phase}")  # fmt: skip
        if not 0 <= wanted < len(barrier.done):
            return
        together = ring.aref.pair or ring.aref.shared  # what copies into the other CTA say of a thread: that it waited
        alone = not self.group.issuer or together
        if verb != "Get" and ring.aref.transport == "tma" and alone:
            barrier.waits.append((*self.clock.wait_alone(barrier.done[wanted]), wanted, line))
            return
        self.clock.learn(barrier.done[wanted])
        event: Event = ("time", self.group.id)
        barrier.waits.append((event, self.clock.own[event], wanted, line))

    def reach(self, other: CtaState, what: str, late: tuple[Event, int] | None = None) -> None:
        """Something is done to another CTA, which must have begun, and must not end before. late: of an arrival behind
        MMAs, the event of who knows of it: that the MMAs are over says nothing of it."""
        if not self.clock.released().get(("begun", other.cta.rank), 0):
            self.report("cluster", f"{what} by {self.role} may come before CTA {other.cta.rank} has made its "
                                   "barriers: the cluster does not meet first")  # fmt: skip
        own: Event = ("time", self.group.id)
        event, time = late or (own, self.clock.own[own])
        other.touched.append((event, time, f"{what} by {self.role}", self.line, self.role))

    def signal(
        self, cursor: int, *, full: bool, arrivals: int, expected: int = 0, at: CtaState | None = None,
        behind: bool = False,
    ) -> None:  # fmt: skip
        """Arrive on the full or the empty barrier of a slot. at: the CTA whose barrier it is (None: the own one).
        behind: when the group's MMAs in tensor memory so far are over, which whoever waits for it then knows."""
        ring, slot, phase, _ = self.place(cursor)
        if behind:
            self.multiplies.commit()
        elif self.in_tensor_memory(ring):
            self.clock.tensor_before()
        if at is not None:
            ring = at.rings[ring.aref.id]
        barrier = ring.full[slot] if full else ring.empty[slot]
        if at is not None:
            what = f"{'Publish' if full else 'Consumed'} of slot {slot} of ring `{ring.aref.name}`"
            self.reach(at, what, (barrier.ended, phase + 1) if behind else None)
        elected = bool(expected) or (full and ring.aref.transport == "tma")
        clock = self.clock.of_elected() if elected else self.clock.released()
        if behind:
            clock = {**clock, ("mma", self.group.id): self.multiplies.wait(0)}
        if not elected and at is None:
            self.pending(ring, slot, clock, "Publish" if full else "Consumed")
        if not full and at is None and ring.full[slot].phase <= phase:
            self.report("phase", f"Consumed by {self.role} gives slot {slot} of ring `{ring.aref.name}` back before it "
                                 f"was full for the {phase + 1}. time")  # fmt: skip
        landed = self.landed(ring, slot) if full else None
        if barrier.arrived >= barrier.count:
            self.settle(barrier, landed)
        if barrier.phase != phase or barrier.arrived + arrivals > barrier.count:
            verb = ("Expect" if elected else "Publish") if full else "Consumed"
            self.report(
                "phase", f"{verb} by {self.role} means phase {phase} of {barrier.name}, which is in phase "
                f"{barrier.phase} with {barrier.arrived} of {barrier.count} arrivals",
            )  # fmt: skip
        elif phase and not self.knows(barrier, phase - 1, each=not elected):
            self.report("phase", f"{self.role} arrives in phase {phase} of {barrier.name} without knowing in each of "
                                 f"its warps that phase {phase - 1} is complete")  # fmt: skip
        barrier.arrive(arrivals, clock, expected)
        barrier.late |= behind
        if barrier.arrived >= barrier.count and not (barrier.expected or barrier.loads):
            self.settle(barrier, landed)

    def knows(self, barrier: Mbarrier, phase: int, each: bool = False) -> bool:
        """Whether the group knows that a phase is complete, and not only by chance. each: every thread of it, of all
        the others, too: an arrival of a warp that is ahead must not be counted for one that is behind."""
        if phase >= len(barrier.done):
            return False
        known = self.clock.collective() if each else self.clock.released()
        done = barrier.done[phase]
        if any(count > known.get(event, 0) for event, count in done.items() if event[0] == "time"):
            return False
        waited = any(at == phase and known.get(event, 0) >= time for event, time, at, _ in barrier.waits)
        return waited or done.get(barrier.ended, 0) <= known.get(barrier.ended, 0)

    def pending(self, ring: RingState, slot: int, clock: Clock, verb: str) -> None:
        """Report accesses of a slot by this group that are not over when it gives the slot on."""
        for buffer in ring.aref.buffers:
            if slot >= self.machine.program.buffers[buffer].slots:
                continue
            for access in self.machine.shared.pending(SlotRef(buffer), slot, self.group.id, clock):
                name, rule = self.machine.program.buffers[buffer].name, "mma-wait"
                if access.proxy == "tma":
                    rule = "bulk"
                missing = "WaitGroups covers it" if rule == "mma-wait" else "BulkWait covers it"
                self.report(rule, f"{verb} by {self.role} gives slot {slot} of `{name}` back while {access.what}, line "
                                  f"{access.line}, may still use it: no {missing}")  # fmt: skip

    # ------------------------------------------------------------ named barriers
    def arrive(self, barrier: NamedBarrierState) -> int:
        """Arrive on a named barrier; the phase."""
        time = self.clock.own[("time", self.group.id)]
        if self.group.id not in barrier.groups:
            self.report("barrier", f"{self.role} uses barrier `{barrier.name}`, which does not count it")
        if self.group.id in barrier.arrived:
            self.report("barrier", f"{self.role} arrives twice in one phase of barrier `{barrier.name}`")
        elif barrier.done and self.group.id in barrier.groups:
            known = self.clock.released()
            for group, earlier in barrier.done[-1][1]:
                if known.get(("time", group), 0) < earlier:
                    self.report("barrier", f"{self.role} may arrive on barrier `{barrier.name}` before its last phase "
                                           f"is complete: it does not know that {self.machine.roles[group]} arrived",
                                self.machine.roles[group])  # fmt: skip
        return barrier.arrive(self.group.id, time, self.clock.released())

    def sync(self, number: int) -> Iterator[Waiting]:
        """Arrive and wait for the others."""
        barrier = self.machine.barriers[number]
        phase = self.arrive(barrier)
        if barrier.phase <= phase:
            yield Waiting(
                lambda: barrier.phase > phase,
                lambda: f"Sync: barrier `{barrier.name}` has {len(barrier.arrived)} of {len(barrier.groups)} groups",
                self.line,
            )
        self.clock.learn(barrier.done[phase][0])

    # ------------------------------------------------------------ bulk stores
    def read_bulk(self, upto: int) -> None:
        """The stores of the first `upto` groups have read shared memory."""
        for store in (store for group in self.bulk_groups[self.bulk_read : upto] for store in group):
            store.data = store.source.copy()
        self.bulk_read = max(self.bulk_read, upto)

    def finish_bulk(self, upto: int) -> None:
        """The stores of the first `upto` groups, which were read, have written global memory."""
        for store in (store for group in self.bulk_groups[self.bulk_done : upto] for store in group):
            value = store.source if store.data is None else store.data
            value = value.reshape(store.elements[0].shape)
            self.machine.tensors.store(store.argument, store.elements, value, store.combine, store.element)
        self.bulk_done = max(self.bulk_done, upto)

    def leave(self) -> None:
        """The end of the kernel: what may not be left over, and what completes by itself."""
        if self.multiplies.open or self.multiplies.complete < len(self.multiplies.groups):
            left = [group for group in self.multiplies.groups[self.multiplies.complete :] if group]
            if self.multiplies.open or left:
                self.report("leftover", f"{self.role} ends with groups of MMAs that no WaitGroups covers")
        stores = [store for group in self.bulk_groups[self.bulk_read :] for store in group] + self.bulk_open
        for store in stores:
            self.line = store.line
            self.report(
                "bulk", f"{self.role} ends while a bulk store may still read shared memory: no BulkWait covers it"
            )
        self.bulk_groups.append(self.bulk_open)
        self.finish_bulk(len(self.bulk_groups))

    # ------------------------------------------------------------ helpers of statements
    def report(self, rule: str, message: str, other: str = "") -> None:
        """Note a violation of this group at the line that it is at."""
        self.findings.add(rule, message, self.line, self.role, other)

    def touch(self, ref: SlotRef, access: SlotAccess, clock: Clock, at: CtaState | None = None) -> int:
        """Note an access of shared memory (of another CTA: `at`); the slot."""
        slot = self.slot(ref)
        knows = (clock, self.clock.after)
        (at or self.machine).shared.access(ref, slot, access, knows, self.role, self.machine.roles)
        return slot

    def _element(self, fragment: int) -> Scalar:
        value = self.fragments.read(fragment, self.line)
        return value.reshape(-1)[0].item() if value.dtype.kind == "i" else value.reshape(-1)[0]
