"""No promise is needed for being right: what is emitted without one is right at any size, whole or in parts of K."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden_schedules import machine
from tests.trial.test_execute import COPY
from twill.codegen.emission import emit_solved, extract
from twill.codegen.verify.abstract.inputs import launch
from twill.kernel.problem import Case
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

pytestmark = pytest.mark.usefixtures("at_root")

NAMES = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", **dict.fromkeys(("M", "N", "K"), "i32"),
         **dict.fromkeys(("stride_am", "stride_bk", "stride_cm"), "i32")}  # fmt: skip
SMALL = ("BLOCK_M=64", "BLOCK_N=64", "BLOCK_K=64")
BLOCKS = tuple(f"{name}=tensordesc<bf16[64, 64]>" for name in ("a_desc", "b_desc", "c_desc"))
SIZES = {
    "gemm_pointers": ({"M": 1, "N": 30, "K": 100}, {"M": 67, "N": 3, "K": 131}),
    "gemm": ({"M": 1, "N": 120, "K": 104}, {"M": 70, "N": 8, "K": 200}),  # rows that a descriptor can have
}


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("name", SIZES)
def test_a_gemm_without_promises_is_right_at_odd_sizes(name: str, split: int) -> None:
    """Through pointers by loads of threads, with rows at any distance; through descriptors by the TMA with bounds."""
    types = tuple(f"{n}={kind}" for n, kind in NAMES.items()) if name == "gemm_pointers" else BLOCKS
    kernel = extract(f"examples/{name}.py", "bf16", types, SMALL, split=split)
    assert kernel.specialization.divisibility == ()
    options = SolveOptions(strategy="heuristic", blocks=1, fuse=False)
    emission = emit_solved(kernel, machine(), lambda graph, on: solve(graph, on, options))
    problem = problem_of(kernel.specialization)
    assert problem is not None
    if name == "gemm_pointers":
        problem = replace(problem, units=dict.fromkeys(problem.units, "1"))
    for sizes in SIZES[name]:
        case: Case = problem.case(sizes)
        made = launch(emission.program.program, replace(case, grid=(*case.grid, split)))
        assert not verified(emission.build.ptx, emission.manifest, emission.program, made).said()


def test_a_kernel_copies_with_and_without_a_policy_as_its_launch_reads_tiles_once_or_again() -> None:
    """128 x 64 of B in tiles of 64 x 64: read once by 16 rows, twice by 32."""
    blocks = {"a_desc": (16, 64), "b_desc": (64, 64), "c_desc": (16, 64)}
    types = tuple(f"{name}=tensordesc<bf16[{a}, {b}]>" for name, (a, b) in blocks.items())
    kernel = extract("examples/gemm.py", "bf16", types, ("BLOCK_M=16", *SMALL[1:]))
    options = SolveOptions(strategy="heuristic", blocks=1, fuse=False)
    emission = emit_solved(kernel, machine(), lambda graph, on: solve(graph, on, options))
    lines = emission.build.ptx.splitlines()
    copies = {number: "L2::cache_hint" in line for number, line in enumerate(lines, 1) if COPY.search(line)}
    problem = problem_of(kernel.specialization)
    assert problem is not None and {*copies.values()} == {True, False}
    reached = []
    for rows in (16, 64):
        made = launch(emission.program.program, problem.case({"M": rows, "N": 64, "K": 128}))
        found = verified(emission.build.ptx, emission.manifest, emission.program, made)
        assert not found.said()
        reached.append({passing for number, passing in copies.items() if number not in found.unreached})
    assert reached == [{True}, {True, False}]  # A is read once by either


@pytest.mark.parametrize(
    ("rows", "columns", "split", "cluster"), [(8, 64, 2, 1), (16, 64, 1, 2), (136, 64, 1, 1), (96, 128, 1, 1)]
)
def test_a_gemm_in_tiles_of_other_rows_than_the_tensor_core_has_is_right_at_odd_sizes(
    rows: int, columns: int, split: int, cluster: int
) -> None:
    """One row, a row more than a tile, no iteration of K in the last part; stored transposed by the TMA, panel by panel
    where a tile has two."""
    blocks = {"a_desc": (rows, 64), "b_desc": (64, columns), "c_desc": (rows, columns)}
    types = tuple(f"{name}=tensordesc<bf16[{a}, {b}]>" for name, (a, b) in blocks.items())
    kernel = extract(
        "examples/gemm.py", "bf16", types, (f"BLOCK_M={rows}", f"BLOCK_N={columns}", "BLOCK_K=64"), split=split
    )
    options = SolveOptions(strategy="heuristic", blocks=1, fuse=False)
    emission = emit_solved(kernel, machine(), lambda graph, on: solve(graph, on, options), cluster=cluster)
    assert f"wgmma.mma_async.sync.aligned.m64n{rows}k16" in emission.build.ptx
    assert any(one.argument == "c_desc" for one in emission.program.maps)
    staged = {buffer.shape for buffer in emission.program.buffers if buffer.name.startswith("staging")}
    assert staged == {(rows, 64)}
    problem = problem_of(kernel.specialization)
    assert problem is not None
    for sizes in ({"M": 1, "N": 120, "K": 104}, {"M": rows + 1, "N": 72, "K": 200}):
        case: Case = problem.case(sizes)
        made = launch(emission.program.program, replace(case, grid=(*case.grid, split)))
        assert not verified(emission.build.ptx, emission.manifest, emission.program, made).said()


STRIDES = tuple(f"stride_{name}=i32:16" for name in ("qh", "qm", "kh", "kn", "oh", "om"))
HEADS = {  # types, constants
    "one query, grouped heads": (STRIDES, ()),
    "causal": (STRIDES, ("CAUSAL=true",)),
    "48 columns of 64": (STRIDES, ("HEAD_DIM=48",)),
    "no promise at all": (tuple(f"{name}=*bf16" for name in ("Q", "K", "V", "Out")), ("HEAD_DIM=45",)),
}


@pytest.mark.parametrize("name", HEADS)
def test_attention_is_right_at_any_lengths_and_head_dimensions(name: str) -> None:
    """One query beside 150 keys, and as many as fill no tile."""
    types, constants = HEADS[name]
    kernel = extract("tests/serving_kernels.py", "any", types, constants)
    options = SolveOptions(strategy="heuristic", blocks=1, fuse=False)
    emission = emit_solved(kernel, machine(), lambda graph, on: solve(graph, on, options))
    problem = problem_of(kernel.specialization)
    assert problem is not None
    for sizes in problem.run:
        case: Case = problem.case(sizes)
        made = launch(emission.program.program, case)
        assert not verified(emission.build.ptx, emission.manifest, emission.program, made).said(), sizes
