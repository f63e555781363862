"""Seeded misreadings of the ISA make kernels of a stranger, Triton's own, come out wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.codegen.verify.ptx import test_strangers as strangers
from tests.ptx_programs import made_afresh
from twill.codegen.verify.ptx.units import fragments, matrix, tensor_map, wgmma

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def afresh(monkeypatch: Patch) -> Iterator[None]:
    """Without what is kept from other tests, and for them."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    made_afresh(monkeypatch)
    retained = (tensor_map._pattern, wgmma._k_major, wgmma._mn_major)
    for cache in retained:
        cache.cache_clear()
    yield
    for cache in retained:
        cache.cache_clear()


def strides_exchanged(monkeypatch: Patch) -> None:
    right = wgmma.MatrixDescriptor.decoded

    def wrong(bits: int) -> wgmma.MatrixDescriptor:
        read = right(bits)
        return wgmma.MatrixDescriptor(read.start, read.stride, read.leading, read.base, read.swizzle)

    monkeypatch.setattr(wgmma.MatrixDescriptor, "decoded", wrong)


def swizzle_of_a_descriptor(monkeypatch: Patch) -> None:
    monkeypatch.setattr(wgmma, "_SWIZZLES", {0: 0, 1: 64, 2: 128, 3: 32})


def swizzle_by_the_next_bit(monkeypatch: Patch) -> None:
    monkeypatch.setattr(wgmma, "_ROW_OF_BANKS", 256)


def swizzle_of_a_copy_by_the_next_bit(monkeypatch: Patch) -> None:
    def wrong(addresses: Any, swizzle: int) -> Any:
        return addresses ^ ((addresses >> 8 & {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]) << 4)

    monkeypatch.setattr(tensor_map, "swizzled", wrong)


def boxes_outermost_first(monkeypatch: Patch) -> None:
    right = tensor_map._addresses
    monkeypatch.setattr(tensor_map, "_addresses", lambda tensor, coords: right(tensor, coords[::-1]))


def columns_of_d(monkeypatch: Patch) -> None:
    monkeypatch.setattr(fragments, "_OF_D", (3, 0, 2, 4, 1))


def rows_of_d(monkeypatch: Patch) -> None:
    monkeypatch.setattr(fragments, "_OF_D", (4, 0, 2, 1, 3))


def registers_of_a(monkeypatch: Patch) -> None:
    monkeypatch.setattr(fragments, "_OF_A", (2, 0, 3, 1, 4))


def matrices_transposed(monkeypatch: Patch) -> None:
    right = matrix._matrices
    monkeypatch.setattr(matrix, "_matrices", lambda registers: right(registers).swapaxes(-1, -2))


GEMM, ATTENTION = strangers.test_a_gemm_with_tensor_maps, strangers.test_attention


@pytest.mark.parametrize(
    "misread, kernel",
    [
        (strides_exchanged, GEMM),
        (swizzle_of_a_descriptor, GEMM),
        (swizzle_by_the_next_bit, GEMM),
        (swizzle_of_a_copy_by_the_next_bit, GEMM),
        (boxes_outermost_first, GEMM),
        (columns_of_d, GEMM),
        (rows_of_d, GEMM),
        (registers_of_a, ATTENTION),
        (matrices_transposed, GEMM),
    ],
)
def test_a_misreading_makes_a_strangers_kernel_wrong(
    misread: Callable[[Patch], None], kernel: Callable[[], None], monkeypatch: Patch
) -> None:
    misread(monkeypatch)
    with pytest.raises(AssertionError):
        kernel()
