"""Tensors of integers whose numbers are known with the scalars of a launch."""

from __future__ import annotations

from collections.abc import Mapping

from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np


def tables_of(scalars: Mapping[str, int | float]) -> dict[str, Array]:
    """The tensors of integers whose numbers are known with the scalars of a launch: `sizes[3]` is one of `sizes`
    (`twill.kernel.problem`)."""
    found: dict[str, list[int | float]] = {}
    for name, number in scalars.items():  # in order
        table, bracket, _ = name.partition("[")
        if bracket:
            found.setdefault(table, []).append(number)
    return {name: np.array(numbers, np.int64) for name, numbers in found.items()}
