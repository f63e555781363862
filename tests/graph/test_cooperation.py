"""Row blocks: which splits and fusions are worth a solve."""

from __future__ import annotations

import pytest

from tests.kernels import B200, H100, example
from twill.graph.cooperation import cooperations, operand_spaces, row_dims
from twill.graph.costed import Cooperation
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.solve.pipeline import main_region

PRODUCTS = (
    "attention",
    "attention_backward",
    "attention_pointers",
    "dual_gemm",
    "gemm",
    "gemm_bias_gelu",
    "gemm_pointers",
    "linear_attention",
    "sliding_window_attention",
)


def found(graph: DependenceGraph, machine: Machine) -> tuple[Cooperation, ...]:
    """The cooperations of the main loop."""
    return cooperations(graph, main_region(graph), machine)


@pytest.mark.parametrize("machine", [H100, B200], ids=["h100", "b200"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_part_is_a_multiple_of_the_row_block_of_a_dimension_that_may_be_cut(name: str, machine: Machine) -> None:
    graph = example(name)
    assert machine.mma is not None
    dims = {d.name: d for d in graph.dims}
    for c in found(graph, machine):
        if not c.dim:
            assert c.blocks == 1
            continue
        assert dims[c.dim].parallel
        rows = {d.name for d in row_dims(graph, main_region(graph))}
        assert dims[c.dim].size % (c.split * machine.mma.row_block) == 0 or (c.split == 1 and c.dim not in rows)
        assert c.fuse == 1 or dims[c.dim].fusable


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_kernels_own_tile_comes_first_and_few_blocks_before_many(name: str) -> None:
    all_of_them = found(example(name), H100)
    assert (all_of_them[0].dim, all_of_them[0].blocks) == ("", 1)
    assert [c.blocks for c in all_of_them] == sorted(c.blocks for c in all_of_them)
    assert len(set(all_of_them)) == len(all_of_them)


def test_no_more_blocks_than_the_compute_groups_can_hold() -> None:
    compute = next(c for c in H100.contexts if c.name == "compute")
    assert max(c.blocks for c in found(example("attention", "full"), H100)) <= 2 * compute.max_groups
    few = compute.model_copy(update={"max_groups": 1})
    machine = H100.model_copy(update={"contexts": tuple(few if c.name == "compute" else c for c in H100.contexts)})
    assert max(c.blocks for c in found(example("attention", "full"), machine)) == 2


def test_a_tile_of_128_rows_is_split_in_two_on_hopper_and_not_on_blackwell() -> None:
    hopper, blackwell = (found(example("attention", "full"), m) for m in (H100, B200))
    assert {c.split for c in hopper} == {1, 2}
    assert {c.split for c in blackwell} == {1}
    assert {c.fuse for c in hopper} == {c.fuse for c in blackwell} == {1, 2, 3}


def test_tiles_whose_order_is_computed_are_not_fused() -> None:
    assert {c.fuse for c in found(example("gemm"), H100)} == {1}


def test_columns_of_instances_are_fused_where_no_rows_can_be_cut() -> None:
    fused = {(c.dim, c.split, c.fuse) for c in found(example("linear_attention"), H100) if c.dim}
    assert fused == {("d", 1, 2), ("d", 1, 3)}


def test_instances_are_fused_only_where_nothing_else_depends_on_their_index() -> None:
    causal = example("attention", "causal")  # the second loop's bounds depend on the block of queries
    assert {c.fuse for c in found(causal, H100)} == {1}
    assert {c.fuse for c in found(example("attention", "full"), H100)} == {1, 2, 3}


def test_a_kernel_without_products_has_one_cooperation() -> None:
    for machine in (H100, B200):
        assert [(c.dim, c.blocks) for c in found(example("layer_norm"), machine)] == [("", 1)]


def test_a_machine_without_a_tensor_core_splits_nothing() -> None:
    machine = H100.model_copy(update={"mma": None})
    assert found(example("gemm"), machine) == (Cooperation(dim="", split=1, fuse=1, operand_a="register"),)


def test_only_rows_of_products_are_cut() -> None:
    graph = example("gemm")
    (mma,) = [n.mma for n in main_region(graph).nodes if n.mma]
    columns = next(d for d in graph.dims if d.id == mma.n_dim)
    assert columns.parallel
    assert [d.id for d in row_dims(graph, main_region(graph))] == [mma.m_dim]


def test_a_computed_operand_a_may_go_where_the_machine_reads_it() -> None:
    attention, gemm = (main_region(example(n)) for n in ("attention", "gemm"))
    assert operand_spaces(attention, H100) == ("register",)  # the first choice costs nothing
    assert operand_spaces(attention, B200) == ("tmem", "shared")
    assert len(operand_spaces(gemm, B200)) == 1  # nothing is computed there
    both = {(c.fuse, c.operand_a) for c in found(example("attention", "full"), B200)}
    assert both == {(f, s) for f in (1, 2, 3) for s in ("tmem", "shared")}
