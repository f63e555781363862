"""The places in a launch's packed parameters that depend on where tensors are: pointers, and tensor maps.

A call that differs from an earlier one in nothing else needs no more than these written anew: whatever was checked
holds as it did, except for alignment. A tensor map gets its new address from the driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twill.manifest.document import Manifest
from twill.runtime.tensor import TensorView, is_torch
from twill.runtime.tensor_map import ALIGNMENT, TensorMap, relocated


@dataclass(frozen=True)
class TensorAddress:
    """One such place. position: of its tensor or descriptor among the values. slot: among the packed parameters.
    offset: bytes from the tensor's first element. multiple: bytes that the address is a multiple of."""

    position: int
    slot: int
    offset: int
    multiple: int

    def moved(self, value: Any, before: Any) -> Any:
        """What takes the place of `before` where the tensor is `value`; None if that takes a careful look."""
        tensor = value.base if hasattr(value, "block_shape") else value
        if not is_torch(tensor):
            return None
        pointer = tensor.data_ptr() + self.offset
        if pointer % self.multiple:
            return None
        if not isinstance(before, TensorMap):
            return ctypes.c_uint64(pointer)
        return before if pointer == before.pointer else relocated(before, pointer)


def addresses(
    manifest: Manifest, names: Sequence[str], tensors: Mapping[str, TensorView], maps: Sequence[TensorMap]
) -> tuple[TensorAddress, ...]:
    """Those of a launch that was prepared. names: of the values, in order. tensors: what the launch was prepared for;
    maps: what was made for them."""
    promised = {promise.name: promise.multiple for promise in manifest.promises}
    found = []
    for slot, parameter in enumerate(manifest.parameters):
        if parameter.kind == "map":
            name = manifest.maps[parameter.index].argument
            offset = maps[parameter.index].pointer - tensors[name].pointer
            found.append(TensorAddress(names.index(name), slot, offset, ALIGNMENT))
        elif parameter.kind == "pointer":
            found.append(TensorAddress(names.index(parameter.name), slot, 0, promised.get(parameter.name, 1)))
    return tuple(found)
