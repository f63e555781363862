"""Tile programs become the graphs that a kernel engineer would draw."""

from __future__ import annotations

import pytest

from tests.tile_programs import Programs, attention, gemm
from twill.exc import NestedLoop, UnsupportedOperation
from twill.graph.build import dependence_graph
from twill.graph.dependence import DependenceGraph, Edge, Node, Region
from twill.tile.affine import Polynomial
from twill.tile.program import Loop
from twill.tile.vocabulary import OPERATION_CLASSES


def loop_of(graph: DependenceGraph) -> Region:
    (loop,) = (region for region in graph.regions if region.kind == "loop")
    return loop


def named(region: Region, name: str) -> Node:
    return next(node for node in region.nodes if node.name == name)


def counts(node: Node) -> dict[str, int]:
    return {count.operation: count.elements for count in node.counts}


def reads(region: Region, node: Node) -> set[tuple[str, str, int]]:
    """(operand, name of the source, distance) of every value that a node reads in its region."""
    return {
        (e.operand, region.nodes[e.src].name, e.distance)
        for e in region.edges
        if e.dst == node.id and e.kind == "value"
    }


def test_a_gemm_is_two_loads_and_a_product_that_carries_its_accumulator() -> None:
    graph = dependence_graph(gemm())
    loop = loop_of(graph)
    assert [node.kind for node in loop.nodes] == ["load", "load", "mma"]
    assert reads(loop, loop.nodes[2]) == {("a", "a", 0), ("b", "b", 0), ("c", "acc", 1)}
    assert [(c.producer, c.result_of) for c in loop.carried] == [(2, None)]
    assert loop.trip is not None and (loop.trip.text, loop.trip.constant) == ("trips", None)
    assert [(d.name, d.size, d.parallel, d.fusable) for d in graph.dims] == [
        ("m", 128, True, True), ("k", 64, False, False), ("n", 128, True, True),
    ]  # fmt: skip


def test_the_epilogue_reads_the_accumulator_of_the_loop() -> None:
    graph = dependence_graph(gemm())
    epilogue = graph.regions[1]
    assert [node.kind for node in epilogue.nodes] == ["elementwise", "store"]
    assert [(i.made_by, i.readers) for i in epilogue.inputs] == [((0, 2), ((0, "in"),))]
    assert epilogue.nodes[1].tensor == "C" and epilogue.nodes[1].bytes == 128 * 128 * 2


def test_attention_forward_is_eleven_instructions_and_the_scaling() -> None:
    loop = loop_of(dependence_graph(attention()))
    assert [node.name for node in loop.nodes] == [
        "k", "qk", "mul", "m_ij", "sub", "p", "alpha", "l_i", "acc", "v", "cast", "acc",
    ]  # fmt: skip
    assert reads(loop, named(loop, "m_ij")) == {("in", "mul", 0), ("in", "m_ij", 1)}
    assert reads(loop, named(loop, "alpha")) == {("in", "m_ij", 0), ("in", "m_ij", 1)}
    assert reads(loop, named(loop, "l_i")) == {("in", "l_i", 1), ("in", "alpha", 0), ("in", "p", 0)}
    assert reads(loop, loop.nodes[-1]) == {("a", "cast", 0), ("b", "v", 0), ("c", "acc", 0)}
    assert counts(named(loop, "m_ij")) == {"reduce_max.f32": 128 * 128, "max.f32": 128}
    assert counts(named(loop, "alpha")) == {"add.f32": 128, "exp2.f32": 128}
    assert counts(named(loop, "l_i")) == {"reduce_add.f32": 128 * 128, "fma.f32": 128}


def test_rows_and_columns_that_share_one_range_stay_two_dimensions() -> None:
    graph = dependence_graph(attention(causal=True))
    assert {(d.name, d.parallel) for d in graph.dims} == {("m", True), ("n", False), ("k", False), ("d", True)}
    assert [d.fusable for d in graph.dims if d.name == "m"] == [True]


def test_a_causal_mask_is_counted_in_the_chain_that_selects_by_it() -> None:
    loop = loop_of(dependence_graph(attention(causal=True)))
    tile = 128 * 128
    assert counts(named(loop, "qk")) == {} and loop.nodes[1].kind == "mma"
    assert counts(loop.nodes[2]) == {
        "mul.f32": tile, "compare.i32": tile, "select.f32": tile, "add.i32": 128,
    }  # fmt: skip


