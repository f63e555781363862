"""Promises of predictions: cycles of the emitted kernel beside those of Triton's way, from a schedule."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from twill.graph.extract import extract
from twill.machine.file import load_machine
from twill.manifest.prediction import CLEARLY, Prediction
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.schedule.predict import predict
from twill.solve import pipeline


@pytest.fixture(scope="module")
def gemm() -> Schedule:
    _, graph = extract(f"{ROOT}/examples/gemm.py", spec="bf16")
    solved = pipeline.solve(graph, load_machine("h100"), SolveOptions(strategy="heuristic"))
    assert isinstance(solved, Schedule)
    return solved


def test_a_loop_takes_its_interval_and_triton_s_waits_for_its_product(gemm: Schedule) -> None:
    predicted = predict(gemm, 1, persistent=True)
    (product,) = (one for one in gemm.loops[-1].graph.instructions if one.op == "dot")
    assert predicted.emitted == gemm.ii == predicted.resource
    assert (predicted.waits, predicted.work) == (product.latency, product.hold)  # its loads are an iteration ahead
    assert predicted.triton(128, 1) == product.latency + product.hold
    assert predicted.triton(128, 2) == predicted.resource  # the second CTA fills the waits


def test_more_threads_share_the_work_and_more_ctas_the_waits() -> None:
    predicted = Prediction(emitted=1000.0, resource=100.0, waits=400.0, work=800.0)
    assert [predicted.triton(*there) for there in ((128, 1), (256, 1), (256, 2), (1024, 100))] == [1200, 800, 400, 100]


def test_only_what_is_clearly_slower_is_called_so() -> None:
    edge = CLEARLY * 400
    assert not Prediction(edge, 100.0, 400.0, 800.0).slower(256, 2)
    assert Prediction(edge + 1, 100.0, 400.0, 800.0).slower(256, 2)


def test_ctas_that_share_an_sm_share_its_cycles_as_far_as_the_units_allow(gemm: Schedule) -> None:
    assert predict(gemm, 3, persistent=True).emitted == gemm.ii  # the tensor core is busy all the time


def test_all_warps_of_a_cta_that_is_not_persistent_do_its_work_as_triton_s_do(gemm: Schedule) -> None:
    for threads, ctas in ((128, 1), (512, 1), (256, 2)):
        predicted = predict(gemm, ctas, persistent=False, threads=threads)
        assert predicted.emitted == predicted.triton(threads, ctas) >= predicted.resource
