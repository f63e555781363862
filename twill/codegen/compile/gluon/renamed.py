"""Rings that somebody has called otherwise: the facts of an edited module under the names that they had.

Whoever edits a module may rename a ring, or the parameter that it is in one function. A name that the module did not
have stands for the one that has its place in all of the function's facts, if there is exactly one, and no other name
stands for that one there. Anything else is told as it is.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from twill.codegen.print.gluon.facts import ModuleFact

_RING = re.compile(r"(mbarrier\.\w+: )(\w+)(\.(?:full|empty), )")

Name = tuple[str, str]
"""A function, and what it calls a ring."""


def under_their_names(tree: ast.Module, found: Sequence[ModuleFact], wanted: Sequence[ModuleFact]) -> list[ModuleFact]:
    """What is found, with rings called as in what is wanted."""
    known = {_ring(fact) for fact in wanted}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]

    def name(fact: ModuleFact) -> Name:
        inside = (f.name for f in functions if f.lineno <= fact.line <= (f.end_lineno or f.lineno))
        return next(inside, ""), _ring(fact)

    stand_for: dict[Name, set[str]] = defaultdict(set)
    matcher = SequenceMatcher(None, [*map(_unnamed, wanted)], [*map(_unnamed, found)], autojunk=False)
    for kind, a, b, c, _ in matcher.get_opcodes():
        for place in range(b - a if kind == "equal" else 0):
            if _ring(found[c + place]):
                stand_for[name(found[c + place])].add(_ring(wanted[a + place]))
    taken = [(function, *olds) for (function, _), olds in stand_for.items() if len(olds) == 1]
    made = []
    for fact in found:
        function, ring = name(fact)
        olds = stand_for.get((function, ring), set())
        if ring and ring not in known and len(olds) == 1 and taken.count((function, *olds)) == 1:
            fact = replace(fact, said=_RING.sub(rf"\g<1>{next(iter(olds))}\g<3>", fact.said))
        made.append(fact)
    return made


def _ring(fact: ModuleFact) -> str:
    """The ring that a fact is of, or nothing."""
    found = _RING.match(fact.said)
    return found[2] if found else ""


def _unnamed(fact: ModuleFact) -> str:
    return _RING.sub(r"\1_\3", fact.said)
