"""What is made of an object once, as long as that exists."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def by_identity(make: Callable[[A], B]) -> Callable[[A], B]:
    """The function, which is called once for each object. Unlike with `functools.cache` nothing is hashed, which takes
    long of a tree, and what is equal is not taken for the same: 0 and -0 are not. An object that its result holds is
    never forgotten."""
    made: dict[int, B] = {}

    @wraps(make)
    def known(one: A) -> B:
        key = id(one)
        if key not in made:
            made[key] = make(one)
            weakref.finalize(one, made.pop, key).atexit = False
        return made[key]

    return known
