"""What operations cost: classes that every machine file prices, and elements."""

from __future__ import annotations

import pytest

from tests.tile_programs import Programs
from twill.graph.build import dependence_graph
from twill.graph.work import BITS, cast_element, tile_bytes, work_element
from twill.tile.vocabulary import ELEMENTWISE, OPERATION_CLASSES, TRANSCENDENTAL


@pytest.mark.parametrize("element", BITS)
def test_every_elementwise_class_has_a_price_for_every_element_type(element: str) -> None:
    floats_only = {"fma", "round", *TRANSCENDENTAL} - {"div"}
    names = {name for name in ELEMENTWISE.values() if name not in ("", "cast")}
    for name in names | {f"{kind}_{combine}" for kind in ("reduce", "scan") for combine in ("add", "max", "logic")}:
        if element.startswith("i") and name in floats_only:
            continue
        assert f"{name}.{work_element(name, element)}" in OPERATION_CLASSES


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("f32", "bf16", "f32"), ("f16", "f32", "f32"), ("f16", "f8e4m3", "f16"), ("bf16", "f16", "f16"),
        ("i32", "f16", "f32"), ("i1", "i32", "i32"), ("i32", "i64", "i64"), ("f64", "f32", "f64"),
        ("i64", "f64", "f64"),
    ],
)  # fmt: skip
def test_conversions_are_priced_by_their_wider_side(source: str, target: str, expected: str) -> None:
    assert cast_element(source, target) == expected
    assert f"cast.{expected}" in OPERATION_CLASSES


def test_bytes_of_tiles_in_memory() -> None:
    assert tile_bytes((128, 64), "bf16") == 16384
    assert tile_bytes((128,), "i1") == 128
    assert tile_bytes((), "f32") == 4


def counts_of(p: Programs, tile: int) -> dict[str, int]:
    p.store("y", tile)
    (region,) = dependence_graph(p.done()).regions
    return {c.operation: c.elements for node in region.nodes for c in node.counts}


def test_a_product_that_only_a_sum_reads_is_one_fused_multiply_add() -> None:
    p = Programs()
    x, z = p.load("x", (64,), "f32"), p.load("z", (64,), "f32")
    assert counts_of(p, p.op("add", p.op("mul", x, z), p.op("mul", z, z))) == {"fma.f32": 64, "mul.f32": 64}


def test_a_product_that_others_read_is_not_fused() -> None:
    p = Programs()
    x = p.load("x", (64,), "f32")
    square = p.op("mul", x, x)
    assert counts_of(p, p.op("max", square, p.op("add", square, x))) == {
        "mul.f32": 64, "add.f32": 64, "max.f32": 64,
    }  # fmt: skip


def test_a_row_times_a_factor_is_multiplied_once_a_row() -> None:
    p = Programs()
    x, r = p.load("x", (64, 32), "f32"), p.load("r", (64,), "f32")
    scaled = p.op("mul", r, p.constant(2.0, (64,), "f32"))
    assert counts_of(p, p.op("add", x, p.column(scaled, 32))) == {"mul.f32": 64, "add.f32": 64 * 32}


def test_a_natural_exponential_costs_a_multiplication_more() -> None:
    p = Programs()
    assert counts_of(p, p.op("exp", p.load("x", (64,), "f32"))) == {"exp2.f32": 64, "mul.f32": 64}


def test_a_sign_costs_nothing_where_an_instruction_can_apply_it() -> None:
    p = Programs()
    x = p.load("x", (64,), "f32")
    assert counts_of(p, p.op("exp2", p.op("neg", x))) == {"exp2.f32": 64}
    p = Programs()
    assert counts_of(p, p.op("neg", p.load("x", (64,), "f32"))) == {"mul.f32": 64}


def test_narrow_floats_are_worked_on_in_pairs_and_reduced_in_f32() -> None:
    p = Programs()
    x = p.load("x", (64, 32), "bf16")
    assert counts_of(p, p.reduce(p.op("add", x, x), 1, "add")) == {"add.f16": 2048, "reduce_add.f32": 2048}
