"""What statements do that multiply into tensor memory, or read it."""

from __future__ import annotations

from twill.codegen.verify.abstract.actor import Actor, CtaState
from twill.codegen.verify.abstract.order import Event, SlotAccess
from twill.codegen.verify.abstract.scalars import evaluate
from twill.codegen.warp.program import LoadAccumulator, SlotRef, TensorMultiply
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np


def tensor_multiply(actor: Actor, stmt: TensorMultiply) -> None:
    """Checked when it is issued; read and written when an arrival behind it is made. Of a pair: in both CTAs."""
    index, line = actor.multiplies.index, actor.line
    what = f"the TensorMultiply into `{actor.machine.program.buffers[stmt.target.buffer].name}`"
    pair = any(ring.pair and stmt.target.buffer in ring.buffers for ring in actor.machine.program.arefs)
    ctas = (actor.machine, *actor.machine.others) if pair else (actor.machine,)

    def slot(cta: CtaState, ref: SlotRef, write: bool, transposed: bool = False) -> Array:
        event: Event = ("mma", actor.group.id)
        access = SlotAccess(actor.group.id, event, index, "mma", write, cta.shared.region(ref), line, what)
        view = cta.shared.view(ref, actor.touch(ref, access, actor.clock.collective(), cta))
        return view.T if transposed else view

    for other in ctas[1:]:
        actor.reach(other, what)
    left = [slot(cta, stmt.a, False, stmt.a_transposed) for cta in ctas]
    right = [slot(cta, stmt.b, False, stmt.b_transposed) for cta in ctas]
    into, more = [slot(cta, stmt.target, True) for cta in ctas], bool(evaluate(stmt.accumulate, actor.scope))

    def over() -> None:
        whole = np.concatenate(right, axis=1) if pair else right[0]
        for rows, result in zip(left, into, strict=True):
            product = np.matmul(rows, whole)
            result[...] = result + product if more else product

    actor.multiplies.open.append(over)


def load_accumulator(actor: Actor, stmt: LoadAccumulator) -> None:
    """By all threads of a group."""
    event: Event = ("time", actor.group.id)
    what = f"LoadAccumulator of `{actor.machine.program.buffers[stmt.source.buffer].name}`"
    region = actor.machine.shared.region(stmt.source)
    access = SlotAccess(actor.group.id, event, actor.clock.own[event], "tensor", False, region, actor.line, what)
    slot = actor.touch(stmt.source, access, actor.clock.collective())
    actor.fragments.write(stmt.result, np.array(actor.machine.shared.view(stmt.source, slot)), actor.line)
