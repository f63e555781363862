"""Promises of a script that nobody edited: it runs as Python runs it, and its Triton kernels are under twill.jit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import triton
from triton.experimental import gluon
from triton.runtime import jit as triton_jit
from triton.runtime.jit import JITFunction

from twill.runtime.jit import TwillKernel
from twill.runtime.policy import settings
from twill.runtime.script import every_kernel, run_script, summary

OFF = settings(policy="off")
SCRIPT = """
import sys
import triton
import triton.language as tl

@triton.jit
def one(x):
    tl.store(x, 1.0)

found = (__name__, sys.argv[1:], sys.path[0], type(one).__name__)
sys.modules["twill_script_says"] = found
if sys.argv[1:] == ["fail"]:
    raise ValueError("of the script")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, "twill_script_says", None)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def kernel(x: object) -> None:
    """Stands for one; nothing is compiled."""


def test_a_script_is_run_as_python_runs_it_and_nothing_stays(script: Path) -> None:
    before = sys.argv[:], sys.path[:], triton.jit
    made: list[TwillKernel] = []
    run_script(script, ["a", "-b"], OFF, made)
    said = tuple(sys.modules["twill_script_says"])
    assert said == ("__main__", ["a", "-b"], str(script.parent), "TwillKernel")
    assert [one.__name__ for one in made] == ["one"]
    assert (sys.argv, sys.path, triton.jit) == before


def test_what_it_raises_is_raised_and_nothing_stays(script: Path) -> None:
    before = sys.argv[:], sys.path[:], triton.jit
    made: list[TwillKernel] = []
    with pytest.raises(ValueError, match="of the script"):
        run_script(script, ["fail"], OFF, made)
    assert len(made) == 1
    assert (sys.argv, sys.path, triton.jit) == before


def test_kernels_are_taken_however_the_decorator_is_written_and_none_outside() -> None:
    made: list[TwillKernel] = []
    with every_kernel(OFF, made):
        plainly, with_options = triton.jit(kernel), triton.jit(do_not_specialize=["x"])(kernel)
        by_module = triton_jit.jit(kernel)
    assert made == [plainly, with_options, by_module]
    assert with_options.twill_original.params[0].do_not_specialize
    assert type(triton.jit(kernel)) is JITFunction


def test_what_is_no_triton_kernel_is_left_alone() -> None:
    made: list[TwillKernel] = []
    with every_kernel(OFF, made):
        found = gluon.jit(kernel)
    assert made == [] and not isinstance(found, TwillKernel)


@pytest.mark.parametrize(
    ("launched", "words"),
    [
        ((), "0 Triton kernels were launched, 0 emitted"),
        ((0,), "1 Triton kernel was launched, 0 emitted\n  kernel: the policy is off"),
        ((0, 1), "2 Triton kernels were launched, 0 emitted\n  kernel: the policy is off\n  kernel: the policy is off"),
    ],
)
def test_only_kernels_that_were_launched_are_counted(launched: tuple[int, ...], words: str) -> None:
    made = [TwillKernel(triton.jit(kernel), OFF) for _ in range(2)]
    for index in launched:
        made[index].twill_dispatch.launched = True
    assert summary(made) == words
