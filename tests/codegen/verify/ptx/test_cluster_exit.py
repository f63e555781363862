"""A CTA of a cluster must not end before others are done with its memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx_programs import rules, run

OUT = {"out": np.zeros(64, np.uint32)}
START = """
  mov.u32 %r0, %cluster_ctarank; mov.u32 %r90, memory; setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, %tid.x;
  setp.eq.u32 %p2, %r1, 0; xor.b32 %r2, %r0, 1; mapa.shared::cluster.u32 %r91, %r90, %r2;
  @%p2 mbarrier.init.shared::cta.b64 [%r90], 1; fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
END = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
USES = {
    "read": "ld.shared::cluster.u32 %r3, [%r91+16];",
    "write": "@%p2 st.shared::cluster.u32 [%r91+16], %r0;",
    "arrival": "@%p2 mbarrier.arrive.shared::cluster.b64 _, [%r91];",
}


@pytest.mark.parametrize("use", USES)
def test_an_end_that_nothing_orders_behind_the_use_of_another_cta_is_found(use: str) -> None:
    def found(body: str) -> set[str]:
        return rules(run(body, OUT, threads=32, shared=64, cluster=2, grid=(2, 1, 1)))

    filled = f"@%p2 st.shared.u32 [%r90+16], %r0; {END}"
    assert not found(START + filled + USES[use] + END)
    assert found(START + filled + USES[use]) == {"exit"}


def test_who_waits_for_an_arrival_may_end() -> None:
    wait = "{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%r90], 0; @!p bra W; }"
    result = run(START + USES["arrival"] + wait, OUT, threads=32, shared=64, cluster=2, grid=(2, 1, 1))
    assert not result.findings


MULTICAST = """
  mov.b16 %h0, 3; setp.eq.u32 %p3, %r0, 0; and.pred %p3, %p2, %p3;
  @%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r90], %h0;
  @%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r92], %h0;
"""
TWO = START.replace(
    "fence.mbarrier_init", "add.u32 %r92, %r90, 8; @%p2 mbarrier.init.shared::cta.b64 [%r92], 1; fence.mbarrier_init"
)
WAIT = "{{ .reg .pred p; W{0}: mbarrier.try_wait.parity.shared::cta.b64 p, [%r{0}], 0; @!p bra W{0}; }}"


def test_a_later_commit_does_not_say_that_another_one_has_arrived() -> None:
    def found(*barriers: int) -> set[str]:
        body = TWO + MULTICAST + " ".join(WAIT.format(barrier) for barrier in barriers) + END
        return rules(run(body, OUT, threads=32, shared=64, cluster=2, grid=(2, 1, 1)))

    assert not found(90, 92)
    assert found(92) == {"exit-wait"}
    assert "exit-wait" in found(90) and "exit-wait" in found()
