"""Promises of nameless graphs: the same problem without a word of its author's, and readable in everybody's names."""

from __future__ import annotations

import json

import pytest

from tests.kernels import H100, example
from tests.service import graph
from twill.graph.anonymous import anonymous
from twill.graph.canonical import canonical_shape
from twill.graph.dependence import DependenceGraph
from twill.solve.pipeline import SolveOptions, solve
from twill.store.respelling import spelled
from twill.store.validation import file

SECRET = "zq"


def renamed(of: DependenceGraph) -> DependenceGraph:
    """The graph in which every word of its author's is unmistakable."""

    def change(value: object, field: str = "") -> object:
        if isinstance(value, dict):
            return {name: change(entry, name) for name, entry in value.items()}
        if isinstance(value, list):
            return [change(entry, field) for entry in value]
        words = ("name", "tensor", "file", "text", "transport_reason", "operations")
        return f"{SECRET}{value}" if field in words and value else value

    return DependenceGraph.parse(json.dumps(change(json.loads(of.canonical()))))


@pytest.mark.parametrize("name", ["gemm", "layer_norm", "attention", "attention_backward"])
def test_no_word_of_the_author_is_left_and_the_key_is_the_same(name: str) -> None:
    given = renamed(example(name))
    assert SECRET in given.canonical() and SECRET not in anonymous(given).canonical()
    assert anonymous(given) == anonymous(example(name)) == anonymous(anonymous(given))
    assert canonical_shape(anonymous(given)) == canonical_shape(given)


def test_kernel_and_specialization_stay_for_lists() -> None:
    assert (anonymous(graph()).kernel, anonymous(graph()).spec) == ("scale", "default")


@pytest.mark.parametrize("name", ["gemm", "layer_norm"])
def test_an_entry_without_names_is_read_as_what_a_solve_would_have_given(name: str) -> None:
    own = example(name)
    retained = solve(anonymous(own), H100, SolveOptions())
    entry = file(retained, anonymous(own), SolveOptions().asked, H100)[0]
    here = solve(own, H100, SolveOptions())
    got = spelled(entry, own, H100)
    assert got is not None
    assert timeless(got.canonical()) == timeless(here.canonical())


def timeless(text: str) -> object:
    """A schedule without the seconds that its solves took."""

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {name: without(entry) for name, entry in value.items() if "seconds" not in name}
        return [without(entry) for entry in value] if isinstance(value, list) else value

    return without(json.loads(text))
