"""Promises of `twill.codegen.lower.place`: what goes through shared memory, who fills it, how deep it is."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from unittest import mock

import pytest

from tests.kernels import H100
from tests.lowered import planned
from tests.tile_programs import attention, gemm
from twill.codegen.lower.place import PAIR, place
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.staging import staged, staging_bytes
from twill.exc import SharedMemoryFull


def by_name(rings: Placement) -> dict[str, tuple[bool, str, int]]:
    """held, transport, depth of each ring."""
    return {ring.aref.name: (ring.held, ring.aref.transport, ring.aref.depth) for ring in rings.by_place.values()}


def test_loads_that_products_read_have_rings_and_results_have_none() -> None:
    rings = planned(gemm())
    assert set(by_name(rings)) == {"a", "b"}
    assert all(ring.multiplied and not ring.held for ring in rings.by_place.values())


def test_a_tile_of_straight_line_code_has_a_second_slot_for_the_next_instance_where_there_is_room() -> None:
    roomy = planned(attention(), 2)
    found = by_name(roomy)
    assert [found[name] for name in ("q.0", "q.1")] == [(True, "tma", 2)] * 2
    assert not found["k"][0]
    tight = dataclasses.replace(roomy.plan)
    loops = sum(r.buffer.bytes * PAIR for r in roomy.by_place.values() if not r.held)
    held = sum(r.buffer.bytes for r in roomy.by_place.values() if r.held)
    least = loops + held + staging_bytes(staged(roomy.plan), roomy.panels) + H100.emitting.spare_shared.whole
    with mock.patch.object(LoweringPlan, "capacity", least + held - 1):
        found = by_name(place(tight))
    assert [found[name] for name in ("q.0", "q.1")] == [(True, "tma", 1)] * 2


def test_rings_are_as_deep_as_the_schedule_says_or_deeper() -> None:
    rings = planned(gemm(), 2)
    asked = {b.name: b.depth for b in rings.plan.schedule.buffers if b.space == "shared"}
    for name, (_, _, depth) in by_name(rings).items():
        assert H100.emitting.ring_slots.whole >= depth >= asked[name.split(".")[0]]


def test_no_shallowest_ring_has_room_to_grow() -> None:
    rings = planned(gemm())
    depths = {ring.aref.id: ring.aref.depth for ring in rings.by_place.values()}
    least = min(depths.values())
    need = sum(r.buffer.bytes for r in rings.by_place.values() if r.aref.depth == least)
    free = rings.plan.capacity - rings.bytes - staging_bytes(staged(rings.plan), rings.panels)
    assert free >= 0
    assert least == H100.emitting.ring_slots.whole or free < need + 4096


def test_the_memory_knows_the_final_depth() -> None:
    rings = planned(gemm())
    for ring in rings.by_place.values():
        assert rings.arefs[ring.aref.id] == ring.aref
        assert rings.buffers[ring.buffer.id].slots == ring.buffer.slots == ring.aref.depth


def test_a_slot_is_empty_when_every_warp_of_every_consumer_said_so() -> None:
    rings = planned(attention(), 2)
    shared = next(ring for ring in rings.by_place.values() if ring.aref.name == "k")
    assert len(shared.aref.consumers) == 2
    assert (shared.aref.full_count, shared.aref.empty_count) == (1, 8)


def room_for(rings: Placement, slots: int) -> int:
    """Bytes of a CTA that let rings of loops have so many slots."""
    loops = sum(r.buffer.bytes * slots for r in rings.by_place.values() if not r.held)
    held = sum(r.buffer.bytes for r in rings.by_place.values() if r.held)
    return loops + held + staging_bytes(staged(rings.plan), 1) + H100.emitting.spare_shared.whole


@pytest.mark.parametrize("slots, refused", [(2, False), (3, True)])
def test_ctas_that_share_an_sm_have_one_slot_only_where_fewer_have_no_more_on_their_way(
    slots: int, refused: bool
) -> None:
    alone = planned(gemm())
    one = {r.aref.id: 1 for r in alone.by_place.values()}
    plan = dataclasses.replace(alone.plan, candidate=dataclasses.replace(alone.plan.candidate, ctas=2))
    with (
        mock.patch.object(LoweringPlan, "capacity", room_for(alone, 1)),
        mock.patch("twill.codegen.lower.place.share", return_value=room_for(alone, slots)),
        mock.patch("twill.codegen.lower.place._Rings.depth", lambda rings, task: 1),
        pytest.raises(SharedMemoryFull, match="have 1 slot") if refused else nullcontext(),
    ):
        assert {r.aref.id: r.aref.depth for r in place(plan).by_place.values()} == one
