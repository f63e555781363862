"""Promises of `twill.codegen.lower.occupied`: what an early return leaves is no work, each rest is done once, and the
longest of a line come first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_schedules import machine
from tests.warp_programs import gemm
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.lower.occupied import OccupiedInstances, count_of, linear
from twill.codegen.lower.occupied_order import HEAVIEST, occupied_scheduler
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.print.cuda.shared import marks_at
from twill.codegen.print.gluon.sayable import reasons
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch, sidecar_problem
from twill.codegen.verify.abstract.scheduling import InstanceOrder, LaunchedCta
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import (
    Apply,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    Symbol,
    add,
    less,
    multiply,
    subtract,
)
from twill.codegen.warp.program import MARKS, AwaitEarlierGrids, Define, If, Seek, StoreGlobal, SumOver, walk
from twill.codegen.warp.verifier import faults
from twill.kernel.problem import ProblemTable
from twill.kernel.specialization import problem_of
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial import execute

ROWS = Lookup("ROWS", Apply("cast", (ProgramId(2),), "i64"), "i32")
START = multiply(ProgramId(0), Number(64))
SIGNED = (("signed", 1),)


def _compare(predicate: str, left: Expr, right: Expr) -> Expr:
    return Apply("compare", (left, right), "i1", (("predicate", predicate), *SIGNED))


def _not(condition: Expr) -> Expr:
    return Apply("xor", (condition, Number(1, "i1")), "i1")


# ---------------------------------------------------------------- for how many indices a condition holds
@pytest.mark.parametrize(
    "holds, least",
    [
        (_not(_compare("ge", START, ROWS)), lambda i, rows: i * 64 < rows),
        (less(START, ROWS), lambda i, rows: i * 64 < rows),
        (_compare("le", START, ROWS), lambda i, rows: i * 64 <= rows),
        (_compare("gt", ROWS, add(START, Number(5))), lambda i, rows: rows > i * 64 + 5),
        (_not(_compare("lt", subtract(ROWS, Number(1)), ProgramId(0))), lambda i, rows: not rows - 1 < i),
    ],
)
def test_an_early_return_says_how_many_indices_there_are(holds: Expr, least: Callable[[int, int], bool]) -> None:
    count = count_of(holds, 0)
    assert count is not None
    for rows in (1 - 2**31, -5, 0, 1, 5, 6, 63, 64, 65, 69, 70, 640, 2**31 - 1):
        order = InstanceOrder.of(occupied_scheduler(OccupiedInstances(0, count, (2,), 0, Number(0), 1, 1)).of(gemm()))
        found = [index for index, _ in order.instances((7, 1, 1), {"ROWS[0]": rows}, LaunchedCta())]
        assert found == [(index, 0, 0) for index in range(7) if least(index, rows)]


@pytest.mark.parametrize(
    "holds",
    [
        _compare("ge", START, ROWS),  # holds from some index on
        _compare("eq", START, ROWS),
        less(multiply(ProgramId(0), ProgramId(0)), ROWS),
        less(Apply("rem", (ProgramId(0), Number(3)), "i32", SIGNED), ROWS),
        less(START, Local("found")),  # of a loop that somebody runs
        less(START, ProgramId(0)),
    ],
)
def test_a_condition_that_need_not_hold_from_0_on_says_nothing(holds: Expr) -> None:
    assert count_of(holds, 0) is None


def test_what_is_linear_in_an_index_is_said_exactly() -> None:
    rows = Symbol(0, "N", "i32")
    assert linear(subtract(rows, START), 0) == (-64, rows)
    assert linear(Apply("div", (START, Number(64)), "i32", SIGNED), 0) is None


# ---------------------------------------------------------------- the order
COUNT = count_of(less(ProgramId(0), ROWS), 0)
LENGTHS = st.lists(st.integers(-1, 5), min_size=1, max_size=5)


@given(LENGTHS, st.integers(1, 4), st.sampled_from([1, 0, -1]), st.integers(1, 3), st.integers(1, 5))
def test_each_instance_that_is_not_empty_is_worked_on_once(
    lengths: list[int], heads: int, way: int, most: int, ctas: int
) -> None:
    assert COUNT is not None
    said = OccupiedInstances(0, COUNT, (2,), way, Number(1, "i64"), 1 << 20, most)
    order = InstanceOrder.of(occupied_scheduler(said).of(gemm()))
    scalars = {f"ROWS[{place}]": number for place, number in enumerate(lengths)}
    dealt = [
        [index for index, _ in order.instances((4, heads, len(lengths)), scalars, LaunchedCta(cta, ctas))]
        for cta in range(ctas)
    ]
    wanted = [(i, h, s) for s, n in enumerate(lengths) for h in range(heads) for i in range(min(n, 4))]
    every = [dealt[place % ctas][place // ctas] for place in range(len(wanted))]
    assert sum(map(len, dealt)) == len(wanted) and sorted(every) == sorted(wanted)
    for sequence in range(len(lengths)):  # in a band of heads
        for first in range(0, heads, most if way else 1):
            band = range(first, first + (most if way else 1))
            blocks = [i for i, h, s in every if s == sequence and h in band]
            assert blocks == sorted(blocks, reverse=way > 0)
    assert [s for _, _, s in every] == sorted(s for _, _, s in every)


KEYS = Lookup("KEYS", Apply("cast", (ProgramId(2),), "i64"), "i32")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 20)), min_size=1, max_size=6), st.integers(1, 2))
def test_lines_that_read_no_less_than_the_mean_come_first(lines: list[tuple[int, int]], heads: int) -> None:
    assert COUNT is not None
    read = multiply(Apply("cast", (KEYS,), "i64"), Number(1 << 14, "i64"))
    order = InstanceOrder.of(occupied_scheduler(OccupiedInstances(0, COUNT, (2,), 1, read, 1 << 20, 2)).of(gemm()))
    scalars = {f"ROWS[{place}]": rows for place, (rows, _) in enumerate(lines)}
    scalars |= {f"KEYS[{place}]": keys for place, (_, keys) in enumerate(lines)}
    found = [index for index, _ in order.instances((4, heads, len(lines)), scalars, LaunchedCta())]
    wanted = [(i, h, s) for s, (rows, _) in enumerate(lines) for h in range(heads) for i in range(rows)]
    assert sorted(found) == sorted(wanted)
    weights = [min(keys, HEAVIEST) if rows else 0 for rows, keys in lines]
    mean = sum(weights) // len(lines)
    sequences = list(dict.fromkeys(s for _, _, s in found))
    assert sequences == sorted(sequences, key=lambda s: (weights[s] < mean, s))


def test_a_number_may_depend_on_two_axes() -> None:
    place = Apply("cast", (add(ProgramId(1), multiply(ProgramId(2), NumPrograms(1))),), "i64")
    count = count_of(less(ProgramId(0), Lookup("ROWS", place, "i32")), 0)
    assert count is not None
    order = InstanceOrder.of(occupied_scheduler(OccupiedInstances(0, count, (1, 2), 0, Number(0), 1, 1)).of(gemm()))
    found = [one for one, _ in order.instances((2, 2, 2), {f"ROWS[{i}]": i % 3 for i in range(4)}, LaunchedCta())]
    assert found == [(0, 1, 0), (0, 0, 1), (1, 0, 1)]


# ---------------------------------------------------------------- a kernel
RAGGED = """
@triton.jit
def k(x, y, z, BEGINS, N, B: tl.constexpr):
    block, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(BEGINS + sequence)
    rows = tl.load(BEGINS + sequence + 1) - first
    if block * 64 >= rows:
        return
    i, j, l = block * 64 + tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, B)
    acc = tl.zeros((64, 64), tl.float32)
    for n in range(0, tl.minimum(block * 64 + 64, rows), B):
        depth = n + l
        inside = ((first + i)[:, None] < N) & (depth[None, :] < N)
        a = tl.load(x + (first + i)[:, None] * N + depth[None, :], mask=inside, other=0.0)
        b = tl.load(y + (head * N + depth)[:, None] * 64 + j[None, :], mask=depth[:, None] < N, other=0.0)
        acc += tl.dot(a, b)
    tl.store(z + (head * N + first + i)[:, None] * 64 + j[None, :], acc.to(tl.float16), mask=i[:, None] < rows)
