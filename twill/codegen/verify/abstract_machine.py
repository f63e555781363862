"""Runs a warp program on the CPU with real values, and finds what would go wrong on the GPU.

Every warp group is an actor that steps through its statements; TMA copies and MMAs do their work as late as the
program allows, so that a missing wait shows in the values. Beside the values, vector clocks say which accesses of
shared memory are ordered, through which proxy (`twill.codegen.verify.abstract.order`). Rings are blocking queues with
one producer, so the program is determinate: one interleaving decides deadlock for all, and the clocks find what another
interleaving would do. What several CTAs fetch in a dynamic order depends on who is faster; launches are run with
instances dealt in several ways (`twill.codegen.verify.abstract.instance_assignment`).

`run` runs one launch; `verify` makes up launches and compares their results with the sequential tile program;
`RULES` says what can be found.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from twill.codegen.verify.abstract.actor import Actor, CtaState
from twill.codegen.verify.abstract.cluster import cluster_of
from twill.codegen.verify.abstract.deadline import Over, in_time, refuse_late
from twill.codegen.verify.abstract.inputs import REMEMBERED, CheckedLaunch, launches, most_iterations
from twill.codegen.verify.abstract.instance_assignment import ANY_ORDER, WAYS, Way, assignments
from twill.codegen.verify.abstract.memory import GlobalTensors
from twill.codegen.verify.abstract.remembered import Remembered, launch_key
from twill.codegen.verify.abstract.results import Reference, compare
from twill.codegen.verify.abstract.rounding import narrowed_for_mmas, shaken_results
from twill.codegen.verify.abstract.run_ctas import run_ctas
from twill.codegen.verify.abstract.scheduling import InstanceOrder, LaunchedCta, instance_count
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract.two_processes import all_hold
from twill.codegen.verify.abstract.violation import RULES, Findings, Violation
from twill.codegen.warp.program import Stmt, WarpProgram
from twill.kernel.problem import ProblemTable
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.conflicts import conflicts
from twill.tile.interpret.partial_sums import Foreseen, Parts
from twill.tile.interpret.sequential import Order
from twill.tile.interpret.sequential import run as run_sequentially
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import TileProgram
from twill.tile.rewrite.precision import INSTEAD, changed_mmas
from twill.tile.scalar_region import Endless

__all__ = ["RULES", "CheckedLaunch", "Trace", "Trial", "Violation", "run", "trials", "verify"]

CTAS = 2  # among which fetched instances are dealt in several ways
SLOT_BITS = 3  # that tell the sums of one instance apart
ENOUGH = 20  # violations after which a run is not continued


@dataclass(frozen=True)
class Trace:
    """What a run did: the tensors as they are after it, what it broke, and statements executed. parts: what met in sums
    of several program instances."""

    arrays: Mapping[str, Array]
    violations: tuple[Violation, ...]
    steps: int
    parts: Parts


def run(
    program: WarpProgram,
    launch: CheckedLaunch,
    ctas: int = 1,
    enough: int = ENOUGH,
    watch: Callable[[Actor, Stmt], None] | None = None,
    way: Way = "in turn",
    foreseen: Foreseen | None = None,
    preempt: bool = False,
) -> Trace:
    """The launch on that many persistent CTAs (or clusters), one after the other, on copies of the launch's arrays.

    enough: violations after which it ends. watch: is told of every statement before it is executed. way: in which
    instances that CTAs fetch are dealt to them. foreseen: the parts of another run, with which other instances are the
    last to come to each sum. preempt: of a program with Elect, whose CTAs run together, one at a time
    (`twill.tile.interpret.together`): they give way behind each.
    """
    findings = Findings()
    arrays = {name: array.copy() for name, array in launch.arrays.items()}
    rows, columns, layers = (*launch.grid, 1, 1, 1)[:3]
    grid = (rows, columns, layers)
    dynamic, steps, tensors = program.instance_ring is not None, 0, GlobalTensors.of(arrays, program.program, foreseen)
    together: list[CtaState] = []
    count = instance_count(program, launch.scalars, grid, tensors.tensors) if dynamic else math.prod(grid)
    for number, places in enumerate(assignments(count, ctas, way)):
        if dynamic and number >= math.prod(grid):
            continue  # no more CTAs are launched than there are instances
        machines = cluster_of(program, launch.scalars, grid, tensors, findings, places, (number, ctas), watch)
        if depends_on_order(program.program):
            together += [replace(machine, preempt=preempt) for machine in machines]
            continue
        with np.errstate(all="ignore"):  # infinities are values like others
            steps += run_ctas(machines, enough)
    if together:
        with np.errstate(all="ignore"):
            steps += run_ctas(together, enough)
    for text in tensors.sums.left():
        findings.add("parts", text)
    return Trace(arrays, findings.all(), steps, tensors.sums.came)


@dataclass(frozen=True)
class Trial:
    """A launch, and what its results are compared with: the tensors as the tile program leaves them that was written;
    where that narrows for products what it computed, in one launch of small floats those of the program that code was
    made of, too, which narrows the same numbers."""

    launch: CheckedLaunch
    references: tuple[Reference, ...]


def trials(
    program: WarpProgram, problem: ProblemTable | None = None, thorough: bool = False, over: Over = in_time
) -> tuple[Trial, ...]:
    """Launches at sizes made up for the program: see `twill.codegen.verify.abstract.inputs`.

    problem: the sizes that make sense (default: what the sidecar says, else they are derived from the program).
    thorough: many more launches. over: as for `verify`. Raises `UnknownProblem` if no launch could be made up.
    """
    given = launches(program, problem, thorough, over)
    made = next((made for launched, made in _tried if launched is given), None)
    if made is None:
        made = tuple(_trials(program.program, given, over))
        _tried.append((given, made))
    return made


_tried = deque[tuple[tuple[CheckedLaunch, ...], tuple[Trial, ...]]](maxlen=REMEMBERED)
"""Trials by their launches, which are the same for programs of which the same is wanted."""


def _trials(tile: TileProgram, given: Sequence[CheckedLaunch], over: Over) -> list[Trial]:
    made = []
    for launch in given:
        refuse_late(tile, over)
        made.append(_trial(tile, launch))
    most = _narrowed_alike(tile, [trial.launch for trial in made])
    return [_with_own(tile, trial) if number == most else trial for number, trial in enumerate(made)]


def _trial(tile: TileProgram, launch: CheckedLaunch) -> Trial:
    """A launch, within the numbers that it computes with, and its reference."""
    written = tile.original or tile
    narrowed, in_parts = narrowed_for_mmas(written), precisions(tile)
    if launch.derived and not independent(written, launch):
        launch = alone(launch)
    launch, found = _in_range(launch, lambda one: _reference(written, one, narrowed, in_parts))
    return Trial(launch, (found,))


def _narrowed_alike(tile: TileProgram, launched: Sequence[CheckedLaunch]) -> int:
    """The launch that is compared with the program that code was made of, too; -1: none. Of large floats a softmax
    leaves one for each row, and sums of one number show no rounding."""
    if not launched or not narrowed_for_mmas(tile.original or tile):
        return -1
    few = [number for number, one in enumerate(launched) if one.scale == 1] or [*range(len(launched))]
    return max(few, key=lambda number: most_iterations(tile, launched[number]))


def _with_own(tile: TileProgram, trial: Trial) -> Trial:
    """Compared also with the program that code was made of, in that launch."""
    own = replace(_reference(tile, trial.launch, frozenset()), alone=True)
    return replace(trial, references=(*trial.references, own))


def in_range(
    program: WarpProgram, launch: CheckedLaunch, order: Order | None = None
) -> tuple[CheckedLaunch, Reference]:
    """The launch and its reference, in some order of its instances; with floats about 1 if its own overflow on the way
    to the results, where whether a sum is infinite or no number depends on the order of its terms."""
    return _in_range(launch, lambda one: reference(program, one, order))


def _in_range(launch: CheckedLaunch, refer: Callable[[CheckedLaunch], Reference]) -> tuple[CheckedLaunch, Reference]:
    found = refer(launch)
    if launch.scale > 1 and not all(np.isfinite(array).all() for array in found.expected.values()):
        small = launch.unscaled()
        return small, refer(small)
    return launch, found


def reference(program: WarpProgram, launch: CheckedLaunch, order: Order | None = None) -> Reference:
    """What machine code leaves of a launch of the program as it was written, and how far roundings may move that.
    order: of its instances, where it counts."""
    written = program.program.original or program.program
    parts, cut = precisions(program.program), read_as_tf32(program.program)
    return _reference(written, launch, narrowed_for_mmas(written), parts, cut, order)


def order_of(program: WarpProgram, launch: CheckedLaunch, ctas: int, preempt: bool = False) -> Order:
    """The program instances that each CTA has, in its order."""
    rows, columns, layers = (*launch.grid, 1, 1, 1)[:3]
    every = replace(InstanceOrder.of(program), walk=())  # instances of the launch, which walk by themselves
    numbers = [LaunchedCta(number, ctas) for number in range(ctas)]
    mine = (every.instances((rows, columns, layers), launch.scalars, cta) for cta in numbers)
    return Order(tuple(tuple(index for index, _ in one) for one in mine), preempt)


def read_as_tf32(program: TileProgram) -> frozenset[int]:
    """Lines with products of f32 that tensor cores multiply as tf32, without the last bits of each number."""
    made = {op.line for op in changed_mmas(program)}
    products = (op for op in program.ops() if op.kind == "dot" and op.attribute("precision") == "tf32")
    floats = {op.line for op in products if program.type_of(op.operands[0]).element == "f32"}
    return frozenset(floats - made)


def precisions(program: TileProgram) -> dict[int, str]:
    """Lines with products of tf32 that tensor cores compute as bf16x3 (`twill.tile.rewrite.precision`)."""
    return {op.line: "bf16x3" for op in changed_mmas(program) if op.attribute(INSTEAD) == "tf32"}


def _reference(
    tile: TileProgram,
    launch: CheckedLaunch,
    narrowed: frozenset[int],
    in_parts: Mapping[int, str] = MappingProxyType({}),
    cut: frozenset[int] = frozenset(),
    order: Order | None = None,
) -> Reference:
    """What a launch of a tile program leaves, and what its shaken run does. order: of its instances, if it counts."""
    key = launch_key(launch) if order is None else (launch_key(launch), order)
    plain = _left(tile, launch, key, cut, order)
    given = (tile, launch.grid, launch.arrays, launch.scalars, narrowed, plain, dict(in_parts), cut, order)
    known = (tile, key, narrowed, tuple(sorted(in_parts.items())), cut)
    shaken = partial(shaken_results, *given)
    return Reference(plain, _remembered(known, shaken), farthest=partial(_farthest, known, shaken))


def _farthest(known: Hashable, shaken: Callable[..., Mapping[str, Array]]) -> Mapping[str, Array]:
    """What several shaken runs leave; a function of this module, so that a reference can go to another process."""
    return _remembered((known, "several"), partial(shaken, several=True))


_remembered = Remembered()


def _left(
    tile: TileProgram, launch: CheckedLaunch, key: Hashable, cut: frozenset[int] = frozenset(),
    order: Order | None = None,
) -> Mapping[str, Array]:  # fmt: skip
    """The tensors as a sequential run of a launch leaves them."""

    def left() -> Mapping[str, Array]:
        arrays = {name: array.copy() for name, array in launch.arrays.items()}
        run_sequentially(tile, launch.grid, arrays, launch.scalars, cut, order)
        return arrays

    return _remembered((tile, key, cut), left)


def independent(tile: TileProgram, launch: CheckedLaunch) -> bool:
    """Whether no program instance reads or writes what another one writes. Sizes that are made up may let them."""
    return math.prod(launch.grid) == 1 or not _met(tile, launch)["between"].any()


def defined(tile: TileProgram, launch: CheckedLaunch) -> bool:
    """Whether the results of a launch follow from the program: at sizes that are made up, elements of one tensor may
    lie on one another, and then it matters who stores last."""
    if not launch.derived:
        return True
    met = _met(tile.original or tile, launch)
    return not (met["between"].any() or met["within"].any())


def _met(tile: TileProgram, launch: CheckedLaunch) -> Mapping[str, Array]:
    """Whether there are conflicts in a launch, by their kind."""

    def met() -> Mapping[str, Array]:
        found = conflicts(tile, launch.grid, launch.arrays, launch.scalars)
        return {"between": np.array([bool(found.between)]), "within": np.array([bool(found.within)])}

    return _remembered((tile, launch_key(launch), "conflicts"), met)


def alone(launch: CheckedLaunch) -> CheckedLaunch:
    """The first program instance of a launch."""
    return replace(launch, grid=(1,), ctas=1, text=f"{launch.text}, its first instance")


def verify(
    program: WarpProgram, problem: ProblemTable | None = None, given: Sequence[Trial] = (), enough: int = ENOUGH,
    over: Over = in_time, processes: int = 1, spilling: bool = False,
) -> tuple[Violation, ...]:  # fmt: skip
    """Every broken rule, in the order in which they are found; () if the program is right.

    problem, and what is raised: as for `trials`. given: trials instead of made-up ones. enough: violations after which
    the search ends. over: whether the time for it is (`twill.codegen.verify.abstract.deadline`). processes: more than
    one may work at it. spilling: registers that are too few for what is alive at once are no fault, for who
    builds the program is told what it spills.
    """
    found = dict.fromkeys(static_violations(program, spilling))
    if len(found) >= enough:
        return tuple(found)
    alone = processes == 1 or found or given
    if not alone and _right_in_two(program, launches(program, problem, over=over), over):
        return ()
    given = given or trials(program, problem, over=over)
    for number, trial in enumerate(given):
        refuse_late(program.program, over)
        if depends_on_order(program.program):
            _found_in_any_order(found, program, trial, enough)
        else:
            _found_by(found, program, trial, trial.launch.ctas, "in turn", enough, number % SLOT_BITS)
        if len(found) >= enough:
            return tuple(found)
    for way, number in _dealt(program, [trial.launch for trial in given]):
        refuse_late(program.program, over)
        _found_by(found, program, given[number], CTAS, way, enough)
    return tuple(found)


def _dealt(program: WarpProgram, launched: Sequence[CheckedLaunch]) -> list[tuple[Way, int]]:
    """Ways to deal instances that are fetched, and the launch in which each is tried."""
    several = [number for number, one in enumerate(launched) if math.prod(one.grid) > CTAS]
    ways = WAYS + (ANY_ORDER if program.cancels else ())
    return [*zip(ways, itertools.cycle(several), strict=False)] if program.instance_ring is not None else []


def _right_in_two(program: WarpProgram, launched: Sequence[CheckedLaunch], over: Over) -> bool:
    """Whether nothing is broken in any launch, as two processes find out; false also where that is not known."""
    tile = program.program
    if any(one.derived for one in launched):  # some of which are others than they seem
        return False
    own, dealt = _narrowed_alike(tile, launched), _dealt(program, launched)
    cost = [math.prod(one.grid) * most_iterations(tile, one) for one in launched]
    order = sorted(range(len(launched)), key=lambda number: -cost[number])

    def holds(turn: int) -> bool:
        refuse_late(tile, over)
        number, found = order[turn], dict[Violation, None]()
        trial = _trial(tile, launched[number])
        trial = _with_own(tile, trial) if number == own else trial
        if depends_on_order(tile):
            _found_in_any_order(found, program, trial, ENOUGH)
        else:
            _found_by(found, program, trial, trial.launch.ctas, "in turn", ENOUGH, number % SLOT_BITS)
        for way in (way for way, at in dealt if at == number):
            _found_by(found, program, trial, CTAS, way, ENOUGH)
        return not found

    return all_hold(len(order), holds)


def _found_in_any_order(found: dict[Violation, None], program: WarpProgram, trial: Trial, enough: int) -> None:
    """Adds what is broken by runs of a program whose results depend on the order of its instances: with a CTA for each,
    one after the other and giving way to each other, and with two CTAs where none of them waits for what comes later.
    Each is compared with the instances of the tile program in the same order."""
    launch, count, tile = trial.launch, math.prod(trial.launch.grid), program.program
    written = tile.original or tile
    for ctas, preempt in ((count, False), (count, True), (min(CTAS, count), False)):
        order = order_of(program, launch, ctas, preempt)
        try:
            against = _reference(written, launch, narrowed_for_mmas(written), precisions(tile), order=order)
        except Endless:  # with fewer CTAs, or in another order, the kernel waits for ever
            continue
        trace = run(program, launch, ctas, enough, preempt=preempt)
        found.update(dict.fromkeys(trace.violations))
        wrong = [] if trace.violations else [*compare(program.program, launch, trace.arrays, against)]
        if wrong and defined(program.program, launch):
            found.update(dict.fromkeys(wrong))


def _found_by(
    found: dict[Violation, None], program: WarpProgram, trial: Trial, ctas: int, way: Way, enough: int, bit: int = 0,
    foreseen: Foreseen | None = None,
) -> None:  # fmt: skip
    """Adds what a run breaks; where instances have parts of sums, one besides in which others come last, by a bit of
    the sums' slots."""
    trace = run(program, trial.launch, ctas, enough, way=way, foreseen=foreseen)
    found.update(dict.fromkeys(trace.violations))
    if not any(violation.rule in ("deadlock", "failed", "bounds") for violation in trace.violations):
        wrong = [one for ref in trial.references for one in compare(program.program, trial.launch, trace.arrays, ref)]
        if wrong and defined(program.program, trial.launch):
            found.update(dict.fromkeys(wrong))
    if not trace.violations and foreseen is None and any(part for _, part in trace.parts):
        _found_by(found, program, trial, ctas, way, enough, foreseen=Foreseen(trace.parts, bit))
