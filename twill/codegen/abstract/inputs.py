"""Launches to check a warp program with: small sizes that reach every corner of its pipelines.

Wanted of every loop are 0, 1, 2, stages - 1, stages, stages + 1 iterations, and so many that every ring goes round;
wanted of the launch are several program instances on one persistent CTA, and sizes that no tile divides. Candidates
are the values of each size at which something changes; the cheapest ones that reach everything are taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.codegen.abstract.derive import derived_problem, extents
from twill.codegen.abstract.extent import trips_of
from twill.codegen.aref import Pipeline, WarpProgram, walk
from twill.codegen.arithmetic import Array, rounded
from twill.codegen.arrays import np
from twill.codegen.sequential import descriptor_scalars
from twill.exc import MalformedSidecar, TwillError, UnknownProblem
from twill.graph.problem import Case, Problem
from twill.graph.program import Loop, TileProgram
from twill.graph.sidecar import read_sidecar

MOST_INSTANCES = 16
LARGEST = 1 << 16  # of a size


@dataclass(frozen=True)
class Launch:
    """One launch. arrays: flat tensors by argument name. scalars: of every scalar argument, descriptors' included.

    ctas: persistent CTAs that share the program instances. text: for people.
    """

    grid: tuple[int, ...]
    arrays: Mapping[str, Array]
    scalars: Mapping[str, int | float]
    ctas: int = 1
    text: str = ""


@dataclass(frozen=True)
class Candidate:
    """Sizes, what they reach, and about how many loop iterations they cost."""

    sizes: Mapping[str, int]
    reaches: frozenset[tuple[object, ...]]
    cost: int


def launches(program: WarpProgram, problem: Problem | None = None) -> Iterator[Launch]:
    """Launches that together reach everything wanted. Raises `UnknownProblem`."""
    tile = program.program
    known = problem or sidecar_problem(tile) or derived_problem(tile)
    chosen = choose(tile, known, wanted(program))
    if not chosen:
        raise UnknownProblem(
            f"no sizes were found at which `{tile.kernel}` does anything", file=tile.file,
            hint="a table [specialization.problem] in its sidecar (docs/problem-sizes.md)",
        )  # fmt: skip
    for number, candidate in enumerate(chosen):
        yield launch(tile, known.case(candidate.sizes), seed=number)


def sidecar_problem(program: TileProgram) -> Problem | None:
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


def launch(program: TileProgram, case: Case, seed: int = 0) -> Launch:
    """The launch of a case, with random tensors: what a kernel does not write must stay as it is."""
    rng = np.random.default_rng(seed)
    scalars = {**case.scalars, **descriptor_scalars(program, case.shapes)}
    sizes = {name: math.prod(shape) for name, shape in case.shapes.items()}
    sizes |= {name: size for name, size in extents(program, case.grid, scalars).items() if name not in sizes}
    arrays = {}
    for argument in program.arguments:
        kind, _, element = argument.type.element.partition(":")
        if kind in ("ptr", "desc"):
            arrays[argument.name] = random_tensor(rng, sizes.get(argument.name, 0), element)
        elif argument.name not in scalars:
            raise UnknownProblem(
                f"nothing says what argument `{argument.name}` is", file=program.file,
                hint=f"`{argument.name}` among `scalars` of [specialization.problem] (docs/problem-sizes.md)",
            )  # fmt: skip
    text = ", ".join(f"{name} = {value}" for name, value in case.sizes.items())
    return Launch(case.grid, arrays, scalars, 1, text)


def random_tensor(rng: np.random.Generator, size: int, element: str) -> Array:
    """Normal floats; integers 0 to 7."""
    if element.startswith("i"):
        return rounded(rng.integers(0, 2 if element == "i1" else 8, size), element)
    return rounded(rng.standard_normal(size, np.float32), element)


def wanted(program: WarpProgram) -> frozenset[tuple[object, ...]]:
    """What the launches shall reach: ("trip", loop number, iterations), ("instances",), ("ragged", ...)."""
    pipelines = [stmt for group in program.groups for stmt in walk(group.body) if isinstance(stmt, Pipeline)]
    stages = max((pipeline.stages for pipeline in pipelines), default=0)
    depth = max((aref.depth for aref in program.arefs), default=1)
    trips = {0, 1, 2, stages - 1, stages, stages + 1, stages + 2, stages + depth + 1}
    loops = [item for item in program.program.body if isinstance(item, Loop)]
    return frozenset(
        {("trip", number, trip) for number in range(len(loops)) for trip in trips if trip >= 0}
        | {("instances",), ("instances", "long")}
    )


def choose(program: TileProgram, problem: Problem, goals: frozenset[tuple[object, ...]]) -> list[Candidate]:
    """Cheap candidates that reach every goal that any candidate reaches."""
    candidates = [*_candidates(program, problem, goals)]
    left = {goal for candidate in candidates for goal in candidate.reaches}
    chosen: list[Candidate] = []
    while left:
        best = max(candidates, key=lambda candidate: (len(candidate.reaches & left) / candidate.cost, -candidate.cost))
        left -= best.reaches
        chosen.append(best)
    return chosen or candidates[:1]


def _candidates(program: TileProgram, problem: Problem, goals: frozenset[tuple[object, ...]]) -> Iterator[Candidate]:
    most = max((int(str(goal[2])) for goal in goals if goal[0] == "trip"), default=1)
    base = {name: problem.unit(name) for name in problem.units}
    several = _several(program, problem, base)
    for start in (base, several):
        for name in problem.units:
            for value in _values(program, problem, start, name, most):
                candidate = _candidate(program, problem, {**start, name: value}, goals, most)
                if candidate:
                    yield candidate


def _candidate(
    program: TileProgram, problem: Problem, sizes: Mapping[str, int], goals: frozenset[tuple[object, ...]], most: int
) -> Candidate | None:
    trips = _trips(program, problem, sizes)
    if trips is None or not trips or len(trips) > MOST_INSTANCES:
        return None
    reached: set[tuple[object, ...]] = {
        ("trip", number, trip) for instance in trips for number, trip in enumerate(instance)
    }
    if len(trips) > 1:
        reached.add(("instances",))
        if any(trip > 2 for instance in trips for trip in instance):
            reached.add(("instances", "long"))
    reaches = reached & goals
    # Sizes that common tiles do not divide count as a goal of their own.
    reaches |= {("ragged", name) for name, size in sizes.items() if size > 64 and size % 64}
    cost = sum(4 + sum(instance) for instance in trips)
    return Candidate(dict(sizes), frozenset(reaches), cost)


def _trips(program: TileProgram, problem: Problem, sizes: Mapping[str, int]) -> list[tuple[int, ...]] | None:
    """Iterations of each loop, for every program instance; None if it has too many instances."""
    case = problem.case(sizes)
    if math.prod(case.grid) > MOST_INSTANCES:
        return None
    return trips_of(program, case.grid, {**case.scalars, **descriptor_scalars(program, case.shapes)})


def _longest(program: TileProgram, problem: Problem, sizes: Mapping[str, int]) -> int:
    trips = _trips(program, problem, sizes)
    return LARGEST if trips is None else max((trip for instance in trips for trip in instance), default=0)


def _values(program: TileProgram, problem: Problem, start: Mapping[str, int], name: str, most: int) -> Sequence[int]:
    """Values of a size: none, one unit, and the least and the largest one for each number of iterations."""
    unit = problem.unit(name)
    values = {0, unit, 2 * unit, 3 * unit}
    for trip in range(2, most + 2):
        least = _least(program, problem, start, name, trip)
        if least is None:
            break
        values |= {least, least - unit}
    return sorted(values)


def _least(program: TileProgram, problem: Problem, start: Mapping[str, int], name: str, trip: int) -> int | None:
    """The least value of a size with so many iterations, by bisection; None if no value reaches them."""
    unit = problem.unit(name)

    def reached(units: int) -> bool:
        return _longest(program, problem, {**start, name: units * unit}) >= trip

    high = 1
    while not reached(high):
        high *= 2
        if high * unit > LARGEST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high * unit


def _several(program: TileProgram, problem: Problem, base: Mapping[str, int]) -> dict[str, int]:
    """The base with the first size grown that gives two program instances or more without more iterations."""
    best: dict[str, int] | None = None
    for name in problem.units:
        for units in (2, 3, 5, 9, 17, 33, 65):
            sizes = {**base, name: units * problem.unit(name)}
            trips = _trips(program, problem, sizes)
            if trips is None:
                break
            if len(trips) > 1:
                if _longest(program, problem, sizes) == _longest(program, problem, base):
                    return sizes
                best = best or sizes
                break
    return best or dict(base)
