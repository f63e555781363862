"""A file that is imported sees an H100 that computes nothing, wherever it is imported."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from triton.runtime.driver import driver

from twill.kernel.gpu_free import gpu_free
from twill.kernel.importing import load

KERNEL = """
@triton.jit
def kernel(out):
    tl.store(out, 1)
"""


def test_triton_says_what_the_gpu_has() -> None:
    with gpu_free():
        had = driver.active.utils.get_device_properties(0)
        assert driver.active.get_current_target().arch == 90
    assert had["multiprocessor_count"] == 132 and had["max_shared_mem"] == 232448


def test_pytorch_answers_for_an_h100_only_meanwhile() -> None:
    before = torch.cuda.is_available(), torch.cuda.Stream, torch.version.cuda
    with gpu_free():
        assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
        assert "H100" in torch.cuda.get_device_name(0)
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
    assert (torch.cuda.is_available(), torch.cuda.Stream, torch.version.cuda) == before


@pytest.mark.parametrize("place", ["meta", "cpu"])
def test_tensors_on_the_gpu_say_that_they_lie_there(place: str) -> None:
    with gpu_free(place):  # type: ignore[arg-type]
        made = torch.ones(4, 8, device="cuda", dtype=torch.float16)
        moved = torch.ones(3).cuda()
        assert made.is_cuda and made.device == torch.device("cuda", 0) == moved.device == (made + made).device
        assert made.get_device() == 0 and not made.is_cpu
        assert torch.empty_like(made).device.type == "cuda" and made.to("cuda:0").shape == (4, 8)
    assert made.device.type == place


def test_results_that_nothing_computed_are_as_expected() -> None:
    with gpu_free():
        x = torch.empty(8, device="cuda")
        assert torch.allclose(x, x + 1)
        torch.testing.assert_close(x, x + 1)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(torch.zeros(1), torch.ones(1))


def test_gradients_go_through_functions_of_the_user() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context: object, x: torch.Tensor) -> torch.Tensor:
            assert x.is_cuda
            return x * 2

        @staticmethod
        def backward(context: object, *gradients: torch.Tensor) -> torch.Tensor:
            assert gradients[0].is_cuda
            return gradients[0] * 2

    with gpu_free("cpu"):
        x = torch.ones(4, device="cuda", requires_grad=True)
        Double.apply(x).sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None and x.grad.tolist() == [2.0] * 4


def test_a_file_that_asks_pytorch_at_its_top_is_imported(kernel_file: Callable[..., str]) -> None:
    ask = """
    import torch
    HOPPER = torch.cuda.get_device_capability(0)[0] >= 9
    assert torch.empty(8, device="cuda").device == triton.runtime.driver.active.get_active_torch_device()
    """
    assert load(kernel_file(textwrap.dedent(ask) + KERNEL)).kernels == ("kernel",)


def test_launches_and_measurements_at_the_top_of_a_file_do_nothing(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    use = """
    import torch
    x = torch.rand(1 << 40, device="cuda")
    kernel[(1,)](x)
    compiled = kernel.warmup(x, grid=(1,))
    assert compiled.n_regs > 0
    assert triton.testing.do_bench(lambda: kernel[(1,)](x)) == 1.0


    @triton.testing.perf_report(triton.testing.Benchmark(
        x_names=["N"], x_vals=[1], line_arg="p", line_vals=[1], line_names=["p"], plot_name="p", args={}))
    def benchmark(N, p):
        raise AssertionError("measured")


    benchmark.run(print_data=True)
    """
    assert load(kernel_file(KERNEL + textwrap.dedent(use))).kernels == ("kernel",)
    assert capsys.readouterr().err == ""


def test_pytorch_that_is_imported_meanwhile_answers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    lines = ["from . import cuda, overrides", "class version: cuda = None", "class autograd: pass", "Tensor = int"]
    (package / "__init__.py").write_text("\n".join([*lines, "allclose = None", "def device(*a): return a", ""]))
    (package / "cuda.py").write_text("def is_available(): return False\n")
    mode = "class TorchFunctionMode:\n    def __enter__(self): pass\n    def __exit__(self, *a): pass\n"
    (package / "overrides.py").write_text(mode)
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with gpu_free():
        late = importlib.import_module("torch")
        assert late.__file__ == str(package / "__init__.py") and late.cuda.is_available()
    assert not late.cuda.is_available()
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
