"""Launches to check a warp program with: small sizes that reach every corner of its pipelines, and random tensors."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from twill.codegen.verify.abstract.along_axes import along_all, along_axes
from twill.codegen.verify.abstract.counters import with_counters
from twill.codegen.verify.abstract.coverage import CONSTANT, SizeCandidate, choose
from twill.codegen.verify.abstract.data import (
    Data,
    finite_in_products,
    free_integers,
    of_scales,
    scales,
    tells_floats_apart,
    tensor,
)
from twill.codegen.verify.abstract.deadline import Over, in_time
from twill.codegen.verify.abstract.derive import (
    derived_problem,
    extents,
    of_all_tiles,
    of_parts,
    shapes,
    strides,
    with_near_rows,
)
from twill.codegen.verify.abstract.extent import loaded_by_walk, longest_trip, trips_of
from twill.codegen.verify.abstract.reached import (
    accessed_by_data,
    counted,
    looked_into,
    picks,
)
from twill.codegen.verify.abstract.representatives import with_representatives
from twill.codegen.verify.abstract.table_shapes import refuse_wrong_shapes
from twill.codegen.verify.abstract.tables import refuse_huge, tables
from twill.codegen.verify.abstract.unstored import FURTHER, TRIES, one_twice_as_long, until_stored
from twill.codegen.verify.abstract.wanted import Wanted, wanted
from twill.codegen.warp.program import WarpProgram
from twill.exc import MalformedSidecar, TwillError, UnknownProblem
from twill.kernel.problem import Case, ProblemTable
from twill.kernel.sidecar import read_sidecar
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.elements import OutsideOfTensor
from twill.tile.interpret.sequential import descriptor_scalars
from twill.tile.interpret.sequential import run as run_sequentially
from twill.tile.launch_grid import of_instances
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import TileProgram
from twill.tile.vocabulary import COUNTED

LARGE = 8  # so many times the floats of every second launch
HELD_BY_DATA = 1 << 22  # elements of a tensor into which a program stores where data says, at most
DRAWN = 3  # launches more for them
ASCENDING = 3  # of so many launches more, one has tables that ascend: begins of sequences that lie behind one another
STEP, WIDER = 4, 6  # elements from one begin to the next, at most, and how often it is doubled before it is this again
TELLING = 50  # elements of a tensor that has awkward data, at least: among fewer there are too few numbers
LEAST = (0, 1, 80, 2000)  # of numbers in tables, in this order
REMEMBERED = 8  # sets of launches
SMALLEST = 1 << 20  # what loaded trip counts are divided by at most


@dataclass(frozen=True)
class CheckedLaunch:
    """One launch. arrays: flat tensors by argument name. scalars: of every scalar argument, descriptors' included.

    ctas: persistent CTAs that share the program instances. text: for people. scale: of the floats in `arrays`.
    derived: at sizes that were made up from the program alone. data: of what kind those in `arrays` are.
    """

    grid: tuple[int, ...]
    arrays: Mapping[str, Array]
    scalars: Mapping[str, int | float]
    ctas: int = 1
    text: str = ""
    scale: int = 1
    derived: bool = False
    data: Data = "normal"

    def unscaled(self) -> CheckedLaunch:
        """The same with floats about 1."""
        small = {name: array / self.scale if array.dtype.kind == "f" else array for name, array in self.arrays.items()}
        return replace(self, arrays={name: small[name].astype(self.arrays[name].dtype) for name in small}, scale=1)


def launches(
    program: WarpProgram, problem: ProblemTable | None = None, thorough: bool = False, over: Over = in_time
) -> tuple[CheckedLaunch, ...]:
    """Launches that together reach everything wanted. Raises `UnknownProblem`, and BudgetExhausted when `over` says so.

    problem: the sizes that make sense (default: what the sidecar says). A table of one recorded launch may take
    M = K = 512 for a rule, and knows no rule between sizes and distances in memory. Where a distance is a size of its
    own, or the kernel as it was written touches elements that the table's tensors do not have, and where there is no
    table, sizes are derived from the program. MalformedSidecar if it touches such elements at sizes of the table's
    `run`.
    thorough: many more of them, for every number of iterations, each with several program instances.
    """
    tile = program.program
    asked = LaunchBasis(wanted(program, thorough), problem or sidecar_problem(tile), tile)
    made = next((found for other, found in _last if other == asked), None)
    if made is None:
        made = tuple(_of_table(asked.tile, asked.table, asked.goal, over))
        for array in (array for one in made for array in one.arrays.values()):
            array.flags.writeable = False
        _last.append((asked, made))
    return made


@dataclass(frozen=True)
class LaunchBasis:
    """What launches are made up from."""

    goal: Wanted
    table: ProblemTable | None
    tile: TileProgram


_last = deque[tuple[LaunchBasis, tuple[CheckedLaunch, ...]]](maxlen=REMEMBERED)
"""The last that were made: a program is verified and executed with the same, as is one made up from nothing else."""


def _of_table(tile: TileProgram, table: ProblemTable | None, goal: Wanted, over: Over) -> Iterator[CheckedLaunch]:
    refuse_unknown_numbers(tile, table)
    if table is not None:
        free = strides(tile) & table.units.keys()
        table = None if free else replace(table, grid=of_all_tiles(tile, table))
    made = [*_launches(tile, *_chosen(tile, table, goal))] if table else []
    if made and not any(leaves_tensors(tile, one) for one in made):
        yield from made
        return
    if table is not None:
        refuse_wrong_shapes(tile, table, partial(_tensors, tile))
    known, chosen = along_all(tile, derived_problem(tile), lambda problem: _chosen(tile, problem, goal))
    if not looked_into(tile):
        known = with_near_rows(tile, known, [known.case(candidate.sizes) for candidate in chosen])
    least = _least(tile, known, chosen)
    made = [replace(holding(tile, one), derived=True) for one in _launches(tile, known, chosen, least)]
    yield from made
    if depends_on_order(tile):
        return
    if goal.cluster is None:
        cases = along_axes(tile, known, [candidate.sizes for candidate in chosen])
        first = len(made) + 3 + DRAWN
        more = (launch(tile, case, seed=first + number, least=least) for number, case in enumerate(cases))
        yield from (replace(holding(tile, one), derived=True) for one in more)
    if not looked_into(tile):
        return
    tried = [candidate.sizes for candidate in chosen]
    longer = [*one_twice_as_long(tried, {name: known.unit(name) for name in known.units})]

    def drawn(number: int) -> CheckedLaunch:
        sizes = tried[number % len(tried)] if number < TRIES else longer[(number - TRIES) % len(longer)]
        turn, last = divmod(number, ASCENDING)
        ascending = STEP << turn % WIDER if last == ASCENDING - 1 else 0
        seed, first = len(made) + 3 + DRAWN + number, turn % 2 == 1 and last == 0
        levels = number >= TRIES + FURTHER
        made_up = partial(launch, tile, known.case(sizes), seed, ascending=ascending, first=first, levels=levels)
        tries = (made_up(least=at_least) for at_least in LEAST if at_least >= least)
        one = next((one for one in tries if not _begins_before(tile, one)), None)
        return replace(holding(tile, one or made_up(least=least)), derived=True)

    yield from until_stored(tile, made, drawn, over)


def refuse_unknown_numbers(program: TileProgram, table: ProblemTable | None) -> None:
    """Raises UnknownProblem where numbers in memory say what work there is, or a `while` loop looks numbers up, and
    the table says nothing of them: of any numbers nothing sensible would come."""
    missing = sorted(loaded_by_walk(program) - (table.tables.keys() if table is not None else set()))
    if missing:
        raise UnknownProblem(
            f"the numbers in `{missing[0]}` say how often `{program.kernel}` does its work, and nothing says what they "
            "are",
            file=program.file,
            hint=f"tables = {{ {missing[0]} = [...] }} in [specialization.problem] (docs/problem-sizes.md)",
        )
    whiles = (op for op in program.ops() if op.region is not None and not dict(op.attributes).get(COUNTED))
    regions = (base for op in whiles if op.region is not None for base in op.region.bases())
    shapeless = sorted(set(regions) - (table.tensors.keys() if table is not None else set()))
    if shapeless:
        raise UnknownProblem(
            f"a `while` loop of `{program.kernel}` looks numbers up in `{shapeless[0]}`, and nothing says how many "
            "there are",
            file=program.file,
            hint=f"tensors = {{ {shapeless[0]} = [...] }} in [specialization.problem], and the numbers among its "
            "`tables` if not any will do (docs/problem-sizes.md)",
        )


def _tensors(program: TileProgram, case: Case) -> tuple[Mapping[str, Array], Mapping[str, int | float]]:
    made = launch(program, case)
    return made.arrays, made.scalars


def holding(program: TileProgram, made: CheckedLaunch) -> CheckedLaunch:
    """The launch with tensors that have all elements that data makes the program access. Errors: UnknownProblem."""
    by_data = accessed_by_data(program)
    while by_data:
        try:
            copies = {name: array.copy() for name, array in made.arrays.items()}
            run_sequentially(program.original or program, made.grid, copies, made.scalars)
        except OutsideOfTensor as outside:
            short = [name for name in by_data if made.arrays[name].size == outside.size]
            if not short or outside.least < 0 or outside.most >= HELD_BY_DATA:
                raise UnknownProblem(
                    f"what `{program.kernel}` accesses depends on data, and no tensors were found that hold all of it",
                    file=program.file,
                    hint="addresses that are within the tensor for all data, as by a mask or a remainder",
                ) from None
            larger = {name: np.resize(made.arrays[name], outside.most + 1) for name in short}
            made = replace(made, arrays={**made.arrays, **larger})
        else:
            break
    return made


def leaves_tensors(program: TileProgram, made: CheckedLaunch) -> bool:
    """Whether the program as it was written accesses elements that a launch's tensors do not have."""
    written = program.original or program
    needed = extents(program, made.grid, made.scalars)
    if all(size <= made.arrays[name].size for name, size in needed.items()):
        return False
    try:  # what is needed at most: conditions may guard it
        run_sequentially(written, made.grid, {name: array.copy() for name, array in made.arrays.items()}, made.scalars)
    except OutsideOfTensor:
        return True
    return False


