"""The ways in which one schedule can be lowered, the best predicted first, tried in one loop.

A schedule leaves open what does not change its initiation interval: how many CTAs share an SM, whether two computing
warp groups take program instances alternately, whether tiles stay in registers as operands of products, and whether a
steady state may change once. Each combination is a `LoweringCandidate` with its predicted cost. `search` tries them in
order and records what became of each (`twill emit --why` prints that).

Where shared memory is short, loops may also be asked to exchange equal warp groups: rings of loops that follow one
another are one where the same group reads them (`twill.codegen.lower.place`). At last, buffers may lie over one another
that are never in use at once (`twill.codegen.passes.overlay`).

A candidate is refused where its tiles exceed shared memory or the register file (`SharedMemoryFull`, or a `Refusal`
that lowering returns), and where the compiler has no room for it (`BuildRejected`). What the compiler refused is tried
again with less asked of it as long as that is predicted to be as fast, and then with schedules that keep registers free
of tiles, or shared memory (`twill.codegen.room`), each with candidates of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import TypeVar

from twill import exc
from twill.codegen.lower.direct import WORD, direct_schedule, direct_schedules, has_products, is_straight, load_cycles
from twill.codegen.lower.groups import COPIES, warp_groups
from twill.codegen.lower.occupancy import held_ctas, most_ctas
from twill.codegen.warp.layout import THREADS
from twill.machine.description import Machine
from twill.machine.occupancy import register_pool
from twill.schedule.document import LoopSchedule, Schedule
from twill.tile.data_addresses import loads_by_data
from twill.tile.program import Loop, TileProgram

BOTH = (True, False)
REFUSED = "refused: "

SOLVED_AGAIN = (exc.BuildRejected, exc.SharedMemoryFull, exc.RegisterFileFull)  # with more of it free
MOST_EXCHANGES = 12  # ways to exchange warp groups that are tried
SAVED = 32  # stores of spilled values that one more register can save: those that it holds one after the other

Made = TypeVar("Made")
Exchange = tuple[tuple[int, int, int], ...]
"""(loop, warp group of the schedule, the group that does its part instead), for each that changes."""


@dataclass(frozen=True, order=True)
class Cost:
    """Predicted cycles of the main loop on one SM. interval: from one iteration to the next, of any CTA of the SM.
    exposed: that a program instance takes besides, to fill and to drain its pipeline, with nothing else beside it."""

    interval: float
    exposed: float

    def __str__(self) -> str:
        return f"{self.interval:.0f} cycles an iteration, {self.exposed:.0f} to fill and drain"


@dataclass(frozen=True)
class LoweringCandidate:
    """One way to lower a schedule. ctas: that share an SM. ping_pong: whether two computing warp groups take program
    instances alternately. registers: whether tiles may stay in registers as operands of products, and sums in parts
    from loop to loop. switches: whether a steady state may change once, where loops of the kernel were joined. room,
    shared: registers of each computing thread, and bytes of shared memory, that the schedule keeps free of tiles;
    solution: which of the schedules of the kernel that is. direct: one warp group does everything, and tiles go
    straight to its registers (`twill.codegen.lower.direct`); threads: of it; late: each tile where it is read first
    (`twill.codegen.passes.late_loads`); limit: registers that the compiler may give each of them (0: not said).
    exchange: of warp groups in some loops. overlay: buffers that are never in use at once may lie over one another
    (`twill.codegen.passes.overlay`). budgets: registers are moved between warp groups even where a launch gives each
    thread enough (`twill.codegen.lower.occupancy.needs_no_budgets`)."""

    cost: Cost
    ctas: int = 1
    ping_pong: bool = False
    registers: bool = True
    switches: bool = True
    room: int = 0
    direct: bool = False
    shared: int = 0
    solution: int = 0
    exchange: Exchange = ()
    threads: int = THREADS
    late: bool = False
    limit: int = 0
    overlay: bool = False
    budgets: bool = False

    def __str__(self) -> str:
        words = [f"{self.ctas} CTAs on an SM" if self.ctas > 1 else "1 CTA on an SM"]
        of = f" of {self.threads} threads" if self.threads != THREADS else ""
        words += ["ping-pong"] * self.ping_pong + [f"one warp group{of}, loads straight to registers"] * self.direct
        words += ["each where it is read first"] * self.late
        words += [f"{self.room} registers of a thread kept free"] * bool(self.room)
        words += [f"{self.shared} bytes of shared memory kept free"] * bool(self.shared)
        words += ["warp groups exchanged between loops"] * bool(self.exchange)
        words += ["shared memory used again when it is free"] * self.overlay
        return ", ".join((*words, self.asked))

    @property
    def asked(self) -> str:
        """What is asked of the register file, in words."""
        retained = "all that is free in registers" if self.registers else "less in registers"
        return f"{retained}, a steady state that changes" if self.switches else retained


@dataclass(frozen=True)
class CandidateRefusal:
    """Why a candidate came to nothing. error: what is raised if every candidate is refused; None if that says no more
    than the refusal of another one."""

    why: str
    error: exc.CandidateRefused | None = None


@dataclass(frozen=True)
class Attempt:
    """What became of a candidate: "taken", "refused: ..." or "not tried: ..."."""

    candidate: LoweringCandidate
    verdict: str

    def __str__(self) -> str:
        return f"{self.candidate} ({self.candidate.cost}): {self.verdict}"


Recorder = Callable[[Attempt], None]


def unrecorded(attempt: Attempt) -> None:
    """The recorder of a caller who does not ask why."""


def candidates(
    program: TileProgram, schedule: Schedule, machine: Machine, room: int = 0, shared: int = 0, solution: int = 0
) -> tuple[LoweringCandidate, ...]:
    """Every candidate of a schedule, the least predicted cost first; of equal cost, what repeats least work first:
    operands that stay in registers are not fetched again, guards of a steady state that changes are not asked again.
    More threads than the schedule has come behind those, the fewest first, with an SM to themselves: the compiler may
    find room in them where it found none. Last come those that use shared memory again when it is free, which costs
    loads that would be issued ahead.
    room, shared, solution: of the schedule."""
    taking_turns = BOTH if may_take_turns(schedule) else (False,)
    switching = BOTH if is_joined(program) else (False,)
    found = [
        LoweringCandidate(
            predicted(schedule, ctas, ping_pong),
            ctas,
            ping_pong,
            registers,
            switches,
            room,
            False,
            shared,
            solution,
            exchange,
        )
        for exchange, ping_pong, ctas, switches, registers in product(
            ((), *exchanges(schedule)), taking_turns, range(most_ctas(schedule, machine), 0, -1), switching, BOTH
        )
        if ctas == 1 or not ping_pong
    ]
    if not has_products(schedule):
        straight = [
            LoweringCandidate(
                predicted(one, ctas, False, load_cycles(one, machine)),
                ctas,
                switches=switches,
                room=room,
                direct=True,
                shared=shared,
                solution=solution,
                threads=threads,
                late=late,
                limit=register_pool(threads * ctas, machine) // (threads * ctas),
            )
            for threads, one, late in ways_to_load(schedule, machine)
            for ctas, switches in product(range(most_ctas(one, machine), 0, -1), switching)
        ]
        alone = is_straight(schedule) or schedule.cooperation.width > 1 or needs_one_group(program)
        found = straight if alone else straight + found
    plain = (one for one in found if not (one.ping_pong or one.exchange or one.direct))
    last = [replace(one, overlay=True) for one in sorted(plain, key=lambda one: one.cost)]
    if schedule.cooperation.width > 1:
        return (*sorted(found, key=lambda one: one.cost), *last)
    scheduled = sorted((one for one in found if one.threads == THREADS), key=lambda one: one.cost)
    return (*scheduled, *(one for one in found if one.threads > THREADS and one.ctas == 1), *last)


def ways_to_load(schedule: Schedule, machine: Machine) -> Iterator[tuple[int, Schedule, bool]]:
    """The kernel in one warp group: its threads, its schedule, and whether tiles are loaded where they are read first.
    That is a choice of kernels without loops, where registers for more CTAs come of it; it comes first where there are
    not enough for one CTA without it, and fewer with it."""
    for threads, early in direct_schedules(schedule, machine):
        late = direct_schedule(schedule, threads, late=True)
        held, more = (held_ctas(one, machine) for one in (early, late))
        ways = [(threads, early, False)]
        fewer = late.warp_groups[0].registers < early.warp_groups[0].registers
        if is_straight(schedule) and (more > held or (fewer and not held)):
            ways.insert(1 if held else 0, (threads, late, True))
        yield from ways


def exchanges(schedule: Schedule) -> tuple[Exchange, ...]:
    """The ways in which loops but the main one can have equal computing warp groups do one another's part, where no row
    block belongs to one of them."""
    computing = [group for group in schedule.warp_groups if group.context != "issue"]
    others = [loop.loop for loop in schedule.loops if loop is not main_loop(schedule)]
    equal = {(group.context, group.threads) for group in computing}
    if len(computing) < 2 or len(equal) > 1 or schedule.cooperation.blocks > 1 or not has_products(schedule):
        return ()
    numbers = [group.id for group in computing]
    found: list[Exchange] = []
    for orders in product(permutations(numbers), repeat=len(others)):
        changed = [
            (loop, old, new)
            for loop, order in zip(others, orders, strict=True)
            for old, new in zip(numbers, order, strict=True)
            if old != new
        ]
        if changed:
            found.append(tuple(changed))
        if len(found) == MOST_EXCHANGES:
            break
    return tuple(found)


def may_take_turns(schedule: Schedule) -> bool:
    """Whether the schedule has products in one computing warp group, so that a second one could take every other
    instance; whether there is room for it is known when it is assigned."""
    computing = [group for group in warp_groups(schedule)[0] if not group.issuer]
    return len(computing) == 1 and any(i.op == "dot" for loop in schedule.loops for i in loop.graph.instructions)


def needs_one_group(program: TileProgram) -> bool:
    """Whether something that is loaded, or exchanged with memory, is for a warp group that has other data for it."""
    return any(loads_by_data(program)) or any(op.kind == "tile_reduce" and op.results for op in program.ops())


def is_joined(program: TileProgram) -> bool:
    """Whether some loop is several of the kernel's. Their guards hold in iterations that every instance has: a mask of
    a ragged end may never be needed, and a branch costs less than code for it."""
    return program.original is not None and loops(program) < loops(program.original)


def loops(program: TileProgram) -> int:
    """How many there are."""
    return sum(isinstance(item, Loop) for item in program.body)


def predicted(schedule: Schedule, ctas: int, ping_pong: bool, loads: int = 0) -> Cost:
    """The cost of a candidate, from the main loop's I, its length L and what its busiest unit needs (docs/model.md).

    CTAs that share an SM begin an iteration every I / ctas cycles, but no sooner than the busiest unit allows. L - I
    cycles of an instance are outside of its steady state; another CTA, or the other group of a ping-pong, fills them.
    loads: cycles that an iteration's loads take an SM, where threads make them.
    """
    loop = main_loop(schedule)
    interval = max(loop.ii / ctas, loop.certificate.bounds.resource, loads)
    beside = ctas * (COPIES if ping_pong else 1)
    return Cost(interval, max(0, loop.length - loop.ii) / beside)


def main_loop(schedule: Schedule) -> LoopSchedule:
    """The loop with the largest I."""
    return max(schedule.loops, key=lambda loop: loop.ii)


def search(
    every: Sequence[LoweringCandidate],
    attempt: Callable[[LoweringCandidate], Made | CandidateRefusal],
    record: Recorder = unrecorded,
    roomier: Callable[[exc.CandidateRefused], Sequence[LoweringCandidate]] = lambda rejected: (),
    over: Callable[[], bool] = lambda: False,
) -> Made:
    """What the first candidate that is not refused makes; the loop of all choices of lowering.

    attempt: what a candidate makes, or why not; it may raise CandidateRefused. record: gets what became of each
    candidate, in order. roomier: the candidates of a schedule with more registers, or shared memory, free, where the
    compiler refused the last one or its rings did not fit; () if there is none. Those that are slower than what the
    compiler refused come last. over: whether the time for all of it is: nothing is tried then that can't be the only
    answer. Raises the last CandidateRefused if every candidate is refused.
    """
    last: exc.CandidateRefused | None = None
    slower: list[LoweringCandidate] = []
    while every:
        made = _first(every, attempt, record, slower, over)
        if not isinstance(made, CandidateRefusal):
            return made
        last = made.error or last
        every = roomier(last) if isinstance(last, SOLVED_AGAIN) and not over() else ()
    for candidate in () if over() else slower:
        made = _first((candidate,), attempt, record, [], over)
        if not isinstance(made, CandidateRefusal):
            return made
        last = made.error or last
    assert last is not None, "a candidate without ping-pong is refused by an error only"
    raise last


def _first(
    every: Sequence[LoweringCandidate],
    attempt: Callable[[LoweringCandidate], Made | CandidateRefusal],
    record: Recorder,
    slower: list[LoweringCandidate],
    over: Callable[[], bool],
) -> Made | CandidateRefusal:
    """Of the candidates of one schedule; the last refusal that is an error if there is none. slower: gets those that
    are left out because the compiler refused what is predicted to be faster."""
    last = CandidateRefusal("there is no candidate")
    built: LoweringCandidate | None = None  # the last one that only the compiler refused
    full: set[tuple[object, ...]] = set()  # those of which shared memory is too small, by what decides on it
    least: dict[tuple[object, ...], int] = {}  # registers of a thread below which a build spills, where one did
    for number, candidate in enumerate(every):
        if last.error is not None and over():
            record(Attempt(candidate, "not tried: the time for the emission is over"))
            continue
        deciding = (candidate.ctas, candidate.ping_pong, candidate.direct)
        changed = (candidate.exchange, candidate.overlay)
        if any(changed) and (*deciding, (), False) not in full:
            continue  # shared memory is not short
        if (*deciding, *changed) in full:
            record(Attempt(candidate, "not tried: needs as much shared memory as one that was refused for it"))
            continue
        compiled = (candidate.threads, candidate.registers, candidate.switches, candidate.late)
        if candidate.limit and candidate.limit < least.get(compiled, 0):
            record(
                Attempt(candidate, f"not tried: has fewer than {least[compiled]} registers, and one with less spills")
            )
            continue
        fewer = built is not None and built.direct == candidate.direct and candidate.ctas < built.ctas  # more registers
        if built is not None and candidate.cost > built.cost and not fewer:
            slower.append(candidate)
            record(Attempt(candidate, "not tried: predicted slower than what the compiler refused; solved again first"))
            continue
        try:
            made = attempt(candidate)
        except exc.CandidateRefused as refused:
            made = CandidateRefusal(refused.message, refused)
        if not isinstance(made, CandidateRefusal):
            record(Attempt(candidate, "taken"))
            for other in every[number + 1 :]:
                if not (other.exchange or other.overlay) or candidate.exchange or candidate.overlay:
                    record(Attempt(other, "not tried: predicted no faster"))
            return made
        last = made if made.error is not None and not is_fuller(made.error, last.error) else last
        built = candidate if isinstance(made.error, exc.BuildRejected) else built
        if isinstance(made.error, exc.BuildRejected):
            least[compiled] = candidate.limit + 1 + made.error.spilled // WORD // SAVED
        if isinstance(made.error, exc.SharedMemoryFull):
            full.add((*deciding, *changed))
        record(Attempt(candidate, REFUSED + made.why))
    return last


def is_fuller(one: exc.CandidateRefused, other: exc.CandidateRefused | None) -> bool:
    """Whether both lacked shared memory, and this one more of it."""
    if isinstance(one, exc.SharedMemoryFull) and isinstance(other, exc.SharedMemoryFull):
        return one.needed > other.needed
    return False
