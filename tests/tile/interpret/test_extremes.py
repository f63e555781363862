"""Tile programs of extremes, their places, and stores at addresses that are data compute what Triton's do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.generated.kernels import held
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve

PLACES = "    i = tl.arange(0, 512)\n    v = tl.load(x + i)\n    at = tl.load(p + i) & 7\n"
ROWS = "    i, j = tl.arange(0, 16), tl.arange(0, 32)\n    t = tl.load(x + i[:, None] * 32 + j)\n"
EXTREMES = "    tl.atomic_max(y + at, v)\n    tl.atomic_min(z + at, v)\n"
KERNELS = {
    **{
        f"atomic extremes of {kind}": ({"x": kind, "p": "i32", "y": kind, "z": kind}, PLACES + EXTREMES)
        for kind in ("fp32", "fp64", "i32", "u32", "i64", "u64")
    },
    "atomic extremes where data says": (
        {"x": "fp32", "p": "i32", "y": "fp32", "z": "fp32"},
        PLACES + "    tl.atomic_max(y + at, v, mask=v < 0)\n    tl.atomic_min(z + at, v, mask=at > 2)\n",
    ),
    "stores where data says": (
        {"x": "fp32", "p": "i32", "y": "fp32", "z": "fp32"},
        PLACES + "    tl.store(y + i * 2 + (at & 1), v, mask=v > 0)\n    tl.store(z + i, v, mask=at == 3)\n",
    ),
    **{
        f"places of extremes of {kind}, {'left' if left else 'right'}": (
            {"x": kind, "y": "i32", "z": "i32"},
            ROWS + f"    tl.store(y + i, tl.argmax(t, 1, tie_break_left={left}))\n"
            f"    tl.store(z + i, tl.argmin(t, 1, tie_break_left={left}))\n",
        )
        for kind, left in (("fp32", True), ("fp32", False), ("i32", True), ("u32", True))
    },
}


@pytest.mark.parametrize("name", KERNELS)
def test_extremes_are_those_that_triton_finds(kernel_file: Callable[..., str], name: str) -> None:
    """Of numbers of both signs and large unsigned ones, many of them equal."""
    kinds, text = KERNELS[name]
    path = kernel_file(f"@triton.jit\ndef k({', '.join(kinds)}):\n{text}")
    spec = resolve(f"{path}::k", sig=[f"{name}=*{kind}" for name, kind in kinds.items()])
    for one in held(spec, Case({}, (1,), dict.fromkeys(kinds, (1024,)), {}), given=data(kinds)):
        assert one.furthest == 0, one


def data(kinds: Mapping[str, str]) -> dict[str, Any]:
    random, found = np.random.default_rng(2), dict[str, Any]()
    for name, kind in kinds.items():
        few = random.integers(-4, 5, 1024) if name != "p" else random.integers(0, 8, 1024)
        width = int(kind.strip("fpiu")) // 8
        if kind.startswith("u"):  # what would be negative is large
            found[name] = few.astype(f"i{width}").view(f"u{width}")
        else:
            found[name] = few.astype(f"{'f' if kind.startswith('fp') else 'i'}{width}")
    return found
