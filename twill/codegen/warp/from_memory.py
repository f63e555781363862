"""Which scalars come out of memory, so that a compiler cannot know that all threads of a warp have the same value."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from twill.codegen.warp.expression import Element, Expr, Local, Lookup
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import CountReuse, Define, Let, ScalarLoop

_Definition = tuple[tuple[str, ...], tuple[Expr, ...]]


def names_from_memory(part: Any) -> frozenset[str]:
    """The scalars that a part of a program defines by what it looks up, or by other scalars that are."""
    found: frozenset[str] = frozenset()
    definitions = list(_definitions(part))
    while more := {name for names, values in definitions if comes_from_memory(values, found) for name in names} - found:
        found |= more
    return found


def comes_from_memory(part: Any, names: Set[str]) -> bool:
    """Whether an expression, anywhere in a part, asks for memory or for one of these scalars."""
    return any(
        isinstance(node, Lookup | Element) or (isinstance(node, Local) and node.name in names) for node in nodes(part)
    )


def _definitions(part: Any) -> Iterator[_Definition]:
    for node in nodes(part):
        match node:
            case Let(name, value):
                yield (name,), (value,)
            case Define(names, values):
                yield names, values
            case CountReuse(name, values):
                yield (name,), values
            case ScalarLoop(names, inits, condition, yields):
                yield names, (*inits, condition, *yields)
