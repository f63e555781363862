"""Promises of dependence graphs as networkx graphs: complete, readable by other programs, recurrences named."""

from __future__ import annotations

import io
import re

import networkx as nx
import pytest

from tests.conftest import ROOT
from tests.graphs import edge, graph, instruction
from tests.kernels import example
from twill.cli import main
from twill.graph.dependence import DependenceGraph
from twill.graph.networks import FORMATS, ranks, recurrences

KERNELS = ("attention", "gemm", "layer_norm")


@pytest.mark.parametrize("name", KERNELS)
def test_every_node_and_edge_of_every_region_is_there(name: str) -> None:
    read = example(name)
    found = read.to_networkx()
    assert len(found) == sum(len(region.nodes) for region in read.regions)
    within = [kind for _, _, kind in found.edges(data="kind") if kind not in ("input", "initial")]
    assert len(within) == sum(len(region.edges) for region in read.regions)
    for region in read.regions:
        for one in region.nodes:
            assert found.nodes[f"r{region.id}%{one.id}"]["line"] == one.line
    inputs = [r for region in read.regions for i in region.inputs for r in i.readers]
    assert [kind for _, _, kind in found.edges(data="kind")].count("input") == len(inputs)


@pytest.mark.parametrize("name", KERNELS)
def test_graphml_is_read_back_as_the_same_graph(name: str) -> None:
    read = example(name)
    back = nx.read_graphml(io.BytesIO(FORMATS["graphml"](read).encode()), force_multigraph=True)
    found = read.to_networkx()
    assert dict(back.nodes(data=True)) == dict(found.nodes(data=True))
    assert nx.utils.edges_equal(back.edges(data=True), found.edges(data=True), directed=True)


def test_dot_names_every_node_once_and_escapes_what_a_kernel_may_be_called() -> None:
    read = example("attention")
    text = FORMATS["dot"](read)
    declared = re.findall(r'^    "(r\d+%\d+)" \[label=', text, re.MULTILINE)
    assert sorted(declared) == sorted(read.to_networkx())
    assert text.count(" -> ") == read.to_networkx().number_of_edges()
    nasty = FORMATS["dot"](read.model_copy(update={"kernel": 'a"b\\'}))
    assert nasty.startswith('digraph "a\\"b\\\\" {')


def test_recurrences_of_attention_are_its_running_maximum_sum_and_accumulator() -> None:
    read = example("attention")
    (loop,) = (region for region in read.regions if region.kind == "loop")
    names = {f"r{loop.id}%{node.id}": node.name for node in loop.nodes}
    found = {(frozenset(names[v] for v in cycle), distance) for cycle, distance in recurrences(read)}
    assert found >= {(frozenset({"m_ij"}), 1), (frozenset({"l_i"}), 1), (frozenset({"acc"}), 1)}
    assert all(distance >= 1 for _, distance in found)


def test_ranks_put_everything_behind_what_it_waits_for() -> None:
    made = graph(tuple(map(instruction, range(4))), (edge(0, 2, 5), edge(2, 1, 5), edge(1, 0, 5, 1), edge(3, 1, 0)))
    assert ranks(made) == [[0, 3], [2], [1]]
    knotted = graph(tuple(map(instruction, range(3))), (edge(0, 1, 0), edge(1, 0, 0), edge(1, 2, 4)))
    assert ranks(knotted) == [[0, 1], [2]]


@pytest.mark.parametrize("words", [["--json"], ["--format", "json"]])
def test_extract_prints_the_document(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "examples/gemm.py", *words]) == 0
    assert DependenceGraph.parse(capsys.readouterr().out).kernel == "gemm"


@pytest.mark.parametrize(("form", "begin"), [("dot", "digraph"), ("graphml", "<graphml"), ("text", "kernel gemm")])
def test_extract_prints_what_other_programs_read(form: str, begin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "examples/gemm.py", "--format", form]) == 0
    assert capsys.readouterr().out.startswith(begin)


def test_a_format_that_does_not_exist_is_refused_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["extract", "examples/gemm.py", "--format", "svg"])
    assert "'text', 'json', 'dot', 'graphml'" in capsys.readouterr().err


def test_no_module_imports_networkx_before_it_is_used() -> None:
    """A service that begins, or a command, has no graph to search yet."""
    top = re.compile(
        r"^(?:from twill\.graph\.networks|import twill\.graph\.networks|import networkx|from networkx)", re.M
    )
    files = [path for room in ("twill", "server") for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 500
    found = [path.name for path in files if top.search(path.read_text(encoding="utf-8"))]
    assert found == ["networks.py"]
