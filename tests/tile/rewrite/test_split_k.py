"""Promises of `twill.tile.rewrite.split_k`: parts of K are summed in one order, by the instance that comes last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.conftest import GOLDEN
from tests.pass_texts import pass_cases
from twill import exc
from twill.tile.interpret.sequential import Instance, instances, run
from twill.tile.parse import parse
from twill.tile.program import Loop, Split, TileProgram
from twill.tile.rewrite.split_k import split_k

WRITTEN = next(case.before for case in pass_cases(GOLDEN / "rewrites") if case.name == "split-k")
TILES, K = 2, 200


def written() -> TileProgram:
    """C = A B, tile by tile; it is to be split in two along axis 1."""
    return parse(WRITTEN)


def tensors() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    sizes = {"A": TILES * 64 * K + 64, "B": (K + 64) * 64}
    made = {name: chance.integers(-4, 5, size).astype(np.float32) for name, size in sizes.items()}
    return {**made, "C": np.full(TILES * 64 * 64, np.nan, np.float32)}


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 9])
def test_any_number_of_parts_computes_what_the_kernel_does(parts: int) -> None:
    """Also more parts than there are iterations: those have none. The sums are of integers, and so exact."""
    whole, split = tensors(), tensors()
    run(replace(written(), split=None), (TILES,), whole, {"K": K})
    run(split_k(written()), (TILES, parts), split, {"K": K})
    assert np.array_equal(whole["C"], split["C"])


def test_parts_take_iterations_in_turn() -> None:
    """So at any time they read what is side by side."""
    program, parts = split_k(written()), 3
    loop = next(item for item in program.body if isinstance(item, Loop))
    took = []
    for part in range(parts):
        one = Instance(program, (0, part, 0), (TILES, parts), tensors(), {"K": K})
        one.run()
        took.append([*range(*(int(one.values[value]) for value in (loop.lower, loop.upper, loop.step)))])
    assert took == [[0, 192], [64], [128]]


@pytest.mark.parametrize("seed", range(3))
def test_results_are_the_same_bit_by_bit_whoever_comes_last(seed: int) -> None:
    program = split_k(written())
    results = []
    for order in (seed, seed + 10):
        given = {name: array * np.float32(1 / 3) for name, array in tensors().items()}
        came = [*instances((TILES, 4))]
        np.random.default_rng(order).shuffle(came)
        sums = None
        for index in came:
            one = Instance(program, index, (TILES, 4), given, {"K": K}, sums=sums)
            sums = one.sums
            one.run()
        results.append(given["C"])
    assert not np.isnan(results[0]).any()
    assert np.array_equal(results[0], results[1])


def test_an_instance_that_is_not_the_last_stores_nothing() -> None:
    given = tensors()
    Instance(split_k(written()), (0, 1, 0), (TILES, 2), given, {"K": K}).run()
    assert np.isnan(given["C"]).all()


REFUSED = {
    "a carried value besides": ("begins with 0", ("constant value=0.0: 64x64 f32", "constant value=1.0: 64x64 f32")),
    "no free axis": ("no axis 0 that is free", ("along axis 1", "along axis 0")),
    "an atomic store": ("an atomic operation", ("tile_store", "tile_reduce")),
    "another reader of the sums": (
        "is not a sum of products", ("precision=ieee: 64x64 f32", "precision=ieee: 64x64 f32  # line 5\n  "
                                     "%20 = neg %9:acc: 64x64 f32"),
    ),
    "strict": ("rounded otherwise", ("file k.py,", "file k.py, strict,")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_is_refused_with_the_reason(name: str) -> None:
    said, (old, new) = REFUSED[name]
    assert WRITTEN.count(old) >= 1
    with pytest.raises(exc.CannotSplit, match=said) as found:
        split_k(parse(WRITTEN.replace(old, new)))
    assert found.value.hint


def test_a_program_says_how_it_is_split_in_its_text() -> None:
    assert written().split == Split(axis=1, parts=2)
