"""Tensor maps that warp groups make: of what, and which copies are on their way through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twill.codegen.verify.abstract.actor import Actor, Waiting
from twill.codegen.verify.abstract.memory import BITS
from twill.codegen.verify.abstract.order import Event
from twill.codegen.verify.abstract.scalars import integer
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import MakeMap, Settle, ShowMaps, TensorMapSpec, TmaLoad, TmaStore
from twill.tile.interpret.elements import Elements

ALIGNMENT = 16  # bytes: of where a tensor begins, and of all its strides but the innermost (cuTensorMapEncodeTiled)
PLACES = 2  # of each map: copies go through one while the other is made
LONGEST = 1 << 40  # bytes: a stride is less


def make_map(actor: Actor, stmt: MakeMap) -> None:
    """The map has these numbers once it is shown."""
    meant, scope = actor.machine.program.maps[stmt.map], actor.scope
    what = f"the tensor map of `{meant.argument}`"
    if not meant.made:
        actor.report("map", f"{actor.role} makes {what}, which the launcher makes")
    known = actor.clock.of_elected()
    made = actor.through.setdefault(stmt.map, [])
    for event, phase, line in made.pop(0) if len(made) == PLACES else ():
        if known.get(event, 0) < phase:
            actor.report("map", f"{actor.role} makes {what} anew while the copy of line {line} may still be on its way "
                                "through it: no Settle or BulkWait before it")  # fmt: skip
    size = BITS[meant.element] // 8
    strides = [integer(stride, scope) for stride in stmt.strides]
    offset = integer(stmt.offset, scope)
    if any(stride * size % ALIGNMENT or not 0 <= stride * size < LONGEST for stride in strides[:-1]):
        actor.report("map", f"{what} has strides of {', '.join(str(s * size) for s in strides[:-1])} bytes, possible "
                            f"are multiples of {ALIGNMENT} from 0 on")  # fmt: skip
    if offset * size % ALIGNMENT or strides[-1] != 1:
        actor.report("map", f"{what} begins at byte {offset * size} with a last stride of {strides[-1]}")
    made.append([])
    actor.unseen[stmt.map] = replace(
        meant, sizes=tuple(None if one is None else Number(integer(one, scope), "i64") for one in stmt.sizes),
        strides=tuple(Number(stride, "i64") for stride in strides), offset=Number(offset, "i64"),
    )  # fmt: skip


def show_maps(actor: Actor, stmt: ShowMaps) -> None:
    """The maps are as they were made."""
    for number in stmt.maps:
        if number in actor.unseen:
            actor.maps[number] = actor.unseen.pop(number)


def map_of(actor: Actor, number: int) -> TensorMapSpec:
    """What a copy of the group goes through."""
    meant = actor.machine.program.maps[number]
    if not meant.made:
        return meant
    if number not in actor.maps or number in actor.unseen:
        actor.report("map", f"{actor.role} uses a tensor map of `{meant.argument}` that it has not made, or not shown")
    return actor.maps.get(number, meant)


def box_of(actor: Actor, stmt: TmaLoad | TmaStore, what: str) -> Elements:
    """The elements of a copy's box, which has to begin where the TMA can."""
    tensors, meant = actor.machine.tensors, map_of(actor, stmt.map)
    coordinates = [integer(expr, actor.scope) for expr in stmt.coordinates]
    if (start := integer(meant.offset, actor.scope)) < 0:
        actor.report("bounds", f"the tensor map of `{meant.argument}` begins {-start} elements in front of it")
    if wrong := tensors.misplaced(meant, coordinates):
        actor.report("aligned", f"{what} by {actor.role}: {wrong}")
    return tensors.box(meant, coordinates, actor.scope)


def goes_through(actor: Actor, number: int, event: Event, phase: int) -> None:
    """A copy through a map that is over when `phase` of `event` is known."""
    if actor.machine.program.maps[number].made:
        actor.through.setdefault(number, [[]])[-1].append((event, phase, actor.line))


def settle(actor: Actor, stmt: Settle) -> Iterator[Waiting]:
    """A wait for each slot that the group had filled when it settled last, the last one first."""
    ring, _, _, count = actor.place(stmt.cursor)
    before, actor.settled[stmt.cursor] = actor.settled.get(stmt.cursor, 0), count
    for place in range(before - 1, max(count - ring.aref.depth, 0) - 1, -1):
        slot, phase = place % ring.aref.depth, place // ring.aref.depth
        yield from actor.wait_for(ring, slot, phase, "Settle")
