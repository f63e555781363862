"""The right program beside a faulty one, at many more sizes than the abstract machine is given: whether they differ."""

from __future__ import annotations

from functools import cached_property

from tests.effects import Effects, effects
from tests.happens import Order, order
from tests.wide import Array, close, conversions_of
from tests.wide import results as wide_results
from twill.codegen.verify.abstract_machine import Trial, run, trials
from twill.codegen.warp.program import WarpProgram


class Twin:
    """The right program. What it does at each size is kept; only what the usual launches do not find is worth that."""

    def __init__(self, program: WarpProgram) -> None:
        self.program = program
        self.effects: dict[int, Effects] = {}
        self.values: dict[int, Effects] = {}
        self.orders: dict[int, Order] = {}
        self.moves: dict[int, Effects] = {}
        self.bits: dict[int, dict[str, bytes]] = {}
        self.numbers: dict[int, dict[str, Array]] = {}

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The many sizes."""
        return trials(self.program, thorough=True)

    def does_the_same(self, other: WarpProgram) -> bool:
        """Whether another program has the same effects at all sizes."""
        return all(self._has_these_effects(other, number) for number in range(len(self.trials)))

    def is_ordered_alike(self, other: WarpProgram) -> bool:
        """Whether another program does the same to the same places, in the same and a certain order, at all sizes."""
        numbers = range(len(self.trials))
        return all(self._has_these_values(other, number) and self._has_this_order(other, number) for number in numbers)

    def gives_the_same_bits(self, other: WarpProgram) -> bool:
        """Whether another program differs in nothing but what registers hold in between, what multiplies read
        included, where every two accesses that collide are ordered; and every bit of its results is the same."""
        numbers = range(len(self.trials))
        return all(self._has_these_bits(other, number) and self._moves_the_same(other, number) for number in numbers)

    def gives_the_same_numbers(self, other: WarpProgram) -> bool:
        """Whether another program differs in nothing but what registers hold in between, as above, converts the same,
        and would give the same results but for the rounding of float64 if no type rounded (`tests.wide`)."""
        numbers = range(len(self.trials))
        return conversions_of(other) == conversions_of(self.program) and all(
            self._has_these_numbers(other, number) and self._moves_the_same(other, number) for number in numbers
        )

    def _moves_the_same(self, other: WarpProgram, number: int) -> bool:
        trial = self.trials[number]
        if number not in self.moves:
            self.moves[number] = effects(self.program, trial, values=False)
        return effects(other, trial, values=False) == self.moves[number] and order(other, trial)[1]

    def _has_these_bits(self, other: WarpProgram, number: int) -> bool:
        if number not in self.bits:
            self.bits[number] = results(self.program, self.trials[number])
        return results(other, self.trials[number]) == self.bits[number]

    def _has_these_numbers(self, other: WarpProgram, number: int) -> bool:
        if number not in self.numbers:
            self.numbers[number] = wide_results(self.program, self.trials[number])
        return close(wide_results(other, self.trials[number]), self.numbers[number])

    def _has_these_effects(self, other: WarpProgram, number: int) -> bool:
        trial = self.trials[number]
        if number not in self.effects:
            self.effects[number] = effects(self.program, trial)
        return effects(other, trial) == self.effects[number]

    def _has_these_values(self, other: WarpProgram, number: int) -> bool:
        """The same effects besides putting others in order."""
        trial = self.trials[number]
        if number not in self.values:
            self.values[number] = effects(self.program, trial, orders=False)
        return effects(other, trial, orders=False) == self.values[number]

    def _has_this_order(self, other: WarpProgram, number: int) -> bool:
        trial = self.trials[number]
        if number not in self.orders:
            self.orders[number] = order(self.program, trial)
        return order(other, trial) == self.orders[number] and self.orders[number][1]


def results(program: WarpProgram, trial: Trial) -> dict[str, bytes]:
    """The bits of all tensors after a launch."""
    return {name: array.tobytes() for name, array in run(program, trial.launch).arrays.items()}