def _chosen(tile: TileProgram, problem: ProblemTable, goal: Wanted) -> tuple[ProblemTable, list[SizeCandidate]]:
    """The problem as launches are made of it, and the sizes. Raises UnknownProblem."""
    known = of_parts(tile, of_instances(tile, problem))
    if not goal.thorough:
        known = with_representatives(tile, known, goal.instances * goal.ctas)
    chosen = choose(tile, known, goal)
    if not chosen:
        least = known.case({name: known.unit(name) for name in known.units})
        counts = {**least.scalars, **descriptor_scalars(tile, shapes(tile, least))}
        longest = longest_trip(tile, least.grid, counts)
        if longest > CONSTANT:
            raise UnknownProblem(
                f"a loop of `{tile.kernel}` has {longest} iterations at any size, and at most {CONSTANT} of a constant "
                "trip count are checked",
                file=tile.file,
                hint="a bound that is an argument, or larger tiles along it",
            )
        raise UnknownProblem(
            f"no sizes were found at which `{tile.kernel}` does anything", file=tile.file,
            hint="a table [specialization.problem] in its sidecar (docs/problem-sizes.md)",
        )  # fmt: skip
    return known, chosen


def _least(tile: TileProgram, known: ProblemTable, chosen: Sequence[SizeCandidate]) -> int:
    """What numbers of tables have to be at least, so that nothing before a tensor is accessed; 0 if nothing helps."""
    if not looked_into(tile):
        return 0
    cases = [known.case(candidate.sizes) for candidate in chosen]
    tries = ((at_least, [launch(tile, case, seed, least=at_least) for seed, case in enumerate(cases)])
             for at_least in LEAST)  # fmt: skip
    return next((at_least for at_least, made in tries if not any(_begins_before(tile, one) for one in made)), 0)


