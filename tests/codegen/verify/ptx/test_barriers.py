"""Barriers in whatever order threads come: named ones and their phases, and lanes of a warp as several threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx_programs import rules, run

TWO_TURNS = """
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra SECOND;
  {first} 1, 64;
  {between}
  bar.arrive 1, 64;
  bra END;
SECOND:
  bar.sync 1, 64;
  {answer}
  bar.sync 1, 64;
END:
"""


def found(first: str, between: str = "", answer: str = "") -> set[str]:
    body = TWO_TURNS.format(first=first, between=between, answer=answer)
    return rules(run(body, {"out": np.zeros(1, np.uint32)}, threads=64))


def test_a_warp_that_arrives_again_must_know_that_the_phase_before_is_over() -> None:
    assert found("bar.arrive") == {"barrier"}


def test_a_warp_that_waited_knows() -> None:
    assert found("bar.sync") == set()


def test_a_warp_that_was_told_knows() -> None:
    assert found("bar.arrive", between="bar.sync 2, 64;", answer="bar.arrive 2, 64;") == set()


ONE_FOR_ALL = """
  ld.param.u64 %rd1, [out];
  mov.u32 %r90, memory;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p8, %r1, 0; @%p8 bra MADE;
  mbarrier.init.shared::cta.b64 [%r90], 1; fence.mbarrier_init.release.cluster;
MADE:
  bar.sync 0;
  and.b32 %r2, %r1, 31; mad.lo.u32 %r3, %r2, 4, %r90; setp.ge.u32 %p1, %r1, 32; @%p1 bra SECOND;
  {access} {between}
  setp.ne.u32 %p2, %r2, 0; @%p2 bra END;
  mbarrier.arrive.shared::cta.b64 _, [%r90];
  bra END;
SECOND:
  {{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%r90], 0; @!p bra WAIT; }}
  {answer}
END:
"""
STORE, LOAD = "st.shared.u32 [%r3+16], %r2;", "ld.shared.u32 %r4, [%r3+16];"
MEET = "bar.warp.sync 0xffffffff;"


def told(access: str, between: str, answer: str) -> set[str]:
    """Lanes of a warp access shared memory, and one of them arrives for all; another warp waits for it."""
    body = ONE_FOR_ALL.format(access=access, between=between, answer=answer)
    return rules(run(body, {"out": np.zeros(1, np.uint32)}, threads=64, shared=256))


@pytest.mark.parametrize(("access", "answer"), [(STORE, LOAD), (LOAD, STORE), (STORE, STORE)])
def test_one_lane_arrives_for_others_only_behind_a_barrier_of_their_warp(access: str, answer: str) -> None:
    assert told(access, MEET, answer) == set()
    assert told(access, "", answer) == {"order"}


@pytest.mark.parametrize("between", ["vote.sync.any.pred %p3, 1, 0xffffffff;",
                                     "shfl.sync.bfly.b32 %r5, %r2, 1, 31, 0xffffffff;"])  # fmt: skip
def test_votes_and_shuffles_order_no_memory(between: str) -> None:
    assert told(STORE, between, LOAD) == {"order"}


def test_a_lane_arrives_for_itself() -> None:
    alone = "setp.ne.u32 %p2, %r2, 0; @%p2 bra END; st.shared.u32 [%r90+16], %r2;"
    assert told(alone, "", "ld.shared.u32 %r4, [%r90+16];") == set()
