"""Promises of the benchmark of packages' operations: sides that share nothing, held to the same configurations."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import triton

from benchmarks.operations import held, imported, in_turns, shortened
from benchmarks.operations_table import OPERATIONS, Operation
from tests.fake_triton import installed
from twill.runtime.jit import TwillKernel
from twill.runtime.policy import settings

MODULE = """
import triton

@triton.autotune([triton.Config({"B": b}) for b in (16, 32, 64, 128)], key=["n"])
@triton.jit
def kernel(n, B: triton.language.constexpr):
    pass
"""


def kernel(n: int, B: triton.language.constexpr) -> None:
    """Stands for one; nothing is compiled."""


def test_one_side_is_the_package_as_it_is_and_the_other_is_under_twill_jit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "__init__.py").touch()
    (tmp_path / "twin" / "inner.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    operation = Operation("twin", "twin.inner", lambda make: [], lambda module: None, ())
    try:
        sides = imported(operation, settings(policy="off"))
    finally:
        for name in ("twin", "twin.inner"):
            sys.modules.pop(name, None)
    assert sides.made == [sides.wrapped.kernel.fn]
    assert not isinstance(sides.plain.kernel.fn, TwillKernel)


def test_autotuners_are_held_to_the_same_configurations() -> None:
    tried: list[int] = []

    class Inner:
        def run(self, *args: object, **options: object) -> None:
            tried.append(int(str(options["B"])))

    with installed():
        made = triton.autotune([triton.Config({"B": b}) for b in (16, 32, 64, 128)], key=["n"])(triton.jit(kernel))
        made.fn = Inner()
        with held(1, bench=False):
            made.run(3, grid=(1,), warmup=False)
        with held(2, bench=False):
            made.run(4, grid=(1,), warmup=False)
    assert tried == [64, 32, 64, 32]  # one alone; two that are tried, the first of which is taken


def test_a_side_s_time_is_its_own() -> None:
    took = [1.0, 3.0]
    assert in_turns((lambda: 0, lambda: 1), lambda launch: took[launch()], 5) == (1.0, 3.0)


def test_accounts_are_printed_without_the_long_variant() -> None:
    compared = "norm(x=*bf16, B=4096), grid=4096: emitted: 10.0 µs emitted, 12.0 µs as Triton's (medians of 8 launches)"
    text = f"{compared}\nnorm(x=*fp32, B=64): Triton's, as it is being prepared"
    assert list(shortened(text)) == [
        "norm: grid=4096: emitted: 10.0 µs emitted, 12.0 µs as Triton's (medians of 8 launches)",
        "norm: Triton's, as it is being prepared",
    ]


def test_the_operations_are_fourteen_of_two_packages() -> None:
    assert len(OPERATIONS) == 14
    assert {one.package for one in OPERATIONS} == {"liger_kernel", "fla"}
