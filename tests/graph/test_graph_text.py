"""The graph's text says what a kernel engineer wants to know, on one line a node."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import TopologicalSorter

import pytest
import triton

from tests.conftest import GOLDEN
from tests.tile_programs import attention, gemm
from twill.graph.build import dependence_graph
from twill.graph.canonical import canonical_shape
from twill.graph.dependence import DependenceGraph
from twill.graph.extract import extract
from twill.graph.graph_text import graph_text

EXAMPLES = [
    ("gemm", "bf16"),
    ("gemm_pointers", "bf16"),
    ("gemm_fp8", "e4m3"),
    ("gemm_bias_gelu", "bf16"),
    ("dual_gemm", "bf16"),
    ("attention", "full"),
    ("attention", "causal"),
    ("attention", "full-d64"),
    ("attention", "causal-d256"),
    ("attention_pointers", "full"),
    ("attention_backward", "full"),
    ("attention_backward", "causal"),
    ("sliding_window_attention", "bf16"),
    ("linear_attention", "bf16"),
    ("layer_norm", "bf16"),
]


def example(name: str, spec: str) -> DependenceGraph:
    return extract(f"examples/{name}.py", spec)[1]


def test_nodes_say_what_they_read_do_and_make() -> None:
    lines = graph_text(dependence_graph(gemm())).splitlines()
    assert "dim m 128 parallel fusable" in lines
    assert "  carried acc by %2: m:128 n:128 f32" in lines
    assert any(line.startswith("  %2 mma acc a=%0 b=%1 c=%2[-1]: m:128 n:128 f32  ") for line in lines)
    assert any("C data=%0  C 32768 bytes by tma" in line for line in lines)


def test_inputs_and_transposes_are_shown() -> None:
    text = graph_text(dependence_graph(attention()))
    assert "%1 mma qk a=r0%0 b=%0: m:128 n:128 f32  m:128 n:128 k:64 f16 -> f32 transposed b" in text


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(("name", "spec"), EXAMPLES)
def test_graphs_of_the_examples(name: str, spec: str, golden: Callable[[str, str], None]) -> None:
    # Triton up to 3.8 spells -x as 0 - x: another operation in the graph where a kernel negates.
    subtracted = GOLDEN / f"graph_{name}_{spec}-subtracted.txt"
    older = subtracted.is_file() and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)
    golden(subtracted.name if older else f"graph_{name}_{spec}.txt", graph_text(example(name, spec)))


@pytest.mark.usefixtures("at_root")
def test_a_gemm_is_one_graph_whether_spelled_with_descriptors_or_pointers() -> None:
    assert canonical_shape(example("gemm", "bf16")) == canonical_shape(example("gemm_pointers", "bf16"))
    assert canonical_shape(example("gemm", "bf16")) != canonical_shape(example("dual_gemm", "bf16"))


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(("name", "spec"), EXAMPLES)
def test_no_example_has_a_circle_within_one_iteration(name: str, spec: str) -> None:
    for region in example(name, spec).regions:
        before = {
            node.id: {e.src for e in region.edges if e.dst == node.id and not e.distance} for node in region.nodes
        }
        assert list(TopologicalSorter(before).static_order())
