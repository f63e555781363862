"""Promises of spelling: a stored schedule in another kernel's names is what a solve of that kernel gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import H100, example
from tests.solve.test_pipeline import without_times
from tests.stores import coarse_scale, graph_of
from twill.graph.dependence import DependenceGraph
from twill.schedule.checker.check import check
from twill.schedule.key import schedule_key
from twill.solve.pipeline import SolveOptions, solve
from twill.store.interface import Entry
from twill.store.respelling import spelled
from twill.store.validation import file


def stored(graph: DependenceGraph, **options: Any) -> Entry:
    """The entry of a solve."""
    asked = SolveOptions(**options)
    return file(solve(graph, H100, asked), graph, asked.asked, H100)[0]


def respelled(graph: DependenceGraph) -> DependenceGraph:
    """The same kernel with other names, lines and dimension names, in another file."""
    regions = tuple(
        region.model_copy(
            update={
                "line": region.line + 100,
                "trip": region.trip and region.trip.model_copy(update={"text": "many"}),
                "nodes": tuple(
                    n.model_copy(
                        update={"name": f"my_{n.name}", "line": n.line + 100, "tensor": n.tensor and f"T{n.tensor}"}
                    )
                    for n in region.nodes
                ),
                "inputs": tuple(i.model_copy(update={"name": f"my_{i.name}"}) for i in region.inputs),
                "carried": tuple(c.model_copy(update={"name": f"my_{c.name}"}) for c in region.carried),
            }
        )
        for region in graph.regions
    )
    dims = tuple(dim.model_copy(update={"name": f"d{dim.id}"}) for dim in graph.dims)
    return graph.model_copy(update={"kernel": "mine", "spec": "s", "file": "f.py", "regions": regions, "dims": dims})


def test_the_same_kernel_gets_the_schedule_as_it_is() -> None:
    entry = stored(graph_of())
    assert spelled(entry, graph_of(), H100) is entry.schedule


@pytest.mark.parametrize(("name", "options"), [("gemm", {}), ("layer_norm", {}), ("gemm", {"normalize": 100})])
def test_another_spelling_gets_what_a_solve_of_it_gives(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse_scale(monkeypatch)
    graph = example(name)
    mine = respelled(graph)
    found = spelled(stored(graph, **options), mine, H100)
    assert found is not None
    assert check(found, H100) == ()
    assert without_times(found) == without_times(solve(mine, H100, SolveOptions(**options)))


def test_a_file_that_moved_is_the_same_kernel() -> None:
    entry = stored(graph_of())
    assert spelled(entry, graph_of().model_copy(update={"file": "elsewhere.py"}), H100) == entry.schedule


def test_another_order_of_the_same_operations_is_not_translated() -> None:
    graph = graph_of()
    (loop,) = (region for region in graph.regions if region.kind == "loop")
    first, second, *rest = loop.nodes
    assert first.kind == second.kind == "load"
    swap = {first.id: second.id, second.id: first.id}
    nodes = (second.model_copy(update={"id": first.id}), first.model_copy(update={"id": second.id}), *rest)
    edges = tuple(
        e.model_copy(update={"src": swap.get(e.src, e.src), "dst": swap.get(e.dst, e.dst)}) for e in loop.edges
    )
    other = loop.model_copy(update={"nodes": nodes, "edges": edges})
    permuted = graph.model_copy(update={"regions": tuple(other if r is loop else r for r in graph.regions)})
    assert schedule_key(permuted, H100.digest()) == schedule_key(graph, H100.digest())
    assert spelled(stored(graph), permuted, H100) is None


def test_pins_name_operations_so_another_spelling_is_solved_for_itself() -> None:
    name = next(n.name for region in graph_of().regions if region.kind == "loop" for n in region.nodes if n.mma)
    entry = stored(graph_of(), pins=(f"{name}@stage=1",))
    assert spelled(entry, graph_of(), H100) is not None
    assert spelled(entry, respelled(graph_of()), H100) is None


def test_an_entry_without_its_graph_fits_only_the_very_kernel() -> None:
    entry = stored(graph_of()).model_copy(update={"graph": None, "asked": None})
    assert spelled(entry, graph_of(), H100) is entry.schedule
    assert spelled(entry, respelled(graph_of()), H100) is None
