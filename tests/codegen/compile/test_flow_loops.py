"""Promises of the loop finder, against the definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twill.codegen.compile.flow_loops import natural_loops

Graph = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 7))
    return [draw(st.lists(st.integers(0, size - 1), max_size=2, unique=True)) for _ in range(size)]


def reachable(graph: Graph, start: int, without: int = -1) -> set[int]:
    found: set[int] = set()
    stack = [start] if start != without else []
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(after for after in graph[node] if after != without)
    return found


@given(graphs())
def test_loops_are_those_of_the_definition(graph: Graph) -> None:
    expected: dict[int, set[int]] = {}
    live = reachable(graph, 0)
    for node in live:
        for header in graph[node]:
            if node == header or node not in reachable(graph, 0, without=header):  # header dominates node
                body = {n for n in live if n != header and node in reachable(graph, n, without=header)}
                expected.setdefault(header, {header}).update(body)
    assert natural_loops(graph) == expected


def test_an_empty_function_has_no_loops() -> None:
    assert natural_loops([]) == {}
