"""What the events of a loop do: tasks that are issued, MMAs that retire, values of other groups that come in."""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.codegen.lower.cursors import CursorUse
from twill.codegen.lower.loop_stream import LoopStream
from twill.codegen.lower.mma import MmaLowering
from twill.codegen.lower.operations import LoweringScope, Tools
from twill.codegen.lower.ordering_barriers import OrderingBarrier, give, ordering_barriers, wait
from twill.codegen.lower.puts import Puts
from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.store_order import StoreOrders
from twill.codegen.lower.stores import Stores
from twill.codegen.lower.stream import EventKey, Made, StreamEvent
from twill.codegen.lower.task import Place, Source, Task
from twill.codegen.lower.tensor_updates import update
from twill.codegen.warp.program import Copy, LoadAccumulator, LoadShared, SlotRef, Stmt
from twill.tile.program import Loop


@dataclass
class LoopPlan:
    """One loop of one warp group while it is said. uses: how events use the rings they read; variables: where an event
    finds a value; landings: what an event copies when it completes, (from, to)."""

    said: LoopStream
    loop: Loop
    variables: dict[tuple[EventKey, Made, int], int] = field(default_factory=dict)
    landings: dict[EventKey, tuple[int, int]] = field(default_factory=dict)
    uses: dict[EventKey, dict[int, CursorUse]] = field(default_factory=dict)  # event -> aref -> use

    @property
    def region(self) -> int:
        """Of the dependence graph."""
        return self.said.region


