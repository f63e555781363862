"""What is emitted for single functions gives the bits that Triton's own machine code gives, or is as exact, both run on
the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests import function_kernels
from tests.golden_schedules import machine
from twill.codegen.emission import extract
from twill.codegen.emit import build_kernel
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.ptx import run as ptx
from twill.ptx.parse import parse
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import execute

BLOCK = 1024
AWKWARD = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1.1e-38, -1.1e-38, 1.2e-38, 0.5, -0.5, 0.999, -0.999, 127.5, 128.0, -128.9, -129.0,
     255.9, 256.0, 300.0, -300.0, 32767.5, 32768.0, 65535.5, 65536.0, 70000.0, -70000.0, 1e6, 2147483520.0,
     2147483648.0,
     -2147483904.0, 4294967296.0, 1e12, 9.3e18, -9.3e18, 3e38, -3e38, np.inf, -np.inf, np.nan, -87.0, -87.34, -88.0,
     -95.0, -103.0, -104.0, -126.0, -126.5, -127.0, -149.0, -150.0, 88.7, 88.8, 127.99],
    np.float32,
)  # fmt: skip
FUNCTIONS = dict.fromkeys(("exp", "exp2", "floor", "ceil", "root"), "fp32")
FORMS = ("plus", "minus", "less", "two products", "a number", "read twice")
INTEGERS = {name: name for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64")}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.9 warns without it."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def inputs() -> NDArray[Any]:
    return np.concatenate([AWKWARD, np.random.default_rng(1).uniform(-110, 110, BLOCK - AWKWARD.size)]).astype("f4")


def outputs(types: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    return {name: np.zeros(BLOCK, "f4" if kind == "fp32" else kind.replace("u", "i")[0] + str(int(kind[1:]) // 8))
            for name, kind in types.items()}  # fmt: skip


def of_triton(name: str, types: Mapping[str, str], x: NDArray[Any], **more: str) -> dict[str, NDArray[Any]]:
    """more: constants behind the number of elements; "tl.float16" is a type of Triton's language."""
    signature = {"x": "*fp32", **{name: f"*{kind}" for name, kind in types.items()}}
    signature |= dict.fromkeys(("B", *more), "constexpr")
    count, said = len(types) + 1, more.values()
    constants = [BLOCK, *(getattr(tl, one[3:]) if one.startswith("tl.") else one for one in said)]
    source = ASTSource(
        fn=getattr(function_kernels, name), signature=signature,
        constexprs={(count + place,): constant for place, constant in enumerate(constants)},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(count)},
    )  # fmt: skip
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    arguments = [ptx.PointerArgument(argument) for argument in ("x", *types)]
    launch = ptx.PtxLaunch(arguments, {"x": x, **outputs(types)}, (1, 1, 1), 128, kernel.metadata.shared)
    return dict(ptx.execute(parse(kernel.asm["ptx"]), kernel.metadata.name, launch).tensors)


def emitted(name: str, types: Mapping[str, str], x: NDArray[Any], **more: str) -> dict[str, NDArray[Any]]:
    signature = ("x=*fp32:16", *(f"{name}=*{kind}:16" for name, kind in types.items()))
    const = (f"B={BLOCK}", *(f"{one}={value}" for one, value in more.items()))
    kernel = extract(f"tests/function_kernels.py::{name}", sig=signature, const=const)
    schedule = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic"))
    made = build_kernel(lower(kernel.program, schedule, machine()), kernel.specialization, schedule, machine())
    arguments = {one.name: one.type.element.partition(":")[2] for one in kernel.program.arguments}
    launch = CheckedLaunch((1,), {"x": x, **outputs(types)}, {})
    done = execute(made.build.ptx, made.manifest, launch, arguments)
    assert not done.said()
    return dict(done.arrays)


@pytest.mark.parametrize(("name", "types"), [("functions", FUNCTIONS), ("integers", INTEGERS)])
def test_single_functions_give_the_bits_of_tritons(name: str, types: Mapping[str, str]) -> None:
    ours, theirs = emitted(name, types, inputs()), of_triton(name, types, inputs())
    for result in types:
        mine, other = (
            np.ascontiguousarray(found[result]).view(np.uint8).reshape(BLOCK, -1) for found in (ours, theirs)
        )
        wrong = np.flatnonzero((mine != other).any(1))
        assert not wrong.size, (result, inputs()[wrong[0]], ours[result][wrong[0]], theirs[result][wrong[0]])


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_products_and_sums_of_16_bit_floats_have_tritons_bits(form: str, kind: str) -> None:
    """Triton's compiler rounds a product and its sum once."""
    x = np.concatenate([AWKWARD, np.random.default_rng(2).standard_normal(BLOCK - AWKWARD.size)]).astype("f4")
    ours, theirs = (made("sums", {"y": "fp32"}, x, FORM=form, KIND=f"tl.{kind}") for made in (emitted, of_triton))
    np.testing.assert_array_equal(ours["y"], theirs["y"])


def test_the_error_function_is_as_exact_as_tritons() -> None:
    """Of the numbers at which it is neither linear nor 1. CUDA's library promises two units in the last place."""
    x = np.linspace(2.0**-8, 4, BLOCK, dtype=np.float32)
    exact = np.array([math.erf(float(one)) for one in x])
    (ours, theirs) = (
        np.abs(made("error", {"y": "fp32"}, x)["y"] - exact) / np.spacing(exact.astype(np.float32))
        for made in (emitted, of_triton)
    )
    assert ours.max() <= min(2, 1.01 * theirs.max()) and np.square(ours).mean() <= np.square(theirs).mean()
