"""One view of the tensors of every framework: PyTorch by its own methods, all others by DLPack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from twill import exc
from twill.runtime.dlpack import read_dlpack

ELEMENT_BYTES = {
    "i1": 1, "i8": 1, "u8": 1, "f8e4m3fn": 1, "f8e5m2": 1,
    "i16": 2, "u16": 2, "f16": 2, "bf16": 2,
    "i32": 4, "u32": 4, "f32": 4,
    "i64": 8, "u64": 8, "f64": 8,
}  # fmt: skip

_TORCH = {
    "torch.bool": "i1", "torch.int8": "i8", "torch.uint8": "u8", "torch.int16": "i16", "torch.uint16": "u16",
    "torch.int32": "i32", "torch.uint32": "u32", "torch.int64": "i64", "torch.uint64": "u64",
    "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float32": "f32", "torch.float64": "f64",
    "torch.float8_e4m3fn": "f8e4m3fn", "torch.float8_e5m2": "f8e5m2",
}  # fmt: skip


@dataclass(frozen=True)
class TensorView:
    """Where a tensor is. pointer: bytes. strides: elements. device: index of its GPU. alive: keeps the memory."""

    pointer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    alive: object = None


def reach(tensor: TensorView) -> int:
    """Elements from the tensor's first one to the end of the memory that it is known to lie in.

    A kernel may go beyond the tensor that it was given the address of: PyTorch knows the whole storage. For others it
    is the tensor itself.
    """
    if is_torch(tensor.alive):
        return (storage_end(tensor.alive) - tensor.pointer) // ELEMENT_BYTES[tensor.dtype]
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))


def storage_end(tensor: Any) -> int:
    """The address behind a PyTorch tensor's storage."""
    storage = tensor.untyped_storage()
    return int(storage.data_ptr()) + int(storage.nbytes())


def is_torch(value: object) -> bool:
    """Whether `value` is a PyTorch tensor (or of a class made from it), found out without importing PyTorch."""
    kind: Any = type(value)
    return _is_torch(kind)


@cache
def _is_torch(kind: Any) -> bool:
    made_from = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return "torch" in made_from and hasattr(kind, "data_ptr")


def torch_view(tensor: Any) -> TensorView:
    """Of a PyTorch tensor that was looked at before: where its elements are."""
    return TensorView(
        tensor.data_ptr(), _TORCH[str(tensor.dtype)], tuple(tensor.shape), tuple(tensor.stride()), tensor.get_device()
    )


def is_tensor(value: object) -> bool:
    """Whether `view` takes `value`."""
    return isinstance(value, TensorView) or is_torch(value) or hasattr(value, "__dlpack__")


def view(value: Any, name: str, stream: int = 0) -> TensorView:
    """The view of a tensor on a GPU; `name` is the argument's, for errors. Errors: WrongArgument."""
    if isinstance(value, TensorView):
        return value
    if is_torch(value):
        dtype = _TORCH.get(str(value.dtype))
        if dtype is None:
            raise exc.WrongArgument(name, f"a tensor of {value.dtype}", f"one of {', '.join(ELEMENT_BYTES)}")
        device = value.device.index if value.device.type == "cuda" else None
        found = (value.data_ptr(), dtype, tuple(value.shape), tuple(value.stride()))
    else:
        try:
            read = read_dlpack(value, stream)
        except TypeError as error:
            raise exc.WrongArgument(
                name, f"no tensor that can be read ({error})", "a PyTorch or DLPack tensor"
            ) from error
        device, found = read.device, (read.pointer, read.dtype, read.shape, read.strides)
    if device is None:
        raise exc.WrongArgument(name, "a tensor in host memory", "a tensor on the GPU")
    return TensorView(*found, device=device, alive=value)
