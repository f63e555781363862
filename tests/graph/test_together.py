"""Promises of `twill.graph.together`: a product in parts is few instructions, and a schedule of these is one of the
parts."""

from __future__ import annotations

from functools import cache

from tests.graphs import edge, graph, instruction, value
from tests.kernels import H100, costed_example
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.extract import extract
from twill.graph.together import NEVER, joined
from twill.solve.regions import main_region

PARTS = "tests/part_kernels.py"


@cache
def in_row_blocks(spec: str, blocks: int = 2) -> CostedGraph:
    read = extract(PARTS, spec)[1]
    chosen = next(c for c in cooperations(read, main_region(read), H100) if (c.split, c.fuse) == (blocks, 1))
    return cost(read, main_region(read), H100, chosen)


def summed(count: int = 4) -> CostedGraph:
    """v0 loads, v1 and v2 convert, the products v3 ... add up, v_last reads their sum."""
    last = 3 + count
    products = tuple(instruction(v, ("tensor", 8), latency=11, asynchronous=True) for v in range(3, last))
    ops = (
        instruction(0, ("tma", 4), asynchronous=True), instruction(1, ("alu", 3), latency=5),
        instruction(2, ("alu", 2), latency=3), *products, instruction(last, ("alu", 6)),
    )  # fmt: skip
    ops = tuple(o.model_copy(update={"line": 7}) for o in ops)
    converted = (edge(0, 1, 4), edge(1, 2, 5, crossing=9), edge(1, 3, 5, crossing=9), edge(2, 4, 3, crossing=9))
    edges = (*converted, *(edge(v, v + 1, 8) for v in range(3, last - 1)), edge(last - 1, last, 11))
    sums = tuple(value(v, (v + 1, 0), size=64).model_copy(update={"storage": 0, "spill": 20}) for v in range(3, last))
    made = (value(1, (2, 0), (3, 0), size=8), value(2, (4, 0), size=8))
    return graph(ops, edges, (*(v.model_copy(update={"spill": 4}) for v in made), *sums))


def test_products_that_add_up_are_two_runs_and_their_conversions_one() -> None:
    found = joined(summed(), 2)
    assert found is not None
    assert found.run == (0, 1, 1, 2, 2, 3, 3, 4)
    assert found.behind == (0, 0, 5, 0, 8, 0, 8, 0)
    made = found.graph.instructions
    assert [(i.latency, i.hold) for i in made[1:4]] == [(8, 7), (19, 9), (19, 9)]
    assert [(u.unit, u.start, u.cycles) for u in made[2].uses] == [("tensor", 0, 16)]
    assert [(u.start, u.cycles) for u in made[1].uses] == [(0, 3), (5, 2)]


def test_products_that_add_up_in_tensor_memory_are_runs_too() -> None:
    loop = summed()
    there = {"space": "tmem", "registers": 0, "bytes": 64 * 512}
    values = tuple(v.model_copy(update=there) if v.storage is not None else v for v in loop.values)
    found = joined(loop.model_copy(update={"values": values}), 2)
    assert found is not None and found.run == (0, 1, 1, 2, 2, 3, 3, 4)


def test_products_whose_sum_has_registers_of_its_first_value_are_runs_too() -> None:
    """As `twill.graph.cost` makes them where accumulators are in registers."""
    loop = summed()
    sums = [v for v in loop.values if v.storage is not None]
    every = tuple(r for v in sums for r in v.reads)
    lent = {v.id: v.model_copy(update={"storage": None, "registers": 0}) for v in sums}
    lent[sums[0].id] = sums[0].model_copy(update={"storage": None, "reads": every})
    found = joined(loop.model_copy(update={"values": tuple(lent.get(v.id, v) for v in loop.values)}), 2)
    assert found is not None and found.run == (0, 1, 1, 2, 2, 3, 3, 4)


def test_what_runs_wait_for_is_what_their_members_wait_for() -> None:
    """v3 waits 5 cycles for v1, which begins its run; v4, 8 behind v3, waits 3 for v2, which is 5 behind v1."""
    found = joined(summed(), 2)
    assert found is not None
    assert {(e.src, e.dst): (e.delay, e.crossing) for e in found.graph.edges} == {
        (0, 1): (4, 0), (1, 2): (5, 9), (2, 3): (16, 0), (3, 4): (19, 0),
    }  # fmt: skip


def test_a_member_starts_behind_its_run_and_in_its_warp_group() -> None:
    found = joined(summed(), 2)
    assert found is not None
    assert found.starts((0, 10, 20, 40, 60)) == (0, 10, 15, 20, 28, 40, 48, 60)
    assert found.slots((3, 0, 1, 1, 1)) == (3, 0, 0, 1, 1, 1, 1, 1)


def test_what_is_there_before_its_run_ends_stays_in_its_warp_group() -> None:
    """A value that leaves a warp group holds it from the value's birth on, when the run goes on."""
    found = joined(summed(), 2)
    assert found is not None
    assert [(v.id, v.spill) for v in found.graph.values if v.storage is None] == [(1, NEVER), (2, 4)]


def test_a_load_of_variable_latency_is_in_no_run_of_conversions() -> None:
    """It has a warp group of its own, and what is computed of it at the same line is in another one."""
    given = summed()
    loaded = given.instructions[1].model_copy(update={"variable_latency": True})
    ops = (given.instructions[0], loaded, *given.instructions[2:])
    found = joined(given.model_copy(update={"instructions": ops}), 2)
    assert found is not None
    assert found.run == (0, 1, 2, 3, 3, 4, 4, 5)
    assert [i.id for i in found.graph.instructions if i.variable_latency] == [1]


def test_the_registers_that_a_run_works_in_are_taken() -> None:
    """What is left of a tile of A is read by its conversions alone."""
    whole = in_row_blocks("tf32x3")
    found = joined(whole, 2)
    assert found is not None
    left = {v.name: v.registers for v in whole.values if v.name.endswith("_left")}
    assert {i.name: i.registers for i in found.graph.invariants if "_left" in i.name} == {
        f"{name} in work": registers for name, registers in left.items()
    }


def test_of_six_products_and_their_conversions_a_third_is_left() -> None:
    """A, B, two row blocks' parts of A, the parts of B; of each row block two halves, a test, the last product, the
    sum."""
    whole = in_row_blocks("tf32x3")
    found = joined(whole, 2)
    assert found is not None
    assert (len(whole.instructions), len(found.graph.instructions)) == (33, 16)
    assert sorted(i.latency for i in found.graph.instructions if i.op == "dot")[-2:] == [2 * 128 + 193] * 2
    assert joined(found.graph, 2) is None


def test_loops_without_products_in_parts_are_left_as_they_are() -> None:
    for name, spec in (("gemm", "bf16"), ("attention", "full"), ("attention_backward", "causal")):
        assert joined(costed_example(name, spec), 2) is None
