"""Exponentials split between the unit of special functions and a polynomial.

The unit makes few exponentials a cycle, beside many additions and multiplications of other pipes. Where a loop waits
for it, some of each 16 exponentials of a thread are made by those pipes: Cody and Waite's reduction to [0, 1) and a
polynomial of degree 5, which is as exact as the unit. How many is the cooperation's `polynomial`, which the solver
chooses (`twill.solve.split`).
"""

from __future__ import annotations

from collections.abc import Iterable

from twill.graph.dependence import Count, Node
from twill.machine.description import Machine

EXPONENTIAL, POLYNOMIAL = "exp2.f32", "exp2_polynomial.f32"  # operation classes
GROUP = 16  # neighbouring exponentials of a thread, of which some are polynomials
THREADS = 128  # of a warp group
OTHERS = frozenset({"inline_asm", "tanh"})  # operations that count as exponentials, too


def splittable(node: Node, parts: int = 1) -> bool:
    """Whether 1/parts of a node has exponentials in groups of 16 a thread."""
    elements = sum(count.elements for count in node.counts if count.operation == EXPONENTIAL) // parts
    return elements > 0 and not elements % (GROUP * THREADS) and OTHERS.isdisjoint(node.operations)


def split_exponentials(node: Node, parts: int, polynomial: int) -> Node:
    """The node with `polynomial` of 16 exponentials made by one, if it can be split."""
    if not polynomial or not splittable(node, parts):
        return node
    return node.model_copy(update={"counts": tuple(_split(node.counts, polynomial))})


def _split(counts: Iterable[Count], polynomial: int) -> Iterable[Count]:
    for count in counts:
        if count.operation != EXPONENTIAL:
            yield count
            continue
        replaced = count.elements * polynomial // GROUP
        yield Count(operation=EXPONENTIAL, elements=count.elements - replaced)
        yield Count(operation=POLYNOMIAL, elements=replaced)


def has_polynomial(machine: Machine) -> bool:
    """Whether the machine file prices it."""
    return any(operation.name == POLYNOMIAL for operation in machine.operations)
