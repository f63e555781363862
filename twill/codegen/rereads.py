"""What program instances read twice, and how many of them may share an SM so that it is still in the L2 cache then.

A kernel that goes over a row in several loops, with loads straight to registers, reads the row once from memory and
then from the L2 cache, as long as the rows of all instances at work fit there. Where rows are long, fewer CTAs an SM
are faster; where they are short, as many as the SM holds. How long they are is known at a launch: the manifest says how
many bytes an instance reads again, and a launch asks for so much shared memory that no more CTAs share an SM than may.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from twill import exc
from twill.codegen.lower.memory import element_bytes
from twill.codegen.lower.scalars import InlinedScalars
from twill.codegen.manifest import overlaps, scalar_of
from twill.codegen.warp.expression import Apply, Expr, Number, add, multiply
from twill.codegen.warp.program import WarpProgram
from twill.graph.build import wire
from twill.machine.description import Machine
from twill.manifest.document import Rereads
from twill.tile.affine import Polynomial
from twill.tile.program import Loop, Op, TileProgram
from twill.tile.uniformity import stretches

PLAIN = "plain_load"


def rereads(program: WarpProgram, machine: Machine) -> Rereads | None:
    """None for kernels that read nothing twice, or whose CTAs work on several instances."""
    if overlaps(program) or machine.l2 is None:
        return None
    found = again(program.program)
    if not found:
        return None
    total: Expr = Number(0)
    for trip, size in found:
        total = add(total, multiply(at_most(trip), Number(size)))
    try:
        whole = scalar_of(total, program.program.file)
    except exc.UnsupportedInKernel:  # it depends on the instance
        return None
    each = int(machine.l2.value * machine.emitting.rereads.value / machine.sms.value)
    load = machine.transfer(PLAIN)
    on_their_way = load.bytes_per_cycle.value * load.latency.value
    return Rereads(whole, each, ceil(on_their_way / max(size for _, size in found)))


def at_most(trip: Expr) -> Expr:
    """A trip count without choices that each instance makes for itself: the larger of both ways."""
    if not isinstance(trip, Apply):
        return trip
    if trip.kind == "select":
        _, one, other = trip.operands
        return Apply("max", (at_most(one), at_most(other)), trip.element, (("signed", 1),))
    return replace(trip, operands=tuple(map(at_most, trip.operands)))


def again(program: TileProgram) -> list[tuple[Expr, int]]:
    """(trip count, bytes of a tile) of each load that an earlier loop has made, counted once however often."""
    loads = [
        (op, loop)
        for _, loop, ops in stretches(program)
        for op in ops
        if loop is not None and op.kind == "tile_load" and program.type_of(op.results[0]).shape
    ]
    if len(loads) < 2:
        return []
    scalars = InlinedScalars(wire(program))
    seen: dict[object, set[int]] = {}
    found: dict[object, tuple[Expr, int]] = {}
    for op, loop in loads:
        trip = scalars.trip(loop)
        key = (_where(op, loop), trip)
        loops = seen.setdefault(key, set())
        if loops - {loop.id}:
            kind = program.type_of(op.results[0])
            found[key] = (trip, prod(kind.shape) * element_bytes(kind.element))
        loops.add(loop.id)
    return list(found.values())


def _where(op: Op, loop: Loop) -> object:
    """The elements that a load brings in all iterations of its loop, masks aside."""
    access = op.access
    assert access is not None

    def still(polynomial: Polynomial) -> object:
        """With the loop's counter under a name that all loops share."""
        return frozenset(
            (tuple(sorted((-1 if s == loop.induction else s, power) for s, power in term)), factor)
            for term, factor in polynomial.terms
        )

    axes = tuple((axis.extent, still(axis.stride), still(axis.offset)) for axis in access.axes)
    return access.base, axes, still(access.constant), op.operands[: len(access.indices)]
