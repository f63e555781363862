"""Every operation and type of the interpreter gives what Triton's compiled code gave on a GPU, for awkward values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generated.recorded import computed, names, table, tile, ulps

ULPS = {"exp": 16, "exp2": 2, "log": 2, "log2": 2, "sin": 2, "cos": 2, "erf": 2, "sqrt": 2, "rsqrt": 2, "tanh": 2}
"""Approximate functions, of f32 and f64; tl.exp of f32 rounds its operand's product with log2(e). div of f32: 1."""
FLUSHED = ("sin", "erf", "tanh")
"""Functions of f32 that Triton's code gives a zero of for a subnormal number, and Twill the number."""


def not_compared(operation: str, dtype: str, size: int) -> Any:
    """Where the compiled code gives something else than Twill, and is meant to: `docs/operations.md` says why."""
    nowhere = np.zeros(size, np.bool_)
    given = table()["inputs"][dtype]
    if operation == "abs" and dtype[0] == "u":  # Triton makes nothing of it
        return ~nowhere
    if operation == "rem" and dtype.startswith(("fp", "bf")):
        return ~nowhere
    if operation in ("div", "rem") and not dtype.startswith(("fp", "bf")):
        right = np.tile(tile(given["pairs"], dtype), 16)
        return (right == 0) | (right == 1 if (operation, dtype) == ("div", "u8") else nowhere)
    if operation in ("shl", "shr") and dtype in ("i64", "u64"):
        right = np.tile(tile(given["pairs"], dtype), 16)
        return (right < 0) | (right >= 1 << 32)
    if (operation, dtype) == ("cast bf16", "fp8e5"):
        return ~np.isfinite(tile(given["singles"], dtype))
    if operation.removeprefix("libdevice ") in FLUSHED and dtype == "fp32":
        return np.abs(tile(given["singles"], dtype)) < np.finfo(np.float32).tiny
    return nowhere


def test_operations_give_what_compiled_code_gave() -> None:
    far: dict[str, float] = {}
    for name in names():
        left, _, made = name.rpartition(" -> ")
        operation, _, dtype = left.rpartition(" ")
        found, wanted = computed(name)
        apart = ulps(np.asarray(found), wanted, made)[~not_compared(operation, dtype, wanted.size)]
        allowed = ULPS.get(operation.removeprefix("libdevice "), 1 if left == "div fp32" else 0)
        if apart.size and apart.max() > allowed:
            far[name] = float(apart.max())
    assert not far
    assert len(names()) > 450


def test_the_list_of_what_is_not_compared_is_short() -> None:
    """Were the whole table left out, nothing would be shown."""
    left_out = [name for name in names() if np.any(_left_out(name))]
    assert len(left_out) == 32, left_out


def _left_out(name: str) -> Any:
    operation, _, dtype = name.rpartition(" -> ")[0].rpartition(" ")
    return not_compared(operation, dtype, computed(name)[1].size)
