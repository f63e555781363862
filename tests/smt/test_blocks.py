"""Row blocks are interchangeable only if everything said of them is alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import B200, H100, costed_example
from twill.graph.costed import CostedGraph, Read
from twill.smt.blocks import blocks_alike


def changed(g: CostedGraph, kind: str, position: int, **fields: Any) -> CostedGraph:
    """The graph with one of its instructions, edges ... changed."""
    items = list(getattr(g, kind))
    items[position] = items[position].model_copy(update=fields)
    return g.model_copy(update={kind: tuple(items)})


@pytest.mark.parametrize(
    ("name", "split", "fuse"),
    [
        *((name, split, 1) for name in ("attention", "attention_backward", "dual_gemm", "gemm") for split in (1, 2)),
        *((name, 1, fuse) for name in ("attention", "dual_gemm", "linear_attention") for fuse in (2, 3)),
    ],
)
def test_row_blocks_of_a_kernel_are_alike(name: str, split: int, fuse: int) -> None:
    assert blocks_alike(costed_example(name, split=split, fuse=fuse))


def test_row_blocks_on_the_b200_are_alike() -> None:
    assert blocks_alike(costed_example("attention", "full", B200, fuse=2))


def test_names_and_lines_do_not_matter_and_costs_do() -> None:
    g = costed_example("attention", "full", H100, split=2)
    own = next(i.id for i in g.instructions if i.block == 1)
    assert blocks_alike(changed(g, "instructions", own, name="other", source=99))
    assert not blocks_alike(changed(g, "instructions", own, latency=1))
    assert not blocks_alike(changed(g, "instructions", own, contexts=("issue",)))


def test_a_different_edge_value_storage_or_invariant_tells_them_apart() -> None:
    g = costed_example("attention", "full", H100, split=2)
    edge = next(n for n, e in enumerate(g.edges) if g.instructions[e.dst].block == 1)
    value = next(n for n, v in enumerate(g.values) if v.block == 1)
    assert not blocks_alike(changed(g, "edges", edge, delay=1))
    assert not blocks_alike(changed(g, "edges", edge, distance=7))
    assert not blocks_alike(changed(g, "values", value, registers=1))
    assert not blocks_alike(changed(g, "values", value, reads=()))
    assert not blocks_alike(changed(g, "values", value, storage=1))
    assert not blocks_alike(changed(g, "storages", 1, registers=1))
    assert not blocks_alike(changed(g, "invariants", 1, bytes=1))
    assert not blocks_alike(changed(g, "invariants", 1, readers=()))


def test_blocks_that_speak_to_each_other_are_not_interchangeable() -> None:
    g = costed_example("attention", "full", H100, split=2)
    number, value = next((n, v) for n, v in enumerate(g.values) if v.block == 0 and v.reads)
    foreign = next(i.id for i in g.instructions if i.block == 1)
    reads = (*value.reads, Read(reader=foreign, distance=0))
    assert not blocks_alike(changed(g, "values", number, reads=reads))


def test_one_block_or_none_is_alike() -> None:
    g = costed_example("gemm")
    assert {i.block for i in g.instructions} == {-1}
    assert blocks_alike(g)
