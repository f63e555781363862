"""Lemmas for the joint problem: values that cannot cross warp groups, from a problem without start times.

A value that crosses holds its producer's group while it is spilled, and takes registers in its reader's. A small
problem, of warp groups without starts, is asked for each value whether it can cross at a given I. Where it cannot,
that is a lemma for the joint problem at this I and at every smaller one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.backend import Session
from twill.smt.encoding import Encoding
from twill.smt.lazy import LazyRules
from twill.smt.rules import (
    crossing_terms,
    interchangeable_slots,
    issue_time,
    register_file,
    variable_latency,
    warp_uniqueness,
)

LEARN_AGAIN = 0.9  # the bound on I must have fallen this far for another round of questions
EFFORT = 300_000  # of the solver's counter for one value: a few hundredths of a second


@dataclass
class NeverCross:
    """For each value, the largest I at which it is known not to cross."""

    graph: CostedGraph
    machine: Machine
    open_session: Callable[[], Session]
    fixed: Mapping[int, int] = field(default_factory=dict)
    left: Callable[[], float | None] = lambda: None  # seconds
    _known: dict[int, int] = field(default_factory=dict)
    _asked: int | None = None

    def learn(self, ii: int) -> None:
        """Ask about every I <= `ii`, unless a question for an I not much larger was asked before."""
        if self._asked is None or ii < self._asked * LEARN_AGAIN:
            self._asked = ii
            self._ask([x for x in crossing_terms(self.graph) if self._known.get(x, 0) < ii], ii)

    def up_to(self, ii: int) -> tuple[int, ...]:
        """Ids of values known to cross at no I <= `ii`."""
        return tuple(x for x in crossing_terms(self.graph) if self._known.get(x, 0) >= ii)

    def _ask(self, values: list[int], ii: int) -> None:
        e = Encoding(
            self.graph, self.machine, self.open_session(), (ii, ii), named_slots=bool(self.fixed), left=self.left
        )
        warp_uniqueness(e)
        interchangeable_slots(e)
        variable_latency(e)
        register_file(e)
        crosses = issue_time(e)
        LazyRules(e).assert_residents()
        for v, slot in self.fixed.items():
            e.add(e.member(v, e.slots[slot]))
        for x in values:
            if x not in crosses:
                continue
            stays = e.is_local(e.value(x))
            if stays == "true":
                continue
            e.flush()
            if e.session.check([f"(not {stays})"], seconds=self.left(), effort=EFFORT).outcome == "unsat":
                self._known[x] = ii
                e.add(stays)
