"""Loads and stores of tensor memory in small programs: what they move, and what is found when waits are missing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx_programs import rules, run
from twill.codegen.verify.ptx.units.tensor_memory import moved

OUT = {"out": np.zeros(32 * 32, np.uint32)}
TAKE = """
  mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r0, 128, %rd1; mov.u32 %r90, memory;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r90], 64; bar.warp.sync -1;
  ld.shared.u32 %r91, [%r90]; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
"""
GIVE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r91, 64;"
LOADED = "tcgen05.wait::ld.sync.aligned;"
STORED = "tcgen05.wait::st.sync.aligned;"


def named(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def numbered(count: int) -> str:
    """Register 1 + i becomes 100 * i + thread."""
    return " ".join(f"add.u32 %r{1 + i}, %r0, {100 * i};" for i in range(count))


def written(count: int) -> str:
    return " ".join(f"st.global.u32 [%rd2+{4 * i}], %r{40 + i};" for i in range(count))


@pytest.mark.parametrize(("shape", "count", "registers"), [("32x32b.x4", 4, 4), ("16x64b.x4", 8, 4),
                                                            ("16x128b.x2", 8, 4), ("16x256b.x1", 8, 4)])  # fmt: skip
def test_what_is_stored_in_a_shape_is_read_by_lanes(shape: str, count: int, registers: int) -> None:
    body = f"""{TAKE}{numbered(registers)}
      tcgen05.st.sync.aligned.{shape}.b32 [%r91], {named(1, registers)}; {STORED}
      tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {named(40, count)}, [%r91]; {LOADED}{written(count)}{GIVE}"""
    result = run(body, OUT, shared=64)
    assert not result.findings
    name, times = shape.split(".x")
    lane, column = moved(name, int(times))
    wanted = np.full((32, count), 0xFFFFFFFF, np.uint32)
    wanted[lane, column] = 100 * np.arange(registers) + np.arange(32)[:, None]
    assert (result.tensors["out"].reshape(32, 32)[:, :count] == wanted).all()


STORE = f"tcgen05.st.sync.aligned.32x32b.x4.b32 [%r91], {named(1, 4)};"
LOAD = f"tcgen05.ld.sync.aligned.32x32b.x4.b32 {named(40, 4)}, [%r91];"
CLEAN = f"{TAKE}{numbered(4)}{STORE}{STORED}{LOAD}{LOADED}{written(4)}{GIVE}"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [(STORED, "", "tcgen05-wait"), (LOADED, "", "tcgen05-registers"),
     (LOADED, STORE + LOADED + STORED, "tcgen05-wait"), (GIVE, "", "tensor-memory"),
     (GIVE, GIVE + GIVE, "tensor-memory"), (LOADED, LOADED + GIVE + LOAD, "tensor-memory"),
     (LOAD, LOAD.replace("[%r91]", "[%r91+64]"), "tensor-memory"),
     (LOAD, LOAD.replace("[%r91]", "[%r91+2097152]"), "form"),
     ("], 64; bar.warp", "], 48; bar.warp", "tensor-memory"),
     (LOAD, "setp.lt.u32 %p1, %r0, 16; @%p1 " + LOAD, "deadlock")],
)  # fmt: skip
def test_a_missing_wait_or_a_wrong_place_is_found(old: str, new: str, rule: str) -> None:
    assert old in CLEAN
    assert not run(CLEAN, OUT, shared=64).findings
    assert rule in rules(run(CLEAN.replace(old, new), OUT, shared=64))
