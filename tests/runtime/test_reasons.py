"""Promises of reasons: each is logged once for a kernel, kept for each variant, forgotten when it no longer holds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from twill.runtime.reasons import MOST, SHOW, Notes, Reasons


def test_a_reason_is_logged_once_and_kept_for_every_variant(caplog: pytest.LogCaptureFixture) -> None:
    reasons = Reasons("gemm")
    for variant in ("M=i32", "M=i64", "M=i32"):
        reasons.report("MisalignedTensor: it starts at 0x17", variant)
        reasons.report("MisalignedTensor: it starts at 0x19", variant)
    assert [record.getMessage() for record in caplog.records] == [
        "gemm runs as Triton's kernel: MisalignedTensor: it starts at 0x17"
    ]
    assert reasons.text() == (
        "gemm(M=i32): MisalignedTensor: it starts at 0x17\ngemm(M=i64): MisalignedTensor: it starts at 0x17"
    )
    reasons.forget("M=i32")
    assert reasons.text() == "gemm(M=i64): MisalignedTensor: it starts at 0x17"


def test_not_more_than_so_many_are_kept() -> None:
    reasons = Reasons("gemm")
    for number in range(MOST + 50):
        reasons.report("no", f"M={number}")
    assert len(reasons.text().splitlines()) == MOST


def test_a_note_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    for _ in range(3):
        notes.report("the service is down")
    assert [record.getMessage() for record in caplog.records] == ["the service is down"]


@pytest.mark.parametrize(
    ("asked", "said"), [("1", ["twill.jit: gemm(M=i32): its emitted kernel is launched"]), ("0", [])]
)
def test_what_runs_as_the_emitted_kernel_is_shown_to_who_asks(asked: str, said: list[str]) -> None:
    code = "from twill.runtime.reasons import Reasons; Reasons('gemm').tell('its emitted kernel is launched', 'M=i32')"
    environment = {**os.environ, SHOW: asked}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.splitlines() == said
