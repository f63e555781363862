"""Chains end where their value is needed twice, elsewhere, or on another pipe."""

from __future__ import annotations

import pytest

from twill.graph.fuse import Atom, chains

TILE, ROW = 16384, 128
A, T = "arithmetic", "transcendental"


def fused(*atoms: Atom, uses: dict[int, set[int]], order: list[tuple[int, int]] | None = None) -> list[tuple[int, ...]]:
    return list(chains(atoms, {u: frozenset(readers) for u, readers in uses.items()}, order or [], TILE))


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        ((A, TILE), (A, TILE), True),
        ((T, TILE), (T, TILE), True),
        ((A, TILE), (T, TILE), False),
        ((T, ROW), (A, TILE), True),  # a row vector that a tile operation needs
        ((A, ROW), (T, ROW), True),  # row vectors
        ((A, TILE), (T, ROW), False),
        ((A, TILE // 16), (T, TILE), False),  # a sixteenth is no longer small
        (("", TILE), (A, TILE), False),
        ((A, TILE), ("", TILE), False),
    ],
)
def test_pipes_and_sizes_decide(first: tuple[str, int], second: tuple[str, int], one: bool) -> None:
    groups = fused(Atom(0, *first), Atom(1, *second), uses={0: {1}})
    assert groups == ([(0, 1)] if one else [(0,), (1,)])


def test_a_value_read_twice_ends_its_chain() -> None:
    atoms = [Atom(i, A, TILE) for i in range(4)]
    assert fused(*atoms, uses={0: {1}, 1: {2, 3}}) == [(0, 1), (2,), (3,)]


def test_a_value_read_twice_ends_its_chain_even_if_the_readers_are_one_chain() -> None:
    atoms = [Atom(i, A, TILE) for i in range(3)]
    assert fused(*atoms, uses={0: {1, 2}, 1: {2}}) == [(0,), (1, 2)]


def test_a_value_that_escapes_ends_its_chain() -> None:
    assert fused(Atom(0, A, TILE, escapes=True), Atom(1, A, TILE), uses={0: {1}}) == [(0,), (1,)]


def test_a_small_operation_does_not_make_its_pipe_reach_further() -> None:
    atoms = [Atom(0, A, TILE), Atom(1, T, 1), Atom(2, A, TILE)]
    assert fused(*atoms, uses={0: {1}, 1: {2}}) == [(0,), (1, 2)]


def test_nothing_is_fused_around_a_node_that_must_run_between() -> None:
    atoms = [Atom(0, A, TILE), Atom(1, "", 0), Atom(2, A, TILE)]
    assert fused(*atoms, uses={0: {2}, 1: {2}}) == [(1,), (0, 2)]
    assert fused(*atoms, uses={0: {2}, 1: {2}}, order=[(0, 1)]) == [(0,), (1,), (2,)]


def test_chains_grow_from_both_sides() -> None:
    atoms = [Atom(i, A, TILE) for i in range(5)]
    assert fused(*atoms, uses={0: {2}, 1: {2}, 2: {4}, 3: {4}}) == [(0, 1, 2, 3, 4)]
