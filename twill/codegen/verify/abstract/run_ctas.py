"""CTAs that run together: those of a cluster, or all of a launch whose program instances may wait for one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twill.codegen.verify.abstract import control
from twill.codegen.verify.abstract.actor import Actor, CtaState, RingState, Waiting
from twill.codegen.verify.abstract.cluster import left
from twill.tile.interpret.together import POLLS


def run_ctas(machines: Sequence[CtaState], enough: int) -> int:
    """All warp groups of all its CTAs until they end or none can go on; the statements that they executed."""
    machine = machines[0]
    actors = [Actor(cta, group) for cta in machines for group in cta.program.groups]
    running = {actor: control.run(actor) for actor in actors}
    waiting: dict[Actor, Waiting | None] = dict.fromkeys(actors)
    moving, polls = machine, 0
    turns, alone = _turns(machines, actors)
    try:
        while running and len(machine.findings.found) < enough:
            moved = False
            open_ = list(turns)
            while open_:
                turn, further = open_.pop(0), False
                for actor in [one for one in turn if one in running]:
                    wait = waiting[actor]
                    ready = wait is None or wait.ready()
                    if not ready and not (polls and wait is not None and wait.polls):
                        continue
                    moving = actor.machine
                    waiting[actor] = now = next(running[actor], None)
                    if now is None:
                        del running[actor]
                    moved = moved or ready or now is None
                    further |= alone and ready
                    if alone and now is not None and now.gives_way:
                        further = False
                        break
                if further:  # until nobody of the CTA can go on
                    open_.insert(0, turn)
            polls = 0 if moved else polls + 1
            waits = [wait for wait in waiting.values() if wait is not None]
            asks = polls <= POLLS and any(wait.polls for wait in waits)  # a loop may wait for memory for so long only
            if not moved and not asks and not any(wait.ready() for wait in waits):
                _deadlock(machine, {actor: wait for actor, wait in waiting.items() if wait is not None})
                break
        else:
            if not running:
                for cta in machines:
                    _end(cta, [actor for actor in actors if actor.machine is cta])
                    left(cta, actors)
    except IndexError as error:
        machine.findings.add("bounds", f"an access outside of a tensor: {error}", *_where(moving))
    except (KeyError, ValueError, TypeError, ArithmeticError) as error:
        text = f"the program could not be run further: {type(error).__name__}: {error}"
        machine.findings.add("failed", text, *_where(moving))
    return sum(actor.clock.own.get(("time", actor.group.id), 0) for actor in actors)


def _turns(machines: Sequence[CtaState], actors: Sequence[Actor]) -> tuple[list[list[Actor]], bool]:
    """Who goes on in turn: each warp group, or, where CTAs wait for one another that have several, each CTA, one after
    the other, as far as it comes. alone: whether it is so."""
    alone = len(machines) > 1 and machines[0].program.cluster is None and len(machines[0].program.groups) > 1
    if not alone:
        return [list(actors)], False
    return [[actor for actor in actors if actor.machine is cta] for cta in machines], True


def _where(machine: CtaState) -> tuple[int, str]:
    """Line and role of the actor that executes a statement now."""
    return (machine.current.line, machine.current.role) if machine.current else (0, "")


def _deadlock(machine: CtaState, waiting: Mapping[Actor, Waiting]) -> None:
    parts = [f"{actor.role} at line {wait.line} in {wait.text()}" for actor, wait in waiting.items()]
    actor, wait = next(iter(waiting.items()))
    others = [other.role for other in waiting if other is not actor]
    machine.findings.add("deadlock", "nobody can go on: " + "; ".join(parts), wait.line, actor.role, ", ".join(others))


def _end(machine: CtaState, actors: Sequence[Actor]) -> None:
    """What may not be left over, and what completes by itself."""
    assignment = machine.assignment
    if machine.program.instance_ring is not None and assignment.fetches != len(assignment.places):
        text = (
            f"{assignment.fetches} fetches of a CTA that has {len(assignment.places)} instances: one after its last "
            "must find none"
        )
        machine.findings.add("walk", f"{text}, so that the counter is 0 at the end of the launch")
    for actor in actors:
        actor.leave()
    for barrier in machine.barriers:
        for group in barrier.arrived:
            role = machine.roles[group]
            machine.findings.add("leftover", f"an arrival of {role} on barrier `{barrier.name}` is left over", 0, role)
    for ring in machine.rings:
        for slot, full in enumerate(ring.full):
            actors[ring.aref.producer - actors[0].group.id].settle(full, ("tma", ring.number, slot))
            if full.arrived or full.issued:
                role = machine.roles[ring.aref.producer]
                text = f"at the end {full.missing()}, in slot {slot}"
                machine.findings.add("bytes" if full.issued else "leftover", text, 0, role)
                continue
            if machine.program.cluster is None:  # in one, the other CTA may give slots back later
                _balanced(machine, ring, slot)


def _balanced(machine: CtaState, ring: RingState, slot: int) -> None:
    """A slot is given back as often as it was filled: otherwise another program instance would find a tile that is not
    its own, or a slot that nobody fills again, at whatever sizes the CTA has enough of them. Operands of a pair are
    filled as often as its first CTA says, its accumulators given back so."""
    first = machine.first.rings[ring.aref.id] if ring.aref.pair else ring
    full = (first if ring.aref.transport == "tma" else ring).full[slot]
    empty = (ring if ring.aref.transport == "tma" else first).empty[slot]
    empty.complete(None)
    if full.phase != empty.phase or empty.arrived:
        role = machine.roles[ring.aref.producer]
        text = f"at the end slot {slot} of ring `{ring.aref.name}` was filled {full.phase} times and given back "
        machine.findings.add("leftover", f"{text}{empty.phase} times, and {empty.arrived} arrivals more", 0, role)
