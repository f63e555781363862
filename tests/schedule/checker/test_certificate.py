"""The certificate's arithmetic is checked: a claim follows from the bounds and steps, or is found out."""

from __future__ import annotations

import pytest

from tests.documents import step
from tests.faults import Fault, bound, goal, good, proof, rules

STEPS = (step(4, 5, "infeasible"), step(7, 7, "infeasible"), step(8, 8, "feasible"))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(bound(resource=5), id="resource bound too high"),
        pytest.param(bound(recurrence=9), id="recurrence bound above the interval"),
        pytest.param(bound(memory=9), id="memory bound above the interval"),
        pytest.param(bound(issue=9), id="issue bound above the interval"),
        pytest.param(proof(steps=()), id="lower bound that nothing proves"),
        pytest.param(proof(steps=STEPS), id="a smaller interval nobody asked about"),
        pytest.param(proof(steps=(step(4, 8, "infeasible"),)), id="the interval itself refuted"),
        pytest.param(proof(steps=(step(7, 4, "infeasible"),)), id="empty range"),
        pytest.param(proof(lower_bound=7), id="optimal with a smaller lower bound"),
        pytest.param(proof(lower_bound=9), id="lower bound above the interval"),
        pytest.param(goal(proven=()), id="optimal with nothing proven"),
        pytest.param(
            lambda s: proof(steps=(*s.certificate.steps, step(6, 6, "feasible")))(s),
            id="optimal although a smaller interval was found",
        ),
        pytest.param(
            lambda s: proof(steps=(step(4, 7, "infeasible").model_copy(update={"copies": 2}),))(s),
            id="refuted for some numbers of copies only",
        ),
        pytest.param(
            lambda s: proof(steps=(step(4, 7, "infeasible").model_copy(update={"verdict": "bound"}),))(s),
            id="a bound that is not among the bounds",
        ),
        pytest.param(
            lambda s: proof(steps=(step(4, 7, "infeasible").model_copy(update={"verdict": "unknown"}),))(s),
            id="a budget that ran out called a refutation",
        ),
    ],
)
def test_fault_in_the_certificate(fault: Fault) -> None:
    assert rules(fault(good())) == {"certificate"}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(proof(steps=(step(6, 7, "infeasible"), step(1, 5, "infeasible"))), id="ranges in any order"),
        pytest.param(proof(steps=(step(4, 6, "infeasible"), step(5, 7, "infeasible"))), id="ranges that overlap"),
        pytest.param(bound(recurrence=8), id="a bound that is met"),
        pytest.param(bound(resource=4), id="the busiest unit"),
        pytest.param(
            lambda s: goal(proven=("ii",))(proof(steps=s.certificate.steps)(s)), id="only the interval proven"
        ),
        pytest.param(lambda s: goal(proven=())(proof(optimal=False, lower_bound=5)(s)), id="less claimed than proven"),
    ],
)
def test_certificates_that_prove_their_claim_are_accepted(fault: Fault) -> None:
    assert rules(fault(good())) == set()
