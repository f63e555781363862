"""Promises of `twill.codegen.lower.lower`: what comes out does what the kernel does; a foreign schedule is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import attention, gemm
from twill import exc
from twill.codegen.emission import extract
from twill.codegen.lower import puts
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import text as warp_text
from twill.codegen.warp.program import (
    LoadGlobal,
    Multiply,
    Pipeline,
    ProxyFence,
    Publish,
    StoreShared,
    TmaLoad,
    WarpProgram,
    walk,
)
from twill.schedule.document import Schedule
from twill.tile.program import TileProgram


@cache
def quick() -> tuple[TileProgram, Schedule]:
    """Attention in two row blocks."""
    program = attention()
    return program, scheduled(program, 2)


def lowered(program: TileProgram, blocks: int = 1) -> WarpProgram:
    return lower(program, scheduled(program, blocks), H100)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "said"), [("kernel", "kernel"), ("spec", "specialization"), ("machine_digest", "machine")]
)
def test_a_schedule_of_something_else_is_refused(field: str, said: str) -> None:
    program, schedule = quick()
    with pytest.raises(exc.ScheduleMismatch, match=f"for {said} `other`") as raised:
        lower(program, schedule.model_copy(update={field: "other"}), H100)
    assert (raised.value.file, raised.value.hint) == ("k.py", "solve the kernel again")


@pytest.mark.parametrize("change", [{"line": 999}, {"source": 77}])
def test_an_instruction_that_the_kernel_lacks_is_refused(change: dict[str, Any]) -> None:
    program, schedule = quick()
    (loop,) = schedule.loops
    first, *others = loop.graph.instructions
    graph = loop.graph.model_copy(update={"instructions": (first.model_copy(update=change), *others)})
    spoilt = schedule.model_copy(update={"loops": (loop.model_copy(update={"graph": graph}),)})
    with pytest.raises(exc.ScheduleMismatch, match=f"`{first.name}` of line") as raised:
        lower(program, spoilt, H100)
    assert raised.value.hint == "solve the kernel again"


# -- what comes out -----------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "blocks"), [(gemm, 1), (gemm, 2), (attention, 2)])
def test_numbers_are_places(make: Callable[[], TileProgram], blocks: int) -> None:
    made = lowered(make(), blocks)
    for numbered in (made.maps, made.buffers, made.arefs, made.barriers, made.groups):
        assert [item.id for item in numbered] == list(range(len(numbered)))
    fragments = Counter(f.id for group in made.groups for f in group.fragments)
    cursors = Counter(c.id for group in made.groups for c in group.cursors)
    assert {*fragments.values(), *cursors.values()} == {1}
    for group in made.groups:
        names = [f.name for f in group.fragments]
        assert len(names) == len(set(names))
        assert not (group.issuer and group.fragments)


def test_the_same_text_every_time() -> None:
    program, schedule = quick()
    first, second = (warp_text.text(lower(program, schedule, H100)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("example", "spec"), [("gemm", "bf16"), ("attention", "full-d64")])
def test_two_row_blocks_are_right(example: str, spec: str, at_root: object) -> None:
    kernel = extract(f"examples/{example}.py", spec)
    made = lowered(kernel.program, 2)
    assert sum(any(isinstance(s, Multiply) for s in walk(g.body)) for g in made.groups) == 2
    assert verify(made) == ()


def test_registers_are_what_a_launch_has() -> None:
    made = lowered(gemm(), 2)
    assert sum(g.threads * g.registers for g in made.groups) <= H100.register_file.registers.value
    assert all(g.registers % H100.register_file.granule == 0 for g in made.groups)


def test_what_a_tensor_map_cannot_say_is_loaded_by_threads(at_root: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """B's rows are any number of elements apart: 64 of them, 16-bit each, may begin anywhere."""
    kernel = extract("examples/gemm_pointers.py", "bf16", sig=["stride_bk=i32"])
    monkeypatch.setattr(puts, "AT_ONCE", puts.AT_ONCE // 4)
    made = lower(kernel.program, scheduled(kernel.program), H100)
    ring = next(aref for aref in made.arefs if aref.name == "b")
    assert (ring.transport, ring.full_count, ring.bytes) == ("registers", 4, 0)
    producer = made.groups[ring.producer]
    assert not producer.issuer
    (loop,) = (stmt for stmt in producer.body if isinstance(stmt, Pipeline))
    kinds = [type(stmt) for stmt in walk(loop.steady)]
    pieces = kinds.count(LoadGlobal)
    assert pieces == kinds.count(StoreShared) > 1
    assert kinds.count(ProxyFence) == kinds.count(Publish) == 1 and TmaLoad not in kinds
    rows = [stmt.target.rows for stmt in walk(loop.steady) if isinstance(stmt, StoreShared)]
    assert rows == [(64 // pieces * i, 64 // pieces * (i + 1)) for i in range(pieces)]
    assert verify(made) == ()