def _begins_before(tile: TileProgram, made: CheckedLaunch) -> bool:
    """Whether a launch accesses something before a tensor."""
    try:
        run_sequentially(tile.original or tile, made.grid, {n: a.copy() for n, a in made.arrays.items()}, made.scalars)
    except OutsideOfTensor as outside:
        return outside.least < 0
    return False


def _launches(
    tile: TileProgram, known: ProblemTable, chosen: Sequence[SizeCandidate], least: int = 0
) -> Iterator[CheckedLaunch]:
    """least: of the numbers of tables that are made up."""
    made_of = partial(launch, least=least)
    made = [made_of(tile, known.case(candidate.sizes), seed=number, scale=LARGE if number % 2 else 1)
            for number, candidate in enumerate(chosen)]  # fmt: skip
    yield from made
    if counted(tile):
        most = max(chosen, key=lambda candidate: math.prod(known.case(candidate.sizes).grid))
        yield from (made_of(tile, known.case(most.sizes), seed=len(made) + 3 + number) for number in range(DRAWN))
    if has_maximum(tile):
        longest = max(range(len(made)), key=lambda number: most_iterations(tile, made[number]))
        scale = 1 if made[longest].scale > 1 else LARGE
        case = known.case(chosen[longest].sizes)
        yield made_of(tile, case, seed=len(made), scale=scale)
        yield made_of(tile, case, seed=len(made) + 1, data="creeping")
    busy = [number for number, one in enumerate(made) if runs_loops(tile, one)]
    written = tile.original or tile  # an MMA in parts tells infinities apart that the kernel has no opinion about
    if busy and (tells_floats_apart(written) or free_integers(written)):
        telling = [number for number in busy if max(a.size for a in made[number].arrays.values()) >= TELLING]
        cheapest = min(telling or busy, key=lambda number: chosen[number].cost)
        yield made_of(tile, known.case(chosen[cheapest].sizes), seed=len(made) + 2, data="awkward")
    unlike = (one for one in made if begins_unlike(tile, one))
    yield from (replace(one, ctas=2) for one in islice(unlike, 1))


