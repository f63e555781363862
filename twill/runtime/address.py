"""The places in a launch's packed parameters that depend on where tensors are: pointers, and tensor maps.

A call that differs from an earlier one in nothing else needs no more than these written anew: whatever was checked
holds as it did, except for alignment. A pointer is written like a number (`twill.runtime.writer`); a tensor map for
another address is made by the driver from the one that is there, once, and then only pointed to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twill.manifest.document import Manifest
from twill.runtime.launch import Packed
from twill.runtime.tensor import TensorView, is_torch
from twill.runtime.tensor_map import ALIGNMENT, TensorMap, relocated
from twill.runtime.writer import FreeMap, FreePointer

MOST_MAPS = 512  # of one parameter that are remembered


def free_addresses(
    manifest: Manifest,
    names: Sequence[str],
    values: Sequence[Any],
    tensors: Mapping[str, TensorView],
    maps: Sequence[TensorMap],
) -> tuple[tuple[FreePointer, ...], tuple[FreeMap, ...]]:
    """Those of PyTorch's tensors. names, values: of the call, in order; tensors: what the launch was prepared for,
    maps: what was made for them."""
    promised = {promise.name: promise.multiple for promise in manifest.promises}
    pointers: list[FreePointer] = []
    found: list[FreeMap] = []
    for slot, parameter in enumerate(manifest.parameters):
        if parameter.kind not in ("map", "pointer") or parameter.kind == "map" and parameter.index in manifest.made:
            continue
        name = manifest.maps[parameter.index].argument if parameter.kind == "map" else parameter.name
        position = names.index(name)
        described = hasattr(values[position], "block_shape")
        if not is_torch(values[position].base if described else values[position]):
            continue
        if parameter.kind == "map":
            found.append(FreeMap(position, slot, maps[parameter.index].pointer - tensors[name].pointer, described))
        else:
            pointers.append(FreePointer(position, slot, promised.get(name, 1), described))
    return tuple(pointers), tuple(found)


class MovingMaps:
    """The tensor maps of one launch, wherever their tensors are. at: where each is now."""

    def __init__(self, free: Sequence[FreeMap], packed: Packed) -> None:
        self.slots = [one.slot for one in free]
        self.packed = packed
        self.known: list[dict[int, TensorMap]] = [{} for _ in free]
        self.now: list[TensorMap] = [packed.storage[slot] for slot in self.slots]
        self.at = [there.pointer for there in self.now]
        for known, there in zip(self.known, self.now, strict=True):
            known[there.pointer] = there

    def move(self, number: int, pointer: int) -> bool:
        """Point the parameter to a map that begins at `pointer`; False if that takes a careful look."""
        known = self.known[number]
        there = known.get(pointer)
        if there is None:
            there = None if pointer % ALIGNMENT else relocated(self.now[number], pointer)
            if there is None:
                return False
            if len(known) >= MOST_MAPS:
                known.clear()
            known[pointer] = there
        self.packed.pointers[self.slots[number]] = there.address
        self.now[number], self.at[number] = there, pointer
        return True
