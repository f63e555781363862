"""Promises of schedules with room: how much is asked for where rings and what tiles leave through do not fit."""

from __future__ import annotations

import pytest

from tests.blackwell import GEMM, machine, schedule
from twill import exc
from twill.codegen.room import beyond

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