def test_every_counted_class_is_in_the_table_that_machines_price() -> None:
    for program in (gemm(), attention(), attention(causal=True)):
        for region in dependence_graph(program).regions:
            assert {c.operation for node in region.nodes for c in node.counts} <= set(OPERATION_CLASSES)


def test_a_carried_value_that_is_handed_on_is_two_iterations_old() -> None:
    p = Programs()
    start = p.constant(0.0, (64,), "f32")
    with p.loop(p.argument("n"), [start, start]) as loop:
        last, before = loop.carried
        x = p.load("x", (64,), "f32", at=(loop.i * 64,), name="x")
        p.store("y", p.op("add", x, before, name="s"), at=(loop.i * 64,))
        loop.yields = [x, last]
    region = loop_of(dependence_graph(p.done()))
    assert reads(region, named(region, "s")) == {("in", "x", 0), ("in", "x", 2)}
    assert len(region.carried) == 2


def test_a_carried_value_that_nothing_changes_is_an_input() -> None:
    p = Programs()
    w = p.load("w", (64,), "f32", name="w")
    with p.loop(p.argument("n"), [w]) as loop:
        x = p.load("x", (64,), "f32", at=(loop.i * 64,))
        p.store("y", p.op("mul", x, loop.carried[0], name="s"), at=(loop.i * 64,))
    region = loop_of(dependence_graph(p.done()))
    assert [(i.name, i.made_by) for i in region.inputs] == [("w", (0, 0))] and not region.carried


def test_values_carried_round_in_a_circle_come_from_outside() -> None:
    p = Programs()
    a, b = p.load("a", (64,), "f32"), p.load("b", (64,), "f32")
    with p.loop(p.argument("n"), [a, b]) as loop:
        p.store("y", p.op("neg", loop.carried[0]), at=(loop.i * 64,))
        loop.yields = [loop.carried[1], loop.carried[0]]
    region = loop_of(dependence_graph(p.done()))
    assert [i.name for i in region.inputs] == ["a", "b"] and not region.carried


def test_values_pass_from_loop_to_loop() -> None:
    p = Programs()
    zero = p.constant(0.0, (64,), "f32")
    n = p.argument("n")
    with p.loop(n, [zero]) as first:
        first.yields = [p.op("add", first.carried[0], p.load("x", (64,), "f32", at=(first.i * 64,)), name="s")]
    with p.loop(n, [first.results[0]]) as second:
        second.yields = [p.op("mul", second.carried[0], p.load("x", (64,), "f32", at=(second.i * 64,)), name="t")]
    p.store("y", second.results[0])
    graph = dependence_graph(p.done())
    assert [region.kind for region in graph.regions] == ["loop", "loop", "straight"]
    assert graph.regions[1].carried[0].result_of == (0, 1)
    assert graph.regions[2].inputs[0].made_by == (1, 1)


def test_a_tile_computation_that_no_iteration_changes_moves_before_the_loop() -> None:
    p = Programs()
    w = p.load("w", (64,), "f32", name="w")
    with p.loop(p.argument("n"), []) as loop:
        root = p.op("exp2", w, name="root")
        p.store("y", p.op("mul", root, p.load("x", (64,), "f32", at=(loop.i * 64,)), name="s"), at=(loop.i * 64,))
    graph = dependence_graph(p.done())
    assert [node.name for node in graph.regions[0].nodes] == ["w", "root"]
    assert [node.name for node in graph.regions[1].nodes] == ["x", "s", "y"]


def test_a_mask_that_no_iteration_changes_costs_nothing_in_the_loop() -> None:
    p = Programs()
    offsets = p.op("range", shape=(64,), start=0, end=64)
    inside = p.op("compare", offsets, p.op("splat", p.argument("m"), shape=(64,)), element="i1", predicate="lt")
    with p.loop(p.argument("n"), []) as loop:
        x = p.load("x", (64,), "f32", at=(loop.i * 64,))
        p.store("y", p.op("select", inside, x, p.constant(0.0, (64,), "f32"), name="s"), at=(loop.i * 64,))
    region = loop_of(dependence_graph(p.done()))
    assert counts(named(region, "s")) == {"select.f32": 64}


