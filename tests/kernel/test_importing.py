"""Importing a kernel file executes it once, leaves nothing behind, and blames the user's line."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from triton.runtime.driver import driver

from twill.exc import KernelFileMissing, KernelImportFailed
from twill.kernel.importing import line_of_def, load

KERNEL = """
@triton.jit
def helper(x):
    return x + 1


@triton.jit
def kernel(out):
    tl.store(out, helper(1))
"""


def test_kernels_are_the_functions_that_no_other_one_calls(kernel_file: Callable[..., str]) -> None:
    loaded = load(kernel_file(KERNEL))
    assert set(loaded.functions) == {"helper", "kernel"}
    assert loaded.kernels == ("kernel",)


def test_autotuned_kernels_are_found_inside_their_tuner(kernel_file: Callable[..., str]) -> None:
    source = """
    @triton.autotune(configs=[triton.Config({"B": 16})], key=[])
    @triton.heuristics({"EVEN": lambda args: True})
    @triton.jit
    def tuned(out, B: tl.constexpr, EVEN: tl.constexpr):
        tl.store(out, B)
    """
    loaded = load(kernel_file(source))
    assert loaded.kernels == ("tuned",)
    assert line_of_def(loaded.functions["tuned"]) == 6


def test_functions_imported_from_elsewhere_are_no_kernels(kernel_file: Callable[..., str]) -> None:
    kernel_file(KERNEL, name="neighbour.py")
    loaded = load(kernel_file("from neighbour import kernel as theirs\n" + KERNEL))
    assert loaded.kernels == ("kernel",)


def test_import_leaves_path_modules_and_directory_as_they_were(kernel_file: Callable[..., str], tmp_path: Path) -> None:
    kernel_file("VALUE = 3\n", name="neighbour.py")
    file = kernel_file("import neighbour\nprint('hello')\n" + KERNEL)
    before = list(sys.path), set(sys.modules)
    load(file)
    assert (list(sys.path), set(sys.modules)) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.py", "neighbour.py"]


def test_what_the_file_prints_does_not_reach_stdout(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    load(kernel_file("print('banner')\n" + KERNEL))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "banner\n")


def test_the_main_guard_is_not_taken(kernel_file: Callable[..., str]) -> None:
    load(kernel_file(KERNEL + "\nif __name__ == '__main__':\n    raise SystemExit(1)\n"))


def test_files_may_ask_for_their_gpu_where_there_is_none(kernel_file: Callable[..., str]) -> None:
    active = driver._active
    ask = """
    DEVICE = triton.runtime.driver.active.get_current_device()
    assert triton.runtime.driver.active.get_current_target().backend == "cuda"
    """
    assert load(kernel_file(textwrap.dedent(ask) + KERNEL)).kernels == ("kernel",)
    assert driver._active is active


def test_fail_under_tritons_interpreter(kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = kernel_file(KERNEL)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(KernelImportFailed, match="unset TRITON_INTERPRET"):
        load(file)


def test_fail_missing_file(tmp_path: Path) -> None:
    with pytest.raises(KernelFileMissing, match="no_such.py: there is no such file"):
        load(str(tmp_path / "no_such.py"))


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("x = 1\ny = x / 0\n", 4, "ZeroDivisionError"),
        ("def f():\n    raise ValueError('no GPU here')\nf()\n", 4, "ValueError: no GPU here"),
        ("import no_such_package\n", 3, "ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = (\n", 3, "SyntaxError"),
        ("import sys\nsys.exit(3)\n", 4, "SystemExit: 3"),
    ],
)
def test_fail_import_names_the_exception_and_the_users_line(
    kernel_file: Callable[..., str], source: str, line: int, message: str
) -> None:
    with pytest.raises(KernelImportFailed) as raised:
        load(kernel_file(source))
    assert raised.value.line == line
    assert message in raised.value.message
    assert raised.value.exit_code == 2


def test_a_changed_file_is_imported_again(kernel_file: Callable[..., str]) -> None:
    assert load(kernel_file(KERNEL)).kernels == ("kernel",)
    assert load(kernel_file(KERNEL.replace("def kernel", "def other"))).kernels == ("other",)
