"""A build that would be right and is slow is taken where nothing else is left, or no time for anything else."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.codegen.test_emission import GEMM, facts, refusal
from tests.golden_schedules import kernel, machine, schedule
from twill import exc
from twill.codegen import emit
from twill.codegen.compile.nvrtc import Build
from twill.codegen.emission import emit_solved, with_slow_builds
from twill.codegen.room import PatientSolver

pytestmark = pytest.mark.usefixtures("at_root")


def test_what_was_built_and_is_slow_is_taken_without_the_compiler_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another candidate that may be faster is not waited for then, and what the compiler worked at for so long it does
    not make again."""
    done, now, built = Event(), [0.0], Build("sm_90a", "", b"", "", "", ())
    first = refusal("spill", "spills 36 bytes", 36)
    first.build = built
    slow = SimpleNamespace(facts=facts(36), program=SimpleNamespace(program=SimpleNamespace(kernel="gemm")))
    asked: list[object] = []

    def build(*given: object, last_resort: bool, made: object) -> object:
        asked.append(made)
        if len(asked) == 1:
            now[0] = 30
            raise first
        if made is None:
            done.wait(60)
        return slow

    def verified(*given: object, **named: object) -> tuple[()]:
        if len(asked) > 1:
            now[0] = 41
        return ()

    monkeypatch.setattr(emit, "build_kernel", build)
    monkeypatch.setattr(emit, "refuse_early", lambda program, built: None)
    monkeypatch.setattr(emit, "refuse_misordered", lambda program, built: None)
    monkeypatch.setattr(emit, "verify", verified)
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    patient, notes = PatientSolver(solved, 40, lambda: now[0]), list[str]()
    try:
        made = with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), patient), notes.append)
    finally:
        done.set()
    assert made is cast(Any, slow) and asked == [None, None, built]
    assert notes == ["gemm spills: 36 bytes a thread, as all that was tried; smaller tiles may be faster"]


def test_of_two_refusals_what_spills_least_is_left() -> None:
    anything: Any = None
    refused = [refusal("spill", spilled=spilled) for spilled in (40, 12)]
    for one in refused:
        one.slow_build = emit.SlowBuild(anything, anything, schedule(GEMM), machine(), one)
    none = exc.RegisterFileFull(8)
    assert emit.least_slow(*refused, none) is refused[1].slow_build
    assert emit.least_slow(none) is None
