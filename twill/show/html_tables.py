"""The page's tables: ops, warp groups, buffers, cooperations, and the certificate."""

from __future__ import annotations

from twill.schedule.document import Bounds, Certificate, LoopSchedule, Objective, Schedule, SolverStep
from twill.show.live import register_layers, total
from twill.show.markup import element, table, text
from twill.show.view import LoopView
from twill.show.words import cooperation_words, cycles, label, objectives_words, size


def ops(view: LoopView) -> str:
    """Ops in order of their start."""
    roles = {group.id: group.role for group, _ in view.groups}
    head = ("op", "kernel line", "operations", "unit", "start", "stage", "row", "latency", "hold", "warp group")
    rows = (
        (
            item.label, item.op.line, item.op.op, item.op.unit, cycles(item.op.start), item.op.stage,
            cycles(item.op.row), cycles(item.op.cycles), cycles(item.op.hold), roles[item.op.warp_group],
        )
        for item in view.items
    )  # fmt: skip
    return table(head, rows, (1, 4, 5, 6, 7, 8))


def groups(schedule: Schedule, drawn: tuple[LoopView, ...]) -> str:
    """Warp groups with their budgets and what tile values take of them."""
    head = ("warp group", "context", "threads", "registers a thread", "tile values", "ops")
    rows = (
        (
            group.role, group.context, group.threads, group.registers,
            max(level for view in drawn for _, level in total(register_layers(view, group))),
            sum(op.warp_group == group.id for op in schedule.ops),
        )
        for group in schedule.warp_groups
    )  # fmt: skip
    return table(head, rows, (2, 3, 4, 5))


def buffers(schedule: Schedule) -> str:
    """Rings and resident buffers."""
    lines = {loop.loop: loop.line for loop in schedule.loops}
    head = ("buffer", "memory", "slots", "a slot", "together", "loop at line")
    rows = (
        (label(b.name, b.block), b.space, b.depth, size(b.bytes), size(b.bytes * b.depth), lines.get(b.loop, "?"))
        for b in schedule.buffers
    )
    return table(head, rows, (2, 3, 4, 5))


def candidates(schedule: Schedule) -> str:
    """Cooperations considered and what became of them."""
    rows = (
        (cooperation_words(c.cooperation), "" if c.ii is None else cycles(c.ii), c.verdict) for c in schedule.candidates
    )
    return table(("cooperation", "I", "verdict"), rows, (1,))


def certificate(loop: LoopSchedule) -> str:
    """Lower bounds beside I, and every step of the search."""
    proof = loop.certificate
    return bounds(proof.bounds, loop.ii) + summary(proof, loop.objective) + steps(proof.steps)


def bounds(found: Bounds, ii: int) -> str:
    """Each bound as a bar of its share of I."""
    rows = []
    for name, value in (
        ("resource", found.resource), ("recurrence", found.recurrence), ("memory", found.memory),
        ("issue", found.issue), ("I", ii),
    ):  # fmt: skip
        kind = "fill whole" if name == "I" else "fill tight" if value == ii else "fill"
        bar = element("span", "", {"class": kind, "style": f"width:{min(100.0, 100 * value / ii):.1f}%"})
        cells = element("span", text(name)) + element("span", bar, {"class": "track"})
        rows.append(element("div", cells + element("span", cycles(value), {"class": "n"}), {"class": "bound"}))
    witness = element("p", f"Witness of the largest bound: {text(found.witness)}.") if found.witness else ""
    return element("div", "".join(rows), {"class": "bounds"}) + witness


def summary(proof: Certificate, objective: Objective) -> str:
    """What is proven and under which settings."""
    some = objectives_words(objective)
    claim = (
        f"{some or 'Every objective'} {'are' if some else 'is'} proven minimal, each given those before it."
        if proof.optimal
        else f"Not proven optimal: all that is proven is I ≥ {cycles(proof.lower_bound)}."
    )
    limits = [f"seed {proof.seed}"]
    if proof.resource_limit:
        limits.append(f"resource limit {proof.resource_limit}")
    if proof.budget_seconds is not None:
        limits.append(f"budget {proof.budget_seconds:g} s")
    return element("p", text(f"{claim} Solver settings: {', '.join(limits)}."))


def steps(asked: tuple[SolverStep, ...]) -> str:
    """Questions and answers in order."""
    rows = (
        (
            cycles(s.ii) if s.ii == s.ii_to else f"{cycles(s.ii)} to {cycles(s.ii_to)}", s.copies or "any", s.question,
            s.verdict, s.solver, f"{s.seconds:.2f}",
        )
        for s in asked
    )  # fmt: skip
    return table(("I", "copies", "question", "verdict", "by", "seconds"), rows, (0, 1, 5))
