"""Promises about machines without a driver, and about what the runtime imports."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from twill import exc
from twill.runtime import driver, module
from twill.runtime.module import load_module

MODULES = (
    "manifest.document", "manifest.evaluate", "manifest.record", "runtime.arguments", "runtime.call", "runtime.device",
    "runtime.dlpack", "runtime.driver", "runtime.kernel", "runtime.launch", "runtime.module", "runtime.plan",
    "runtime.tensor", "runtime.tensor_map",
)  # fmt: skip


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is looked for again."""
    monkeypatch.setattr(driver, "bindings", driver.bindings.__wrapped__)


def fake(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    monkeypatch.setattr(driver, "bindings", lambda: SimpleNamespace(**functions))


@pytest.mark.usefixtures("fresh")
def test_without_the_bindings_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(exc.DriverMissing, match=r"twill-gpu\[run\]"):
        load_module(b"", "sm_90a")


@pytest.mark.usefixtures("fresh")
def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(flags: int) -> tuple[int]:
        raise RuntimeError("libcuda is not there")

    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=SimpleNamespace(cuInit=no_library)))
    with pytest.raises(exc.DriverMissing, match="libcuda is not there"):
        load_module(b"", "sm_90a")


class Code(int):
    """A result code, as the bindings give it."""

    name = "CUDA_ERROR_INVALID_IMAGE"


def test_an_error_of_the_driver_names_the_call_and_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, cuLibraryLoadData=lambda *_: (Code(200), None))
    monkeypatch.setattr(module, "driver_version", lambda: "for CUDA 12.4")
    with pytest.raises(exc.DriverFailed, match="cuLibraryLoadData failed: CUDA_ERROR_INVALID_IMAGE") as raised:
        load_module(b"", "sm_100a")
    assert "driver for CUDA 12.4 does not take this code for sm_100a" in str(raised.value)
    assert "a newer driver" in raised.value.hint and raised.value.exit_code == 2


def test_results_come_back_without_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, none=lambda: (Code(0),), one=lambda: (Code(0), 5), two=lambda: (Code(0), 5, 6))
    assert (driver.call("none"), driver.call("one"), driver.call("two")) == (None, 5, (5, 6))


def test_the_context_of_another_device_is_pushed_and_popped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def push(context: str) -> tuple[Code]:
        calls.append(f"push {context}")
        return (Code(0),)

    def pop() -> tuple[Code, None]:
        calls.append("pop")
        return Code(0), None

    fake(monkeypatch, cuCtxGetDevice=lambda: (Code(0), 0), cuCtxPushCurrent=push, cuCtxPopCurrent=pop)
    monkeypatch.setattr(driver, "_primary_context", lambda index: f"context {index}")
    with driver.on_device(0):
        pass
    assert calls == []
    with pytest.raises(KeyError), driver.on_device(1):
        raise KeyError
    assert calls == ["push context 1", "pop"]


def test_the_runtime_needs_nothing_of_the_solver() -> None:
    names = ", ".join(f"twill.{name}" for name in MODULES)
    heavy = "{'z3', 'triton', 'pydantic', 'pyscipopt', 'torch', 'xdsl', 'numpy', 'rich', 'cuda'}"
    code = f"import sys, {names}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
