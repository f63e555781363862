"""Products whose right operand is computed, and vectors that a loop needs in every iteration, at speed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.mutations import mutants
from tests.run_cache import once
from twill.codegen.emission import Extracted, emit_solved, extract
from twill.codegen.emit import Emission
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.layout import Accumulator
from twill.codegen.warp.program import (
    COPIES,
    LoadGlobal,
    Multiply,
    Pipeline,
    StoreShared,
    WarpGroup,
    walk,
)
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

CONVERTED = """
@triton.jit
def k(a_desc, b_desc, c_desc, scale, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([m * BM, k])
        b = b_desc.load([k, n * BN])
        acc = tl.dot(a, b.to(tl.bfloat16), acc)
    s = tl.load(scale + n * BN + tl.arange(0, BN))
    c_desc.store([m * BM, n * BN], (acc * s[None, :]).to(tl.bfloat16))
"""
SCALED = """
@triton.jit
def k(a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, B: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, BK)
    steps = tl.cdiv(K, BK)
    acc = tl.zeros((B, B), tl.float32)
    for step in range(steps):
        a = tl.load(a_ptr + m[:, None] * K + (step * BK + k)[None, :], mask=(m < M)[:, None], other=0.0)
        b = tl.load(b_ptr + n[None, :] * K + (step * BK + k)[:, None], mask=(n < N)[None, :], other=0.0)
        rows = tl.load(as_ptr + m * steps + step, mask=m < M, other=0.0)
        columns = tl.load(bs_ptr + n // 128 * steps + step, mask=n < N, other=0.0)
        acc += tl.dot(a, b) * rows[:, None] * columns[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None] & (n < N)[None, :])
"""
SIDECAR = """
kernel = "k"

[[specialization]]
name = "scaled"
grid = ["cdiv(M, 128)", "cdiv(N, 128)"]

[specialization.signature]
a_ptr = "*fp8e4nv:16"
b_ptr = "*fp8e4nv:16"
as_ptr = "*fp32:16"
bs_ptr = "*fp32:16"
c_ptr = "*bf16:16"
M = "i32:16"
N = "i32:16"
K = "i32:16"

[specialization.constexprs]
B = 128
BK = 128

[specialization.problem]
units = { M = 16, N = 16, K = 128 }
run = [{ M = 128, N = 128, K = 256 }]

[specialization.problem.tensors]
a_ptr = ["M", "K"]
b_ptr = ["N", "K"]
as_ptr = ["M", "cdiv(K, 128)"]
bs_ptr = ["cdiv(N, 128)", "cdiv(K, 128)"]
c_ptr = ["M", "N"]
"""


def emitted(kernel: Extracted, blocks: int) -> Emission:
    """The kernel with so many row blocks."""
    options = SolveOptions(blocks=blocks, budget=30)
    return emit_solved(kernel, H100, lambda graph, on: solve(graph, on, options))


def weights(kernel_file: Callable[..., str], element: str, tile: tuple[int, int, int]) -> Extracted:
    """With weights of that type, in tiles of so many rows, columns and elements of K."""
    m, n, k = tile
    sig = [f"a_desc=tensordesc<bf16[{m}, {k}]>", f"b_desc=tensordesc<{element}[{k}, {n}]>",
           f"c_desc=tensordesc<bf16[{m}, {n}]>", "scale=*fp32:16", "K=i32"]  # fmt: skip
    return extract(f"{kernel_file(CONVERTED)}::k", sig=sig, const=[f"BM={m}", f"BN={n}", f"BK={k}"])


def converted(kernel_file: Callable[..., str], element: str, tile: tuple[int, int, int]) -> Emission:
    """The same, emitted with 64 columns of weights for each warp group."""
    kernel = weights(kernel_file, element, tile)
    return once(f"converted {element} {tile}", lambda: emitted(kernel, tile[1] // 64))


def scaled(kernel_file: Callable[..., str]) -> tuple[Extracted, Emission]:
    """Block-scaled products of 128 x 128."""
    kernel = extract(kernel_file(SCALED, SIDECAR), "scaled")
    return kernel, once("block-scaled", lambda: emitted(kernel, 2))


def steady(group: WarpGroup) -> list[object]:
    """The statements of a group's loop over K."""
    return [stmt for loop in group.body if isinstance(loop, Pipeline) for stmt in walk(loop.steady)]


@pytest.mark.parametrize("element", ["i8", "fp8e4nv"])
def test_a_converted_right_operand_is_multiplied_from_registers(kernel_file: Callable[..., str], element: str) -> None:
    """Each of two warp groups converts 64 columns and multiplies them while the other one does the other's part; no
    converted tile goes through shared memory, and the result is transposed on its way out alone."""
    emission = converted(kernel_file, element, (128, 128, 64))
    computing = [group for group in emission.program.groups if not group.issuer]
    assert len(computing) == 2
    for group in computing:
        inside = steady(group)
        (product,) = (stmt for stmt in inside if isinstance(stmt, Multiply))
        assert isinstance(product.a, int)
        assert group.fragment(product.accumulator).layout == Accumulator(64, 128)
        assert {type(stmt) for stmt in inside} & {StoreShared} == set()
        assert [stmt.transposed for stmt in group.stmts if isinstance(stmt, StoreShared)] == [True]
    assert not any(buffer.name.startswith("conversions") for buffer in emission.program.buffers)
    checked(emission)


def test_operands_in_registers_are_not_written_while_a_product_reads_them(kernel_file: Callable[..., str]) -> None:
    """A schedule in which one warp group converts for one product while its other product is in flight is no faster
    where ptxas makes it wait: with equal I the groups are two."""
    schedule = converted(kernel_file, "i8", (128, 128, 64)).schedule
    groups = {op.warp_group for op in schedule.ops if op.unit == "tensor"}
    assert (schedule.ii, len(groups)) == (512, 2)


def test_a_launch_has_registers_for_its_largest_product(kernel_file: Callable[..., str]) -> None:
    """Accumulators of 64 x 256 need more registers than the 128 of a launch of four warp groups: one load group."""
    emission = converted(kernel_file, "i8", (256, 128, 64))
    assert sum(group.threads for group in emission.program.groups) == 384
    assert emission.schedule.ii == 1024


def test_products_are_as_the_kernel_has_them_where_transposed_ones_have_no_room(
    kernel_file: Callable[..., str],
) -> None:
    emission = emitted(weights(kernel_file, "fp8e4nv", (128, 256, 64)), 2)
    products = [stmt for group in emission.program.groups for stmt in group.stmts if isinstance(stmt, Multiply)]
    assert all(not isinstance(stmt.a, int) for stmt in products)


def test_scales_are_copied_past_registers(kernel_file: Callable[..., str]) -> None:
    """Load groups wait for no scale: copies fill rings as deep as those of the tiles, and arrive when they land."""
    _, emission = scaled(kernel_file)
    program = emission.program
    rings = [aref for aref in program.arefs if aref.transport == COPIES]
    assert len(rings) == 3
    assert {aref.full_count for aref in rings} == {128}
    assert {aref.depth for aref in program.arefs} == {rings[0].depth}
    assert rings[0].depth > 2
    stmts = [stmt for group in program.groups for stmt in group.stmts]
    assert not any(isinstance(stmt, LoadGlobal) for stmt in stmts)
    assert "cp.async.mbarrier.arrive.noinc" in emission.build.ptx
    checked(emission)


def test_faults_of_copies_are_found(kernel_file: Callable[..., str]) -> None:
    """A copy left out, one behind its arrival, one in front of its wait, and an arrival left out."""
    kernel, emission = scaled(kernel_file)
    program, problem = emission.program, problem_of(kernel.specialization)
    assert verify(program, problem) == ()
    kinds = {"dropped CopyGlobal", "CopyGlobal after Publish", "dropped Publish", "Acquire after CopyGlobal"}
    seeded = {one.kind: one for one in mutants(program) if one.kind in kinds}
    assert seeded.keys() == kinds
    for one in seeded.values():
        assert verify(one.program, problem), f"{one.kind}: {one.place}"
