"""Equal steps of a block are done together, and leave in every register what they leave one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ptx_programs import kernel
from twill.codegen.verify.ptx import build as building
from twill.codegen.verify.ptx.build import build
from twill.codegen.verify.ptx.memory import GlobalMemory
from twill.codegen.verify.ptx.run import PointerArgument, PtxLaunch, execute
from twill.ptx.computed import ComputedRegister
from twill.ptx.parse import parse
from twill.ptx.step import Step

LANES, WORDS = 64, 6
# Of %r1 to %r6: equal in all lanes are the first two, at the beginning.
FORMS = (
    "add.u32 %r{0}, %r{1}, %r{2};",
    "mad.lo.u32 %r{0}, %r{1}, %r{2}, 3;",
    "shl.b32 %r{0}, %r{1}, 1;",
    "fma.rn.f32 %r{0}, %r{1}, %r{2}, 0f3F800000;",
    "cvt.rn.bf16x2.f32 %r{0}, %r{1}, %r{2};",
    "setp.lt.s32 %p{0}, %r{1}, %r{2};",
    "selp.b32 %r{0}, %r{1}, %r{2}, %p{0};",
    "@%p{0} xor.b32 %r{1}, %r{1}, %r{2};",
    "st.shared.u32 [%r8], %r{0};",
    "ld.shared.u32 %r{0}, [%r8];",
    "cvt.u64.u32 %rd{0}, %r{1}; cvt.u32.u64 %r{2}, %rd{0};",
)
LOAD = """
mov.u32 %r0, %tid.x; ld.param.u64 %rd9, [out]; mad.wide.u32 %rd9, %r0, 24, %rd9;
mov.u32 %r1, 5; mov.u32 %r2, 1073741824; mov.u32 %r3, %tid.x; shl.b32 %r4, %r3, 20; xor.b32 %r5, %r4, 77;
not.b32 %r6, %r3;
setp.gt.u32 %p1, %r3, 7; setp.gt.u32 %p2, %r3, 90; setp.le.s32 %p3, %r4, 9; setp.ne.u32 %p4, %r3, 3; mov.pred %p5, %p1;
mov.pred %p6, %p3; shl.b32 %r8, %r0, 2; mov.u32 %r7, memory; add.u32 %r8, %r8, %r7;
"""
STORE = "".join(f"st.global.u32 [%rd9+{4 * n}], %r{n + 1};" for n in range(WORDS))


def left_by(body: str) -> np.ndarray:
    module = parse(kernel(body))
    out = np.zeros(LANES * WORDS, np.uint32)
    launch = PtxLaunch([PointerArgument("out")], {"out": out}, (1, 1, 1), LANES, shared=4 * LANES)
    return np.asarray(execute(module, "k", launch).tensors["out"])


@given(st.lists(st.tuples(st.sampled_from(FORMS), *[st.integers(1, 6)] * 3), min_size=4, max_size=60), st.booleans())
def test_steps_together_leave_what_they_leave_one_by_one(lines: list[tuple[str, int, int, int]], parted: bool) -> None:
    ways = ("setp.lt.u32 %p8, %r0, 20; @%p8 bra BEHIND;", "BEHIND:") if parted else ("", "")
    body = LOAD + ways[0] + "".join(form.format(*places) for form, *places in lines) + ways[1] + STORE
    together = left_by(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "batched", lambda steps, touched: steps)
        building._built.clear()
        building._known.clear()
        alone = left_by(body)
    assert (together == alone).all()


def batches(body: str) -> tuple[Step, ...]:
    return build(module := parse(kernel(body)), module.function("k"), GlobalMemory()).blocks[0].batches


def test_unrolled_code_runs_once_for_all_of_its_elements() -> None:
    load, store = "ld.shared.f32 %f{0}, [%r{0}];", "st.shared.f32 [%r{0}], %f{0};"
    compute = "mul.f32 %f{0}, %f{0}, %f9; ex2.approx.f32 %f{0}, %f{0};"
    found = batches("".join(form.format(n) for form in (load, compute, store) for n in range(8)))
    assert len(found) == 8 + 2 + 8 and not any(isinstance(step, ComputedRegister) for step in found)


def test_a_step_that_reads_what_another_one_writes_is_not_done_with_it() -> None:
    assert len(batches("".join(f"add.u32 %r{n + 1}, %r{n}, 1;" for n in range(8)))) == 8
    assert len(batches("".join(f"add.u32 %r{n}, %r{n + 1}, 1;" for n in range(8)))) == 8
