"""Promises of `twill run` and `twill bench` where there is no GPU, and of what they print where there is one."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.golden_schedules import Example, kernel
from tests.manifests import CODE, KERNEL
from twill import exc
from twill.cli import main, run_and_bench
from twill.kernel.problem import Case
from twill.manifest.document import CUBIN, MANIFEST
from twill.runtime import driver
from twill.trial import bench, check
from twill.trial.bench import BenchTimes
from twill.trial.check import Checked
from twill.trial.compare import Difference

pytestmark = pytest.mark.usefixtures("at_root")

CASE = Case({"M": 256, "N": 384}, (6,), {}, {})
GOOD = Checked(CASE, (Difference("c", 0.0016, 0.0017),), False, 100, {"c": 0}, ())
BAD = Checked(CASE, (Difference("c", 0.5, 0.0017),), False, 100, {"c": 3}, ("a",), "a note")
TIMED = BenchTimes(CASE, 0.5, 0.75, "num_warps=8 num_stages=3", 9.0, 15.0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has one; nothing is launched."""
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(driver, "bindings", lambda: None)

    @contextmanager
    def ready(*_: object) -> Any:
        yield None

    monkeypatch.setattr(run_and_bench, "ready", ready)
    monkeypatch.setattr(run_and_bench, "triton_kernel", lambda _: None)


def test_without_pytorch_or_a_driver_the_error_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["run", "examples/gemm.py"]) == 2
    assert "and PyTorch for it" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    monkeypatch.setattr(driver, "bindings", lambda: None)
    assert main(["bench", "examples/gemm.py"]) == 2
    assert "PyTorch has no CUDA here" in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_a_run_is_good_if_every_size_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check, "check", lambda *_: iter([GOOD]))
    assert main(["run", "examples/gemm.py"]) == 0
    assert capsys.readouterr().out == "ok   M=256 N=384  c 1.60e-03 (Triton 1.70e-03); 100 launches equal\n"
    monkeypatch.setattr(check, "check", lambda *_: iter([GOOD, BAD]))
    assert main(["run", "examples/gemm.py"]) == 6
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("FAIL M=256 N=384  c 5.00e-01")
    assert "c differs in 3 of 100 launches; something was written beside a; a note" in last


@pytest.mark.usefixtures("gpu")
def test_sizes_are_those_of_the_sidecar_or_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[dict[str, int]]] = []

    def played(emitted: object, triton: object, program: object, cases: list[Case], *_: object) -> Any:
        asked.append([dict(case.sizes) for case in cases])
        return iter(())

    monkeypatch.setattr(check, "check", played)
    main(["run", "examples/gemm.py"])
    main(["run", "examples/gemm.py", "--size", "M=16,N=32,K=48", "--size", "M=16 N=16 K=16"])
    assert {"M": 1040, "N": 528, "K": 336} in asked[0]
    assert asked[1] == [{"M": 16, "N": 32, "K": 48}, {"M": 16, "N": 16, "K": 16}]


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("size", "words"), [("M", "'M' is no size"), ("M=16", "no value for the size N"), ("M=x", "no size")]
)
def test_a_wrong_size_is_said(size: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "examples/gemm.py", "--size", size]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_a_kernel_without_sizes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sidecar = Path("examples/gemm.twill.toml").read_text().partition("[specialization.problem]")[0]
    (tmp_path / "gemm.py").write_text(Path("examples/gemm.py").read_text())
    (tmp_path / "gemm.twill.toml").write_text(sidecar)
    assert main(["bench", str(tmp_path / "gemm.py")]) == 2
    assert "nothing says at what sizes gemm (bf16) is run" in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_times_as_text_and_as_a_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "bench", lambda *_: iter([TIMED]))
    assert main(["bench", "examples/gemm.py"]) == 0
    times = "0.5000 ms, Triton 0.7500 ms (num_warps=8 num_stages=3): 1.50x; host 9.0 and 15.0 us a launch"
    assert capsys.readouterr().out == f"M=256 N=384  {times}\n"
    assert main(["bench", "examples/gemm.py", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["speedup"] == 1.5


def test_the_directory_of_another_kernel_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(KERNEL.text())
    (tmp_path / CUBIN).write_bytes(CODE)
    read = kernel(Example("examples/gemm.py", "bf16"))
    with (
        pytest.raises(exc.WrongArgument, match="the directory of scale bf16"),
        run_and_bench.ready(read, Namespace(dir=str(tmp_path))),
    ):
        pass
