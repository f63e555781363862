"""Tensors of integers that a kernel looks numbers up in: trip counts, begins of tiles, addresses."""

from __future__ import annotations

from collections.abc import Mapping

from twill.codegen.verify.abstract.data import random_tensor
from twill.codegen.verify.abstract.reached import (
    begins,
    counted,
    found_through,
    looked_into,
    reached,
    reached_places,
    scattered,
    subtracted,
)
from twill.exc import UnknownProblem
from twill.kernel.problem import Case
from twill.tile.interpret.arithmetic import Array, rounded
from twill.tile.interpret.arrays import np
from twill.tile.program import POINTEE, TileProgram

ITERATIONS = 6  # of loops whose trip counts are loaded, at most
APART = 1 << 14  # bytes between what made-up addresses point to
LEVELS = (0, 0, 80, 200)  # numbers that those of a table are at least
HUGE = 1 << 28  # elements of a tensor that no check is made with
LONGER = 4  # times that a table is made longer at most


def refuse_huge(program: TileProgram, sizes: Mapping[str, int]) -> None:
    """Raises UnknownProblem for a tensor that is too large for a check."""
    for name, size in sizes.items():
        if size > HUGE:
            raise UnknownProblem(
                f"`{name}` of `{program.kernel}` would have {size} elements in a launch that is made up to check it",
                file=program.file,
                hint="a table [specialization.problem] in its sidecar (docs/problem-sizes.md)",
            )


def tables(
    program: TileProgram,
    case: Case,
    scalars: Mapping[str, int | float],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    seed: int = 0,
    shrink: int = 1,
    ascending: int = 0,
    first: bool = False,
    least: int = 0,
    levels: bool = False,
) -> tuple[dict[str, Array], dict[str, int]]:
    """The tensors that numbers are looked up in, and what a launch with them reaches of every tensor.

    They hold numbers from 0 to 7, and those that trip counts depend on as many as a few iterations take. Those that
    say where something is stored hold each number once, as two program instances do not store to one place (ascending:
    in ascending order); if trip counts depend on them, or on those that say where a tile begins, their numbers grow.
    least: what those are at least that are not subtracted where a tile begins, as places before them are accessed.
    levels: each table has a number of its own that its are at least, as of one that says where something begins and
    one that says where it ends.
    Tables that are found through others are made after those; first: those others hold 0, as what is not the first of
    something (a chunk of a sequence) may lie behind its end. Where numbers lead from one element of a table to another,
    the table is made longer until all of them are in it."""
    elements = {argument.name: argument.type.element.partition(":")[2] for argument in program.arguments}
    once, counts = scattered(program), counted(program)
    growing = once | begins(program)
    made: dict[str, Array] = {name: rounded(np.array(of), elements[name]) for name, of in case.tables.items()}
    missing = set(looked_into(program)) - made.keys()
    through = found_through(program)
    outer = {one for name, others in through.items() for one in others - {name}} if first else set()
    fixed = outer | subtracted(program) | {name for name in missing if name + POINTEE in elements}
    found = reached(program, case.grid, scalars, made)
    while missing:
        known = sorted(name for name in missing if not (through[name] & missing) - {name}) or sorted(missing)
        ready = [name for name in known if sizes.get(name, 0) or name in found] or known
        for name in ready:
            size = max(sizes.get(name, 0), found.get(name, 0))
            refuse_huge(program, {name: size})
            if name in outer:
                made[name] = rounded(np.zeros(size), elements[name])
            elif name in counts:
                places = reached_places(program, case.grid, scalars, made, name, size)
                iterations = (3 * seed + np.cumsum(places) - 1) % (ITERATIONS + 1)  # others in each launch
                spans = iterations * counts[name] - rng.integers(0, counts[name], size)  # the last one in part
                spans = np.where(places, spans, 0)  # numbers that grow do so where they are looked up
                spans = np.where(spans < 0, spans, spans // shrink)
                made[name] = rounded(np.cumsum(np.maximum(spans, 0)) if name in growing else spans, elements[name])
            elif name + POINTEE in elements:  # addresses: apart from one another
                made[name] = rounded(rng.permutation(size) * APART, elements[name])
            elif name in once:
                places = np.flatnonzero(reached_places(program, case.grid, scalars, made, name, size))
                steps = rng.integers(ascending // 2 + 1, max(1, ascending) + 1, places.size)
                numbers = np.zeros(size, np.int64)  # small ones: what is apart in memory need not be far apart
                numbers[places] = np.cumsum(steps) - steps[:1] if ascending else rng.permutation(places.size)
                made[name] = rounded(numbers, elements[name])
            else:
                made[name] = random_tensor(rng, size, elements[name], 1)
            at_least = int(rng.choice(LEVELS)) if levels else 0 if name in fixed else least
            if at_least and made[name].dtype.kind in "iu":
                made[name] = rounded(made[name].astype(np.int64) + at_least, elements[name])
        missing -= set(ready)
        found = reached(program, case.grid, scalars, made)
    for _ in range(LONGER):
        short = [name for name in made.keys() - case.tables.keys() if made[name].size < found.get(name, 0)]
        if not short:
            break
        made |= {name: np.resize(made[name], found[name]) for name in short}
        found = reached(program, case.grid, scalars, made)
    return made, found
