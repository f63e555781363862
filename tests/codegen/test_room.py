"""Promises of schedules with room: how much is asked for where rings and what tiles leave through do not fit, and of
whom."""

from __future__ import annotations

import pytest

from tests import blackwell_attention
from tests.blackwell import GEMM, machine, schedule
from twill import exc
from twill.codegen.room import beyond, holds_tiles, roomier, slack

pytestmark = pytest.mark.usefixtures("at_root")


@pytest.mark.parametrize("more", [1, 16384])
def test_the_rings_of_a_single_loop_leave_room_for_what_its_tiles_leave_through(more: int) -> None:
    found = schedule(GEMM)
    capacity = machine().capacity("shared")
    rings = sum(buffer.bytes * buffer.depth for buffer in found.buffers if buffer.space == "shared")
    full = exc.SharedMemoryFull("too many bytes", needed=capacity + more, capacity=capacity)
    assert len({buffer.loop for buffer in found.buffers}) == 1
    left = beyond(full, found, machine())
    assert left is not None and capacity - left == rings - more
    full = exc.SharedMemoryFull("too many bytes", needed=capacity + rings, capacity=capacity)
    assert beyond(full, found, machine()) is None  # no room is left for any


def test_who_reads_accumulators_in_tensor_memory_is_asked_for_room_and_not_who_issues_products() -> None:
    more = roomier(machine(), 16)
    assert more.context("compute").overhead.value == machine().context("compute").overhead.value + 16
    assert more.context("issue") == machine().context("issue")
    products, attention = schedule(GEMM), blackwell_attention.schedule(blackwell_attention.FULL)
    assert not holds_tiles(products, machine()) and holds_tiles(attention, machine())
    most = machine().context("compute").max_registers
    free = [most - group.registers for group in attention.warp_groups if group.context == "compute"]
    assert 0 <= slack(attention, machine()) <= min(free) and len(free) == 2