def has_maximum(program: TileProgram) -> bool:
    """Whether a maximum of a tile is taken: its longest launch is then made with small floats and with large ones.
    Among small ones nothing moves a maximum by much, and of large ones a softmax leaves one for each row."""
    return any(op.kind == "reduce" and op.attribute("combine") == "max" for op in program.ops())


def most_iterations(program: TileProgram, made: CheckedLaunch) -> int:
    """Of any loop and instance."""
    return max((trip for trips in trips_of(program, made.grid, made.scalars) for trip in trips), default=0)


def runs_loops(program: TileProgram, made: CheckedLaunch) -> bool:
    """Whether every loop runs, if there is one."""
    return all(map(all, trips_of(program, made.grid, made.scalars)))


def begins_unlike(program: TileProgram, made: CheckedLaunch) -> bool:
    """Whether a second CTA, which begins with the second program instance, has other loops to begin with."""
    trips = trips_of(program, made.grid, made.scalars)
    return len(trips) > 1 and [bool(trip) for trip in trips[0]] != [bool(trip) for trip in trips[1]]


def sidecar_problem(program: TileProgram) -> ProblemTable | None:
    """The problem table of the program's specialization, if there is one."""
    try:
        sidecar = read_sidecar(program.file)
    except MalformedSidecar:
        raise
    except TwillError:
        return None
    for table in sidecar.tables if sidecar else ():
        if table.name == program.spec and table.kernel in ("", program.kernel):
            return table.problem
    return None


def launch(
    program: TileProgram,
    case: Case,
    seed: int = 0,
    scale: int = 1,
    data: Data = "normal",
    ascending: int = 0,
    first: bool = False,
    least: int = 0,
    levels: bool = False,
) -> CheckedLaunch:
    """The launch of a case, with random tensors: what a kernel does not write must stay as it is.

    scale: of floats. Large ones show what softmax hides otherwise: a maximum that is not the maximum. ascending:
    by how much the numbers that say where something is stored grow from each to the next, at most, and at least by
    half of it (0: they do not). first: tables through which others are looked up hold 0. least: what numbers of tables
    are at least; levels: a number of its own for each table.
    """
    free = free_integers(program) if data == "awkward" else frozenset[str]()
    rng = np.random.default_rng(seed)
    known = shapes(program, case)
    scalars = {**case.scalars, **descriptor_scalars(program, known)}
    sizes = {name: math.prod(shape) for name, shape in known.items()}
    sizes |= {name: size for name, size in extents(program, case.grid, scalars).items() if name not in sizes}
    arrays: dict[str, Array] = {}
    scaling = scales(program)
    if picks(program) or case.tables:
        made_up = partial(tables, program, case, scalars, sizes, rng, seed, least=least, levels=levels)
        arrays, reaching = made_up(ascending=ascending, first=first)
        shrink = 1
        while counted(program) and any(reaching.get(name, 0) > sizes[name] for name in known) and shrink < SMALLEST:
            shrink *= 4  # the tensors that the sidecar describes have no room for so many iterations
            arrays, reaching = made_up(shrink)
        # Numbers that are looked up may point past the sizes of the sidecar, which hold for the user's tables and not
        # for these: there is memory for them. A descriptor pads instead.
        padded = {a.name for a in program.arguments if a.type.element.startswith("desc") and a.name in known}
        sizes |= {name: max(size, sizes.get(name, 0)) for name, size in reaching.items() if name not in padded}
    refuse_huge(program, sizes)
    for argument in program.arguments:
        kind, _, element = argument.type.element.partition(":")
        if argument.name in arrays:
            continue
        if argument.name in scaling:
            arrays[argument.name] = of_scales(rng, sizes.get(argument.name, 0), element, data)
        elif kind in ("ptr", "desc"):
            arrays[argument.name] = tensor(
                rng, sizes.get(argument.name, 0), element, scale, data, argument.name in free
            )
        elif argument.name not in scalars:
            raise UnknownProblem(
                f"nothing says what argument `{argument.name}` is", file=program.file,
                hint=f"`{argument.name}` among `scalars` of [specialization.problem] (docs/problem-sizes.md)",
            )  # fmt: skip
    words = [f"{name} = {value}" for name, value in case.sizes.items()]
    text = ", ".join([*words, *([] if data == "normal" else [f"{data} data"])])
    given = finite_in_products(program, arrays) if data == "awkward" else arrays
    made = CheckedLaunch(case.grid, given, scalars, 1, text, scale, data=data)
    return with_counters(program, made, known.keys(), case.tables.keys()) if depends_on_order(program) else made
