"""Names as Python has them."""

from __future__ import annotations

import keyword
import re

_NUMBERED = re.compile(r"_\d+$")


def identifier(name: str) -> str:
    """A name of a ring, buffer or fragment as Python has it: `q.0` -> `q_0`."""
    made = re.sub(r"\W+", "_", name).strip("_")
    return f"{made}_" if keyword.iskeyword(made) or not made or made[0].isdigit() else made


def base_of(name: str) -> str:
    """A name without the number that tells it from others."""
    return _NUMBERED.sub("", identifier(name))


def free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken, which it is from now on."""
    found = next(n for n in (name, *(f"{name}_{i}" for i in range(2, 999))) if n not in taken)
    taken.add(found)
    return found
