"""Launches more for kernels that look numbers up, until every tensor that they store into has been stored into.

Where a tile begins and ends may be looked up (rows of an expert): of numbers that are drawn at random, or of the first
instance alone, all may lie outside of the bounds, and a store that is missing in the code is then missed by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from twill.codegen.verify.abstract.deadline import Over, in_time, refuse_late
from twill.exc import UnknownProblem
from twill.tile.interpret.arrays import np
from twill.tile.interpret.conflicts import conflicts
from twill.tile.interpret.elements import OutsideOfTensor
from twill.tile.interpret.sequential import run
from twill.tile.program import TileProgram

if TYPE_CHECKING:
    from twill.codegen.verify.abstract.inputs import CheckedLaunch

TRIES = 24
FURTHER = 8  # tries where nothing at all was stored in those
SOME = 65
WITH_LEVELS = 12  # and so many more whose tables have numbers of unlike size


def until_stored(
    tile: TileProgram, made: Sequence[CheckedLaunch], drawn: Callable[[int], CheckedLaunch], over: Over = in_time
) -> Iterator[CheckedLaunch]:
    """Of the launches `drawn(0)`, `drawn(1)` ... those that store into a tensor which no launch before stores into;
    `drawn` makes those from TRIES on of sizes unlike those before. Raises UnknownProblem where nothing at all is stored
    in any, and BudgetExhausted when `over` says so."""
    written = tile.original or tile
    stores = {op.access.base for op in written.ops() if op.access is not None and op.kind != "tile_load"}
    stored = frozenset[str]().union(*(changed(written, one) for one in made))
    outside: UnknownProblem | None = None
    for number in range(TRIES + FURTHER + WITH_LEVELS):
        if stores <= stored or (number >= TRIES and stores & stored):
            return
        refuse_late(tile, over)
        one = drawn(number)
        try:
            more = changed(written, one) - stored
        except UnknownProblem as error:  # these numbers are none; others may be
            outside = error
            continue
        if more & stores:
            stored |= more
            yield one
    if stores and not stored & stores:
        if outside is not None:
            raise outside
        raise UnknownProblem(
            f"no numbers were found for what `{tile.kernel}` looks up with which it stores anything", file=tile.file,
            hint="their `tables` in [specialization.problem] of its sidecar (docs/problem-sizes.md)",
        )  # fmt: skip


def one_twice_as_long(sizes: Sequence[Mapping[str, int]], units: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """For each size, twice the most of it with the least of all others: where work begins behind as many elements as
    another size says, no size alone reaches it; and all of SOME elements, where the most is none. sizes: those that are
    known, at least one, multiples of `units`."""
    least, most = ({name: of(one[name] for one in sizes) for name in sizes[0]} for of in (min, max))
    yield from ({**least, name: 2 * most[name]} for name in sizes[0])
    yield {name: 2 * value for name, value in most.items()}
    if not all(most.values()):
        yield {name: -(-SOME // units[name]) * units[name] for name in most}


def changed(tile: TileProgram, made: CheckedLaunch) -> frozenset[str]:
    """The tensors that a launch changes; where instances meet, that its first instance changes, which is the only one
    that is compared."""
    copies = {name: array.copy() for name, array in made.arrays.items()}
    try:
        meet = conflicts(tile, made.grid, made.arrays, made.scalars).between
        with np.errstate(all="ignore"):
            run(tile, (1,) if meet else made.grid, copies, made.scalars)
    except OutsideOfTensor as outside:
        raise UnknownProblem(
            f"`{tile.kernel}` looks numbers up, and with those that were made up it leaves a tensor: {outside}",
            file=tile.file,
            hint="their `tables` in [specialization.problem] of its sidecar (docs/problem-sizes.md)",
        ) from None
    return frozenset(name for name, array in copies.items() if array.tobytes() != made.arrays[name].tobytes())
