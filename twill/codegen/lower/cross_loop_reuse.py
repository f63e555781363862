"""Tiles that several loops of a program instance read: loaded once and kept in their ring, if it holds them all.

A kernel that goes over a row twice loads the same tiles in two loops. Where the tensor is not written meanwhile and the
loops have the same bounds, one load group fills one ring for all of them. Whether a row fits into the ring is known at
a launch: if it does, only the first loop's tiles are loaded, later loops read them again, and the last one gives the
slots back; if it does not, every loop has its own loads. Each loop has cursors of its own, which begin at its tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twill.codegen.warp.expression import Expr, Number, less, multiply
from twill.tile.affine import Polynomial
from twill.tile.uniformity import stretches

if TYPE_CHECKING:
    from twill.codegen.lower.plan import LoweringPlan
    from twill.codegen.lower.task import Place, Task

ReuseGroup = tuple["Place", ...]
"""The loads of the same tiles, in the order of their loops."""


def reuse_groups(plan: LoweringPlan) -> tuple[ReuseGroup, ...]:
    """Loads of the same tiles in several loops, by the TMA, of tensors that the kernel does not write."""
    found: dict[object, list[Place]] = {}
    for place in sorted(plan.tasks):
        task = plan.tasks[place]
        copied = task.node.kind == "load" and task.region in plan.loops and task.node.transport == "tma"
        if copied and not plan.is_written(task.node.tensor or ""):
            found.setdefault(reads(plan, task), []).append(place)
    alike = (tuple(places) for places in found.values())
    return tuple(f for f in alike if len(f) > 1 and len({place[0] for place in f}) == len(f))


def reads(plan: LoweringPlan, task: Task) -> object:
    """What a load brings in all iterations of its loop, and who reads it."""
    access = plan.last_step(task).op.access
    assert access is not None
    number = plan.wired.stretch[task.region]
    loop = next(loop for n, loop, _ in stretches(plan.wired.program) if n == number)
    assert loop is not None

    def still(polynomial: Polynomial | None) -> object:
        """The polynomial, with the loop's counter under a name that all loops share."""
        terms = polynomial.terms if polynomial else ()
        named = (tuple(sorted((-1 if s == loop.induction else s, power) for s, power in term)) for term, _ in terms)
        return polynomial is None, frozenset(zip(named, (factor for _, factor in terms), strict=True))

    axes = tuple((a.extent, still(a.stride), still(a.offset), still(a.lower), still(a.upper)) for a in access.axes)
    readers = frozenset(g for reader in plan.readers(task.place) for g in reader.groups)
    bounds = (loop.lower, loop.upper, loop.step)
    return access.base, axes, still(access.constant), access.pad, bounds, readers, task.block


def position(families_: Iterable[ReuseGroup], place: Place) -> tuple[int, int]:
    """Which of how many loops that read the same tiles a load is of; (0, 1) if it has them alone."""
    family = family_of(families_, place)
    return family.index(place), len(family)


def family_of(families_: Iterable[ReuseGroup], place: Place) -> ReuseGroup:
    """The loads that read the same tiles as the one at a place, which is one of them."""
    return next((f for f in families_ if place in f), (place,))


def overlap(families_: Sequence[ReuseGroup], one: Place, other: Place) -> bool:
    """Whether two loads are of different tiles, and the loops that read the one's begin before those that read the
    other's have ended: both cannot stay in one ring."""
    mine, theirs = family_of(families_, one), family_of(families_, other)
    return mine != theirs and max(mine[0], theirs[0])[0] < min(mine[-1], theirs[-1])[0]


def streams(trip: Expr, depth: int) -> Expr:
    """Whether the tiles of a loop are more than its ring holds."""
    return less(Number(depth), trip)


def before(place: int, trip: Expr) -> Expr:
    """Slots that the loops before this one take of the ring if tiles are not kept."""
    return multiply(Number(place), trip)
