"""As much of PyTorch as `twill.trial` needs, on NumPy: for tests where there is no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Dtype:
    """An element type."""

    kind: Any

    @property
    def itemsize(self) -> int:
        return int(np.dtype(self.kind).itemsize)

    @property
    def is_floating_point(self) -> bool:
        return bool(np.issubdtype(self.kind, np.floating))


DTYPES = {
    "uint8": np.uint8,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "float32": np.float32,
    "bool": np.bool_,
}


class Tensor:
    """A view of NumPy memory."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.device = "cpu"

    @property
    def dtype(self) -> Dtype:
        return Dtype(self.array.dtype.type)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def view(self, *form: Any) -> Tensor:
        if isinstance(form[0], Dtype):
            return Tensor(self.array.view(form[0].kind))
        return Tensor(self.array.reshape(form[0]))

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(self.array[index])

    def __eq__(self, other: object) -> Any:
        return Tensor(self.array == other)

    def __sub__(self, other: Tensor | int) -> Tensor:
        return Tensor(self.array - (other.array if isinstance(other, Tensor) else other))

    def __truediv__(self, other: Tensor) -> Tensor:
        return Tensor(self.array / other.array)

    def __float__(self) -> float:
        return float(self.array)

    def __bool__(self) -> bool:
        return bool(self.array)

    def all(self) -> Tensor:
        return Tensor(self.array.all())

    def zero_(self) -> None:
        self.array[...] = 0

    def fill_(self, value: float) -> None:
        self.array[...] = value

    def copy_(self, other: Tensor) -> None:
        self.array[...] = other.array

    def clone(self) -> Tensor:
        return Tensor(self.array.copy())

    def double(self) -> Tensor:
        return Tensor(self.array.astype(np.float64))

    def float(self) -> Tensor:
        return Tensor(self.array.astype(np.float32))

    def flatten(self) -> Tensor:
        return Tensor(self.array.reshape(-1))

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.array

    def to(self, device: str) -> Tensor:
        return self

    def norm(self) -> Tensor:
        return Tensor(np.linalg.norm(self.array.reshape(-1)))

    def clamp(self, min: Any) -> Tensor:  # noqa: A002
        return Tensor(np.maximum(self.array, min))

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def numel(self) -> int:
        return int(self.array.size)

    def element_size(self) -> int:
        return int(self.array.itemsize)


class Generator:
    """Random numbers."""

    def __init__(self, device: str) -> None:
        self.numbers = np.random.default_rng(0)

    def manual_seed(self, seed: int) -> Generator:
        self.numbers = np.random.default_rng(seed)
        return self


def fake_torch() -> Any:
    """The module."""
    return SimpleNamespace(
        **{name: Dtype(kind) for name, kind in DTYPES.items()},
        Generator=Generator,
        full=lambda shape, value, dtype, device: Tensor(np.full(shape, value, dtype.kind)),
        randn=lambda shape, generator, device: Tensor(generator.numbers.standard_normal(shape)),
        randint=lambda low, high, shape, generator, device: Tensor(generator.numbers.integers(low, high, shape)),
        from_numpy=Tensor,
        tensor=lambda numbers: Tensor(np.array(numbers)),
        equal=lambda one, two: bool((one.array == two.array).all()),
        cuda=SimpleNamespace(synchronize=lambda: None),
    )