class Events:
    """The statements of events, for an iteration each."""

    def __init__(self, tools: Tools, puts: Puts, mmas: MmaLowering, stores: Stores) -> None:
        self.tools, self.puts, self.mmas, self.stores = tools, puts, mmas, stores
        self.orders = StoreOrders(tools.rings.orders, tools.cursors, tools.group)
        self.plan, self.registers, self.rings = tools.plan, tools.registers, tools.rings.by_place

    def emit(self, plan: LoopPlan, event: StreamEvent, at: Iteration) -> list[Stmt]:
        """The statements of an event."""
        kind, number = event.key
        match kind:
            case "issue":
                return self.issue(plan, plan.said.tasks[number], number, at)
            case "ahead":
                return self.ahead(plan.said.tasks[number], at)
            case "retire":
                return self.retire(plan, plan.said.tasks[number], number, at)
            case "arrive":
                return [stmt for use in plan.uses[event.key].values() for stmt in (*use.before(), *use.after())]
        return self.receive(plan, plan.said.received[number], event.key, at)

    def older_versions(self, plan: LoopPlan, event: StreamEvent) -> list[Stmt]:
        """Copies of older versions of what an event defines."""
        kind, number = event.key
        if kind in ("retire", "arrive"):
            return []
        if kind == "ahead":
            task = plan.said.tasks[number]
            return self.registers.keep(self.registers.of(task.made))
        return self.keep(plan.said.tasks[number] if kind == "issue" else self.plan.tasks[plan.said.received[number]])

    def ahead(self, task: Task, at: Iteration) -> list[Stmt]:
        """A tile that threads load before its slot is free."""
        made: list[Stmt] = []
        with self.tools.scalars.event(made):
            made += self.puts.ahead(task, self.rings[task.place], at)
        return made

    def issue(self, plan: LoopPlan, task: Task, number: int, at: Iteration) -> list[Stmt]:
        """Everything that a task does when it is issued."""
        made: list[Stmt] = []
        with self.tools.scalars.event(made):
            made += self.issued(plan, task, number, at)
        return made

    def issued(self, plan: LoopPlan, task: Task, number: int, at: Iteration) -> list[Stmt]:
        """As `issue`, without what it looks up."""
        key = ("issue", number)
        made: list[Stmt] = []
        uses = plan.uses.get(key, {})
        made += self.orders.wait(task.place)
        for use in uses.values():
            made += use.before()
        if task.node.kind == "load" and not self.plan.candidate.direct:
            ring = self.rings.get(task.place)
            held = plan.variables.get((key, task.made, 0)) if number in plan.said.ahead else None
            return made + (self.puts.load(task, ring, at, held) if ring is not None else [])
        scope = self.scope(plan, key, task, at, made)
        if task.node.kind == "mma":
            trip = self.tools.scalars.trip(plan.loop)
            for barrier in self.ordering_barriers(plan):
                if task.place in barrier.to.mmas:
                    made += wait(barrier, task.place, self.barrier_of(plan, barrier), at, trip)
            made += self.mmas.issue(task, scope)
            for barrier in self.ordering_barriers(plan):
                if task.place in barrier.of.mmas:
                    made += give(barrier, task.place, self.barrier_of(plan, barrier), at, trip)
        elif task.node.kind in ("store", "reduce_store"):
            self.stores.store(task, scope)
            made += self.orders.stored(task)
        elif self.plan.is_updater(task):
            made += update(task, scope)
        else:
            scope.run(task)
        for use in uses.values():
            made += use.after(behind=self.plan.is_in_tensor_memory(task))
        ring = self.rings.get(task.place)
        if ring is not None and task.node.kind == "elementwise" and not self.plan.is_updater(task):
            made += self.puts.from_registers(task, ring)
        return made

    def retire(self, plan: LoopPlan, task: Task, number: int, at: Iteration) -> list[Stmt]:
        """What follows the wait for an MMA: its result is amended, its operands' slots go back, its result goes to
        other groups."""
        made: list[Stmt] = []
        with self.tools.scalars.event(made):
            self.scope(plan, ("retire", number), task, at, made).predicated_update(task.steps[-1])
        if ("retire", number) in plan.landings:
            made.append(Copy(*plan.landings["retire", number]))
        for use in plan.uses.get(("retire", number), {}).values():
            made += use.after()
        ring = self.rings.get(task.place)
        if ring is not None:
            made += self.puts.from_registers(task, ring)
        return made

    def receive(self, plan: LoopPlan, place: Place, key: EventKey, at: Iteration) -> list[Stmt]:
        """A value of another warp group comes into registers."""
        task, ring = self.plan.tasks[place], self.rings[place]
        use = plan.uses[key][ring.aref.id]
        variable = self.registers.of(task.made)
        source = SlotRef(ring.buffer.id, use.cursor)
        if not ring.buffer.tensor:
            return [*use.before(), LoadShared(source, variable, line=task.node.line), *use.after()]
        made: list[Stmt] = [*use.before(), LoadAccumulator(source, variable, line=task.node.line), *use.after()]
        with self.tools.scalars.event(made):
            self.scope(plan, key, task, at, made).predicated_update(task.steps[-1])
        return made

    def scope(self, plan: LoopPlan, key: EventKey, task: Task, at: Iteration, made: list[Stmt]) -> LoweringScope:
        """The place of one event."""

        def find(source: Source) -> int:
            made_by = source.made
            if source.step in task.steps and not source.distance:
                return self.registers.of(made_by)
            return plan.variables[key, made_by, source.distance]

        def slot(source: Source) -> SlotRef | None:
            if not any(self.plan.place_of(s) == self.plan.place_of(source) for s in self.plan.slot_sources(task)):
                return None
            ring = self.rings[self.plan.place_of(source)]
            if ring.held:
                return SlotRef(ring.buffer.id, self.tools.cursors.of(ring.aref, "get"))
            return SlotRef(ring.buffer.id, plan.uses[key][ring.aref.id].cursor)

        return LoweringScope(self.tools, at, task.block, find, slot, made)

    def ordering_barriers(self, plan: LoopPlan) -> tuple[OrderingBarrier, ...]:
        """The turns at the tensor core in a loop."""
        tasks = [t for t in self.plan.tasks.values() if t.region == plan.region]
        mmas = [t for t in tasks if t.node.kind == "mma"]
        slack = self.plan.machine.emitting.ordered.value
        return ordering_barriers(
            mmas, [t for t in tasks if t.node.kind != "mma"], self.plan.interval(plan.region), slack
        )

    def barrier_of(self, plan: LoopPlan, barrier: OrderingBarrier) -> int:
        """The named barrier by which one group gives its turn to another in a loop."""
        of, to = barrier.of.group, barrier.to.group
        return self.tools.memory.barrier(f"turn {of} to {to} in loop{plan.region}", (of, to)).id

    def keep(self, task: Task) -> list[Stmt]:
        """Copies of older versions of what a task defines."""
        if not self.plan.defines(task):
            return []
        return self.registers.keep(self.registers.of(task.made))
