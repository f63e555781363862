"""The interpreter of tile programs beside what Triton's compiled code gave on a GPU (`tests/gpu/awkward.json`)."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.generated.holding import DIGITS, numbers
from tests.triton_interpreter import NUMPY
from twill.tile.interpret.arithmetic import apply, reduce

Array = Any
TABLE = Path(__file__).resolve().parent.parent / "gpu" / "awkward.json"
ELEMENT = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64", "fp8e4nv": "f8e4m3", "fp8e5": "f8e5m2"}


@functools.cache
def table() -> dict[str, Any]:
    """The file: device, triton, inputs, results."""
    read: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


def element(dtype: str) -> str:
    """The element type of tile programs."""
    return ELEMENT.get(dtype, f"i{dtype[1:]}")


def tile(text: str, dtype: str) -> Array:
    """Hexadecimal bits as tile programs hold them."""
    if dtype == "i1":
        return np.frombuffer(bytes.fromhex(text), np.uint8) != 0
    kind = np.dtype(NUMPY[dtype])
    bits = np.frombuffer(bytes.fromhex(text), kind.newbyteorder(">")).astype(kind)
    return numbers(bits, dtype)


def names() -> list[str]:
    """The entries that are one operation of the interpreter, "add fp32 -> fp32"; no products, nor kernels that Triton
    could not compile."""
    return [name for name in table()["results"] if " -> " in name and not name.startswith(("dot", "mul add"))]


def computed(name: str) -> tuple[Array, Array]:
    """What the interpreter gives, and what was recorded."""
    left, _, made = name.rpartition(" -> ")
    operation, _, dtype = left.rpartition(" ")
    recorded = table()["results"][name]
    given = table()["inputs"][dtype]
    wanted = tile(recorded, "i1" if operation.endswith("?") else made)
    signed = {"signed": 0} if dtype[0] == "u" or dtype == "i1" else {}
    source, result = element(dtype), element(made)
    if operation.startswith("cast "):
        _, to, *rounding = operation.split(" ")
        one = tile(given["singles"], dtype)
        if to == "i1":
            return apply("compare", (one, np.zeros_like(one)), "i1", {"predicate": "ne"}, (source,) * 2), wanted != 0
        attributes: dict[str, Any] = {"rounding": "rtz"} if rounding else signed
        if dtype in ELEMENT and to not in ELEMENT:
            attributes = {"signed": 0 if to[0] == "u" else 1}
        return apply("cast", (one,), result, attributes, (source,)), wanted
    if len(wanted) == 64:
        return _unary(operation, tile(given["singles"], dtype), source), wanted
    pairs = tile(given["pairs"], dtype)
    a, b = np.repeat(pairs, 16), np.tile(pairs, 16)
    if operation.startswith("reduce "):
        rows = np.arange(16)
        chosen = a[(rows[:, None] * 7 + rows[None, :] * 17) % 256]
        combine = operation.removeprefix("reduce ").replace("sum", "add")
        more = {"propagate_nan": 1} if combine.endswith("_nan") else {}
        return reduce(chosen, 1, combine.removesuffix("_nan"), source, {**signed, **more}), wanted
    return _binary(operation, a, b, source, signed), wanted


def _unary(operation: str, one: Array, source: str) -> Array:
    if operation == "neg" and source[0] == "i":
        return apply("sub", (np.zeros_like(one), one), source, {}, (source,) * 2)
    if operation == "not":
        return apply("xor", (one, np.full_like(one, -1)), source, {}, (source,) * 2)
    precise: dict[str, dict[str, Any]] = {"sqrt_rn": {"rounding": "rn"}, "libdevice exp": {"accurate": 1}}
    kind = operation.removeprefix("libdevice ").removesuffix("_rn")
    return apply(kind, (one,), source, precise.get(operation, {}), (source,))


def _binary(operation: str, a: Array, b: Array, source: str, signed: dict[str, int]) -> Array:
    if operation.endswith("?"):
        return apply("compare", (a, b), "i1", {"predicate": operation[:-1], **signed}, (source,) * 2)
    if operation == "fma":
        return apply("fma", (a, b, a), source, {}, (source,) * 3)
    attributes: dict[str, Any] = dict(signed)
    if operation.endswith("_nan"):
        attributes["propagate_nan"] = 1
    if operation == "div_rn":
        attributes["rounding"] = "rn"
    kind = operation.removesuffix("_nan").removesuffix("_rn")
    if kind == "clamp":
        return apply(kind, (a, b, np.full_like(a, 2)), source, attributes, (source,) * 3)
    return apply(kind, (a, b), source, attributes, (source,) * 2)


def ulps(found: Array, wanted: Array, dtype: str) -> Array:
    """How many units in the last place of `wanted` apart; 0: the same, with NaN for NaN; infinity: of another kind."""
    if found.dtype.kind != "f":
        return np.where(found == wanted, 0.0, np.inf)
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) | np.isnan(found) & np.isnan(wanted)
    least = 2.0**-1022 if dtype == "fp64" else 2.0**-126
    left, right = found.astype(np.longdouble), wanted.astype(np.longdouble)
    with np.errstate(all="ignore"):
        _, power = np.frexp(np.maximum(np.abs(right), least))
        apart = np.abs(left - right) / np.ldexp(np.longdouble(1), power - 1 - DIGITS[dtype])
    odd = ~np.isfinite(left) | ~np.isfinite(right)
    return np.where(same, 0.0, np.where(odd, np.inf, apart)).astype(np.float64)


__all__ = ["computed", "names", "ulps"]
