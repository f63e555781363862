"""Bytes of shared memory that no access tells apart are watched together, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx_programs import kernel, rules, run
from twill.codegen.verify.ptx.grain import grain_of
from twill.ptx.parse import parse

BESIDE = """
  ld.param.u64 %rd1, [out];
  mov.u32 %r90, memory;
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  mad.lo.u32 %r3, %r2, {apart}, %r90;
  and.b32 %r4, %r1, 31; setp.ne.u32 %p1, %r4, 0; @%p1 bra END;
  st.shared.{type} [%r3], {value};
  ld.shared.{type} {value}, [%r3];
END:
"""
VALUES = {1: ("u8", "%h1"), 2: ("u16", "%h1"), 4: ("u32", "%r1"), 8: ("u64", "%rd1")}


@pytest.mark.parametrize("size", VALUES)
def test_two_warps_may_write_elements_beside_one_another_and_not_the_same_one(size: int) -> None:
    """Whatever the size of the elements is, with nothing that orders them."""
    type, value = VALUES[size]
    for apart, wanted in ((size, set()), (0, {"order"})):
        body = BESIDE.format(apart=apart, type=type, value=value)
        assert rules(run(body, {"out": np.zeros(1, np.uint32)}, threads=64, shared=64)) == wanted


@pytest.mark.parametrize(
    ("instruction", "grain"),
    [
        ("st.shared.u8 [%r1], %h1;", 1), ("ld.shared.v4.b16 {%h1, %h2, %h3, %h4}, [%r1];", 8),
        ("ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r5];", 16), ("st.u16 [%rd1], %h1;", 2),
        ("st.global.u8 [%rd1], %h1;", 16), ("atom.shared.add.u32 %r1, [%r2], %r3;", 4),
        ("mbarrier.init.shared::cta.b64 [%r1], 1;", 8), ("cp.async.ca.shared.global [%r1], [%rd1], 4;", 4),
        ("add.s32 %r1, %r2, %r3;", 16),
    ],
)  # fmt: skip
def test_the_smallest_access_that_may_be_of_shared_memory_says_how_many(instruction: str, grain: int) -> None:
    assert grain_of(parse(kernel(instruction)).function("k").instructions) == grain
