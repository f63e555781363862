"""The time that the abstract machine has: asked for in front of every launch that is made up or run."""

from __future__ import annotations

from collections.abc import Callable

from twill.exc import BudgetExhausted
from twill.tile.program import TileProgram

Over = Callable[[], bool]  # whether the time is over


def in_time() -> bool:
    """Of what may take as long as it does."""
    return False


def refuse_late(tile: TileProgram, over: Over) -> None:
    """Raises BudgetExhausted when the time is over: a program that was not run at every launch is not known to be
    right."""
    if over():
        raise BudgetExhausted(f"the time for emitting {tile.kernel} ended while it was run on the abstract machine")
