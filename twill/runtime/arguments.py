"""Bound values as the kernel takes them: numbers in range, tensors and descriptors as views, each checked by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twill import exc
from twill.manifest.document import POSITIVE, CallArgument, Promise
from twill.runtime.tensor import TensorView, is_tensor, view

_FLOATS = ("fp16", "bf16", "fp32", "fp64")
_INTEGERS: dict[str, tuple[int, int]] = {
    "i1": (0, 2),
    **{f"i{bits}": (-(1 << bits - 1), 1 << bits - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (0, 1 << bits) for bits in (1, 8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class BoundArguments:
    """The arguments of one call. scalars: numbers, and sizes and strides of descriptors ("a_desc.shape.0"), elements.
    tensors: of pointers and descriptors."""

    scalars: Mapping[str, int | float]
    tensors: Mapping[str, TensorView]

    @property
    def device(self) -> int | None:
        """The one GPU of all tensors, None without a tensor. Errors: WrongArgument if they are on several."""
        first = next(iter(self.tensors.items()), None)
        if first is None:
            return None
        for name, tensor in self.tensors.items():
            if tensor.device != first[1].device:
                there = f"a tensor on GPU {first[1].device}, where `{first[0]}` is"
                raise exc.WrongArgument(name, f"on GPU {tensor.device}", there)
        return first[1].device


def read_arguments(arguments: Sequence[CallArgument], values: Sequence[Any], stream: int = 0) -> BoundArguments:
    """`values` of the arguments that are no constants. Errors: WrongArgument, MisalignedTensor."""
    scalars: dict[str, int | float] = {}
    tensors: dict[str, TensorView] = {}
    for argument, value in zip(arguments, values, strict=True):
        if argument.kind == "number":
            scalars[argument.name] = number(argument, value)
        elif argument.kind == "pointer":
            tensors[argument.name] = _tensor(argument, value, stream)
        else:
            tensor = _descriptor(argument, value, stream)
            tensors[argument.name] = tensor
            for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
                scalars[f"{argument.name}.shape.{axis}"] = size
                scalars[f"{argument.name}.stride.{axis}"] = stride
    return BoundArguments(scalars, tensors)


def check_promises(promises: Sequence[Promise], bound: BoundArguments) -> None:
    """Errors: BrokenPromise for a number or stride, MisalignedTensor for an address."""
    for promise in promises:
        if promise.name in bound.tensors:
            address = bound.tensors[promise.name].pointer
            if address % promise.multiple:
                wanted = f"multiples of {promise.multiple} bytes"
                raise exc.MisalignedTensor(promise.name, f"starts at address {address:#x}", wanted)
        elif promise.positive:
            if not is_positive(bound.scalars[promise.name]):
                span = f"a number from {POSITIVE[0]:.3g} to {POSITIVE[1]:.3g}"
                raise exc.BrokenPromise(promise.name, bound.scalars[promise.name], span, ":positive")
        elif bound.scalars[promise.name] % promise.multiple:
            multiple = f"a multiple of {promise.multiple}"
            raise exc.BrokenPromise(promise.name, bound.scalars[promise.name], multiple, ":16")


def is_positive(value: float) -> bool:
    """Whether a number keeps the promise that it is positive, neither vanishing nor near overflow."""
    return POSITIVE[0] <= value <= POSITIVE[1]


def number(argument: CallArgument, value: object) -> int | float:
    """A number of the argument's type. Errors: WrongArgument."""
    if argument.type in _FLOATS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise exc.WrongArgument(argument.name, f"a {type(value).__name__}", f"a number ({argument.type})")
        return float(value)
    low, high = limits(argument)
    if isinstance(value, bool) and high - low != 2 or not isinstance(value, int):
        raise exc.WrongArgument(argument.name, f"a {type(value).__name__}", f"an integer ({argument.type})")
    if not low <= value < high:
        raise exc.WrongArgument(argument.name, str(value), f"a number that fits {argument.type}")
    return int(value)


def limits(argument: CallArgument) -> tuple[int, int]:
    """The half-open range of an integer argument."""
    return _INTEGERS[argument.type]


def is_float(argument: CallArgument) -> bool:
    """Whether the argument is a float."""
    return argument.type in _FLOATS


def is_descriptor(value: object) -> bool:
    """Whether it is like Triton's `TensorDescriptor`, found out without importing Triton."""
    return all(hasattr(value, name) for name in ("base", "shape", "strides", "block_shape"))


def _tensor(argument: CallArgument, value: Any, stream: int) -> TensorView:
    if not is_tensor(value):
        raise exc.WrongArgument(argument.name, f"a {type(value).__name__}", f"a tensor of {argument.element}")
    tensor = view(value, argument.name, stream)
    if tensor.dtype != argument.element:
        raise exc.WrongArgument(argument.name, f"a tensor of {tensor.dtype}", f"a tensor of {argument.element}")
    return tensor


def _descriptor(argument: CallArgument, value: Any, stream: int) -> TensorView:
    """A descriptor's tensor, with the descriptor's own shape and strides."""
    name = argument.name
    if not is_descriptor(value):
        wanted = f"a TensorDescriptor with blocks {list(argument.block)}"
        raise exc.WrongArgument(name, f"a {type(value).__name__}", wanted)
    block = tuple(value.block_shape)
    if block != argument.block:
        raise exc.WrongArgument(name, f"a descriptor with blocks {list(block)}", f"blocks {list(argument.block)}")
    if getattr(value, "padding", "zero") != "zero":
        raise exc.WrongArgument(name, f"a descriptor with padding {value.padding!r}", "one that pads with zero")
    if getattr(value, "round_f32_to_tf32", False):
        raise exc.WrongArgument(name, "a descriptor that rounds to tf32", "one that copies what is there")
    base = _tensor(argument, value.base, stream)
    shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.strides))
    if not len(shape) == len(strides) == len(block):
        raise exc.WrongArgument(name, f"of {len(shape)} sizes and {len(strides)} strides", f"{len(block)} of each")
    for axis, size in enumerate(shape):
        if not 0 <= size < 1 << 31:
            raise exc.WrongArgument(name, f"of size {size} in dimension {axis}", f"sizes from 0 to {(1 << 31) - 1}")
    if strides[-1] != 1:
        raise exc.MisalignedTensor(name, f"has stride {strides[-1]} in its last dimension", "stride 1 there")
    return TensorView(base.pointer, base.dtype, shape, strides, base.device, base.alive)
