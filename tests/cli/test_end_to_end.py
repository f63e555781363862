"""Promises of the whole command: from a kernel file to a checked schedule, and every refusal on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from twill.cli import main

GEMM = str(ROOT / "examples" / "gemm.py")

TIMES = {"solve_seconds", "seconds"}


def without_times(value: Any) -> Any:
    """A JSON value less the figures that differ from run to run."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def solved(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The document of a solve that must end well."""
    assert main(["solve", GEMM, "--machine", "h100", "--json", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_gemm_solves_to_a_document_that_the_checker_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = solved(capsys, "--out", str(tmp_path))
    assert json.loads((tmp_path / "schedule.json").read_text()) == document
    # The tensor cores are the busiest unit and are busy all the time.
    assert document["ii"] == document["certificate"]["bounds"]["resource"]
    assert document["certificate"]["optimal"] is True
    assert {group["role"].split(" ")[0] for group in document["warp_groups"]} == {"load", "consumer"}
    assert main(["check", str(tmp_path / "schedule.json")]) == 0


def test_the_same_input_gives_the_same_bytes_apart_from_times(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = solved(capsys), solved(capsys)
    assert json.dumps(without_times(first)) == json.dumps(without_times(second))


def test_an_impossible_initiation_interval_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", GEMM, "--machine", "h100", "--ii", "100", "--json"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "I = 100" in err


def test_a_budget_too_small_exits_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", GEMM, "--machine", "h100", "--budget", "1e-9"]) == 4
    out, err = capsys.readouterr()
    assert "proven optimal" not in out.replace("not proven optimal", "")
    assert "proven lower bound" in err


HEAD = """
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
"""

SIDECAR = """
kernel = "kernel"

[[specialization]]
name = "one"

[specialization.signature]
x = "*fp32:16"
y = "*fp32:16"
n = "i32:16"

[specialization.constexprs]
B = 128
"""

INLINE = HEAD + (
    "    v = tl.load(x + i)\n    w = tl.inline_asm_elementwise('activemask.b32 $0;', '=r,f', [v], tl.int32, True, 1)\n"
    "    tl.store(y + i, w)\n"
)
WHILE = HEAD + "    while tl.max(tl.load(x + n * B + i), 0) > 3.0:\n        n = n // 2\n    tl.store(y, n)\n"
NESTED = HEAD + (
    "    s = tl.zeros([B], tl.float32)\n    for j in range(n):\n        for k in range(j * j):\n"
    "            s += tl.load(x + (j * n + k) * B + i)\n    tl.store(y + i, s)\n"
)
UNSUPPORTED = HEAD + "    tl.device_print('x', tl.load(x + i))\n"
UNFINISHED = HEAD + "    tl.store(y + i, undefined)\n"
NO_SYNTAX = HEAD + "    tl.store(y + i\n"
NO_KERNEL = "def kernel(x):\n    return x\n"
HUGE = """
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, 512)
    a = tl.zeros([512, 512], tl.float32)
    for k in range(n):
        b = tl.load(x + k * 262144 + i[:, None] * 512 + i[None, :])
        a = tl.dot(b, b, a)
    tl.store(y + i[:, None] * 512 + i[None, :], a)
"""


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (INLINE, 7),
        (WHILE, 6),
        (NESTED, 8),
        (UNSUPPORTED, 6),
        (UNFINISHED, 6),
        (NO_SYNTAX, 6),
        (NO_KERNEL, 0),
    ],
    ids=["inline assembly", "while", "nested", "unsupported", "undefined", "syntax", "no kernel"],
)
def test_a_kernel_that_cannot_be_extracted_exits_with_2(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str, line: int
) -> None:
    path = kernel_file(source, SIDECAR)
    before = sorted(tmp_path.iterdir())
    assert main(["solve", path, "--machine", "h100", "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    place = f"{path}:{line}: " if line else f"{path}: "
    assert out == "" and err.startswith(f"error: {place}") and "Traceback" not in err
    assert "\n  instead: " in err or "SyntaxError" in err  # which says all there is to say
    assert sorted(p for p in tmp_path.iterdir() if p.name != "__pycache__") == before


def test_a_tile_that_fits_no_memory_is_refused_with_its_line(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = kernel_file(HUGE, SIDECAR)
    assert main(["solve", path, "--machine", "h100"]) in (2, 3)
    out, err = capsys.readouterr()
    assert out == "" and f"{path}:" in err and "Traceback" not in err
