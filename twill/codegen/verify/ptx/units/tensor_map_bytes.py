"""A tensor map as 128 bytes of memory: in the executor's own order of fields, for what a driver writes there is not
documented. `tensormap.replace` changes one of them (PTX ISA, "tensormap.replace")."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from twill.codegen.verify.ptx.units.tensor_map import BYTES, TensorMapModel

Array = Any  # np.ndarray

SIZE = 128  # bytes
MAGIC = 0x70616D74
TYPES = tuple(BYTES)
FILLS: tuple[Literal["zero", "nan"], ...] = ("zero", "nan")
_RANK, _TYPE, _SWIZZLE, _FILL, _ADDRESS, _DIMS, _BOX, _STEPS, _STRIDES = 1, 2, 3, 4, 6, 8, 13, 18, 24  # 32-bit words


def encoded(tensor: TensorMapModel) -> Array:
    """uint8 [128]."""
    words, rank = np.zeros(SIZE // 4, np.uint32), len(tensor.dims)
    words[:_ADDRESS] = (MAGIC, rank, TYPES.index(tensor.dtype), tensor.swizzle, FILLS.index(tensor.fill), 0)
    words[_ADDRESS : _ADDRESS + 2].view(np.uint64)[0] = tensor.address
    words[_DIMS : _DIMS + rank] = [size & 0xFFFFFFFF for size in tensor.dims]
    words[_BOX : _BOX + rank] = tensor.box
    words[_STEPS : _STEPS + rank] = tensor.element_strides
    words[_STRIDES:].view(np.uint64)[: rank - 1] = tensor.strides
    return words.view(np.uint8)


def decoded(data: Array) -> TensorMapModel:
    """The other way round. ValueError: no tensor map, or one that the driver refuses."""
    words = np.ascontiguousarray(data).view(np.uint32)
    if words[0] != MAGIC:
        raise ValueError("tensor map: these bytes are none")
    rank = int(words[_RANK])
    return TensorMapModel(
        int(words[_ADDRESS : _ADDRESS + 2].view(np.uint64)[0]),
        TYPES[int(words[_TYPE])],
        tuple(int(size) or 1 << 32 for size in words[_DIMS : _DIMS + rank]),
        tuple(map(int, words[_STRIDES:].view(np.uint64)[: rank - 1])),
        tuple(map(int, words[_BOX : _BOX + rank])),
        tuple(map(int, words[_STEPS : _STEPS + rank])),
        cast(Literal[0, 32, 64, 128], int(words[_SWIZZLE])),
        fill=FILLS[int(words[_FILL])],
    )


def replace(data: Array, field: str, ordinal: int, value: int) -> None:
    """One field of a map, in place. ValueError: no tensor map, no such field, or no such dimension."""
    words = data.view(np.uint32)
    if words[0] != MAGIC:
        raise ValueError("tensor map: these bytes are none")
    rank = int(words[_RANK])
    match field:
        case "global_address":
            words[_ADDRESS : _ADDRESS + 2].view(np.uint64)[0] = value
        case "global_dim" if ordinal < rank:
            words[_DIMS + ordinal] = value & 0xFFFFFFFF
        case "global_stride" if ordinal < rank - 1:
            words[_STRIDES:].view(np.uint64)[ordinal] = value
        case _:
            raise ValueError(f"tensor map: {field} {ordinal} of {rank} dimensions is not replaced")
