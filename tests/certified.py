"""What the tests of certificates share: questions about small problems, and what every unknown means in a plan."""

from __future__ import annotations

from tests.exhaustive import Optimum
from tests.rules import Plan, depth, lifetime, resident_registers
from twill.certify.linear import Clause
from twill.certify.memory_rules import birth, in_registers
from twill.certify.question import Question
from twill.certify.statement import Key, Statement
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine


def statement(graph: CostedGraph, machine: Machine, ii: int, ii_to: int | None = None, **limits: int) -> Statement:
    """The statement of a question."""
    return Statement(graph, machine, Question(ii=ii, ii_to=ii if ii_to is None else ii_to, **limits))


def better(best: Optimum, granule: int) -> list[Question]:
    """What nothing can be: better than the optimum in one objective, and as good in those before it."""
    at = {"ii": best.ii, "ii_to": best.ii}
    found = [Question(ii=1, ii_to=best.ii - 1)] if best.ii > 1 else []
    if best.copies > 1:
        found.append(Question(**at, length=(best.copies - 1) * best.ii))
    if best.crossing > 0:
        found.append(Question(**at, length=best.copies * best.ii, crossing=best.crossing - 1))
    found.append(Question(**at, length=best.length - 1, crossing=best.crossing))
    registers = best.registers - granule
    return [*found, Question(**at, length=best.length, crossing=best.crossing, registers=registers)]


class Meaning:
    """The value of every unknown of a statement in a valid plan."""

    def __init__(self, s: Statement, plan: Plan, budgets: tuple[int, ...]) -> None:
        free = list(range(len(s.contexts)))
        self.s, self.plan, self.slot, self.budget = s, plan, {}, {}
        for group in sorted(set(plan.groups)):
            slot = next(k for k in free if s.contexts[k].name == plan.contexts[group])
            free.remove(slot)
            self.slot[group], self.budget[slot] = slot, budgets[group]
        self.group = {slot: group for group, slot in self.slot.items()}

    def holds(self, clause: Clause) -> bool:
        """Whether some literal of the clause holds."""
        return any(sum(f * self.of(name) for name, f in literal.terms) <= literal.bound for literal in clause)

    def of(self, name: str) -> int:
        """The unknown's value."""
        s, plan, graph = self.s, self.plan, self.s.graph
        kind, *texts = name.split(".")
        n = [int(t) for t in texts]
        slot = [self.slot[group] for group in plan.groups]
        if kind == "I":
            return plan.ii
        if kind in ("row", "stage"):
            return plan.starts[n[0]] % plan.ii if kind == "row" else plan.starts[n[0]] // plan.ii
        if kind == "in":
            return int(slot[n[0]] == n[1])
        if kind == "same":
            return int(slot[n[0]] == slot[n[1]])
        if kind == "used":
            return int(n[0] in slot)
        if kind == "budget":
            return self.budget.get(n[0], 0) // s.machine.register_file.granule
        if kind == "depth":
            return depth(graph, plan, graph.values[n[0]])
        if kind in ("crosses", "away"):
            value = graph.values[n[0]]
            crosses = any(slot[r.reader] != slot[value.producer] for r in value.reads)
            return int(crosses and (kind == "crosses" or slot[value.producer] == n[1]))
        if kind == "stores":
            makers = [x.producer for x in graph.values if x.storage == graph.storages[n[0]].id]
            return int(any(slot[v] == n[1] for v in makers))
        if kind == "keeps":
            return int(any(slot[v] == n[1] for v in graph.invariants[n[0]].readers))
        if kind == "lands":
            value = graph.values[n[0]]
            return int(slot[value.producer] != n[1] and any(slot[r.reader] == n[1] for r in value.reads))
        if kind == "alive":
            return self.alive(n[0], n[1])
        if n[0] not in self.group:
            return 0
        resident = resident_registers(graph, plan.groups, self.group[n[0]])
        made = [x for x, v in enumerate(graph.values) if in_registers(v) and slot[v.producer] == n[0]]
        touches = resident > 0 or any(self.alive(u, u) > 0 for u in made)
        if kind == "touches":
            return int(touches)
        assert kind == "takes"
        return resident + (int(-(-s.contexts[n[0]].overhead.value // 1)) if touches else 0)

    def alive(self, x: int, u: int) -> int:
        """Copies of value x at the birth of value u."""
        at = self.s.graph.values[u]
        instant = self.plan.starts[at.producer] + birth(self.s, at)
        born, dead = lifetime(self.s.graph, self.plan, self.s.graph.values[x])
        return (instant - born) // self.plan.ii - (instant - dead) // self.plan.ii


def every_key(s: Statement) -> list[Key]:
    """Names of all clauses that somebody could ask for, except of those that rename warp groups, blocks or the time."""
    graph = s.graph
    ops, values, slots = (range(len(n)) for n in (graph.instructions, graph.values, s.contexts))
    keys: list[Key] = [key for key in s.always() if key[0] not in ("turn", "group order", "block order")]
    keys += [("start", v) for v in ops] + [("group", v) for v in sorted(set(s.owner.values()))]
    keys += [("concurrency", u, v) for u in ops for v in ops] + [("same", u, v) for u in ops for v in ops if u < v]
    keys += [("variable latency", u, v) for u in ops for v in ops]
    keys += [("spill and hold", x, v) for x in values if graph.values[x].spill for v in ops]
    keys += [
        ("spill and spill", x, y) for x in values for y in values if graph.values[x].spill and graph.values[y].spill
    ]
    keys += [(kind, x) for kind in ("depth", "crosses") for x in values]
    keys += [(kind, slot) for kind in ("used", "budget", "takes", "touches", "issue time") for slot in slots]
    keys += [(kind, x, slot) for kind in ("away", "lands", "crowd") for x in values for slot in slots]
    keys += [("stores", k, slot) for k in range(len(graph.storages)) for slot in slots]
    keys += [("keeps", k, slot) for k in range(len(graph.invariants)) for slot in slots]
    keys += [("alive", x, u) for x in values for u in values if in_registers(graph.values[x])]
    return [*keys, ("I",)]
