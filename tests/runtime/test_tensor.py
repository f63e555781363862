"""Promises of the one view of tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from twill import exc
from twill.runtime.tensor import TensorView, is_tensor, is_torch, view


def torch_tensor(dtype: str = "torch.bfloat16", device: str = "cuda") -> Any:
    """What this library asks of a PyTorch tensor, and nothing else."""

    class Tensor:
        shape = (4, 8)

        def data_ptr(self) -> int:
            return 4096

        def stride(self) -> tuple[int, ...]:
            return (8, 1)

    tensor: Any = Tensor()
    Tensor.__module__ = "torch"
    tensor.dtype, tensor.device = dtype, SimpleNamespace(type=device, index=1 if device == "cuda" else None)
    return tensor


def test_a_pytorch_tensor_is_read_by_its_own_methods() -> None:
    tensor = torch_tensor()
    assert is_torch(tensor)
    assert view(tensor, "a") == TensorView(4096, "bf16", (4, 8), (8, 1), device=1, alive=tensor)


def test_a_view_is_itself() -> None:
    given = TensorView(16, "f32", (1,), (1,), device=0)
    assert view(given, "a") is given
    assert is_tensor(given)


@pytest.mark.parametrize("tensor", [torch_tensor(device="cpu"), np.zeros(3)])
def test_host_memory_is_refused(tensor: Any) -> None:
    with pytest.raises(exc.WrongArgument, match="`a` is a tensor in host memory"):
        view(tensor, "a")


def test_an_element_type_without_a_name_is_refused() -> None:
    with pytest.raises(exc.WrongArgument, match="torch.complex64"):
        view(torch_tensor("torch.complex64"), "a")


def test_a_number_is_no_tensor() -> None:
    assert not is_tensor(3)
    with pytest.raises(exc.WrongArgument, match="no tensor"):
        view(3, "a")
