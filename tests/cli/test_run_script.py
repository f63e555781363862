"""Promises of `twill run script.py`: the script as Python runs it, its kernels under twill.jit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from twill.cli.run_script import is_script

SCRIPT = """
import sys
import triton, triton.language as tl
from triton import jit
from neighbour import NAME

@triton.jit
def one(x):
    tl.store(x, 1.0)

@jit
def two(x):
    tl.store(x, 1.0)

@triton.jit(debug=False)
def three(x):
    tl.store(x, 1.0)

print(__name__, NAME, sys.argv[1:], {type(k).__name__ for k in (one, two, three)})
if "raise" in sys.argv:
    raise ValueError("of the script")
if "exit" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("NAME = 'beside it'\n", encoding="utf-8")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "twill", "run", *words], capture_output=True, text=True, cwd=ROOT)


def test_a_script_runs_as_it_is_with_its_kernels_under_twill_jit(script: str) -> None:
    done = ran("--policy", "off", script, "--size", "3", "--policy", "mine")
    assert done.stdout == "__main__ beside it ['--size', '3', '--policy', 'mine'] {'TwillKernel'}\n"
    assert (done.returncode, done.stderr) == (0, "twill: 0 Triton kernels were launched, 0 emitted\n")


def test_its_errors_and_exit_codes_are_its_own(script: str) -> None:
    raised = ran(script, "raise")
    assert raised.returncode == 1
    assert "ValueError: of the script" in raised.stderr
    assert "runpy" not in raised.stderr and "twill/" not in raised.stderr
    assert ran(script, "exit").returncode == 7
    assert "cannot read the file" in ran("nothing.py").stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("s.py", True), ("s.py --machine x", True), ("--policy solve s.py", True), ("--policy=solve s.py", True),
        ("k.py", False), ("k.py --size M=1", False), ("--machine h200 k.py", False), ("k.py::name", False),
        ("s.py::name", False), ("--dir d s.py", False), ("--script k.py", True), ("--policy off k.py", False),
        ("", False),
    ],
)  # fmt: skip
def test_a_sidecar_or_a_named_kernel_means_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, wanted: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.twill.toml").write_text("", encoding="utf-8")
    assert is_script(words.split()) is wanted
