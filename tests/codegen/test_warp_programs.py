"""The warp programs of the examples: their text, and that they compile to what the schedule says.

Schedules are kept (`tests/golden_schedules.py`), so these tests need no solver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.golden_schedules import Example, compiled, examples, kernel, lowered, machine, schedule
from twill.codegen.lowering import lower
from twill.codegen.warp import text as warp_text
from twill.codegen.warp.layout import shape_of
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import If, Multiply, Pipeline, Stmt, WarpGroup, WarpProgram, walk
from twill.graph.dependence import DependenceGraph

pytestmark = pytest.mark.usefixtures("at_root")

EXAMPLES = tuple(examples())
NAMES = [example.name for example in EXAMPLES]
WIDEST = 256  # columns of one wgmma
DEPTH = {"bf16": 16, "f16": 16, "f8e4m3": 32, "f8e5m2": 32}  # k of one wgmma


def program(example: Example) -> WarpProgram:
    return lowered(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_the_text_is_the_golden_one_and_says_the_whole_program(
    example: Example, golden: Callable[[str, str], None]
) -> None:
    made = program(example)
    text = warp_text.text(made)
    assert parse(text, made.program) == made
    golden(f"warp_{example.name}.txt", text)


@pytest.mark.parametrize("name", ["gemm_bf16", "attention_full"])
def test_the_text_in_clusters_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    example = next(one for one in EXAMPLES if one.name == name)
    made = lower(kernel(example).program, schedule(example), machine(), cluster=2)
    text = warp_text.text(made)
    assert parse(text, made.program) == made
    golden(f"warp_{name}-cluster.txt", text)


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_it_compiles_without_spills_and_multiplies_as_the_schedule_says(example: Example) -> None:
    emission, read = compiled(example), kernel(example)
    lowered, facts = emission.program, emission.facts
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    assert facts.registers * emission.printed.threads <= machine().register_file.registers.value
    counted = [Counter(counts) for counts in facts.mma_loops]
    alone = [group for group in lowered.groups if group.share[0] == 0]  # of groups that take turns, one
    steady = [counts for group in alone for counts in steady_multiplies(group)]
    for group in alone:
        for counts in steady_multiplies(group):
            copied = Counter({shape: 2 * count for shape, count in counts.items()})
            assert counts in counted or (copied in counted and has_copies(group))
    assert sum(map(multiply_adds, steady)) == scheduled_multiply_adds(read.graph)


def has_copies(group: WarpGroup) -> bool:
    """Whether the group has a steady state with and without what is rare."""
    return any(isinstance(stmt, If) and stmt.otherwise for stmt in walk(group.body))


def one_copy(steady: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A steady state without what is rare."""
    (only, *others) = steady
    return only.otherwise if not others and isinstance(only, If) and only.otherwise else steady


def steady_multiplies(group: WarpGroup) -> Iterator[Counter[str]]:
    """wgmma instructions of each steady state that multiplies, by shape."""
    for pipeline in (stmt for stmt in walk(group.body) if isinstance(stmt, Pipeline)):
        counts: Counter[str] = Counter()
        for stmt in walk(one_copy(pipeline.steady)):
            if isinstance(stmt, Multiply):
                rows, columns = shape_of(group.fragment(stmt.accumulator).layout)
                wide = min(columns, WIDEST)
                each = DEPTH[stmt.operand]
                counts[f"m64n{wide}k{each}"] += rows // 64 * (columns // wide) * (stmt.depth // each)
        if counts:
            yield counts


def multiply_adds(counts: Counter[str]) -> int:
    """Multiply-adds of wgmma instructions."""
    total = 0
    for shape, count in counts.items():
        columns, depth = shape.removeprefix("m64n").split("k")
        total += count * 64 * int(columns) * int(depth)
    return total


def scheduled_multiply_adds(graph: DependenceGraph) -> int:
    """Multiply-adds of one iteration of every loop, as the kernel says."""
    nodes = [node for region in graph.regions if region.kind == "loop" for node in region.nodes]
    return sum(node.mma.m * node.mma.n * node.mma.k for node in nodes if node.mma)
