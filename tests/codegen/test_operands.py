"""Products whose right operand is computed: multiplied from registers, transposed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.run_cache import once
from twill.codegen.emission import Extracted, emit_solved, extract
from twill.codegen.emit import Emission
from twill.codegen.warp.layout import Accumulator
from twill.codegen.warp.program import (
    Multiply,
    Pipeline,
    StoreShared,
    WarpGroup,
    walk,
)
from twill.exc import Infeasible
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
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
    """The same, emitted with half of the columns of weights for each of two warp groups."""
    kernel = weights(kernel_file, element, tile)
    return once(f"converted {element} {tile}", lambda: emitted(kernel, 2))


def steady(group: WarpGroup) -> list[object]:
    """The statements of a group's loop over K."""
    return [stmt for loop in group.body if isinstance(loop, Pipeline) for stmt in walk(loop.steady)]


@pytest.mark.parametrize(("element", "columns"), [("i8", 128), ("fp8e4nv", 256)])
def test_a_converted_right_operand_is_multiplied_from_registers(
    kernel_file: Callable[..., str], element: str, columns: int
) -> None:
    """Each of two warp groups converts half of the columns and multiplies them while the other one does the other half;
    no converted tile goes through shared memory, and the result is transposed on its way out alone."""
    emission = converted(kernel_file, element, (128, columns, 64))
    computing = [group for group in emission.program.groups if not group.issuer]
    assert len(computing) == 2
    for group in computing:
        inside = steady(group)
        (product,) = (stmt for stmt in inside if isinstance(stmt, Multiply))
        assert isinstance(product.a, int)
        assert group.fragment(product.accumulator).layout == Accumulator(columns // 2, 128)
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


def test_products_are_as_the_kernel_has_them_where_transposed_ones_have_no_schedule(
    kernel_file: Callable[..., str],
) -> None:
    kernel, asked = weights(kernel_file, "i8", (128, 128, 64)), []

    def solver(graph: DependenceGraph, on: Machine) -> Schedule:
        asked.append(graph)
        if len(asked) == 1:
            raise Infeasible("no room", file=graph.file, hint="smaller tiles")
        return solve(graph, on, SolveOptions(blocks=1, budget=30))

    emission = emit_solved(kernel, H100, solver)
    products = [stmt for group in emission.program.groups for stmt in group.stmts if isinstance(stmt, Multiply)]
    assert products
    assert all(not isinstance(stmt.a, int) for stmt in products)
    assert asked[0] != asked[1]


ATTENTION = """
@triton.jit
def k(q_desc, k_desc, v_desc, o_desc, scores, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1)
    row = head * N + tl.program_id(0) * BM
    scale = tl.load(scores + head)
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    q = q_desc.load([row, 0])
    for start in range(0, N, BN):
        s = tl.dot(q, k_desc.load([head * N + start, 0]).T)
        m = tl.maximum(m_i, tl.max(s, 1) * scale)
        p = tl.math.exp2(s * scale - m[:, None])
        alpha = tl.math.exp2(m_i - m)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = v_desc.load([head * N + start, 0])
        acc = tl.dot(p.to(tl.float8e4nv), v, acc * alpha[:, None])
        m_i = m
    o_desc.store([row, 0], (acc / l_i[:, None]).to(tl.bfloat16))
"""


def test_mmas_give_slots_back_before_their_group_waits_for_sums_that_it_reads_behind_the_loop(
    kernel_file: Callable[..., str],
) -> None:
    """One iteration at a time: a group multiplies by a tile that another one converts, and fetches that one's sums in
    each iteration, of which the last are stored; the other one has one slot for both."""
    sig = ["q_desc=tensordesc<fp8e4nv[128, 128]>", "k_desc=tensordesc<fp8e4nv[128, 128]>",
           "v_desc=tensordesc<fp8e4nv[128, 128]>", "o_desc=tensordesc<bf16[128, 128]>", "scores=*fp32:16",
           "N=i32:16"]  # fmt: skip
    kernel = extract(f"{kernel_file(ATTENTION)}::k", sig=sig, const=["D=128", "BM=128", "BN=128"])
    options = SolveOptions(strategy="none")
    emission = emit_solved(kernel, H100, lambda graph, on: solve(graph, on, options))
    assert {"v_f16", "acc.0"} <= {ring.name for ring in emission.program.arefs}
    checked(emission)
