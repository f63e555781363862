"""The instruction stream of one warp group in one loop: events in order, stages, guards, wait counts.

An event works on iteration step - stage at each step of the pipeline. Issue events make the prologue and epilogue;
a retire event (the wait for an MMA) may lag one stage behind them, which a guard in the steady state covers without
another stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twill.codegen.lower.index_set_splitting import split_index_set
from twill.codegen.lower.loop_unswitching import unswitched
from twill.codegen.lower.scalars import Iteration
from twill.codegen.warp.expression import Apply, Expr, Local, Number, less
from twill.codegen.warp.program import Commit, If, Pipeline, Stmt, WaitGroups
from twill.tile.program import Loop


@dataclass(frozen=True)
class StreamEvent:
    """time: cycles from the start of an iteration. retires: for a wait, the key of the MMA waited for; ready: its
    accumulator and fragment A; matters: whether anything but MMAs touches those inside the loop.
    multiplies: the event issues an MMA (its Commit is made whatever the guard says).
    emit: the statements, for an iteration. keep: copies of older versions in front of a definition, made whether there
    is an iteration left or not, so that readers find versions where the steady state has them; not in front of the
    first, unless the value is `carried` into the loop.
    """

    key: tuple[str, int]
    time: int
    emit: Callable[[Iteration], list[Stmt]]
    multiplies: bool = False
    retires: tuple[str, int] | None = None
    ready: tuple[int, ...] = ()
    matters: bool = True
    keep: Callable[[], list[Stmt]] = list
    carried: bool = False
    stage: int = 0
    row: int = 0


@dataclass(frozen=True)
class Stream:
    """Events in the order of the steady state. stages: of the pipeline (S): the last stage that issues."""

    events: tuple[StreamEvent, ...]
    stages: int
    interval: int

    def position(self, key: tuple[str, int]) -> int:
        """Where in the steady state an event stands."""
        return next(i for i, event in enumerate(self.events) if event.key == key)

    def event(self, key: tuple[str, int]) -> StreamEvent:
        """The event of that key."""
        return self.events[self.position(key)]

    def executions(self, start: tuple[str, int], end: tuple[str, int], of: tuple[str, int], distance: int = 0) -> int:
        """How often event `of` runs after `start` of iteration i and before `end` of iteration i + distance."""
        first, last, between = self.event(start), self.event(end), self.position(of)
        whole = last.stage + distance - first.stage
        return whole + (between < self.position(end)) - (between <= self.position(start))


def arrange(events: Sequence[StreamEvent], interval: int) -> Stream:
    """The order of the steady state, and where it is cut into steps.

    Any event may come first. ptxas serializes MMAs that are in flight over the back edge of a loop and whose
    registers other instructions touch (C7514), so the cut is where fewest of those are; then with the fewest stages.
    """
    cyclic = sorted(events, key=lambda e: (e.time % interval, e.retires is None, e.time))
    first = next(i for i, e in enumerate(cyclic) if e.time == min(x.time for x in events if x.retires is None))
    cuts = [cut_at(cyclic, (first + i) % len(cyclic), interval) for i in range(len(cyclic))]
    return min(cuts, key=cost_of_cut)


def cut_at(cyclic: Sequence[StreamEvent], cut: int, interval: int) -> Stream:
    """Steps that begin with event `cut` of the cyclic order; retire events lag at most one stage behind the last
    issue."""
    steps = [event.time // interval - (index < cut) for index, event in enumerate(cyclic)]
    begin = min(step for step, event in zip(steps, cyclic, strict=True) if event.retires is None)
    stages = max(step for step, event in zip(steps, cyclic, strict=True) if event.retires is None) - begin
    placed = [
        replace(event, stage=min(step - begin, stages + 1), row=(event.time - cyclic[cut].time) % interval)
        for step, event in zip(steps, cyclic, strict=True)
    ]
    return Stream((*placed[cut:], *placed[:cut]), stages, interval)


def cost_of_cut(stream: Stream) -> tuple[int, int, int]:
    """MMAs in flight over the back edge that other instructions touch; stages; all MMAs in flight there."""
    issued = {event.key: event.stage for event in stream.events if event.multiplies}
    over = [event for event in stream.events if event.retires is not None and event.stage > issued[event.retires]]
    return sum(event.matters for event in over), stream.stages, len(over)


class Printer:
    """Makes the pipeline of one stream."""

    def __init__(self, stream: Stream, loop: Loop, name: str, trip: Expr, split_index_sets: bool = True) -> None:
        self.stream, self.loop, self.name, self.trip, self.split_index_sets = stream, loop, name, trip, split_index_sets
        self.step = f"{name}_step"

    def pipeline(self, line: int) -> list[Stmt]:
        """The pipeline and what drains it."""
        stages = self.stream.stages
        prologue = tuple(tuple(self.prologue(k)) for k in range(stages))
        steady, until, later = self.steadies()
        made: list[Stmt] = [
            Pipeline(
                self.name,
                self.step,
                self.trip,
                stages,
                prologue,
                tuple(steady),
                tuple(tuple(self.epilogue(j)) for j in range(stages)),
                self.stream.interval,
                until,
                tuple(later),
                line=line,
            )
        ]
        lagging = [event for event in self.stream.events if event.stage > stages]
        waits = [event for event in self.stream.events if event.retires is not None]
        if waits:
            made.append(WaitGroups(0, tuple(dict.fromkeys(f for event in waits for f in event.ready)), line=line))
        if lagging:
            last = Iteration(self.loop, self.step, -1)  # not read: a retirement needs no addresses
            body = [stmt for event in lagging for stmt in event.emit(last)]
            if body:
                made.append(If(less(Number(max(stages, 1) - 1), self.trip), tuple(body)))
        return made

    def steadies(self) -> tuple[list[Stmt], Expr | None, list[Stmt]]:
        """The steady state, and where it becomes another one. MMAs that are in flight from step to step, and whose
        registers others touch, allow one only."""
        steady = self.steady()
        if cost_of_cut(self.stream)[0]:
            return steady, None, []
        found = split_index_set(steady, self.step) if self.split_index_sets else None
        return found or (unswitched(steady), None, [])

    def steady(self) -> list[Stmt]:
        """Every event; a lagging one waits for its first iteration."""
        made: list[Stmt] = []
        for event in self.stream.events:
            guard = less(Number(event.stage - 1), Local(self.step)) if event.stage > self.stream.stages else None
            made.extend(self.run(event, guard))
        return made

    def prologue(self, k: int) -> list[Stmt]:
        """Step k: what has an iteration by now."""
        made: list[Stmt] = []
        for event in self.stream.events:
            if event.stage <= k:
                guard = less(Number(k - event.stage), self.trip) if k > event.stage else None
                made.extend(self.run(event, guard, retained=k > event.stage or event.carried))
            else:
                made.extend(self.skip(event))
        return made

    def epilogue(self, j: int) -> list[Stmt]:
        """Step max(trip, stages) + j: what has an iteration left."""
        made: list[Stmt] = []
        stages = self.stream.stages
        for event in self.stream.events:
            if event.stage <= j:
                made.extend((*event.keep(), *self.skip(event)))
                continue
            number = Iteration(self.loop, self.step, event.stage).number
            guard: Expr | None = less(number, self.trip) if stages > 1 else None
            if event.stage > stages:
                begun = less(Number(event.stage - 1), Local(self.step))
                guard = begun if guard is None else Apply("and", (begun, guard), "i1")
            made.extend(self.run(event, guard))
        return made

    def run(self, event: StreamEvent, guard: Expr | None, *, retained: bool = True) -> list[Stmt]:
        """The event under a guard; waits, commits and (if `retained`) copies are made whatever it says."""
        made: list[Stmt] = event.keep() if retained else []
        if event.retires is not None:
            made.append(self.wait(event))
        body = tuple(event.emit(Iteration(self.loop, self.step, event.stage)))
        if body:
            made.extend(body if guard is None else [If(guard, body)])
        if event.multiplies:
            made.append(Commit())
        return made

    def skip(self, event: StreamEvent) -> list[Stmt]:
        """An event without an iteration: an MMA leaves an empty group, so that counts stay."""
        return [Commit(note="no iteration yet or left: an empty group")] if event.multiplies else []

    def wait(self, event: StreamEvent) -> WaitGroups:
        """Wait for the MMA that the event retires; younger ones stay in flight."""
        assert event.retires is not None
        younger: set[int] = set()
        pending = 0
        for other in self.stream.events:
            if other.retires is not None:
                count = self.stream.executions(event.retires, event.key, other.retires)
                pending += count
                younger |= set(other.ready) if count else set()
        ready = tuple(f for f in event.ready if f not in younger) if event.matters else ()
        return WaitGroups(pending, ready)
