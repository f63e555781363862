"""Two f32 in a register, and the largest of three."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx_programs import Array, each

RNG = np.random.default_rng(1)


def pairs(*values: Array) -> list[Array]:
    return [np.ascontiguousarray(value).view(np.uint64) for value in values]


@pytest.mark.parametrize(
    ("instruction", "count"),
    [("add.rn.f32x2", 2), ("sub.f32x2", 2), ("mul.f32x2", 2), ("fma.rn.f32x2", 3), ("add.rm.f32x2", 2)],
)
def test_each_half_is_what_the_single_instruction_makes(instruction: str, count: int) -> None:
    given = [RNG.standard_normal(128).astype(np.float32) for _ in range(count)]
    operands = ", ".join(f"{{{i}}}" for i in range(count))
    packed = each(f"{instruction} {{d}}, {operands}", *pairs(*given), out=np.uint64)
    single = each(f"{instruction.removesuffix('x2')} {{d}}, {operands}", *given, out=np.float32)
    assert (packed.view(np.float32) == single).all()


def test_the_largest_and_the_least_of_three() -> None:
    a, b, c = (RNG.standard_normal(64).astype(np.float32) for _ in range(3))
    c[3] = np.nan
    for name, two in (("max", np.fmax), ("min", np.fmin)):
        assert (each(f"{name}.f32 {{d}}, {{0}}, {{1}}, {{2}}", a, b, c, out=np.float32) == two(two(a, b), c)).all()
    assert np.isnan(each("max.NaN.f32 {d}, {0}, {1}, {2}", a, b, c, out=np.float32)[3])
