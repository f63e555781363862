"""Tensor maps, and the tiles that TMA moves by them between global and shared memory.

CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA, "Tensors" (modes, bounding box, out-of-boundary access, swizzling)
and "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor". Sizes, strides and boxes are innermost first, as the driver
has them, and so are coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twill.ptx.arrays import every, some
from twill.ptx.formats import decode, encode, flush

Array = NDArray[Any]
Read = Callable[[Array, int], Array]
"""(addresses int64 [n], size): `size` bytes of global memory from each address on, as uint8 [n, size]."""
Write = Callable[[Array, Array], None]
"""(addresses int64 [n], uint8 [n, size]): writes bytes to global memory, from each address on."""

BYTES = {
    "UINT8": 1, "UINT16": 2, "UINT32": 4, "INT32": 4, "UINT64": 8, "INT64": 8, "FLOAT16": 2, "FLOAT32": 4,
    "FLOAT64": 8, "BFLOAT16": 2, "FLOAT32_FTZ": 4, "TFLOAT32": 4, "TFLOAT32_FTZ": 4, "16U4_ALIGN16B": 1,
}  # fmt: skip
"""Bytes of an element, by the names of CUtensorMapDataType."""
UNPACKED = "16U4_ALIGN16B"
"""Elements of 4 bits, two to a byte in global memory; in shared memory 16 of them and as many bits of padding."""
UNPACKED_BOX = 128  # elements: boxes and sizes along the innermost dimension are multiples of it
_FLOATS = {"FLOAT16": "f16", "BFLOAT16": "bf16", "FLOAT32": "f32", "FLOAT64": "f64", "FLOAT32_FTZ": "f32",
           "TFLOAT32": "f32", "TFLOAT32_FTZ": "f32"}  # fmt: skip
_CHUNK = 16  # bytes that a swizzle moves together


@dataclass(frozen=True)
class TensorMapModel:
    """The arguments of cuTensorMapEncodeTiled, held to what the driver holds them to.

    address: of the tensor in global memory. dims: elements. strides: bytes, without the innermost dimension's (which
    is an element). box: elements. swizzle: bytes of the pattern's rows, 0 for none. fill: what is read outside of the
    tensor. ValueError: what the driver refuses, and interleaved layouts.
    """

    address: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: Literal[0, 32, 64, 128] = 0
    interleave: Literal[0, 16, 32] = 0
    fill: Literal["zero", "nan"] = "zero"

    def __post_init__(self) -> None:
        rank = len(self.dims)
        steps = self.element_strides or (1,) * rank
        object.__setattr__(self, "element_strides", steps)
        _require(self.dtype in BYTES, f"no elements of type {self.dtype}")
        _require(1 <= rank <= 5, f"{rank} dimensions, not 1 to 5")
        _require(len(self.strides) == rank - 1, f"{len(self.strides)} strides for {rank} dimensions")
        _require(len(self.box) == len(steps) == rank, f"box and element strides need {rank} dimensions")
        _require(self.interleave == 0, "interleaved layouts are not read")
        _require(self.swizzle in (0, 32, 64, 128), f"no swizzle of {self.swizzle} bytes")
        _require(self.address % 16 == 0, f"address {self.address:#x} is no multiple of 16")
        _require(all(1 <= size <= 1 << 32 for size in self.dims), f"sizes {self.dims}, not 1 to 2^32")
        _require(
            all(step % 16 == 0 and 0 <= step < 1 << 40 for step in self.strides),
            f"strides {self.strides}, not multiples of 16 below 2^40",
        )
        _require(all(1 <= extent <= 256 for extent in self.box), f"box {self.box}, not 1 to 256 along each dimension")
        _require(all(1 <= step <= 8 for step in steps), f"element strides {steps}, not 1 to 8")
        row = self.box[0] * BYTES[self.dtype]
        _require(row % 16 == 0, f"rows of {row} bytes are no multiple of 16")
        _require(not self.swizzle or row <= self.swizzle, f"rows of {row} bytes exceed the swizzle of {self.swizzle}")
        _require(
            self.dtype != UNPACKED or self.box[0] == UNPACKED_BOX and self.dims[0] % UNPACKED_BOX == 0,
            f"{UNPACKED} of {self.dims[0]} elements in boxes of {self.box[0]}, not of boxes of {UNPACKED_BOX}",
        )
        _require(self.fill == "zero" or self.dtype in _FLOATS, f"{self.dtype} has no NaN to fill with")

    @property
    def bits(self) -> int:
        """Of an element in global memory."""
        return 4 if self.dtype == UNPACKED else 8 * BYTES[self.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements that a copy moves along each dimension. The innermost is never stepped over."""
        outer = zip(self.box[1:], self.element_strides[1:], strict=True)
        return (self.box[0], *(-(-extent // step) for extent, step in outer))

    @property
    def bytes(self) -> int:
        """Bytes that a load counts on its mbarrier, those outside of the tensor too; of padding none."""
        return int(np.prod(self.shape)) * BYTES[self.dtype] // (2 if self.dtype == UNPACKED else 1)

    @property
    def pitch(self) -> int:
        """Bytes from row to row in shared memory: a swizzled row is as wide as the swizzle."""
        return self.swizzle or self.box[0] * BYTES[self.dtype]

    @property
    def extent(self) -> int:
        """Bytes of shared memory from the first to the last of a box."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.pitch


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"tensor map: {otherwise}")


def swizzled(addresses: Array, swizzle: int) -> Array:
    """Where the byte lies that a plain layout has at a shared-memory address.

    Bits 4 to 6 of the address are exchanged by bits 7 to 9 (128 bytes), 4 and 5 by 7 and 8 (64), 4 by 7 (32).
    """
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    moved: Array = addresses ^ ((addresses >> 7 & mask) << 4)
    return moved


def load(tensor: TensorMapModel, coords: tuple[int, ...], address: int, read_global: Read) -> tuple[Array, Array]:
    """What a load of the box at `coords` writes to shared memory at `address`.

    Returns offsets from `address` (int64 [n]) of 16-byte chunks, and the chunks (uint8 [n, 16]): row after row of the
    box, moved by the swizzle of their shared-memory addresses. Elements outside of the tensor are `fill`.
    ValueError: coordinates of another rank, an address that no load may have.
    """
    _check(tensor, coords, address)
    size, rows = BYTES[tensor.dtype], _rows(tensor)
    whole = np.tile(_outside(tensor), (rows, tensor.box[0] * size // len(_outside(tensor))))
    places, inside, low, high = _addresses(tensor, coords)
    if tensor.dtype == UNPACKED and some(inside):
        whole[inside] = _padded(read_global(places[inside], tensor.box[0] // 2))
    elif high > low and some(inside):
        whole[inside, low * size : high * size] = read_global(places[inside], (high - low) * size)
    return _chunks(tensor, address), whole.reshape(-1, _CHUNK)


def _padded(rows: Array) -> Array:
    """Each 8 bytes of rows [n, bytes] with 8 bytes of zeros behind them."""
    halves = rows.reshape(len(rows), -1, _CHUNK // 2)
    return np.concatenate([halves, np.zeros_like(halves)], axis=-1).reshape(len(rows), -1)


def store(tensor: TensorMapModel, coords: tuple[int, ...], shared: Array, address: int, write_global: Write) -> None:
    """Writes the box that lies in `shared` (all of shared memory, uint8) at `address` to global memory at `coords`.

    Elements outside of the tensor are not written.
    """
    _check(tensor, coords, address)
    _require(tensor.dtype != UNPACKED, f"a store of {UNPACKED} is not executed")
    size = BYTES[tensor.dtype]
    places, inside, low, high = _addresses(tensor, coords)
    if high > low and some(inside):
        write_global(places[inside], _gather(tensor, shared, address)[inside, low * size : high * size])


def reduce(
    tensor: TensorMapModel,
    operation: str,
    coords: tuple[int, ...],
    shared: Array,
    address: int,
    read_global: Read,
    write_global: Write,
) -> None:
    """`cp.reduce`: as `store`, but each element in memory becomes `operation` of itself and the box's.

    operation: add, min, max, and, or, xor, inc, dec, in the element type of the map. ValueError: the type has it not.
    """
    _check(tensor, coords, address)
    size = BYTES[tensor.dtype]
    places, inside, low, high = _addresses(tensor, coords)
    if high <= low or not some(inside):
        return
    given = _gather(tensor, shared, address)[inside, low * size : high * size]
    places = places[inside]
    apart = np.diff(np.sort(places))
    if every(apart >= given.shape[1]):
        write_global(places, combine(tensor.dtype, operation, read_global(places, given.shape[1]), given))
        return
    for place, row in zip(places, given, strict=True):  # rows that overlap in memory: one after the other
        at = np.array([place])
        write_global(at, combine(tensor.dtype, operation, read_global(at, given.shape[1]), row[None]))


def combine(dtype: str, operation: str, old: Array, new: Array) -> Array:
    """Both as bytes, uint8 [n, size]: the bytes of `operation` of their elements."""
    if dtype in _FLOATS:
        return _combine_floats(dtype, operation, old, new)
    kind = np.dtype(dtype.lower())
    left, right = (np.ascontiguousarray(side).view(kind) for side in (old, new))
    integers: dict[str, Callable[[], Array]] = {
        "add": lambda: left + right,
        "min": lambda: np.minimum(left, right),
        "max": lambda: np.maximum(left, right),
        "and": lambda: left & right,
        "or": lambda: left | right,
        "xor": lambda: left ^ right,
        "inc": lambda: np.where(left >= right, 0, left + 1).astype(kind),
        "dec": lambda: np.where((left == 0) | (left > right), right, left - 1).astype(kind),
    }
    if operation not in integers:
        raise ValueError(f"no {operation} of {dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(integers[operation]()).view(np.uint8)


def _combine_floats(dtype: str, operation: str, old: Array, new: Array) -> Array:
    kind = _FLOATS[dtype]
    unsigned = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}[kind]
    left, right = (decode(np.ascontiguousarray(side).view(unsigned), kind) for side in (old, new))
    if dtype.endswith("_FTZ"):
        left, right = flush(left), flush(right)
    if operation in ("min", "max") and kind not in ("f16", "bf16") or operation not in ("add", "min", "max"):
        raise ValueError(f"no {operation} of {dtype}")
    wide = {"add": np.add, "min": np.fmin, "max": np.fmax}[operation]
    with np.errstate(all="ignore"):
        result = wide(left, right) if kind in ("f32", "f64") else wide(left.astype(np.float64), right)
    if dtype.endswith("_FTZ"):
        result = flush(result)
    return np.ascontiguousarray(encode(result, kind)).view(np.uint8)


def _check(tensor: TensorMapModel, coords: tuple[int, ...], address: int) -> None:
    rank = len(tensor.dims)
    _require(len(coords) == rank, f"{len(coords)} coordinates for {rank} dimensions")
    _require(address % 128 == 0, f"shared address {address:#x} is no multiple of 128")


def _rows(tensor: TensorMapModel) -> int:
    """Rows of a box: all but the innermost dimension."""
    return int(np.prod(tensor.shape[1:], dtype=np.int64))


def _outside(tensor: TensorMapModel) -> Array:
    """The bytes of an element that is outside of the tensor."""
    size = BYTES[tensor.dtype]
    if tensor.fill == "zero":
        return np.zeros(size, np.uint8)
    nan = np.array([np.nan], np.float64 if size == 8 else np.float32)
    return np.ascontiguousarray(encode(nan, _FLOATS[tensor.dtype])).view(np.uint8)


def _addresses(tensor: TensorMapModel, coords: tuple[int, ...]) -> tuple[Array, Array, int, int]:
    """Of each row of the box: where its first element inside of the tensor lies, and whether it is inside at all.

    And the first and last + 1 of the innermost elements that are inside.
    """
    places = np.full(1, tensor.address, np.int64)
    inside = np.ones(1, bool)
    for dim in range(1, len(tensor.dims)):
        index = coords[dim] + np.arange(tensor.shape[dim], dtype=np.int64) * tensor.element_strides[dim]
        places = (index[:, None] * tensor.strides[dim - 1] + places).reshape(-1)
        inside = (((index >= 0) & (index < tensor.dims[dim]))[:, None] & inside).reshape(-1)
    if tensor.dtype == UNPACKED:
        _require(
            coords[0] % UNPACKED_BOX == 0, f"{UNPACKED} from element {coords[0]} on, no multiple of {UNPACKED_BOX}"
        )
        return places + coords[0] // 2, inside & (0 <= coords[0] < tensor.dims[0]), 0, tensor.box[0]
    low = max(0, -coords[0])
    high = min(tensor.box[0], tensor.dims[0] - coords[0])
    return places + (coords[0] + low) * BYTES[tensor.dtype], inside, low, high


@lru_cache(maxsize=1024)
def _pattern(rows: int, row: int, pitch: int, swizzle: int, phase: int) -> Array:
    """Offsets from an address with the low bits `phase` of the chunks of `rows` rows of `row` bytes, in order."""
    plain = [r * pitch + at for r, at in itertools.product(range(rows), range(0, row, _CHUNK))]
    offsets = swizzled(np.array(plain, np.int64) + phase, swizzle) - phase
    offsets.flags.writeable = False
    return offsets


def _chunks(tensor: TensorMapModel, address: int) -> Array:
    row = tensor.box[0] * BYTES[tensor.dtype]
    return _pattern(_rows(tensor), row, tensor.pitch, tensor.swizzle, address % 1024)


def _gather(tensor: TensorMapModel, shared: Array, address: int) -> Array:
    """The box in shared memory as rows of bytes, the swizzle undone."""
    at = _chunks(tensor, address) + address
    return shared[at[:, None] + np.arange(_CHUNK)].reshape(_rows(tensor), -1)
