"""The instruction stream of one warp group in one loop: events in order, stages, guards, wait counts.

An event works on iteration step - stage at each step of the pipeline. Issue events make the prologue and epilogue;
a retire event (the wait for an MMA) may lag one stage behind them, which a guard in the steady state covers without
another stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

# A value: the step of the flat program that makes it (~step: see `values.fetched`), and the row block.
Made = tuple[int, int]
EventKey = tuple[str, int]


@dataclass(frozen=True)
class StreamEvent:
    """Something that a warp group does in every iteration. key: ("issue", n) of its n-th task in the loop, ("ahead",
    n) of the load to registers of what that task stores, ("retire", n) of the wait for that task's MMA, ("receive", n)
    of the n-th value that comes from another warp group, ("arrive", n) of the n-th tile that another one has loaded.

    time: cycles from the start of an iteration. retires: for a wait, the key of the MMA waited for; ready: its
    accumulator and fragment A; matters: whether anything but MMAs touches those inside the loop. multiplies: the event
    issues an MMA (its group is committed whether there is an iteration or not). carried: what it defines has a value
    before the loop. stage, row: where `arrange` puts it.
    """

    key: EventKey
    time: int
    multiplies: bool = False
    retires: EventKey | None = None
    ready: tuple[Made, ...] = ()
    matters: bool = True
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
        return self.positions[key]

    @cached_property
    def positions(self) -> dict[EventKey, int]:
        """Where each event stands."""
        return {event.key: place for place, event in reversed([*enumerate(self.events)])}

    def event(self, key: tuple[str, int]) -> StreamEvent:
        """The event of that key."""
        return self.events[self.position(key)]

    def last(self, keys: Iterable[EventKey]) -> EventKey:
        """Which of some events of one iteration happens last: in the stream, where an MMA may be waited for later than
        the schedule ends it."""
        return max(keys, key=lambda key: (self.event(key).stage, self.position(key)))

    def pending(self, event: StreamEvent) -> tuple[int, tuple[Made, ...]]:
        """Of a wait: how many younger MMAs stay in flight, and what is free behind it, if that matters."""
        assert event.retires is not None
        younger: set[Made] = set()
        pending = 0
        for other in self.events:
            if other.retires is not None:
                count = self.executions(event.retires, event.key, other.retires)
                pending += count
                younger |= set(other.ready) if count else set()
        return pending, tuple(made for made in event.ready if made not in younger) if event.matters else ()

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


@dataclass(frozen=True)
class Occurrence:
    """An event in one block of the pipeline. empty: there is no iteration for it; an MMA leaves an empty group, so that
    counts stay. begun, left: it happens only once the first iteration has come to it, only while one is left. keeps:
    whether older versions of what it defines are kept in front of it, whatever it says."""

    event: StreamEvent
    empty: bool = False
    begun: bool = False
    left: bool = False
    keeps: bool = True


Block = tuple[Occurrence, ...]


@dataclass(frozen=True)
class PipelineBlocks:
    """What is where: prologue and epilogue have a block for each stage; behind: what retires when all is over."""

    prologue: tuple[Block, ...]
    steady: Block
    epilogue: tuple[Block, ...]
    behind: Block


def pipeline_blocks(stream: Stream) -> PipelineBlocks:
    """The blocks of a loop. In step k of the prologue (k = 0 ... S - 1) what has an iteration by now; in the steady
    state everything, what lags once it has begun; in step max(trip, S) + j of the epilogue what has an iteration
    left."""
    events, stages = stream.events, stream.stages
    lagging = tuple(Occurrence(event) for event in events if event.stage > stages)
    return PipelineBlocks(
        tuple(tuple(_in_prologue(event, k) for event in events) for k in range(stages)),
        tuple(Occurrence(event, begun=event.stage > stages) for event in events),
        tuple(tuple(_in_epilogue(event, j, stages) for event in events) for j in range(stages)),
        lagging,
    )


def _in_prologue(event: StreamEvent, k: int) -> Occurrence:
    if event.stage > k:
        return Occurrence(event, empty=True, keeps=False)
    return Occurrence(event, left=k > event.stage, keeps=k > event.stage or event.carried)


def _in_epilogue(event: StreamEvent, j: int, stages: int) -> Occurrence:
    if event.stage <= j:
        return Occurrence(event, empty=True)
    return Occurrence(event, begun=event.stage > stages, left=stages > 1)
