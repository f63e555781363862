"""Promises of products of two CTAs in the model: who may have them, and what they cost."""

from __future__ import annotations

from typing import cast

import pytest

from tests.graph.test_price import product
from tests.kernels import B200, H100, example
from twill.graph.cost import cost
from twill.graph.costed import Cooperation
from twill.graph.dependence import Region
from twill.graph.pairs import may_pair
from twill.graph.price import price_mma, price_node
from twill.solve.regions import main_region

pytestmark = pytest.mark.usefixtures("at_root")


def loop(name: str, spec: str | None = None) -> Region:
    return main_region(example(name, spec))


def test_each_cta_loads_its_rows_of_a_and_half_of_b() -> None:
    graph = example("gemm")
    alone, pair = (
        cost(graph, main_region(graph), B200, Cooperation(dim="", split=1, fuse=1, operand_a="tmem", pair=pair))
        for pair in (False, True)
    )
    sizes = [{value.name: value.bytes for value in one.values if value.space == "shared"} for one in (alone, pair)]
    assert sizes == [{"a": 16384, "b": 16384}, {"a": 16384, "b": 8192}]
    busy = [{i.name: u.cycles for i in one.instructions for u in i.uses if u.unit == "tma"} for one in (alone, pair)]
    assert busy == [{"a": 256, "b": 256}, {"a": 256, "b": 128}]


def test_what_arrives_in_both_ctas_arrives_later() -> None:
    mma = B200.mma
    assert mma is not None and mma.pair is not None
    alone, pair = (price_node(product(128, 128, 64), B200, 1, pair=pair) for pair in (False, True))
    assert pair.latency == alone.latency + mma.pair.value and pair.uses == alone.uses


def test_an_sm_reads_half_of_b_from_its_own_shared_memory() -> None:
    alone, pair = (price_mma(product(128, 64, 64), B200, 1, True, pair).uses[0].cycles for pair in (False, True))
    assert (alone, pair) == (192, 160)  # (128 + 64 or 32) rows of 128 bytes at 128 a cycle, for 128 of the tensor core


def test_copies_of_scales_are_time_of_the_tensor_core() -> None:
    scaled, plain = product(128, 256, 256, "nvf4"), price_mma(product(128, 256, 256, "mxf4"), B200, 1, True)
    more = price_mma(scaled, B200, 1, True).uses[0].cycles - plain.uses[0].cycles
    assert more == (128 + 256) * (256 // 16 - 256 // 32) // 128


@pytest.mark.parametrize(
    ("name", "spec", "may"),
    [("gemm", None, True), ("dual_gemm", "bf16", True), ("attention", "full", False), ("layer_norm", "bf16", False)],
)
def test_sums_of_products_of_loaded_tiles_may_be_made_in_pairs(name: str, spec: str | None, may: bool) -> None:
    assert may_pair(loop(name, spec), B200) is may
    assert not may_pair(loop(name, spec), H100)


def test_the_figures_are_no_part_of_machines_that_have_none() -> None:
    said = cast("dict[str, object]", H100.model_dump()["mma"])
    assert not {"pair", "scale_copy"} & said.keys()
    assert {"pair", "scale_copy"} <= cast("dict[str, object]", B200.model_dump()["mma"]).keys()
