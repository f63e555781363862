"""Multiplies in small programs: what orders what they do to tensor memory before and behind what others do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.matrix_descriptors import matrix_descriptor
from tests.ptx_programs import rules, run
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor

OUT = {"out": np.zeros(128, np.uint32)}
DOES = instruction_descriptor(128, 16, "f32", "bf16", "bf16")
A, B = matrix_descriptor(0x800, 128, 256, 0), matrix_descriptor(0x1800, 128, 256, 0)
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
TAKE = """
  mov.u32 %r0, %tid.x; mov.u32 %r90, memory; shr.u32 %r1, %r0, 5; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r0, 0;
  @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r90], 32;
  @%p2 mbarrier.init.shared::cta.b64 [%r90+8], 1; bar.sync 0; ld.shared.u32 %r91, [%r90];
  shl.b32 %r2, %r1, 21; add.u32 %r92, %r91, %r2;
"""
MULTIPLY = f"""
  mov.u32 %r3, {DOES}; mov.b64 %rd3, {A}; mov.b64 %rd4, {B}; setp.ne.u32 %p3, %r0, %r0;
  @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r91], %rd3, %rd4, %r3, %p3;
  @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r90+8];
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r92]; tcgen05.wait::ld.sync.aligned;"
GIVE = "bar.sync 0; @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r91, 32;"


def wait(parity: int) -> str:
    return f"{{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%r90+8], {parity}; @!p bra W; }}"


CLEAN = f"{TAKE}{MULTIPLY}{wait(0)}{AFTER}{LOAD}{BEFORE} bar.sync 0; {AFTER}{MULTIPLY}{wait(1)}{AFTER}{LOAD}{GIVE}"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [(AFTER, "", "tcgen05-fence"), (BEFORE, "", "tcgen05-fence"), (AFTER + LOAD + GIVE, LOAD + GIVE, "tcgen05-fence"),
     (AFTER + MULTIPLY, MULTIPLY, "tcgen05-fence"), (f"{BEFORE} bar.sync 0;", BEFORE, "order"),
     (wait(0), "", "order"), (wait(1), "", "order"), (wait(1), wait(0), "order"),
     ("[%r91], %rd3", "[%r91+16], %rd3", ""),
     ("[%r91], %rd3", "[%r91+32], %rd3", "tensor-memory"), (str(DOES), str(DOES | 1 << 31), "form"),
     (str(A), str(A ^ 3 << 46), "form"), ("bar.sync 0; @%p1 tcgen05.dealloc", "@%p1 tcgen05.dealloc", "order")],
)  # fmt: skip
def test_multiplies_and_loads_are_ordered_by_commits_waits_barriers_and_fences(old: str, new: str, rule: str) -> None:
    assert old in CLEAN
    assert not run(CLEAN, OUT, threads=128, shared=0x2000).findings
    found = rules(run(CLEAN.replace(old, new), OUT, threads=128, shared=0x2000))
    assert found == {rule} - {""} if rule in ("tcgen05-fence", "") else rule in found
