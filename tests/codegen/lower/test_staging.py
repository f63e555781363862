"""Promises of `twill.codegen.lower.staging`: rings come first, and what is left lets stores overlap."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.kernels import H100
from tests.lowered import planned
from tests.tile_programs import attention, gemm
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.staging import Tile, choose_panels, enough, panel_columns, panels, staged, staging_bytes
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import BulkWait, TmaStore, WarpProgram, walk


def lowered(spec: str) -> WarpProgram:
    example = Example("examples/gemm.py", spec)
    return lower(kernel(example).program, schedule(example), machine())


def test_panels_are_128_bytes_wide() -> None:
    assert (panel_columns((128, 192), "bf16"), panels((128, 192), "bf16")) == (64, 3)
    assert (panel_columns((64, 48), "bf16"), panels((64, 48), "bf16")) == (48, 1)
    assert panels((64, 256), "f32") == 8


def test_groups_that_take_turns_stage_apart() -> None:
    tiles = staged(planned(gemm(), 1).plan)
    assert len(tiles) == 2 and len({group for group, _, _ in tiles}) == 2
    assert staging_bytes(tiles, 1) * panels(*tiles[0][1:]) == staging_bytes(tiles, 99)


def test_rings_come_first() -> None:
    tiles: list[Tile] = [(0, (64, 256), "bf16")]
    assert choose_panels(tiles, lambda taken: 3) == 4
    assert choose_panels(tiles, lambda taken: 4 if taken <= 2 * 64 * 128 else 3) == 2
    assert choose_panels([], lambda taken: 3) == 1
    assert choose_panels(tiles, lambda taken: 0) == 1  # what is refused then is as little as possible


def test_rings_cover_the_latency_of_loads_under_load() -> None:
    assert H100.emitting.multiplying is not None
    multiplied = H100.emitting.multiplying.value
    for tile, covered in ((gemm(), multiplied), (attention(), H100.emitting.under_load.value)):
        covers(planned(tile, 1).plan, covered)


def covers(plan: LoweringPlan, times: float) -> None:
    """Rings of a loop cover so many latencies, and no slot more."""
    region = max(plan.loops)
    latency = max(task.latency for task in plan.tasks.values() if task.node.kind == "load")
    slots, interval = enough(plan, region), plan.interval(region)
    assert (slots - 1) * interval < times * latency <= slots * interval


@pytest.mark.parametrize(("spec", "buffers", "waits"), [("bf16", 1, [0, 0]), ("bf16-192", 2, [0, 1, 1])])
def test_a_buffer_is_written_again_once_the_store_before_has_read_it(spec: str, buffers: int, waits: list[int]) -> None:
    program = lowered(spec)
    for group in program.groups:
        used = {stmt.source.buffer for stmt in walk(group.body) if isinstance(stmt, TmaStore)}
        pending = [stmt.pending for stmt in walk(group.body) if isinstance(stmt, BulkWait)]
        assert group.issuer or (len(used), pending) == (buffers, waits)
    assert verify(program) == ()


def test_what_is_written_and_never_read_leaves_the_cache_first() -> None:
    stores = [stmt for group in lowered("bf16").groups for stmt in walk(group.body) if isinstance(stmt, TmaStore)]
    assert stores and all(stmt.passing for stmt in stores)
