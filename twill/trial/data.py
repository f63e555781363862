"""Tensors for one launch of a kernel, with guards around them, and the launch's arguments for either kernel.

Tensors that are only written begin as NaN (integers: as 77), so that an element nobody wrote is seen; those that are
added to begin as zero. Bytes before and after each tensor must not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from twill.exc import UnknownProblem
from twill.kernel.problem import Case
from twill.manifest.document import CallArgument, Manifest
from twill.tile.program import POINTEE

GUARD = 4096  # bytes on either side
PATTERN = 0xA5

_DTYPES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


MEMORY = {"f8e4m3": "f8e4m3fn"}  # elements of tile programs by the runtime's names, where they differ

Blocks = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class GuardedTensor:
    """A tensor in the middle of `whole`, whose other bytes are PATTERN."""

    whole: Any
    tensor: Any

    def intact(self) -> bool:
        """Whether nothing was written beside the tensor."""
        head, tail = self.whole[:GUARD], self.whole[GUARD + self.tensor.numel() * self.tensor.element_size() :]
        return bool((head == PATTERN).all()) and bool((tail == PATTERN).all())


def guarded(shape: tuple[int, ...], element: str, device: str = "cuda") -> GuardedTensor:
    """A tensor of unwritten elements."""
    import torch

    dtype = getattr(torch, _DTYPES[element])
    size = math.prod(shape) * dtype.itemsize
    padded = -(-size // 16) * 16
    whole = torch.full((padded + 2 * GUARD,), PATTERN, dtype=torch.uint8, device=device)
    tensor = whole[GUARD : GUARD + size].view(dtype).view(shape)
    return GuardedTensor(whole, tensor)


@dataclass(frozen=True)
class Data:
    """The tensors of one case by argument. inputs: what was random, kept to begin again."""

    manifest: Manifest
    case: Case
    held: Mapping[str, GuardedTensor]

    def tensor(self, name: str) -> Any:
        """The tensor of an argument."""
        return self.held[name].tensor

    @property
    def outputs(self) -> dict[str, Any]:
        """Tensors that the kernel writes or adds to."""
        names = dict.fromkeys((*self.manifest.stores, *self.manifest.reduces))
        return {name: self.tensor(name) for name in names}

    @property
    def inputs(self) -> dict[str, Any]:
        """Tensors that the kernel reads."""
        return {name: self.tensor(name) for name in self.manifest.loads}

    def counted_from_zero(self, name: str) -> Any:
        """The tensor of an argument; addresses are counted from where what they point to begins."""
        pointee = self.held.get(name + POINTEE)
        return self.tensor(name) - (pointee.tensor.data_ptr() if pointee is not None else 0)

    def clear(self) -> None:
        """Outputs as before a launch. A tensor that is read and written is the caller's to restore."""
        for name, tensor in self.outputs.items():
            if name in self.manifest.reduces:
                tensor.zero_()
            elif name not in self.manifest.loads:
                tensor.fill_(float("nan") if tensor.dtype.is_floating_point else 77)

    def outside(self) -> list[str]:
        """Arguments beside whose tensor something was written."""
        return [name for name, held in self.held.items() if not held.intact()]

    def arguments(self, blocks: Blocks | None = None) -> list[Any]:
        """The runtime arguments in order. blocks: of descriptors, for other constants than the specialization's."""
        return [self._argument(a, blocks or {}) for a in self.manifest.arguments if a.kind != "constant"]

    def _argument(self, argument: CallArgument, blocks: Blocks) -> Any:
        if argument.kind == "number":
            value = self.case.scalars[argument.name]
            return float(value) if argument.type.startswith(("fp", "bf")) else value
        tensor = self.tensor(argument.name)
        return tensor if argument.kind == "pointer" else descriptor(tensor, blocks.get(argument.name, argument.block))


def make_data(manifest: Manifest, case: Case, seed: int = 0, device: str = "cuda") -> Data:
    """Random inputs, cleared outputs."""
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    held = {}
    for argument in manifest.arguments:
        if argument.kind in ("pointer", "descriptor"):
            one = guarded(case.shapes[argument.name], argument.element, device)
            if argument.name in manifest.loads:
                _randomize(one.tensor, generator)
            held[argument.name] = one
    for parameter in manifest.parameters:
        if parameter.kind == "origin":
            if parameter.name not in case.shapes:
                what = f"nothing says how much memory `{parameter.name}` is, to which the kernel looks up addresses"
                hint = f'tensors = {{ "{parameter.name}" = [...] }} (docs/problem-sizes.md)'
                raise UnknownProblem(what, file=manifest.file, hint=hint)
            held[parameter.name] = guarded(
                case.shapes[parameter.name], MEMORY.get(parameter.element, parameter.element), device
            )
            if parameter.name in manifest.loads:
                _randomize(held[parameter.name].tensor, generator)
    for name, numbers in case.tables.items():
        table = held[name].tensor
        start = held[name + POINTEE].tensor.data_ptr() if name + POINTEE in held else 0
        table.copy_(torch.tensor([number + start for number in numbers]).view(table.shape))
    data = Data(manifest, case, held)
    data.clear()
    return data


def descriptor(tensor: Any, block: tuple[int, ...]) -> Any:
    """Triton's tensor descriptor, or one like it where there is no Triton or it has no such blocks."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    like = SimpleNamespace(base=tensor, shape=shape, strides=strides, block_shape=list(block), padding="zero")
    if any(extent & (extent - 1) for extent in block):
        return like
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        return like
    return TensorDescriptor(tensor, shape, strides, list(block))


def original(
    kernel: Any, data: Data, constants: Mapping[str, Any] | None = None, blocks: Blocks | None = None, **options: int
) -> Callable[[], None]:
    """A launch of the Triton kernel. constants: other than the specialization's; options: num_warps, num_stages."""
    given = {a.name: constant(a.value) for a in data.manifest.arguments if a.kind == "constant"}
    given |= constants or {}
    named = zip((a.name for a in data.manifest.arguments if a.kind != "constant"), data.arguments(blocks), strict=True)
    arguments = {**dict(named), **given, **options}
    grid = data.case.grid
    return lambda: kernel[grid](**arguments)


def emitted(kernel: Any, data: Data) -> Callable[[], None]:
    """A launch of the emitted kernel: by position, constants between runtime arguments included."""
    runtime, grid = iter(data.arguments()), data.case.grid
    last = max((i for i, a in enumerate(data.manifest.arguments) if a.kind != "constant"), default=-1)
    arguments = [a.value if a.kind == "constant" else next(runtime) for a in data.manifest.arguments[: last + 1]]
    return lambda: kernel[grid](*arguments)


def constant(value: Any) -> Any:
    """What a launch of the Triton kernel gets for a constexpr: "tl.bfloat16" is a type."""
    if isinstance(value, str) and value.startswith("tl."):
        import triton.language

        return getattr(triton.language, value.removeprefix("tl."), value)
    return value


def _randomize(tensor: Any, generator: Any) -> None:
    import torch

    if tensor.dtype.is_floating_point:
        tensor.copy_(torch.randn(tensor.shape, generator=generator, device=tensor.device))
    elif tensor.dtype == torch.bool:
        tensor.copy_(torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device))
    else:
        tensor.copy_(torch.randint(0, 64, tensor.shape, generator=generator, device=tensor.device))
