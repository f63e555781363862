"""Promises of `twill.graph.extract`: from a kernel file to its graph in one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.exc import TwillError
from twill.graph.canonical import canonical_shape
from twill.graph.extract import extract
from twill.tile.rewrite.pipeline import Allowed, Rewriting


@pytest.mark.parametrize(("rewriting", "loops"), [("masks", 2), ("all", 1)])
def test_a_kernel_file_gives_its_program_and_its_graph(at_root: Path, rewriting: Rewriting, loops: int) -> None:
    program, graph = extract("examples/attention.py::attention", "causal", allowed=Allowed(rewriting))
    assert (program.kernel, program.spec) == (graph.kernel, graph.spec) == ("attention", "causal")
    assert [region.kind for region in graph.regions].count("loop") == loops


def test_flags_override_the_sidecar(at_root: Path) -> None:
    _, graph = extract("examples/gemm_pointers.py", const=["BLOCK_K=32"])
    assert {dim.name: dim.size for dim in graph.dims}["k"] == 32


def test_descriptor_gemm_and_pointer_gemm_are_one_graph(at_root: Path) -> None:
    shapes = {canonical_shape(extract(f"examples/{name}.py")[1]) for name in ("gemm", "gemm_pointers")}
    assert len(shapes) == 1


def test_a_missing_file_is_one_clear_error() -> None:
    with pytest.raises(TwillError):
        extract("no_such_kernel.py")
