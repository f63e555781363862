"""Tensor memory: lanes and columns of 32 bits in which tiles lie, also over one another, and statements about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twill.codegen.verify.abstract.order import Event, Region, SlotAccess, SlotAccesses
from twill.codegen.verify.abstract.scalars import evaluate
from twill.codegen.verify.abstract.tensor_scales import SCALE_BITS, copied, scaled
from twill.codegen.warp.program import (
    Buffer,
    CopyScales,
    LoadAccumulator,
    SlotRef,
    StoreAccumulator,
    TensorMultiply,
)
from twill.codegen.warp.resources import COLUMN_BITS
from twill.graph.work import BITS
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.conversions import bitcast
from twill.tile.interpret.tiles import dot

if TYPE_CHECKING:
    from twill.codegen.verify.abstract.actor import Actor, CtaState


INTEGERS = "i8"  # operands of products that are summed up exactly
WHOLE: dict[str, Any] = {"f32": np.float32, "i32": np.int32}  # elements of as many bits as a column has


@dataclass(frozen=True)
class TensorTiles:
    """words: of all lanes and columns, NaN until something is written. accesses: of all of it."""

    words: Array
    accesses: SlotAccesses

    @classmethod
    def of(cls, buffers: tuple[Buffer, ...]) -> TensorTiles:
        """Fresh memory."""
        held = [buffer for buffer in buffers if buffer.tensor]
        lanes = max((buffer.shape[0] for buffer in held), default=0)
        columns = max((buffer.offset + buffer.slots * buffer.stride for buffer in held), default=0)
        return cls(np.full((lanes, columns), np.nan, np.float32).view(np.uint32), SlotAccesses())

    def region(self, buffer: Buffer, slot: int, within: Region) -> Region:
        """Lanes and columns of some rows and columns of a tile."""
        top, bottom, left, right = within
        first, bits = buffer.offset + slot * buffer.stride, BITS[buffer.element]
        return top, bottom, first + left * bits // COLUMN_BITS, first - -right * bits // COLUMN_BITS

    def read(self, buffer: Buffer, slot: int, within: Region) -> Array:
        """The elements that are there now, whatever is written later."""
        top, bottom, left, right = self.region(buffer, slot, within)
        words = self.words[top:bottom, left:right].copy()
        if BITS[buffer.element] == COLUMN_BITS:
            return words.view(WHOLE[buffer.element])
        if BITS[buffer.element] == SCALE_BITS:
            return bitcast(words.view(np.int8), "i8", buffer.element)
        return bitcast(words.view(np.int16), "i16", buffer.element)

    def write(self, buffer: Buffer, slot: int, within: Region, value: Array) -> None:
        """Elements that from now on are there."""
        top, bottom, left, right = self.region(buffer, slot, within)
        if BITS[buffer.element] == COLUMN_BITS:
            words = np.ascontiguousarray(value, WHOLE[buffer.element]).view(np.uint32)
        elif BITS[buffer.element] == SCALE_BITS:
            words = np.ascontiguousarray(bitcast(value, buffer.element, "i8")).view(np.uint32)
        else:
            words = np.ascontiguousarray(bitcast(value, buffer.element, "i16")).view(np.uint32)
        self.words[top:bottom, left:right] = words


@dataclass(frozen=True)
class _Place:
    """A part of a slot in tensor memory."""

    tiles: TensorTiles
    buffer: Buffer
    slot: int
    within: Region

    def read(self) -> Array:
        return self.tiles.read(self.buffer, self.slot, self.within)

    def write(self, value: Array) -> None:
        self.tiles.write(self.buffer, self.slot, self.within, value)


def _place(actor: Actor, ref: SlotRef, access: SlotAccess, at: CtaState | None = None) -> _Place:
    """What is meant, the access noted. at: of another CTA."""
    shared = (at or actor.machine).shared
    slot = actor.touch(ref, access, actor.clock.collective(), at)
    return _Place(shared.tensor, shared.buffers[ref.buffer], slot, access.region)


def tensor_multiply(actor: Actor, stmt: TensorMultiply) -> None:
    """Checked when it is issued; read and written when an arrival behind it is made. Of a pair: in both CTAs."""
    index, line = actor.multiplies.index, actor.line
    what = f"the TensorMultiply into `{actor.machine.program.buffers[stmt.target.buffer].name}`"
    ctas = _ctas(actor, stmt.target, what)

    def accessed(cta: CtaState, ref: SlotRef, write: bool) -> SlotAccess:
        event: Event = ("mma", actor.group.id)
        return SlotAccess(actor.group.id, event, index, "mma", write, cta.shared.region(ref), line, what)

    def operand(cta: CtaState, ref: SlotRef, transposed: bool) -> Callable[[], Array]:
        access = accessed(cta, ref, False)
        if cta.shared.buffers[ref.buffer].tensor:
            return _place(actor, ref, access, cta).read
        view = cta.shared.view(ref, actor.touch(ref, access, actor.clock.collective(), cta))
        return lambda: view.T if transposed else view

    left = [operand(cta, stmt.a, stmt.a_transposed) for cta in ctas]
    right = [operand(cta, stmt.b, stmt.b_transposed) for cta in ctas]
    into = [_place(actor, stmt.target, accessed(cta, stmt.target, True), cta) for cta in ctas]
    of_a, of_b = ([operand(cta, ref, False) for cta in ctas] if ref else [] for ref in (stmt.of_a, stmt.of_b))
    more = bool(evaluate(stmt.accumulate, actor.scope))

    def over() -> None:
        whole = np.concatenate([read() for read in right], axis=1) if len(ctas) > 1 else right[0]()
        for number, (read, result) in enumerate(zip(left, into, strict=True)):
            rows, columns = read(), whole
            if stmt.block:  # each CTA has the scales of its rows of A, and all of B's
                rows = scaled(rows, of_a[number](), stmt.operand, stmt.block)
                columns = scaled(whole.T, of_b[number](), stmt.operand, stmt.block).T
            if stmt.operand == INTEGERS and not stmt.block:
                result.write(dot((rows, columns, *([result.read()] if more else [])), result.buffer.element))
                continue
            product = np.matmul(rows, columns).astype(np.float32, copy=False)
            result.write(result.read() + product if more else product)

    actor.multiplies.open.append(over)


def copy_scales(actor: Actor, stmt: CopyScales) -> None:
    """Checked when it is issued; read and written in order with MMAs. Of a pair: in both CTAs, each its own."""
    index, line = actor.multiplies.index, actor.line
    what = f"the CopyScales to `{actor.machine.program.buffers[stmt.target.buffer].name}`"
    event: Event = ("mma", actor.group.id)

    def copy(cta: CtaState) -> Callable[[], None]:
        def accessed(ref: SlotRef, write: bool) -> SlotAccess:
            proxy = "scales" if write else "mma"
            return SlotAccess(actor.group.id, event, index, proxy, write, cta.shared.region(ref), line, what)

        slot = actor.touch(stmt.source, accessed(stmt.source, False), actor.clock.collective(), cta)
        view, place = cta.shared.view(stmt.source, slot), _place(actor, stmt.target, accessed(stmt.target, True), cta)
        return lambda: place.write(copied(view, stmt.rows))

    actor.multiplies.open += [copy(cta) for cta in _ctas(actor, stmt.target, what)]


def _ctas(actor: Actor, ref: SlotRef, what: str) -> tuple[CtaState, ...]:
    """The CTAs in which something is done to a ring: this one, and of a pair the other one, too."""
    machine = actor.machine
    if not any(ring.pair and ref.buffer in ring.buffers for ring in machine.program.arefs):
        return (machine,)
    for other in machine.others:
        actor.reach(other, what)
    return machine, *machine.others


def load_accumulator(actor: Actor, stmt: LoadAccumulator) -> None:
    """The threads have it behind the statement."""
    place = _place(actor, stmt.source, _by_threads(actor, stmt.source, False, "LoadAccumulator of"))
    actor.fragments.write(stmt.result, place.read(), actor.line)


def store_accumulator(actor: Actor, stmt: StoreAccumulator) -> None:
    """It is there behind the statement."""
    value = actor.fragments.read(stmt.operand, actor.line)
    _place(actor, stmt.target, _by_threads(actor, stmt.target, True, "StoreAccumulator to")).write(np.asarray(value))


def _by_threads(actor: Actor, ref: SlotRef, write: bool, what: str) -> SlotAccess:
    """Of lanes, which are always those of the same warp."""
    event: Event = ("time", actor.group.id)
    name, region = actor.machine.program.buffers[ref.buffer].name, actor.machine.shared.region(ref)
    time = actor.clock.own[event]
    return SlotAccess(actor.group.id, event, time, "tensor", write, region, actor.line, f"{what} `{name}`")
