"""Which tiles the two CTAs of a cluster load together: those that neighbouring program instances read alike.

Neighbours along an axis of the launch grid load the same tile in the same iteration if nothing in its address depends
on that axis. Kernels that make their own order of tiles from one grid index have addresses with quotients of it in
them: these seldom change from one index to the next, so such a tile is shared where the two instances agree, which a
load group finds out at their start. In both cases all loops around must have the same bounds in both instances.

Where slots go back behind products (tensor memory), both CTAs must fill every slot of a shared ring together: an
arrival of one CTA behind its products comes to both barriers, in no order with what the other one does with its own.
There two instances that do not agree each have a turn, in which both CTAs work on it and one stores.

An axis that the kernel does not ask for is none: its instances are the same. Of the others that one is taken along
which most bytes of an iteration are shared, the first of equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from twill import exc
from twill.codegen.lower.grouped_rasterization import size
from twill.codegen.lower.longest_first import at
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scalars import OUTSIDE, InlinedScalars
from twill.codegen.lower.task import Place, Task
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import NEIGHBOUR
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Loop
from twill.tile.uniformity import stretches

CTAS = 2  # of a cluster
HALVES = 16  # rows that two halves of a tile have at least, in eights: a pattern of a swizzle is eight rows


@dataclass(frozen=True)
class Sharing:
    """axis: along which the CTAs of a cluster have neighbours. same: for each load of a shared tile, what holds if
    both load the same one (None: always). halved: loads of which each CTA has a half, for products of both
    (`twill.codegen.lower.pairs`), and along which axis of the tile; whole: those of which each has its own. together:
    where that is so (None: always)."""

    axis: int
    same: Mapping[Place, Expr | None]
    halved: Mapping[Place, int] = field(default_factory=dict)
    whole: frozenset[Place] = frozenset()
    together: Expr | None = None

    @property
    def pair(self) -> bool:
        """Whether the CTAs multiply together."""
        return bool(self.halved)


@dataclass(frozen=True)
class Unlike:
    """Why neighbours do not share a tile: every CTA loads it for itself."""

    why: str


def sharing(plan: LoweringPlan) -> Sharing:
    """The axis and the tiles. Errors: UnsupportedInKernel if there is nothing to share along any axis."""
    found, reasons = [], []
    turns = plan.tiles.target.has_tensor_memory
    for axis in asked_for(plan):
        same: dict[Place, Expr | None] = {}
        for task in copied(plan):
            agreed = agreement(plan, task, axis)
            if turns and of_other_axes(agreed, axis):
                agreed = Unlike("its address is another one for some of them")
            if isinstance(agreed, Unlike):
                reasons.append(f"`{task.node.name or task.node.tensor}` along axis {axis}: {agreed.why}")
            else:
                same[task.place] = agreed
        found.append((sum(weight(plan, place) for place in same), Sharing(axis, same)))
    best = max(found, key=lambda one: one[0], default=None)
    if best is None or not best[1].same:
        said = "; ".join(dict.fromkeys(reasons))
        raise exc.UnsupportedInKernel(
            f"neighbouring program instances share no tile ({said or 'no matrix is loaded by the TMA'})",
            file=plan.wired.program.file,
            hint="emit without --cluster",
        )
    return in_turns(best[1]) if turns else best[1]


def in_turns(found: Sharing) -> Sharing:
    """The same with tiles that are always shared, since instances that do not agree each have a turn."""
    return replace(found, same=dict.fromkeys(found.same), together=every(found.same.values()))


def every(conditions: Iterable[Expr | None]) -> Expr | None:
    """What holds where all of these hold; None: always."""
    needed = list(dict.fromkeys(one for one in conditions if one is not None))
    return reduce(lambda one, other: Apply("and", (one, other), "i1"), needed) if needed else None


def of_other_axes(agreed: Expr | Unlike | None, axis: int) -> bool:
    """Whether what two instances agree on depends on another axis of the grid than the one along which they lie."""
    if agreed is None or isinstance(agreed, Unlike):
        return False
    return any(isinstance(node, ProgramId) and node.axis != axis for node in nodes(agreed))


def asked_for(plan: LoweringPlan) -> list[int]:
    """The axes of the launch grid whose index the kernel asks for."""
    ids = (op for op in plan.wired.program.ops() if op.kind == "program_id")
    return sorted({int(str(dict(op.attributes).get("axis", 0))) for op in ids})


def copied(plan: LoweringPlan) -> Iterator[Task]:
    """Loads of matrices into rings, by the TMA, of which two CTAs can send a half each."""
    for task in plan.tasks.values():
        in_ring = task.region in plan.loops or is_in_place(plan, task)
        if task.node.kind == "load" and task.node.transport == "tma" and in_ring:
            core = plan.tiles.core(plan.last_step(task).results[0])
            if len(core) == 2 and core[0] % HALVES == 0:
                yield task


def is_in_place(plan: LoweringPlan, task: Task) -> bool:
    """Whether some task reads from shared memory what this one loads: in straight-line code there is no ring else."""
    sources = (source for reader in plan.tasks.values() for source in plan.slot_sources(reader))
    return any(plan.place_of(source) == task.place for source in sources)


def weight(plan: LoweringPlan, place: Place) -> int:
    """Bytes of a tile that are loaded again and again; 1 for one that a program instance loads once."""
    return size(plan, plan.tasks[place]) if place[0] in plan.loops else 1


def agreement(plan: LoweringPlan, task: Task, axis: int) -> Expr | Unlike | None:
    """What holds if neighbours along the axis load the same tiles; None if they always do."""
    access = plan.last_step(task).op.access
    assert access is not None
    bounds = [bound for loop in loops(plan, task.region) for bound in loop]
    if any(depends(plan, value, axis) for value in bounds):
        return Unlike("the bounds of its loop are others")
    condition: Expr | None = None
    for value in sorted(symbols(access)):
        if depends(plan, value, axis):
            expr = fixed(plan, value)
            if isinstance(expr, Unlike):
                return expr
            if not seldom(expr, axis):
                return Unlike("its address is another one")
            other = at(expr, axis, Local(NEIGHBOUR))
            equal = Apply("compare", (expr, other), "i1", (("predicate", "eq"), ("signed", 1)))
            condition = equal if condition is None else Apply("and", (condition, equal), "i1")
    return condition


def loops(plan: LoweringPlan, region: int) -> Iterator[tuple[int, ...]]:
    """The bounds of the loop that a region is, if it is one."""
    for number, loop, _ in stretches(plan.wired.program):
        if loop is not None and number == plan.wired.stretch[region] and region in plan.loops:
            yield loop.lower, loop.upper, loop.step


def symbols(access: Access) -> set[int]:
    """The scalars of an address and of its bounds."""
    polynomials: list[Polynomial | None] = [access.constant]
    for axis in access.axes:
        polynomials += [axis.stride, axis.offset, axis.lower, axis.upper]
    return {symbol for polynomial in polynomials if polynomial is not None for symbol in polynomial.symbols()}


def depends(plan: LoweringPlan, value: int, axis: int) -> bool:
    """Whether a scalar depends on an axis of the launch grid, or may: what is loaded is not looked into."""
    makers = plan.wired.uniformity.makers
    for reached in plan.wired.scalars.reach(value):
        made = makers.get(reached)
        if made is None:
            continue
        if made.access is not None or (made.kind == "program_id" and int(str(dict(made.attributes)["axis"])) == axis):
            return True
    return False


def fixed(plan: LoweringPlan, value: int) -> Expr | Unlike:
    """A scalar in terms of arguments and grid indices alone, if no loop changes it."""
    counters = {item.induction for item in plan.wired.program.body if isinstance(item, Loop)}
    reached, makers = plan.wired.scalars.reach(value), plan.wired.uniformity.makers
    if reached & (counters | set(plan.wired.uniformity.carries)) or any(
        v in makers and makers[v].access for v in reached
    ):
        return Unlike("its address depends on the axis in another way in every iteration")
    return InlinedScalars(plan.wired).value(value, OUTSIDE)


def is_one(divisor: Expr) -> bool:
    """Whether a divisor is 1: it is no more, as rows of a raster group of one row are."""
    match divisor:
        case Apply("min", (_, Number(value))) | Apply("min", (Number(value), _)):
            return value == 1
    return False


def seldom(expr: Expr, axis: int) -> bool:
    """Whether an integer changes in few steps along an axis only: it depends on quotients of the index alone."""
    match expr:
        case ProgramId(of):
            return of != axis
        case Apply("div", (left, right)):
            one = right == Number(1) or is_one(right)
            return (one or seldom(right, axis)) and (not one or seldom(left, axis))
        case Apply("rem", (_, right)) if is_one(right):
            return True
        case Apply(_, operands):
            return all(seldom(operand, axis) for operand in operands)
    return True
