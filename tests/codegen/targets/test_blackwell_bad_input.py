"""Promises of what cannot be emitted for Blackwell: one error, with the figure that is exceeded and what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from twill import exc
from twill.cli import main
from twill.codegen.compile import nvrtc

pytestmark = pytest.mark.usefixtures("at_root")

ASKED = ["--no-store", "--ir"]


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> tuple[str, str]:
    """What is wrong, and what to write instead."""
    assert main(["emit", *words, *ASKED]) == code
    out, err = capsys.readouterr()
    assert out == ""
    wrong, _, instead = err.partition("\n  instead: ")
    return wrong, instead


def test_a_product_of_192_rows(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, instead = said(capsys, "examples/dual_gemm.py", "--spec", "bf16-192", "--machine", "b200")
    assert re.search(
        r"dual_gemm\.py:\d+: `gate` is a product of 192 x 128 x 64 in bf16, and Blackwell has 128 or 64 rows", wrong
    )
    assert instead == "tiles whose results have 128 or 64 rows and at most 256 columns\n"


def test_accumulators_beyond_tensor_memory(capsys: pytest.CaptureFixture[str]) -> None:
    types = {"a": "bf16[128,64]", "b": "bf16[64,256]", "c": "bf16[128,256]"}
    given = [word for name, text in types.items() for word in ("--sig", f"{name}=tensordesc<{text}>")]
    sizes = ["--sig", "K=i32", "--const", "BM=128", "--const", "BN=256", "--const", "BK=64", "--machine", "b200"]
    wrong, instead = said(capsys, "tests/pair_kernels.py::three", *given, *sizes, code=3)
    assert "x 128 KiB, y 128 KiB, z 128 KiB" in wrong and "there are 256 KiB" in wrong
    assert instead.startswith("smaller tiles")


def test_an_architecture_without_its_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = tmp_path / "plain.toml"
    plain.write_text((ROOT / "machines" / "b200.toml").read_text().replace("sm_100a", "sm_100"))
    wrong, instead = said(capsys, "examples/gemm.py", "--machine", str(plain))
    assert "no code is emitted for machine b200 (sm_100)" in wrong
    assert instead.startswith('architecture = "sm_100a" in the machine file')


def test_a_compiler_that_is_too_old() -> None:
    with pytest.raises(
        exc.CompilerTooOld, match=r"NVRTC \d+\.\d+ makes no code for sm_199a: .* up to \d+\.\d"
    ) as raised:
        nvrtc.compile_cubin('extern "C" __global__ void f() {}', "sm_199a")
    assert "pip install --upgrade" in raised.value.hint


def test_scales_of_blocks_for_hopper(capsys: pytest.CaptureFixture[str]) -> None:
    types = {
        "a": "fp8e4nv[128,128]",
        "sa": "u8[128,4]",
        "b": "fp8e4nv[128,128]",
        "sb": "u8[128,4]",
        "c": "bf16[128,128]",
    }
    given = [word for name, text in types.items() for word in ("--sig", f"{name}=tensordesc<{text}>")]
    sizes = ["--sig", "K=i32", "--const", "BM=128", "--const", "BN=128", "--const", "BK=128", "--machine", "h100"]
    wrong, instead = said(capsys, "tests/pair_kernels.py::scaled", *given, *sizes)
    assert re.search(r"pair_kernels\.py:\d+: `acc` is a product with scales of blocks, and Hopper has none", wrong)
    assert "acc += tl.dot(a, b) * of_a[:, None] * of_b[None, :]" in instead
