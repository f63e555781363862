"""Promises of `--strict-math` in front of everything: who may ask for it, and that every reader of a kernel knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from twill.codegen.emission import extract as extract_all
from twill.graph.extract import extract
from twill.kernel.specialization import resolve
from twill.tune.candidate import Tiles, read

CAPPED = f"{ROOT / 'tests' / 'linear_kernels.py'}::capped"
SIG = ("X=*fp32:16", "Y=*fp32:16", "scale=fp32", "end=i32")
CONST = ("BLOCK=16",)
SIDECAR = """
[[specialization]]
name = "a"
strict_math = {}

[specialization.signature]
X = "*fp32:16"
"""


def test_a_flag_and_the_environment_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not resolve("examples/gemm.py").strict
    assert resolve("examples/gemm.py", strict=True).strict
    monkeypatch.setenv("TWILL_STRICT_MATH", "1")
    assert resolve("examples/gemm.py").strict


@pytest.mark.parametrize(("said", "strict"), [("true", True), ("false", False)])
def test_a_sidecar_says_so_for_its_specialization(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, strict: bool
) -> None:
    monkeypatch.setenv("TWILL_STRICT_MATH", "1")
    file = tmp_path / "k.py"
    file.write_text("import triton\n\n\n@triton.jit\ndef k(X):\n    pass\n", encoding="utf-8")
    file.with_suffix(".twill.toml").write_text(SIDECAR.format(said), encoding="utf-8")
    assert resolve(str(file), spec="a").strict == strict


def test_a_strict_kernel_is_solved_as_it_is_emitted() -> None:
    """Factors that tiles have in common stay where they are: the graph is another one, and the key of its schedule."""
    solved = extract(CAPPED, sig=SIG, const=CONST, strict=True)[1]
    emitted = extract_all(CAPPED, sig=SIG, const=CONST, strict=True)
    tuned = read(CAPPED, None, Tiles({}, {}), SIG, CONST, strict=True)
    assert solved == emitted.graph == tuned.graph
    assert solved != extract(CAPPED, sig=SIG, const=CONST)[1]
    assert emitted.program.strict
    assert tuned.program.strict
