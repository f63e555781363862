"""Colours of ops in the terminal: one a kernel variable, the same for its row blocks."""

from __future__ import annotations

from collections.abc import Iterable

from twill.show.view import ShownOp

# 256-colour numbers that black letters can be read on, neighbours far apart in hue.
COLOURS = (75, 214, 114, 176, 221, 80, 209, 147, 150, 217, 117, 186)


def colours(items: Iterable[ShownOp]) -> dict[str, str]:
    """Colour by op name, in order of appearance."""
    names = dict.fromkeys(item.name for item in items)
    return {name: f"color({COLOURS[n % len(COLOURS)]})" for n, name in enumerate(names)}


def colour(item: ShownOp, chosen: dict[str, str]) -> str:
    """The colour of an item."""
    return chosen[item.name]
