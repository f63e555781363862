"""Promises of a trial's tensors: random inputs, outputs that show what was not written, guards that show what was."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fake_torch import fake_torch
from tests.manifests import KERNEL
from twill.exc import UnknownProblem
from twill.kernel.problem import Case
from twill.manifest.document import CallArgument, KernelParameter
from twill.trial.data import GUARD, Data, constant, emitted, make_data, original

ARGUMENTS = (
    CallArgument("a_desc", "descriptor", "tensordesc<fp16[2, 8]>", "f16", (2, 8)),
    CallArgument("x", "pointer", "*fp32", "f32"),
    CallArgument("sum", "pointer", "*fp32", "f32"),
    CallArgument("index", "pointer", "*i32", "i32"),
    CallArgument("n", "number", "i32"),
    CallArgument("BLOCK", "constant", value=128),
    CallArgument("dtype", "constant", value="tl.bfloat16"),
)
MANIFEST = replace(KERNEL, arguments=ARGUMENTS, loads=("a_desc",), stores=("x", "index"), reduces=("sum",))
CASE = Case({"n": 4}, (2,), {"a_desc": (4, 8), "x": (5,), "sum": (3,), "index": (2,)}, {"n": 4})


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Data:
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    return make_data(MANIFEST, CASE, device="cpu")


def array(data: Data, name: str) -> Any:
    return data.tensor(name).array


def test_what_is_read_is_random_and_the_same_for_a_seed(data: Data) -> None:
    assert array(data, "a_desc").std() > 0.5
    assert np.array_equal(array(make_data(MANIFEST, CASE, device="cpu"), "a_desc"), array(data, "a_desc"))
    assert not np.array_equal(array(make_data(MANIFEST, CASE, 1, device="cpu"), "a_desc"), array(data, "a_desc"))
    assert set(data.inputs) == {"a_desc"} and set(data.outputs) == {"x", "index", "sum"}


def test_addresses_point_to_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    arguments = (CallArgument("ptrs", "pointer", "*i64", "i64"),)
    parameters = (KernelParameter("origin", "ptrs.pointee", "f16", 1),)
    given = replace(
        KERNEL, arguments=arguments, parameters=parameters, loads=("ptrs", "ptrs.pointee"), stores=(), reduces=()
    )
    case = Case({}, (2,), {"ptrs": (2,), "ptrs.pointee": (8,)}, {}, {"ptrs": (0, 8)})
    made = make_data(given, case, device="cpu")
    begin = made.tensor("ptrs.pointee").data_ptr()
    assert array(made, "ptrs").tolist() == [begin, begin + 8]
    assert made.counted_from_zero("ptrs").array.tolist() == [0, 8]
    assert array(made, "ptrs.pointee").std() > 0.1
    with pytest.raises(UnknownProblem, match=r"how much memory `ptrs.pointee` is"):
        make_data(given, replace(case, shapes={"ptrs": (2,)}), device="cpu")


def test_what_is_not_written_is_seen(data: Data) -> None:
    for _ in range(2):
        assert np.isnan(array(data, "x")).all()
        assert (array(data, "sum") == 0).all() and (array(data, "index") == 77).all()
        for name in data.outputs:
            array(data, name)[...] = 1
        data.clear()


@pytest.mark.parametrize("place", [0, GUARD - 1, -1, GUARD + 20])
def test_a_write_beside_a_tensor_is_seen(data: Data, place: int) -> None:
    assert data.outside() == []
    array(data, "x")[...] = 3
    assert data.outside() == []
    data.held["x"].whole.array[place] = 0
    assert data.outside() == ["x"]


def test_both_kernels_get_the_same_arguments(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Kernel:
        def __getitem__(self, grid: Any) -> Any:
            return lambda *args, **kwargs: calls.append((grid, args, kwargs))

    monkeypatch.setitem(sys.modules, "triton.tools.tensor_descriptor", None)
    emitted(Kernel(), data)()
    original(Kernel(), data, {"BLOCK": 64}, {"a_desc": (1, 8)}, num_warps=8)()
    (grid, args, kwargs), (_, none, named) = calls
    assert grid == (2,) and kwargs == {} and none == ()
    assert args[0].base is data.tensor("a_desc") and args[0].block_shape == [2, 8] and args[0].strides == [8, 1]
    assert args[1:] == (data.tensor("x"), data.tensor("sum"), data.tensor("index"), 4)
    assert named["a_desc"].block_shape == [1, 8]
    assert (named["BLOCK"], named["num_warps"], named["n"]) == (64, 8, 4)


def test_types_are_those_of_triton() -> None:
    import triton.language as tl

    assert constant("tl.bfloat16") is tl.bfloat16
    assert constant("ieee") == "ieee" and constant(3) == 3
