"""Promises of a launch: what is wrong is said before the driver is asked."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.test_tensor import torch_tensor
from twill import exc
from twill.runtime.device import Device
from twill.runtime.launch import LaunchShape, bind, check_shape, launch, pack, stream_handle
from twill.runtime.module import Kernel, LaunchParameter
from twill.runtime.tensor import TensorView
from twill.runtime.tensor_map import TensorMap

X = TensorView(pointer=4096, dtype="bf16", shape=(16, 64), strides=(64, 1), device=0)
POINTER = LaunchParameter("x", "pointer", "bf16", alignment=16, strides=(None, 1))
COUNT = LaunchParameter("n", "i32")
SCALE = LaunchParameter("scale", "f32")
MAP = LaunchParameter("map", "tensor_map")
GPU = Device(0, "a GPU", (9, 0), sms=132, shared_bytes=232448, threads=1024, grid=(2**31 - 1, 65535, 65535))


def test_plain_values_are_taken() -> None:
    assert bind([POINTER, COUNT, SCALE], [X, -7, 2]) == (X, -7, 2)


@pytest.mark.parametrize(
    ("parameter", "value", "error", "words"),
    [
        (POINTER, 3, exc.WrongArgument, "`x` is a int"),
        (POINTER, TensorView(4096, "f32", (1, 1), (1, 1), 0), exc.WrongArgument, "a tensor of f32"),
        (POINTER, TensorView(4104, "bf16", (1, 1), (1, 1), 0), exc.MisalignedTensor, "multiples of 16 bytes"),
        (POINTER, TensorView(4096, "bf16", (4, 4), (1, 4), 0), exc.MisalignedTensor, "stride 4 in dimension 1"),
        (POINTER, TensorView(4096, "bf16", (4,), (1,), 0), exc.WrongArgument, "1 dimensions"),
        (COUNT, 1 << 31, exc.WrongArgument, "fits i32"),
        (COUNT, 1.0, exc.WrongArgument, "`n` is a float"),
        (COUNT, True, exc.WrongArgument, "`n` is a bool"),
        (SCALE, "1", exc.WrongArgument, "`scale` is a str"),
        (MAP, X, exc.WrongArgument, "a tensor map"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_name(
    parameter: LaunchParameter, value: object, error: type[exc.TwillError], words: str
) -> None:
    with pytest.raises(error) as caught:
        bind([parameter], [value])
    assert f"`{parameter.name}`" in str(caught.value)
    assert words in str(caught.value)


def test_the_stride_of_a_dimension_of_one_does_not_matter() -> None:
    column = TensorView(4096, "bf16", (16, 1), (64, 5), device=0)
    assert bind([POINTER], [column]) == (column,)


def test_the_number_of_arguments_is_checked_and_the_names_are_shown() -> None:
    with pytest.raises(exc.WrongArgument, match="2: x, n"):
        bind([POINTER, COUNT], [X])


def test_arguments_are_checked_before_a_driver_is_needed() -> None:
    kernel = Kernel("k", "sm_90a", (POINTER, COUNT), handle=None)
    with pytest.raises(exc.WrongArgument):
        launch(kernel, LaunchShape((1, 1, 1), (128, 1, 1)), [X, "n"])


def test_tensors_on_two_gpus_are_refused() -> None:
    kernel = Kernel("k", "sm_90a", (POINTER, LaunchParameter("y", "pointer")), handle=None)
    other = TensorView(4096, "bf16", (16, 64), (64, 1), device=1)
    with pytest.raises(exc.WrongArgument, match="`y` is on GPU 1"):
        launch(kernel, LaunchShape((1, 1, 1), (128, 1, 1)), [X, other])


@pytest.mark.parametrize(
    ("shape", "error", "words"),
    [
        (LaunchShape((1, 1, 1), (1025, 1, 1)), exc.LaunchTooLarge, "at most 384"),
        (LaunchShape((1, 1, 1), (32, 16, 1)), exc.LaunchTooLarge, "512 threads"),
        (LaunchShape((1, 1, 1), (0, 1, 1)), exc.LaunchTooLarge, "0 threads"),
        (LaunchShape((1, 65536, 1), (128, 1, 1)), exc.LaunchTooLarge, "65536 CTAs in axis 1"),
        (LaunchShape((-1, 1, 1), (128, 1, 1)), exc.WrongArgument, "-1 in axis 0"),
        (LaunchShape((3, 1, 1), (128, 1, 1), cluster=(2, 1, 1)), exc.WrongArgument, "a multiple of the cluster, 2"),
    ],
)
def test_a_launch_beyond_the_device_or_the_kernel_is_refused(
    shape: LaunchShape, error: type[exc.TwillError], words: str
) -> None:
    with pytest.raises(error) as caught:
        check_shape("k", shape, GPU, max_threads=384)
    assert words in str(caught.value)


def test_a_fitting_launch_passes() -> None:
    check_shape("k", LaunchShape((264, 1, 1), (384, 1, 1), cluster=(2, 1, 1)), GPU, max_threads=384)


def test_the_driver_finds_every_value_behind_its_pointer() -> None:
    storage = (ctypes.c_char * 128)()
    fake: Any = SimpleNamespace()
    map_ = TensorMap(fake, storage, ctypes.addressof(storage), 0)
    packed = pack([POINTER, COUNT, SCALE, MAP], [X, -7, 0.5, map_])
    assert packed.address == ctypes.addressof(packed.pointers)
    at = [address or 0 for address in packed.pointers]
    assert ctypes.c_uint64.from_address(at[0]).value == 4096
    assert ctypes.c_int32.from_address(at[1]).value == -7
    assert ctypes.c_float.from_address(at[2]).value == 0.5
    assert at[3] == ctypes.addressof(storage)


def test_streams_of_every_kind_are_taken() -> None:
    assert stream_handle(7) == 7
    assert stream_handle(SimpleNamespace(cuda_stream=8)) == 8
    assert stream_handle(SimpleNamespace(__cuda_stream__=lambda: (0, 9))) == 9
    assert stream_handle(None, [X, 3]) == 0
    with pytest.raises(exc.WrongArgument, match="`stream` is a str"):
        stream_handle("default")


def test_pytorchs_current_stream_is_used_where_its_tensors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def current_stream(device: object) -> object:
        asked.append(device)
        return SimpleNamespace(cuda_stream=11)

    tensor = torch_tensor()
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=current_stream))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert stream_handle(None, [3, tensor]) == 11
    assert asked == [tensor.device]
