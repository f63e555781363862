"""Promises of `twill.tile.interpret.sequential` and `twill.tile.interpret.arithmetic`: what tile programs mean on
arrays."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import triton

from tests.access_kernels import KERNELS
from tests.conftest import ROOT
from twill.graph.extract import extract
from twill.kernel.sidecar import read_sidecar
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret.arithmetic import apply, reduce, rounded
from twill.tile.interpret.elements import OutsideOfTensor, gather, scatter
from twill.tile.interpret.sequential import descriptor_scalars, instances, run
from twill.tile.program import TileProgram
from twill.tile.translate.translate import tile_program

FILE = str(ROOT / "tests" / "access_kernels.py")
SIG = ("X=*fp32:16", "Y=*fp32:16", "N=i32", "first=i32")
SPELLINGS = KERNELS if triton.__version__ >= "3.9" else (*KERNELS, "block_pointers")


floats = functools.partial(np.array, dtype=np.float32)
integers = functools.partial(np.array, dtype=np.int32)


@functools.cache
def raw(kernel: str) -> TileProgram:
    return tile_program(resolve(f"{FILE}::{kernel}", sig=SIG))


@pytest.mark.parametrize("kernel", SPELLINGS)
def test_raw_and_resolved_accesses_mean_the_same(kernel: str) -> None:
    program = raw(kernel)
    resolved = resolve_accesses(program)
    for count, first in ((7, 1), (16, 5)):
        memory = np.random.default_rng(count).integers(0, 40, 512).astype(np.float32)
        before, after = ({"X": memory.copy(), "Y": np.zeros(512, np.float32)} for _ in range(2))
        run(program, (3,), before, {"N": count, "first": first})
        run(resolved, (3,), after, {"N": count, "first": first})
        assert before["Y"].any()
        np.testing.assert_array_equal(after["Y"], before["Y"])


def test_attention_is_attention() -> None:
    file = str(ROOT / "examples" / "attention.py")
    program, _ = extract(file, "causal")
    sidecar = read_sidecar(file)
    assert sidecar is not None
    problem = next(table.problem for table in sidecar.tables if table.name == "causal")
    assert problem is not None
    case = problem.case({"Z": 1, "H": 2, "N_CTX": 256})
    rng = np.random.default_rng(0)
    tensors = {name: rounded(rng.standard_normal(int(np.prod(shape))), "bf16") for name, shape in case.shapes.items()}
    run(program, case.grid, tensors, {**case.scalars, **descriptor_scalars(program, case.shapes)})
    q, k, v, o = (tensors[name].reshape(2, 256, 128) for name in ("q_desc", "k_desc", "v_desc", "o_desc"))
    scores = np.where(np.tri(256, dtype=bool), q @ k.transpose(0, 2, 1) * case.scalars["sm_scale"], -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(o, weights @ v / weights.sum(-1, keepdims=True), atol=2e-2)


def test_instances_come_in_launch_order() -> None:
    assert list(instances((2, 2))) == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]


def test_rounding_to_small_floats() -> None:
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-7), np.inf, np.nan, 3e38], np.float32)
    np.testing.assert_array_equal(rounded(values[:4], "bf16"), [1, 1 + 2**-6, -(1 + 2**-7), np.inf])
    assert np.isnan(rounded(values, "bf16")[4])
    np.testing.assert_array_equal(rounded(values[:2], "bf16", towards_zero=True), [1, 1 + 2**-7])
    np.testing.assert_array_equal(rounded(floats([2049, 1e-8]), "f16"), [2048, 0])
    near = floats([17, 19, 500, -1e9, 2**-9, 2**-10, 3 * 2**-10])
    np.testing.assert_array_equal(rounded(near, "f8e4m3"), [16, 20, 448, -448, 2**-9, 0, 2**-8])
    np.testing.assert_array_equal(rounded(floats([9, 11, 1e9]), "f8e5m2"), [8, 12, 57344])


def test_integers_divide_towards_zero() -> None:
    left, right = integers([7, -7, 7, -7]), integers([2, 2, -2, -2])
    quotient = apply("div", [left, right], "i32", {"signed": 1}, ["i32", "i32"])
    remainder = apply("rem", [left, right], "i32", {"signed": 1}, ["i32", "i32"])
    np.testing.assert_array_equal(quotient, [3, -3, -3, 3])
    np.testing.assert_array_equal(remainder, [1, -1, 1, -1])
    unsigned = apply("div", [integers([-2]), integers([2])], "i32", {"signed": 0}, ["i32", "i32"])
    np.testing.assert_array_equal(unsigned, [0x7FFFFFFF])


def test_conversions() -> None:
    truth = np.array([True, False])
    np.testing.assert_array_equal(apply("cast", [truth], "f32", {"signed": 0}, ["i1"]), [1, 0])
    np.testing.assert_array_equal(apply("cast", [truth], "i32", {"signed": 1}, ["i1"]), [-1, 0])
    np.testing.assert_array_equal(apply("cast", [floats([-1.7, 2.9])], "i32", {"signed": 1}, ["f32"]), [-1, 2])
    bits = apply("bitcast", [rounded(floats([1.5]), "bf16")], "i16", {}, ["bf16"])
    np.testing.assert_array_equal(bits, [0x3FC0])
    np.testing.assert_array_equal(apply("bitcast", [bits], "bf16", {}, ["i16"]), [1.5])


def test_extremes_ignore_nan_unless_told() -> None:
    values = [floats([np.nan]), floats([1])]
    assert apply("max", values, "f32", {}, ["f32", "f32"]) == 1
    assert np.isnan(apply("max", values, "f32", {"propagate_nan": 1}, ["f32", "f32"]))
    assert reduce(floats([[np.nan, 2]]), 1, "max", "f32", {}) == 2
    assert reduce(integers([[-1, 2]]), 1, "max", "i32", {"signed": 0}) == -1


@pytest.mark.parametrize("address", [-1, 4])
def test_elements_that_a_tensor_does_not_have_are_neither_read_nor_written(address: int) -> None:
    tensor, places = floats([1, 2, 3, 4]), np.array([0, address])
    with pytest.raises(OutsideOfTensor, match="of a tensor of 4"):
        gather(tensor, (places, np.array([True, True])), 0.0)
    with pytest.raises(OutsideOfTensor, match="of a tensor of 4"):
        scatter(tensor, (places, np.array([True, True])), floats([5, 6]), "", "f32")
    masked = (places, np.array([True, False]))
    assert gather(tensor, masked, 7.0).tolist() == [1, 7]
