"""Why a request is impossible: a core that suffices, that is needed, and that reads as a sentence."""

from __future__ import annotations

import pytest

from tests.graphs import edge, graph, instruction, value
from tests.kernels import H100, costed_example
from tests.strategies import make_machine
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.explain import ExplainRequest, Explanation, explain
from twill.smt.pins import parse_pin

MACHINE = make_machine()
Case = tuple[CostedGraph, Machine, ExplainRequest, set[str], str]


def crowded(count: int) -> CostedGraph:
    """Products on one unit."""
    return graph(tuple(instruction(n, ("tensor", 4), asynchronous=True) for n in range(count)))


def circle() -> CostedGraph:
    """v1 waits 6 cycles for v0, and v0 another 5 for the v1 of the iteration before."""
    return graph((instruction(0), instruction(1)), (edge(0, 1, 6), edge(1, 0, 5, distance=1)))


def wide() -> CostedGraph:
    """Two values of 40 registers that are alive together in the only warp group that may hold them."""
    ops = (*(instruction(n, ("alu", 1)) for n in range(2)), instruction(2, ("alu", 1)))
    return graph(ops, (edge(0, 2, 1), edge(1, 2, 1)), tuple(value(n, (2, 0), size=40) for n in range(2)))


def ring() -> CostedGraph:
    """A tile of 200 bytes that is alive for two intervals of 10."""
    ops = (instruction(0, ("tma", 1), asynchronous=True), instruction(1, ("alu", 1)))
    return graph(ops, (edge(0, 1, 15),), (value(0, (1, 0), space="shared", size=200),))


def held() -> CostedGraph:
    """Three instructions that hold a warp group for 6 cycles each, on units of their own."""
    units = ("alu", "tensor", "tma")
    return graph(tuple(instruction(n, (u, 1), latency=6, hold=6) for n, u in enumerate(units)))


CASES: dict[str, Case] = {
    "capacity": (
        crowded(3), MACHINE, ExplainRequest(11), {"capacity"},
        "v0 (line 10), v1 (line 11) and v2 (line 12) hold the tensor unit for 12 cycles, more than I = 11",
    ),
    "recurrence": (
        circle(), MACHINE, ExplainRequest(10), {"dependence"},
        "v1 (line 11) waits 6 cycles for v0 (line 10); "
        "v0 (line 10) of 1 iteration later waits 5 cycles for v1 (line 11)",
    ),
    "registers": (
        wide(), make_machine(compute_groups=1), ExplainRequest(9), {"register limit", "dependence"},
        "the values x0, x1 take 80 registers a thread where they are alive together",
    ),
    "memory": (
        ring(), MACHINE, ExplainRequest(10), {"memory capacity (shared)", "dependence"},
        "one slot for each tile in shared memory takes 200 bytes (x0 200 bytes), "
        "and with the further slots that lifetimes need that is more than there is",
    ),
    "issue": (
        held(), MACHINE, ExplainRequest(9), {"concurrency", "warp uniqueness"},
        "a warp group issues in order: v0 (line 10), v1 (line 11) and v2 (line 12) would hold one warp group for "
        "18 cycles an iteration, and an iteration has I = 9",
    ),
    "copies": (circle(), MACHINE, ExplainRequest(11, copies=0), {"at most 0 copies"}, "at most 0 copies"),
    "groups": (
        held(), MACHINE, ExplainRequest(12, groups=1), {"at most 1 warp groups", "concurrency"},
        "at most 1 warp groups",
    ),
    "pin": (circle(), MACHINE, ExplainRequest(20, pins=(parse_pin("v1<v0"),)), {"pin v1<v0", "dependence"},
            "pin v1<v0: v0 (line 10) and v1 (line 11)"),
}  # fmt: skip


def why(case: Case) -> Explanation:
    """The explanation of an impossible request."""
    g, machine, request, _, _ = case
    found = explain(g, machine, request)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_core_names_the_rules_in_the_words_of_the_kernel(case: Case) -> None:
    *_, rules, sentence = case
    found = why(case)
    assert rules <= {o.rule for o in found.origins}
    assert sentence in found.sentences
    assert found.minimal


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_without_the_rules_of_the_core_the_request_is_possible(case: Case) -> None:
    g, machine, request, *_ = case
    assert explain(g, machine, request, dropped=frozenset(why(case).origins)) is None


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_rule_of_the_core_is_needed(case: Case) -> None:
    g, machine, request, *_ = case
    origins = why(case).origins
    for one in origins:
        others = explain(g, machine, request, dropped=frozenset({one}))
        assert others is None or not set(others.origins) < set(origins)


@pytest.mark.parametrize(
    ("case", "more"),
    [("capacity", ExplainRequest(12)), ("recurrence", ExplainRequest(11)), ("memory", ExplainRequest(16)),
        ("issue", ExplainRequest(12)),
     ("copies", ExplainRequest(11, copies=1)), ("groups", ExplainRequest(18, groups=1)),
     ("pin", ExplainRequest(20, pins=(parse_pin("v0<v1"),)))],
)  # fmt: skip
def test_a_possible_request_has_no_explanation(case: str, more: ExplainRequest) -> None:
    g, machine, *_ = CASES[case]
    assert explain(g, machine, more) is None


def test_a_gemm_cannot_be_faster_than_its_accumulator() -> None:
    g = costed_example("gemm")
    (acc,) = [i for i in g.instructions if i.op == "dot"]
    best = acc.uses[0].cycles
    found = explain(g, H100, ExplainRequest(best - 1))
    assert found is not None
    listed = " ".join(found.sentences)
    assert f"acc (line {acc.line})" in listed
    assert f"{best} cycles" in listed
    assert explain(g, H100, ExplainRequest(best)) is None


def test_a_gemm_in_two_row_blocks_needs_three_copies_for_its_loads() -> None:
    g = costed_example("gemm", split=2)
    busy = sum(i.uses[0].cycles for i in g.instructions if i.op == "dot")
    found = explain(g, H100, ExplainRequest(busy, copies=2))
    assert found is not None
    assert found.sentences[0] == "at most 2 copies"
    assert "waits" in found.sentences[-1]
    assert "in row block" in found.sentences[-1]
    assert explain(g, H100, ExplainRequest(busy, copies=3)) is None
    assert explain(g, H100, ExplainRequest(busy, copies=2), dropped=frozenset(found.origins)) is None


def test_undecided_is_no_explanation() -> None:
    with pytest.raises(TimeoutError):
        explain(costed_example("attention", "full", split=2), H100, ExplainRequest(2047), seconds=0.0)
