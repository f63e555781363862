"""Slots are numbered once, by the machine alone."""

from __future__ import annotations

from tests.graphs import edge, graph, instruction
from tests.strategies import make_machine
from twill.smt.backend import Z3Session
from twill.smt.encoding import Encoding
from twill.zlp.slots import slots_of


def test_a_slot_is_its_place_in_the_machines_order() -> None:
    slots = slots_of(make_machine(compute_groups=2))
    assert [s.context.name for s in slots] == ["compute", "compute", "load"]
    assert [s.id for s in slots] == [0, 1, 2]


def test_the_solver_numbers_them_so_for_every_graph() -> None:
    machine = make_machine(compute_groups=2)
    only_load = graph((instruction(0, ("tma", 1), contexts=("load",)),))
    both = graph((instruction(0, ("alu", 1)), instruction(1, ("tma", 1), contexts=("load",))), (edge(0, 1, 1),))
    for costed in (only_load, both):
        assert Encoding(costed, machine, Z3Session(), (5, 5)).slots == slots_of(machine)
