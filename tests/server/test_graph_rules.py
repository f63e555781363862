"""Promises of the rules for graphs from outside: real ones pass, each contradiction is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.graph_rules import check_graph
from tests.kernels import B200, H100, example
from tests.service import graph
from twill.exc import BadSubmission, UnpricedOperation
from twill.graph.dependence import DependenceGraph

TILE = {"shape": [1024], "dims": [0], "dtype": "f32"}
EXAMPLES = ("gemm", "attention", "layer_norm", "attention_backward", "linear_attention")


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_extraction_makes_passes(name: str) -> None:
    for machine in (H100, B200):
        check_graph(example(name, "full" if name == "attention" else None), machine)


def changed(change: Any) -> DependenceGraph:
    value = json.loads(graph().canonical())
    change(value, value["regions"][0])
    return DependenceGraph.parse(json.dumps(value))


def carried(producer: int, result_of: list[int] | None) -> dict[str, Any]:
    return {"name": "x", "producer": producer, "tile": TILE, "result_of": result_of}


def entry(made_by: list[int], readers: list[list[Any]]) -> dict[str, Any]:
    return {"name": "x", "tile": TILE, "made_by": made_by, "readers": readers}


CONTRADICTIONS: dict[str, tuple[Any, str]] = {
    "dimension twice": (lambda g, r: g["dims"].append(g["dims"][0]), "twice among the dimensions"),
    "region twice": (lambda g, r: g["regions"].append(r), "twice among the regions"),
    "node twice": (lambda g, r: r["nodes"].append(r["nodes"][0]), "twice among the nodes"),
    "empty dimension": (lambda g, r: g["dims"][0].update(size=0), "the size of dimension 'n' is 0"),
    "edge from nowhere": (lambda g, r: r["edges"][0].update(src=9), "node 9"),
    "edge to nowhere": (lambda g, r: r["edges"][0].update(dst=-1), "node -1"),
    "edge from the future": (lambda g, r: r["edges"][0].update(distance=-1), "distance"),
    "edge from long ago": (lambda g, r: r["edges"][0].update(distance=10**9), "distance"),
    "unknown dimension": (lambda g, r: r["nodes"][0].update(dims=[5]), "dimension 5"),
    "unknown axis": (lambda g, r: r["nodes"][0]["result"].update(dims=[7]), "dimension 7"),
    "axes and dimensions": (lambda g, r: r["nodes"][0]["result"].update(dims=[]), "1 extents and 0 dimensions"),
    "empty tile": (lambda g, r: r["nodes"][0]["result"].update(shape=[0]), "an extent"),
    "huge tile": (lambda g, r: r["nodes"][0]["result"].update(shape=[2**39] * 2, dims=[0, 0]), "the size of"),
    "negative bytes": (lambda g, r: r["nodes"][0].update(bytes=-4), "`bytes`"),
    "negative work": (lambda g, r: r["nodes"][1]["counts"][0].update(elements=-4), "`elements`"),
    "no transport": (lambda g, r: r["nodes"][0].update(transport=None), "`transport`"),
    "load of nothing": (lambda g, r: r["nodes"][0].update(result=None), "without a `result`"),
    "product of nothing": (lambda g, r: r["nodes"][1].update(kind="mma"), "without `mma`"),
    "carried from nowhere": (lambda g, r: r.update(carried=[carried(8, None)]), "node 8"),
    "carried from another place": (lambda g, r: r.update(carried=[carried(1, [4, 0])]), "(4, 0)"),
    "input from nowhere": (lambda g, r: r.update(inputs=[entry([3, 1], [])]), "(3, 1)"),
    "input to nowhere": (lambda g, r: r.update(inputs=[entry([0, 1], [[6, "in"]])]), "node 6"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_named(name: str) -> None:
    change, words = CONTRADICTIONS[name]
    with pytest.raises(BadSubmission) as found:
        check_graph(changed(change), H100)
    assert words in found.value.message and "twill extract" in found.value.hint


def test_a_product_on_a_machine_without_a_tensor_core_has_no_price() -> None:
    plain = H100.model_copy(update={"mma": None})
    with pytest.raises(UnpricedOperation, match="no price for 'mma'"):
        check_graph(example("gemm", None), plain)