def test_offsets_that_are_carried_are_index_arithmetic() -> None:
    p = Programs()
    offsets = p.op("range", shape=(64,), start=0, end=64)
    limit = p.argument("m")
    with p.loop(p.argument("n"), [offsets]) as loop:
        here = loop.carried[0]
        inside = p.op("compare", here, p.op("splat", limit, shape=(64,)), element="i1", predicate="lt")
        x = p.load("x", (64,), "f32", at=(loop.i * 64,))
        p.store("y", p.op("select", inside, x, p.constant(0.0, (64,), "f32"), name="s"), at=(loop.i * 64,))
        loop.yields = [p.op("add", here, p.constant(64, (64,)))]
    region = loop_of(dependence_graph(p.done()))
    assert counts(named(region, "s")) == {"compare.i32": 64, "select.f32": 64, "add.i32": 64}
    assert not region.carried


def test_an_index_tile_that_is_stored_is_a_node() -> None:
    p = Programs()
    offsets = p.op("range", shape=(64,), start=0, end=64)
    p.store("y", p.op("add", offsets, p.constant(1, (64,)), name="next"))
    (region,) = dependence_graph(p.done()).regions
    assert [(n.kind, n.name) for n in region.nodes] == [("elementwise", "next"), ("store", "y")]
    assert counts(region.nodes[0]) == {"add.i32": 64}


def test_a_computed_scalar_orders_the_access_that_its_address_needs() -> None:
    p = Programs()
    begin = p.reduce(p.load("begins", (64,), "i32"), 0, "add", name="begin")
    x = p.load("x", (64,), "f32", at=(Polynomial.symbol(begin),))
    p.store("y", x)
    (region,) = dependence_graph(p.done()).regions
    assert reads(region, named(region, "x")) == {("address", "begin", 0)}


def test_means_and_variances_are_chains_over_the_row() -> None:
    p = Programs()
    x = p.load("x", (1024,), "f32", name="x")
    count = p.op("splat", p.constant(1024.0, (), "f32"), shape=())
    mean = p.op("div", p.reduce(x, 0, "add"), count, shape=(), name="mean")
    centred = p.op("sub", x, p.op("splat", mean, shape=(1024,)), name="centred")
    variance = p.reduce(p.op("mul", centred, centred), 0, "add", name="variance")
    p.store("y", p.op("mul", centred, p.op("splat", p.op("rsqrt", variance), shape=(1024,)), name="y"))
    (region,) = dependence_graph(p.done()).regions
    assert [node.name for node in region.nodes] == ["x", "reduce", "centred", "variance", "y", "y"]
    assert counts(named(region, "centred")) == {"div.f32": 1, "add.f32": 1024}
    assert counts(named(region, "variance")) == {"mul.f32": 1024, "reduce_add.f32": 1024}
    assert [e for e in region.edges if e.kind != "value"] == []


def test_stores_and_loads_of_one_tensor_are_ordered_in_the_graph() -> None:
    p = Programs()
    with p.loop(p.argument("n"), []) as loop:
        x = p.load("x", (64,), "f32", at=(loop.i * 64,))
        p.store("x", p.op("neg", x), at=(loop.i * 64,))
    region = loop_of(dependence_graph(p.done()))
    assert [e for e in region.edges if e.kind == "memory"] == [
        Edge(src=0, dst=2, distance=0, kind="memory", operand="memory")
    ]


def test_a_nested_loop_is_refused_with_its_line() -> None:
    p = Programs()
    n = p.argument("n")
    with p.loop(n, []), p.loop(n, []) as inner:
        p.store("y", p.constant(0.0, (64,), "f32"), at=(inner.i,))
    program = p.done()
    outer = next(item for item in program.body if isinstance(item, Loop))
    with pytest.raises(NestedLoop, match=f"k.py:{outer.line}"):
        dependence_graph(program)


def test_a_raw_access_is_refused_with_its_line() -> None:
    p = Programs()
    p.op("load", p.argument("x", "ptr:f32"), shape=(64,), element="f32")
    with pytest.raises(UnsupportedOperation, match="k.py:1: load"):
        dependence_graph(p.done())
