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
from twill.kernel.modules import file_of

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


@pytest.mark.parametrize(
    "wrapper",
    [
        "class Outer(triton.runtime.Autotuner):\n    pass\n\n"
        "def outer(fn):\n    return Outer(fn, fn.arg_names, [triton.Config({'B': 16})], [], None, None)\n",
        "class Outer(triton.runtime.autotuner.Heuristics):\n    pass\n\n"
        "def outer(fn):\n    return Outer(fn, fn.arg_names, {'B': lambda args: 16})\n",
        "class Outer:\n    def __init__(self, fn):\n        self.fn = fn\n\n"
        "def outer(fn):\n    return Outer(Outer(fn))\n",
    ],
    ids=["a subclass of Autotuner", "a subclass of Heuristics", "a wrapper of the user's"],
)
def test_kernels_are_found_inside_whatever_holds_them(kernel_file: Callable[..., str], wrapper: str) -> None:
    source = "\n\n@outer\n@triton.jit\ndef tuned(out, B: tl.constexpr):\n    tl.store(out, B)\n"
    loaded = load(kernel_file(wrapper + source))
    assert loaded.kernels == ("tuned",)
    assert type(loaded.wrapped["tuned"]).__name__ == "Outer"


def package(folder: Path, **files: str) -> Path:
    """A package `pack` with these modules."""
    root = folder / "pack"
    (root / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text("from .other import VALUE\n")
    (root / "deep" / "__init__.py").write_text("")
    (root / "other.py").write_text("VALUE = 1\n")
    head = "import triton\nimport triton.language as tl\n"
    for name, source in files.items():
        (root / "deep" / f"{name}.py").write_text(head + textwrap.dedent(source))
    return root


def test_a_file_of_a_package_imports_its_neighbours_by_their_relative_names(tmp_path: Path) -> None:
    relative = "from ..other import VALUE\nfrom .. import VALUE as same\nfrom . import leaf\n"
    root = package(tmp_path, ops=relative + KERNEL, leaf=KERNEL.replace("def kernel", "def other"))
    before = list(sys.path), dict(sys.modules)
    loaded = load(str(root / "deep" / "ops.py"))
    assert loaded.kernels == ("kernel",) and loaded.functions["kernel"].__module__ == "pack.deep.ops"
    assert (list(sys.path), dict(sys.modules)) == before


def test_a_changed_file_of_a_package_is_imported_again(tmp_path: Path) -> None:
    root = package(tmp_path, ops=KERNEL)
    file = root / "deep" / "ops.py"
    assert load(str(file)).kernels == ("kernel",)
    file.write_text(file.read_text().replace("def kernel", "def other"))
    assert load(str(file)).kernels == ("other",)


def test_an_importable_module_means_its_file_and_executes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = package(tmp_path, ops=KERNEL)
    (root / "__init__.py").write_text("raise AssertionError('executed')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert file_of("pack.deep.ops") == str(root / "deep" / "ops.py")
    assert file_of("pack.deep.no_such") == "pack.deep.no_such"
    assert file_of("some/file.py") == "some/file.py"


def test_what_fails_below_the_last_kernel_is_told_and_left_out(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    below = "\n\n@triton.testing.perf_report([])\ndef benchmark():\n    pass\n\n\nassert kernel is None, 'no GPU'\n"
    file = kernel_file(KERNEL + below)
    assert load(file).kernels == ("kernel",)
    assert f"{file}:18: left out from here on, below all kernels: AssertionError: no GPU" in capsys.readouterr().err


def test_fail_above_the_last_kernel_is_an_error(kernel_file: Callable[..., str]) -> None:
    with pytest.raises(KernelImportFailed, match="ZeroDivisionError"):
        load(kernel_file("x = 1 / 0\n" + KERNEL))
