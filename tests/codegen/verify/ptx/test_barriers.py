"""A named barrier's phases may not mix, in whatever order warps come."""

from __future__ import annotations

import numpy as np

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
