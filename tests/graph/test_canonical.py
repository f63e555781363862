"""Two spellings of one kernel have one canonical shape; different kernels have different ones."""

from __future__ import annotations

import json
import random

import pytest

from tests.tile_programs import Programs, attention, gemm
from twill.graph.build import dependence_graph
from twill.graph.canonical import canonical_shape
from twill.graph.dependence import DependenceGraph, Dim, Edge, Input, Mma, Node, Region, Tile


def shuffled(graph: DependenceGraph, seed: int) -> DependenceGraph:
    """The same graph with nodes and dimensions renumbered at random and every name changed."""
    chance = random.Random(seed)
    dims = chance.sample(range(len(graph.dims)), len(graph.dims))
    places = [chance.sample(range(len(r.nodes)), len(r.nodes)) for r in graph.regions]
    tensors = {n.tensor: f"t{i}" for i, n in enumerate(n for r in graph.regions for n in r.nodes) if n.tensor}

    def dim(d: int) -> int:
        return dims[d] if d >= 0 else -1

    def tile(t: Tile) -> Tile:
        return t.model_copy(update={"dims": tuple(map(dim, t.dims))})

    def mma(m: Mma) -> Mma:
        return m.model_copy(update={f"{x}_dim": dim(getattr(m, f"{x}_dim")) for x in "mnk"})

    def node(region: int, n: Node) -> Node:
        return n.model_copy(
            update={
                "id": places[region][n.id], "name": f"v{n.id}", "line": n.line + 7, "operations": ("?",),
                "dims": tuple(map(dim, n.dims)), "result": tile(n.result) if n.result else None,
                "mma": mma(n.mma) if n.mma else None, "tensor": tensors.get(n.tensor, ""),
            }
        )  # fmt: skip

    def entry(region: int, i: Input) -> Input:
        readers = tuple((places[region][reader], operand) for reader, operand in i.readers)
        made_by = (i.made_by[0], places[i.made_by[0]][i.made_by[1]])
        return i.model_copy(update={"name": "", "tile": tile(i.tile), "made_by": made_by, "readers": readers})

    def edge(region: int, e: Edge) -> Edge:
        return e.model_copy(update={"src": places[region][e.src], "dst": places[region][e.dst]})

    def region(r: Region) -> Region:
        nodes = sorted((node(r.id, n) for n in r.nodes), key=lambda n: n.id)
        edges = [edge(r.id, e) for e in r.edges]
        chance.shuffle(edges)
        carried = tuple(
            c.model_copy(
                update={
                    "name": "c", "producer": places[r.id][c.producer], "tile": tile(c.tile),
                    "result_of": (c.result_of[0], places[c.result_of[0]][c.result_of[1]]) if c.result_of else None,
                }
            )
            for c in r.carried
        )  # fmt: skip
        return r.model_copy(
            update={
                "nodes": tuple(nodes), "edges": tuple(edges), "carried": carried, "line": r.line + 7,
                "inputs": tuple(entry(r.id, i) for i in r.inputs),
            }
        )  # fmt: skip

    renamed = sorted((d.model_copy(update={"id": dims[d.id], "name": f"d{d.id}"}) for d in graph.dims), key=_id)
    regions = tuple(map(region, graph.regions))
    return graph.model_copy(update={"kernel": "other", "dims": tuple(renamed), "regions": regions})


def _id(dim: Dim) -> int:
    return dim.id


@pytest.mark.parametrize("seed", range(5))
def test_names_lines_and_numbering_do_not_matter(seed: int) -> None:
    for program in (gemm(), attention(causal=True)):
        graph = dependence_graph(program)
        assert canonical_shape(shuffled(graph, seed)) == canonical_shape(graph)


def twins(first: str, second: str) -> DependenceGraph:
    """Two equal branches, stored to `first` and `second`, loads written before everything else."""
    p = Programs()
    tiles = [p.load(name, (64,), "f32") for name in ("a", "b")]
    for name, tile in zip((first, second), reversed(tiles), strict=True):
        p.store(name, p.op("neg", tile))
    return dependence_graph(p.done())


def test_equal_branches_stay_branches() -> None:
    assert canonical_shape(twins("u", "v")) == canonical_shape(shuffled(twins("v", "u"), 3))
    assert canonical_shape(twins("u", "v")) != canonical_shape(twins("u", "u"))


def test_any_difference_that_matters_is_kept() -> None:
    graph = dependence_graph(gemm())
    loop = graph.regions[0]
    variants = [
        loop.model_copy(update={"edges": tuple(e.model_copy(update={"distance": 0}) for e in loop.edges)}),
        loop.model_copy(update={"edges": loop.edges[:-1]}),
        loop.model_copy(update={"carried": ()}),
        loop.model_copy(update={"kind": "straight"}),
        loop.model_copy(update={"nodes": tuple(n.model_copy(update={"transport": "plain"}) for n in loop.nodes)}),
    ]
    shapes = {canonical_shape(graph.model_copy(update={"regions": (v, *graph.regions[1:])})) for v in variants}
    assert len(shapes | {canonical_shape(graph)}) == len(variants) + 1


def test_the_shape_is_json_on_one_line() -> None:
    text = canonical_shape(dependence_graph(gemm()))
    assert "\n" not in text and json.loads(text)["dims"]
