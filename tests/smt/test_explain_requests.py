"""Five requests that cannot be met, about a real kernel: each explanation names what, taken away, makes it possible."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.kernels import H100, costed_example
from twill.machine.description import Machine
from twill.smt.explain import ExplainRequest, Explanation, explain
from twill.smt.pins import parse_pin
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

GEMM = costed_example("gemm", split=2)
BEST = 512  # cycles of the two products of one iteration


def with_shared(size: int) -> Machine:
    """An H100 with this many bytes of shared memory."""
    memories = tuple(
        m.model_copy(update={"bytes": m.bytes.model_copy(update={"value": size})}) if m.name == "shared" else m
        for m in H100.memories
    )
    return H100.model_copy(update={"memories": memories})


def with_registers(most: int) -> Machine:
    """An H100 whose warp groups have at most so many registers a thread."""
    contexts = tuple(c.model_copy(update={"max_registers": min(c.max_registers, most)}) for c in H100.contexts)
    return H100.model_copy(update={"contexts": contexts})


@dataclass(frozen=True)
class Case:
    """A request, the words that must be in its explanation, and the request without what they name."""

    machine: Machine
    request: ExplainRequest
    words: tuple[str, ...]
    relieved: ExplainRequest
    relief: Machine = H100


PIN = parse_pin("acc<b")
CASES = {
    "pins": Case(
        H100, ExplainRequest(BEST, pins=(PIN,)),
        ("pin acc<b: b (line 35) and acc (line 36)", "acc (line 36) waits 688 cycles for b (line 35)"),
        ExplainRequest(BEST),
    ),
    "interval": Case(
        H100, ExplainRequest(BEST - 1),
        ("acc (line 36) x 2 row blocks hold the tensor unit for 512 cycles, more than I = 511",), ExplainRequest(BEST),
    ),
    "registers": Case(
        with_registers(80), ExplainRequest(4 * BEST),
        ("registers a thread that are taken all the time: acc (line 36) 64 for each of 2", "80 for compute"),
        ExplainRequest(4 * BEST),
    ),
    "shared memory": Case(
        with_shared(24 * 1024), ExplainRequest(4 * BEST),
        ("one slot for each tile in shared memory takes 32 KiB (a 16 KiB, b 16 KiB), and there are 24 KiB",),
        ExplainRequest(4 * BEST),
    ),
    "warp groups": Case(
        H100, ExplainRequest(BEST, groups=1),
        ("at most 1 warp groups", "a (line 34) needs a warp group for issue, and acc (line 36) needs a warp group for"),
        ExplainRequest(BEST, groups=2),
    ),
}  # fmt: skip


def why(case: Case) -> Explanation:
    """The explanation of the request."""
    found = explain(GEMM, case.machine, case.request)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_explanation_speaks_of_the_kernel(case: Case) -> None:
    found = why(case)
    listed = "\n".join(found.sentences)
    assert found.minimal
    assert all(words in listed for words in case.words), listed


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_without_what_it_names_there_is_a_schedule(case: Case) -> None:
    assert explain(GEMM, case.relief, case.relieved) is None
    relieved = case.relieved
    found = Search(GEMM, case.relief, lower_bounds(GEMM, case.relief), pins=relieved.pins, ii=relieved.ii).run()
    assert found.assignment is not None
    assert relieved.groups is None or len(found.assignment.used) <= relieved.groups


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_solver_finds_no_schedule_as_long_as_it_is_there(case: Case) -> None:
    asked = case.request
    found = Search(GEMM, case.machine, lower_bounds(GEMM, case.machine), pins=asked.pins, ii=asked.ii).run()
    assert found.infeasible or (asked.groups is not None and len(found.assignment.used) > asked.groups)  # type: ignore[union-attr]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_rule_that_it_names_is_needed(case: Case) -> None:
    origins = why(case).origins
    for one in origins:
        others = explain(GEMM, case.machine, case.request, dropped=frozenset({one}))
        assert others is None or not set(others.origins) < set(origins)
