"""A ring that somebody has called otherwise is the one in whose place it stands; a ring in another's place is told."""

from __future__ import annotations

import ast

import pytest

from twill.codegen.compile.gluon.read_rings import ring_facts
from twill.codegen.compile.gluon.renamed import under_their_names
from twill.codegen.print.gluon.shared import shared_text

MODULE = """
@gluon.jit
def mma(K, a_ring, b_ring):
    n = 0
    for step in range(K):
        a_ring.wait(n)
        b_ring.wait(n)
        tcgen05_commit(a_ring.empty_barrier(n))
        tcgen05_commit(b_ring.empty_barrier(n))
        n += 1


@gluon.jit
def load(K, a_ring, b_ring):
    n = 0
    for step in range(K):
        a_ring.acquire(n)
        a_ring.expect(n, 16384)
        b_ring.acquire(n)
        b_ring.expect(n, 16384)
        n += 1


@gluon.jit
def kernel(K):
    a_ring = ring(gl.allocate_shared_memory(gl.bfloat16, [6, 128, 64], LAYOUT), full=1, empty=1)
    b_ring = ring(gl.allocate_shared_memory(gl.bfloat16, [6, 64, 128], LAYOUT), full=1, empty=1)
    gl.warp_specialize([(mma, (K, a_ring, b_ring)), (load, (K, a_ring, b_ring))], [1], [56])
"""
MMA, LOAD = MODULE[: MODULE.index("def load")], MODULE[MODULE.index("def load") :]
HARMLESS = {
    "everywhere": MODULE.replace("a_ring", "tiles_of_a"),
    "both": MODULE.replace("a_ring", "left").replace("b_ring", "right"),
    "in one function": MMA.replace("a_ring", "tiles") + LOAD,
    "otherwise in each": MMA.replace("a_ring", "tiles") + LOAD.replace("a_ring", "filled"),
}
HARMFUL = {
    "another slot, and another name": MODULE.replace("a_ring", "left").replace("left.wait(n)", "left.wait(n + 1)"),
    "a wait for another ring": MODULE.replace("b_ring.wait", "a_ring.wait"),
    "rings that have changed places": MMA.replace("a_ring", "x").replace("b_ring", "a_ring").replace("x", "b_ring")
    + LOAD,
    "one name for two rings": MMA.replace("a_ring", "x").replace("b_ring", "x") + LOAD,
}


def said(text: str, original: str = MODULE) -> tuple[list[str], list[str]]:
    """What is found in a module, under the names of the original, and what that has."""
    tree, shared = ast.parse(text), ast.parse(shared_text())
    wanted = sorted(ring_facts(ast.parse(original), shared))
    made = under_their_names(tree, sorted(ring_facts(tree, shared)), wanted)
    return [one.said for one in sorted(made)], [one.said for one in wanted]


@pytest.mark.parametrize("name", HARMLESS)
def test_a_ring_with_another_name_is_what_it_was(name: str) -> None:
    found, wanted = said(HARMLESS[name])
    assert found == wanted and len(wanted) == 8


@pytest.mark.parametrize("name", HARMFUL)
def test_another_use_is_told(name: str) -> None:
    found, wanted = said(HARMFUL[name])
    assert found != wanted
