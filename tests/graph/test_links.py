"""Values that pass from loop to loop tie their producers to the warp groups that hold them."""

from __future__ import annotations

from collections.abc import Callable

from tests.conftest import ROOT
from tests.kernels import H100, example
from twill.codegen import emission
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph, Region
from twill.graph.extract import extract
from twill.graph.links import carried_links, components
from twill.tile.rewrite.pipeline import Allowed


def two_loops() -> DependenceGraph:
    """Causal attention as it is written."""
    return extract(str(ROOT / "examples/attention.py"), "causal", allowed=Allowed("masks"))[1]


def loops(graph: DependenceGraph) -> list[Region]:
    """The loops in program order."""
    return [r for r in graph.regions if r.kind == "loop"]


def both(graph: DependenceGraph, blocks: int) -> tuple[CostedGraph, CostedGraph]:
    """The first and the last loop under the same cooperation."""
    first, *_, last = loops(graph)
    chosen = next(c for c in cooperations(graph, first, H100) if c.blocks == blocks)
    return cost(graph, first, H100, chosen), cost(graph, last, H100, chosen)


def test_carried_values_stay_in_the_warp_group_of_the_main_loop_block_by_block() -> None:
    graph = two_loops()
    main, other = both(graph, 2)
    slot_of = [100 + i.id for i in main.instructions]  # every instruction in a group of its own
    producers = {c.name: c.producer for c in loops(graph)[0].carried}
    expected = {}
    for carried in loops(graph)[1].carried:
        for block in (0, 1):
            (theirs,) = [i for i in main.instructions if (i.source, i.block) == (producers[carried.name], block)]
            (mine,) = [i for i in other.instructions if (i.source, i.block) == (carried.producer, block)]
            expected[mine.id] = slot_of[theirs.id]
    assert len(expected) == 6  # accumulator, row sums and row maxima, twice
    assert carried_links(graph, main, other, slot_of) == expected


def test_links_go_backwards_too() -> None:
    graph = two_loops()
    first, last = both(graph, 1)
    forwards = carried_links(graph, first, last, [i.id for i in first.instructions])
    backwards = carried_links(graph, last, first, [i.id for i in last.instructions])
    assert backwards == {slot: v for v, slot in forwards.items()}
    assert len(forwards) == 3


def test_values_in_memory_tie_nothing() -> None:
    graph = two_loops()
    main, other = both(graph, 2)
    in_shared = tuple(v.model_copy(update={"space": "shared", "registers": 0}) for v in other.values)
    assert carried_links(graph, main, other.model_copy(update={"values": in_shared}), [0] * 99) == {}


def test_links_pass_through_a_loop_in_between() -> None:
    graph = two_loops()
    main, last = both(graph, 1)
    first, second = loops(graph)
    # A third loop that continues the second one, which continues the first.
    hops = tuple(c.model_copy(update={"result_of": (second.id, c.producer)}) for c in second.carried)
    third = second.model_copy(update={"id": 9, "carried": hops})
    longer = graph.model_copy(update={"regions": (*graph.regions, third)})
    other = last.model_copy(update={"region": 9})
    direct = carried_links(graph, main, last, [i.id for i in main.instructions])
    assert carried_links(longer, main, other, [i.id for i in main.instructions]) == direct
    assert first.id == main.region


BETWEEN = """
@triton.jit
def k(a, b, c, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tile = at[:, None] * B + at[None, :]
    acc = tl.zeros([B, B], tl.float32)
    for i in range(0, n):
        acc = tl.dot(tl.load(a + i * B * B + tile), tl.load(b + i * B * B + tile), acc)
    acc = tl.exp(acc * 0.5)
    for i in range(0, n):
        acc += tl.exp(tl.load(c + i * B + at).to(tl.float32)[None, :] - acc)
    tl.store(y + tile, acc.to(tl.bfloat16))
"""


def test_links_pass_through_straight_line_code_between_loops(kernel_file: Callable[..., str]) -> None:
    """What the second loop begins with is made of what the first one ended with, in the same warp group: both ways."""
    graph = emission.extract(
        f"{kernel_file(BETWEEN)}::k", sig=[*(f"{name}=*bf16:16" for name in "abcy"), "n=i32"], const=["B=64"]
    ).graph
    first, last = both(graph, 1)
    forwards = carried_links(graph, first, last, [100 + i.id for i in first.instructions])
    (product,) = [i.id for i in first.instructions if i.op == "dot"]
    assert set(forwards.values()) == {100 + product}
    backwards = carried_links(graph, last, first, [100 + i.id for i in last.instructions])
    assert backwards == {product: 100 + next(iter(forwards))}


def test_a_value_that_begins_anew_ties_nothing() -> None:
    graph = example("layer_norm")
    main, other = both(graph, 1)
    assert carried_links(graph, main, other, [0] * 99) == {}


def test_components_are_what_pairs_connect() -> None:
    assert sorted(map(sorted, components([(1, 2), (3, 3), (2, 4)]))) == [[1, 2, 4], [3]]
