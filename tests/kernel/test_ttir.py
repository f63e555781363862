"""TTIR without a GPU: generic, with locations, nothing left behind, and errors at the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twill.exc import KernelDoesNotCompile
from twill.kernel.specialization import resolve
from twill.kernel.ttir import hoist_aliases, ttir

SOURCE = """
@triton.jit
def helper(x):
    return x + missing


@triton.jit
def good(out, n, dtype: tl.constexpr):
    tl.store(out, n.to(dtype))


@triton.jit
def calls_bad_helper(out, n, dtype: tl.constexpr):
    x = n + 1
    tl.store(out, helper(x))


@triton.autotune(configs=[], key=[])
@triton.jit
def bad_shapes(out, n, dtype: tl.constexpr):
    a = tl.arange(0, 16)
    tl.store(out + a, a + tl.arange(0, 32))


@triton.jit
def asserts(out, n, dtype: tl.constexpr):
    tl.static_assert(dtype == tl.int64, "only 64 bits")
    tl.store(out, n)
"""
FLAGS: dict[str, Any] = {"sig": ["out=*fp16:16", "n=i32"], "const": ["dtype=tl.float16"]}


def test_text_is_generic_mlir_with_arguments_and_locations(kernel_file: Callable[..., str]) -> None:
    text = ttir(resolve(kernel_file(SOURCE) + "::good", **FLAGS))
    assert '"builtin.module"() ({' in text
    assert '"tt.func"()' in text
    assert "tt.divisibility = 16" in text
    assert re.search(r'loc\(".*kernel\.py":\d+:\d+\)', text)


def test_the_same_input_gives_the_same_bytes(kernel_file: Callable[..., str]) -> None:
    spec = resolve(kernel_file(SOURCE) + "::good", **FLAGS)
    assert ttir(spec) == ttir(spec)


def test_nothing_is_written(kernel_file: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    ttir(resolve(kernel_file(SOURCE) + "::good", **FLAGS))
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.py"]


@pytest.mark.parametrize(
    ("kernel", "line", "message"),
    [
        ("calls_bad_helper", 5, "NameError: missing is not defined"),
        ("bad_shapes", 23, "incompatible"),
        ("asserts", 28, "only 64 bits"),
    ],
)
def test_fail_compile_error_names_the_innermost_line_of_the_users_file(
    kernel_file: Callable[..., str], kernel: str, line: int, message: str
) -> None:
    with pytest.raises(KernelDoesNotCompile) as raised:
        ttir(resolve(f"{kernel_file(SOURCE)}::{kernel}", **FLAGS))
    assert raised.value.line == line
    assert message in raised.value.message
    assert "\n" not in raised.value.message


def test_aliases_move_before_their_uses() -> None:
    text = '#loc = loc("a":1:1)\n"op"() : () -> () loc(#loc1)\n#loc1 = loc("x"(#loc))\n'
    assert hoist_aliases(text) == '#loc = loc("a":1:1)\n#loc1 = loc("x"(#loc))\n"op"() : () -> () loc(#loc1)\n'
