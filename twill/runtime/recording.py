"""What a launch was made with, as a specialization of a sidecar has it: types, sizes, numbers in small tensors.

Reading the numbers waits for what the stream has to do, and looks through the objects of the process for the tensors
that addresses mean: for `twill record`, and once for a variant whose helper asks for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twill.runtime.variant import Unsupported, Variant, variant

if TYPE_CHECKING:
    from twill.kernel.launches import Launch
    from twill.kernel.recorded import RecordedVariant, Sizes
    from twill.kernel.recorded_tables import LookedUp, PointedAt

MOST_NUMBERS = 256  # of a tensor whose numbers are looked at
ADDRESS = 1 << 20  # what is an address is greater


class Unrecordable(Exception):
    """Why a launch can't be written down."""


def noted(launch: Launch) -> tuple[str, RecordedVariant, Sizes]:
    """The file, the variant and the sizes of a launch. Errors: Unrecordable."""
    from twill.exc import MalformedFlag
    from twill.kernel.argument_types import parse_type

    function = launch.kernel.fn
    file = os.path.realpath(function.__code__.co_filename)
    if "<locals>" in function.__qualname__:
        raise Unrecordable("it is defined inside a function")
    if not Path(file).is_file():
        raise Unrecordable("it has no file")
    try:
        found = variant(list(launch.arguments), launch.specialization, list(launch.arguments.values()))
        for name, kind in found.signature:
            parse_type(name, kind)
    except (Unsupported, MalformedFlag) as error:
        raise Unrecordable(str(error).split("\n")[0]) from None
    fused = bool(launch.options.get("enable_fp_fusion", True))
    return file, recorded(function.__name__, found, fused), sizes_of(found, launch.arguments, launch.grid)


def specialization_of(kernel: str, found: Variant, arguments: Mapping[str, Any], grid: tuple[int, ...]) -> str:
    """A launch as a sidecar of one specialization. Errors: Unrecordable."""
    from twill.kernel.recorded import table_text

    return table_text(recorded(kernel, found), {sizes_of(found, arguments, grid): 1}, default=True)


def recorded(kernel: str, found: Variant, fused: bool = True) -> RecordedVariant:
    """A variant as it is written down. fused: `enable_fp_fusion` of the launch."""
    from twill.kernel.recorded import RecordedVariant as Recorded

    return Recorded(kernel, found.signature, found.constants, found.divisible, fused)


def sizes_of(found: Variant, given: Mapping[str, Any], grid: tuple[int, ...]) -> Sizes:
    """What a launch was called with. Errors: Unrecordable."""
    from twill.kernel.recorded import Sizes as Found

    arguments = [(name, given[name], kind) for name, kind in found.signature]
    scalars = [(name, value, kind) for name, value, kind in arguments if not kind.startswith(("*", "tensordesc"))]
    return Found(
        grid,
        tuple((name, int(value)) for name, value, kind in scalars if "fp" not in kind and "bf" not in kind),
        tuple((name, float(value)) for name, value, kind in scalars if "fp" in kind or "bf" in kind),
        tuple((name, shape_of(value)) for name, value, kind in arguments if kind.startswith(("*", "tensordesc"))),
        looked_up({name: value for name, value, kind in arguments if kind in ("*i32", "*i64")}),
    )


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, or of the tensor behind a descriptor, in memory. Errors: Unrecordable."""
    from twill.kernel.recorded import memory_shape

    tensor = getattr(value, "base", value)
    if not hasattr(tensor, "stride") or not hasattr(tensor, "shape"):
        raise Unrecordable(f"an argument is a {type(value).__name__}")
    return memory_shape(tuple(tensor.shape), tuple(tensor.stride()))


def looked_up(tensors: dict[str, Any]) -> LookedUp | None:
    """The numbers in a launch's integer tensors, if some are the addresses of tensors. None if no address is among
    them, or there are no numbers (a tensor of the meta device)."""
    from twill.kernel.recorded_tables import LookedUp as Found

    numbers = {name: numbers_of(tensor) for name, tensor in tensors.items()}
    large = {name for name, of in numbers.items() if of and min(of) > ADDRESS}
    there = tensors_at({number for name in large for number in numbers[name]}) if large else {}
    pointed = {name: pointed_at([there.get(number) for number in numbers[name]]) for name in sorted(large)}
    addresses = tuple((name, of) for name, of in pointed.items() if of is not None)
    if not addresses:
        return None
    return Found(tuple((name, of) for name, of in numbers.items() if of and not pointed.get(name)), addresses)


def numbers_of(tensor: Any) -> tuple[int, ...]:
    """The numbers in a tensor that has few; () if it has many, or none that can be read."""
    if getattr(tensor, "is_meta", True) or not 0 < tensor.numel() <= MOST_NUMBERS:
        return ()
    return tuple(int(number) for number in tensor.reshape(-1).tolist())


def tensors_at(addresses: set[int]) -> dict[int, Any]:
    """The tensors of this process that begin at these addresses."""
    import gc

    import torch

    found: dict[int, Any] = {}
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and not thing.is_meta and thing.data_ptr() in addresses:
            known = found.get(thing.data_ptr())
            if known is None or known.numel() < thing.numel():
                found[thing.data_ptr()] = thing
    return found


def pointed_at(tensors: list[Any]) -> PointedAt | None:
    """What the addresses in a tensor point to; None if one points to no tensor, or they are of different elements."""
    from twill.kernel.recorded_tables import PointedAt as Pointed

    if any(tensor is None for tensor in tensors) or len({tensor.dtype for tensor in tensors}) != 1:
        return None
    return Pointed(tensors[0].element_size(), tuple(shape_of(tensor) for tensor in tensors))
