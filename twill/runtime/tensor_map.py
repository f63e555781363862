"""Tensor maps: how TMA sees a tensor in global memory, tile by tile.

Parameters are computed and checked in pure Python; `encode` hands them to the driver, once for equal ones. Limits are
those of the CUDA driver API, `cuTensorMapEncodeTiled`. Sizes, strides and boxes are given as in the framework,
outermost first; the kernel's coordinates go the other way, x0 innermost.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from twill import exc
from twill.manifest.document import Swizzle
from twill.runtime.driver import bindings, call
from twill.runtime.tensor import ELEMENT_BYTES, TensorView

MAX_RANK = 5
ALIGNMENT = 16  # bytes: of the address, of every stride but the innermost, of the box's inner row
MAX_BOX = 256  # elements of a box along one dimension
MAX_SIZE = 1 << 31  # elements along one dimension: the driver takes twice as many, but coordinates are signed
MAX_STRIDE = 1 << 40  # bytes
ENCODED = 128  # bytes of an encoded map

TYPES = {
    "i1": "UINT8", "i8": "UINT8", "u8": "UINT8", "f8e4m3fn": "UINT8", "f8e5m2": "UINT8",
    "i16": "UINT16", "u16": "UINT16", "f16": "FLOAT16", "bf16": "BFLOAT16",
    "i32": "INT32", "u32": "UINT32", "f32": "FLOAT32", "i64": "INT64", "u64": "UINT64", "f64": "FLOAT64",
    "e2m1": "16U4_ALIGN16B",
}  # fmt: skip
NARROW = "e2m1"
"""Elements of 4 bits, two of which are in a byte of memory; in shared memory each has a place of 8 bits."""
NARROW_BOX, NARROW_ALIGNMENT = 128, 32  # elements of a box, of which a tensor's rows have multiples; bytes

_FLOATS = ("f16", "bf16", "f32", "f64")  # that TMA knows as such


PROMOTED: Literal[128] = 128
"""Bytes that L2 fetches at once: one of its lines. With two, rows of a tile that begin within a line cost up to 14 %
more (GEMMs of ragged sizes, paged keys, one NVIDIA H200); rows that begin with a line are as fast either way."""


@dataclass(frozen=True)
class TileBox:
    """The tile of one copy. extent: elements, outermost first. promotion: bytes that L2 fetches at once (0: as is)."""

    extent: tuple[int, ...]
    swizzle: Swizzle = 128
    promotion: Literal[0, 64, 128, 256] = PROMOTED
    nan_outside: bool = False  # what is read outside of the tensor: NaN, or zero


@dataclass(frozen=True)
class TensorMapParameters:
    """Arguments of the encoding, innermost dimension first as the driver has them. strides: bytes, without the
    innermost."""

    pointer: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Swizzle
    promotion: int
    nan_outside: bool


@dataclass(frozen=True)
class TensorMap:
    """An encoded map: a kernel argument. It does not keep its tensor's memory: who launches with it does.

    pointer: where the tensor begins. address: of its 128 bytes on the host, there as long as this object is. device:
    index of the tensor's GPU.
    """

    pointer: int
    encoded: Any
    address: int
    device: int


def parameters(tensor: TensorView, box: TileBox, name: str) -> TensorMapParameters:
    """What describes `tensor` cut into `box`es. Errors: WrongArgument, MisalignedTensor, BadBox, naming `name`."""
    narrow = tensor.dtype == NARROW
    rank, size = len(tensor.shape), 1 if narrow else ELEMENT_BYTES[tensor.dtype]
    if not 1 <= rank <= MAX_RANK:
        raise exc.WrongArgument(name, f"a tensor of {rank} dimensions", f"one of 1 to {MAX_RANK} dimensions")
    _check_box(box, rank, size, name)
    if box.nan_outside and tensor.dtype not in _FLOATS:
        raise exc.BadBox(
            name, f"is filled with NaN outside of a tensor of {tensor.dtype}", f"NaN fills {', '.join(_FLOATS)}"
        )
    for dim, extent in enumerate(tensor.shape):
        if not 1 <= extent <= MAX_SIZE:
            raise exc.WrongArgument(name, f"of size {extent} in dimension {dim}", f"sizes from 1 to {MAX_SIZE}")
    alignment = NARROW_ALIGNMENT if narrow else ALIGNMENT
    if tensor.pointer % alignment:
        raise exc.MisalignedTensor(name, f"starts at address {tensor.pointer:#x}", f"multiples of {alignment} bytes")
    if narrow and tensor.shape[-1] % NARROW_BOX:
        found = f"has rows of {tensor.shape[-1]} elements of 4 bits"
        raise exc.MisalignedTensor(name, found, f"multiples of {NARROW_BOX}, beside elements of 8 bits")
    if tensor.strides[-1] != 1 and tensor.shape[-1] != 1:
        raise exc.MisalignedTensor(name, f"has stride {tensor.strides[-1]} in its last dimension", "stride 1 there")
    return TensorMapParameters(
        pointer=tensor.pointer,
        dtype=tensor.dtype,
        sizes=tensor.shape[::-1],
        strides=_byte_strides(in_bytes(tensor) if narrow else tensor, size, alignment, name),
        box=box.extent[::-1],
        swizzle=box.swizzle,
        promotion=box.promotion,
        nan_outside=box.nan_outside,
    )


def _check_box(box: TileBox, rank: int, size: int, name: str) -> None:
    if len(box.extent) != rank:
        raise exc.BadBox(name, f"has {len(box.extent)} dimensions", f"the tensor has {rank}")
    for dim, extent in enumerate(box.extent):
        if not 1 <= extent <= MAX_BOX:
            raise exc.BadBox(
                name, f"has {extent} elements in dimension {dim}", f"a copy takes 1 to {MAX_BOX}; use several"
            )
    row = box.extent[-1] * size
    if row % ALIGNMENT:
        raise exc.BadBox(name, f"has rows of {row} bytes", f"rows must be multiples of {ALIGNMENT} bytes")
    if box.swizzle and row > box.swizzle:
        raise exc.BadBox(
            name, f"has rows of {row} bytes", f"a {box.swizzle}-byte swizzle takes rows up to that; use panels"
        )


def in_bytes(tensor: TensorView) -> TensorView:
    """A tensor of elements of 4 bits as the bytes that have two of them."""
    strides = (*(stride // 2 for stride in tensor.strides[:-1]), 1)
    return replace(tensor, dtype="u8", shape=(*tensor.shape[:-1], tensor.shape[-1] // 2), strides=strides)


def _byte_strides(tensor: TensorView, size: int, alignment: int, name: str) -> tuple[int, ...]:
    """From the second innermost dimension outwards. A dimension of one element is never stepped along: any stride is
    right, and frameworks leave odd ones there, so the next legal one stands in."""
    strides = []
    filler = -(-tensor.shape[-1] * size // alignment) * alignment
    for dim in reversed(range(len(tensor.shape) - 1)):
        stride = filler if tensor.shape[dim] == 1 else tensor.strides[dim] * size
        if stride % alignment or not 0 <= stride < MAX_STRIDE:
            found = f"steps by {stride} bytes in dimension {dim}"
            raise exc.MisalignedTensor(name, found, f"steps that are multiples of {alignment} bytes, from 0 to 2^40")
        strides.append(stride)
    return tuple(strides)


def joined(seen: TensorView, together: int, name: str) -> TensorView:
    """The tensor with `together` neighbours of a row as one element of a wider type. Errors: MisalignedTensor."""
    if together == 1:
        return seen
    whole = (*seen.strides[:-1], seen.shape[-1])
    if any(number % together for number in whole):
        found = f"has rows of {seen.shape[-1]} elements, {', '.join(map(str, seen.strides[:-1]))} apart"
        raise exc.MisalignedTensor(name, found, f"multiples of {together} elements")
    dtype = f"u{8 * ELEMENT_BYTES[seen.dtype] * together}"
    strides = (*(stride // together for stride in seen.strides[:-1]), seen.strides[-1])
    return replace(seen, dtype=dtype, shape=(*seen.shape[:-1], seen.shape[-1] // together), strides=strides)


def tensor_map(tensor: TensorView, box: TileBox, name: str) -> TensorMap:
    """The map of `tensor` cut into `box`es; equal ones are encoded once. Errors as for `parameters` and `encode`."""
    return encode(parameters(tensor, box, name), tensor.device)


@lru_cache(maxsize=4096)
def encode(given: TensorMapParameters, device: int) -> TensorMap:
    """The driver's encoding. Errors: DriverMissing, DriverFailed."""
    driver = bindings()
    rank = len(given.sizes)
    swizzle = f"{given.swizzle}B" if given.swizzle else "NONE"
    strides = given.strides or (ALIGNMENT,)  # the driver wants one even where none is used
    promotion = f"L2_{given.promotion}B" if given.promotion else "NONE"
    fill = "NAN_REQUEST_ZERO_FMA" if given.nan_outside else "NONE"
    encoded = call(
        "cuTensorMapEncodeTiled",
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{TYPES[given.dtype]}"),
        rank,
        given.pointer,
        [driver.cuuint64_t(size) for size in given.sizes],
        [driver.cuuint64_t(stride) for stride in strides],
        [driver.cuuint32_t(extent) for extent in given.box],
        [driver.cuuint32_t(1)] * rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}"),
        getattr(driver.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
    )
    return TensorMap(given.pointer, encoded, int(encoded.getPtr()), device)


def relocated(given: TensorMap, pointer: int) -> TensorMap | None:
    """The same map of a tensor that begins at `pointer`, a multiple of 16; None if the driver refuses."""
    driver = bindings()
    encoded = driver.CUtensorMap()
    address = int(encoded.getPtr())
    ctypes.memmove(address, given.address, ENCODED)
    (code,) = driver.cuTensorMapReplaceAddress(encoded, pointer)
    return None if code else TensorMap(pointer, encoded, address, given.device)
