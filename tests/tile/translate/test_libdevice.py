"""Promises of functions of CUDA's library that become several operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.generated.kernels import by_twill
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.translate.translate import tile_program

HEAD = """
@triton.jit
def kernel(x, n, y):
    at = tl.arange(0, 16)
    v, m = tl.load(x + at), tl.load(n + at)
"""
SIGNATURE = ["x=*fp32:16", "n=*i32:16", "y=*fp32:16"]


def computed(
    kernel_file: Callable[..., str], body: str, x: list[float], n: list[int], kind: str = "fp32"
) -> list[float]:
    """What is stored in y, of that type, for the first elements."""
    file = kernel_file(HEAD + f"    tl.store(y + at, {body})\n")
    program = resolve_accesses(tile_program(resolve(f"{file}::kernel", sig=[*SIGNATURE[:2], f"y=*{kind}:16"])))
    y = np.zeros(16, np.float64 if kind == "fp64" else np.float32)
    data: dict[str, np.ndarray] = {"x": np.zeros(16, np.float32), "n": np.zeros(16, np.int32), "y": y}
    data["x"][: len(x)], data["n"][: len(n)] = x, n
    made = by_twill(program, Case({}, (1,), {name: array.shape for name, array in data.items()}, {}), data)
    return [float(number) for number in made["y"][: len(x)]]


POWERS = [
    (-2.0, 3, -8.0), (-2.0, 2, 4.0), (-2.0, -1, -0.5), (-1.0, 2**24 + 1, -1.0), (-1.0, 2**24, 1.0), (-0.0, 3, -0.0),
    (-0.0, 2, 0.0), (-0.0, -3, -np.inf), (0.0, 0, 1.0), (np.nan, 0, 1.0), (-np.inf, 3, -np.inf), (-np.inf, -3, -0.0),
]  # fmt: skip


def test_a_float_to_the_power_of_an_integer_has_the_sign_of_a_product_of_so_many(
    kernel_file: Callable[..., str],
) -> None:
    made = computed(
        kernel_file, "tl.extra.cuda.libdevice.pow(v, m)", [x for x, _, _ in POWERS], [n for _, n, _ in POWERS]
    )
    wanted = [power for _, _, power in POWERS]
    assert [repr(number) for number in made] == [repr(float(number)) for number in wanted]


@pytest.mark.parametrize("count", [2, 3, -3])
def test_so_it_is_for_one_that_is_known(kernel_file: Callable[..., str], count: int) -> None:
    x = [-2.0, 2.0, -0.0]
    made = computed(kernel_file, f"tl.extra.cuda.libdevice.pow(v, {count})", x, [])
    with np.errstate(divide="ignore"):
        wanted = np.array(x, np.float64) ** count
    assert [repr(number) for number in made] == [repr(float(number)) for number in wanted]


def test_halves_are_rounded_to_even_or_away_from_zero(kernel_file: Callable[..., str]) -> None:
    x = [0.5, 1.5, -0.5, -2.5, 0.49999997, 8388609.0]
    library = "tl.extra.cuda.libdevice"
    assert computed(kernel_file, f"{library}.rint(v)", x, []) == [0.0, 2.0, -0.0, -2.0, 0.0, 8388609.0]
    assert computed(kernel_file, f"{library}.round(v)", x, []) == [1.0, 2.0, -1.0, -3.0, 0.0, 8388609.0]
    assert computed(kernel_file, f"{library}.llrint(v).to(tl.float32)", x, []) == [0.0, 2.0, 0.0, -2.0, 0.0, 8388609.0]


def test_what_is_no_number_or_infinite_is_told(kernel_file: Callable[..., str]) -> None:
    x = [np.nan, np.inf, -np.inf, 3.4e38, 0.0]
    library = "tl.extra.cuda.libdevice"
    assert computed(kernel_file, f"{library}.isnan(v).to(tl.float32)", x, []) == [1, 0, 0, 0, 0]
    assert computed(kernel_file, f"{library}.isinf(v).to(tl.float32)", x, []) == [0, 1, 1, 0, 0]
    assert computed(kernel_file, f"{library}.finitef(v).to(tl.float32)", x, []) == [0, 0, 0, 1, 1]


def test_roots_and_quotients_that_are_asked_for_as_rounded_stay_so(kernel_file: Callable[..., str]) -> None:
    library = "tl.extra.cuda.libdevice"
    file = kernel_file(HEAD + f"    tl.store(y + at, {library}.sqrt_rn(v) + {library}.div_rn(v, v + 3))\n")
    program = tile_program(resolve(f"{file}::kernel", sig=SIGNATURE))
    rounding = {op.kind: dict(op.attributes).get("rounding") for op in program.ops() if op.kind in ("sqrt", "div")}
    assert rounding == {"sqrt": "rn", "div": "rn"}


WORDS = [0, 1, -1, 6, 1 << 30, -(1 << 31), 0x00F0F000, 12345]
BITS: dict[str, Callable[[int], int]] = {
    "popc(m)": lambda n: (n % 2**32).bit_count(),
    "clz(m)": lambda n: 32 - (n % 2**32).bit_length(),
    "ffs(m)": lambda n: (n & -n).bit_length(),
    "brev(m)": lambda n: int(f"{n % 2**32:032b}"[::-1], 2) - (int(f"{n % 2**32:032b}"[::-1], 2) >> 31 << 32),
    "mulhi(m, m + 3)": lambda n: n * ((n + 3 + 2**31) % 2**32 - 2**31) >> 32,
    "byte_perm(m, m, 0x0123)": lambda n: int.from_bytes((n % 2**32).to_bytes(4, "little"), "big", signed=True),
}


@pytest.mark.parametrize("call", BITS)
def test_bits_are_counted_and_moved(kernel_file: Callable[..., str], call: str) -> None:
    made = computed(kernel_file, f"tl.extra.cuda.libdevice.{call}.to(tl.int32, bitcast=True).to(tl.float64)",
                    [0.0] * len(WORDS), WORDS, "fp64")  # fmt: skip
    assert made == [BITS[call](word) for word in WORDS]


@pytest.mark.parametrize("way, rounding", [("rd", np.floor), ("ru", np.ceil), ("rz", np.trunc)])
def test_floats_become_integers_towards_where_it_is_said(
    kernel_file: Callable[..., str], way: str, rounding: Callable[[float], float]
) -> None:
    x = [0.5, -0.5, 2.5, -3.75, 3e9, -3e9, 7.0]
    made = computed(kernel_file, f"tl.extra.cuda.libdevice.float2int_{way}(v).to(tl.float64)", x, [], "fp64")
    assert made == [min(max(float(rounding(number)), -(2.0**31)), 2.0**31 - 1) for number in x]