"""
SIDECAR = """
kernel = "k"

[[specialization]]
name = "ragged"
grid = ["cdiv(MOST, 64)", "HEADS", "SEQUENCES"]

[specialization.signature]
x = "*fp16:16"
y = "*fp16:16"
z = "*fp16:16"
BEGINS = "*i32:16"
N = "i32:16"

[specialization.constexprs]
B = 64

[specialization.problem]
units = { MOST = 16, HEADS = 1, SEQUENCES = 1 }
tensors = { x = ["N", "N"], y = ["HEADS * N", "64"], z = ["HEADS * N", "64"], BEGINS = ["SEQUENCES + 1"] }
tables = { BEGINS = ["row * MOST - row % 2 * (MOST // 3)"] }
scalars = { N = "SEQUENCES * MOST" }
run = [{ MOST = 16, HEADS = 1, SEQUENCES = 1 }, { MOST = 80, HEADS = 2, SEQUENCES = 3 }]
"""


@pytest.fixture
def ragged(kernel_file: Callable[..., str]) -> tuple[Extracted, Schedule]:
    kernel = extract(kernel_file(RAGGED, SIDECAR), "ragged")
    return kernel, solve(kernel.graph, machine(), SolveOptions(strategy="heuristic"))


def test_a_kernel_that_returns_early_where_a_number_is_looked_up_leaves_the_empty_ones_out(
    ragged: tuple[Extracted, Schedule],
) -> None:
    kernel, schedule = ragged
    program = lower(kernel.program, schedule, machine())
    assert [type(stmt) for stmt in program.setup] == [AwaitEarlierGrids, SumOver, Define, SumOver]
    (seek,) = (stmt for group in program.groups for stmt in walk(group.next) if isinstance(stmt, Seek))
    assert seek.each == NumPrograms(1) and verify(program, problem_of(kernel.specialization)) == ()
    order = InstanceOrder.of(program)
    begins = {f"BEGINS[{place}]": number for place, number in enumerate((0, 150, 150, 214))}
    found = [index for index, _ in order.instances((3, 1, 3), {**begins, "N": 214}, LaunchedCta())]
    assert found == [(2, 0, 0), (1, 0, 0), (0, 0, 0), (0, 0, 2)]
    begins = {f"BEGINS[{place}]": number for place, number in enumerate((0, 64, 214))}
    found = [index for index, _ in order.instances((3, 1, 2), {**begins, "N": 214}, LaunchedCta())]
    assert found == [(2, 0, 1), (1, 0, 1), (0, 0, 1), (0, 0, 0)]
    static = lower(kernel.program, schedule, machine(), order="static")
    assert not any(isinstance(stmt, SumOver) for stmt in static.setup)


def test_gluon_is_told_to_take_another_order(ragged: tuple[Extracted, Schedule]) -> None:
    kernel, schedule = ragged
    said = list(reasons(lower(kernel.program, schedule, machine()), 16))
    assert any("left out" in what and "--order static" in hint for _, what, hint in said)


def test_it_finds_its_line_from_marks_and_never_goes_back(ragged: tuple[Extracted, Schedule]) -> None:
    kernel, schedule = ragged
    program = lower(kernel.program, schedule, machine())
    assert program.marks_bytes >= 4 * MARKS and program.own_bytes >= program.marks_bytes
    before, _, inside = print_cuda(program).text.partition("i32 line_twice = -1,")
    assert "line_twice = -1" not in inside and "for (;;" in inside
    assert f"store_shared(smem + {marks_at(program)} + mark * 4, sum * (i32)grid1);" in before
    assert f"const u32 instances = load_shared(smem + {marks_at(program)} + {4 * MARKS});" in before
    _, _, seek = inside.partition(f"for (u32 step = {MARKS // 2};")
    assert f"if (load_shared(smem + {marks_at(program)} + (mark + step) * 4) <= " in seek
    assert "if ((i32)mark * line_twice_part > line_twice)" in seek and "while (" in seek


def test_a_search_without_the_marks_of_its_sum_is_ill_formed(ragged: tuple[Extracted, Schedule]) -> None:
    program = lower(ragged[0].program, ragged[1], machine())
    *before, marked = program.setup
    assert isinstance(marked, SumOver) and faults(program) == ()
    for setup in ((*before, replace(marked, marks=False)), (*before, replace(marked, extent=Number(1)))):
        assert any("leaves marks" in text for text in faults(replace(program, setup=setup)))
    twice = (*program.setup, replace(marked, name="others"))
    assert faults(replace(program, setup=twice)) == ("setup: two sums leave marks in one place",)


def test_a_tile_that_is_masked_by_one_scalar_is_stored_under_a_condition(ragged: tuple[Extracted, Schedule]) -> None:
    kernel, schedule = ragged
    stmts = [s for group in lower(kernel.program, schedule, machine()).groups for s in walk(group.body)]
    stores = [stmt for stmt in stmts if isinstance(stmt, StoreGlobal)]
    assert stores and all(stmt.mask is None for stmt in stores)
    guarded = {id(inner) for stmt in stmts if isinstance(stmt, If) for inner in walk(stmt.body)}
    assert all(id(stmt) in guarded for stmt in stores)


@pytest.fixture
def emission(ragged: tuple[Extracted, Schedule]) -> Emission:
    return emit_scheduled(ragged[0], machine(), ragged[1])


@pytest.mark.parametrize(
    "lengths", [(0, 1, 17, 0), (64, 0, 65), (0, 0), (130, 64, 128), (1,) * 40, (*(0,) * 298, 5, 70)]
)
def test_its_machine_code_is_right_for_sequences_of_any_lengths(emission: Emission, lengths: Sequence[int]) -> None:
    for ctas in (1, 3):
        given = (emission.build.ptx, emission.manifest, emission.program, _launch(emission, lengths))
        assert execute.verified(*given, ctas).said() == []


def _launch(emission: Emission, lengths: Sequence[int]) -> CheckedLaunch:
    problem = _of(emission)
    total = -(-max(sum(lengths), 1) // 16) * 16
    tables = {"BEGINS": tuple(str(number) for number in accumulate(lengths, initial=0))}
    own = replace(problem, tables=tables, scalars={"N": str(total)})
    most = -(-max(*lengths, 1) // 16) * 16
    return launch(emission.program.program, own.case({"MOST": most, "HEADS": 2, "SEQUENCES": len(lengths)}))


def _of(emission: Emission) -> ProblemTable:
    found = sidecar_problem(emission.program.program)
    assert found is not None
    return found
