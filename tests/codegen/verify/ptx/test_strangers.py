"""Triton's own PTX for sm_90 computes the right numbers in the executor, and nothing is found in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests import stranger_kernels
from tests.as_far_as_ptx import compiled_to_ptx
from tests.ptx_programs import rules
from twill.codegen.verify.ptx.run import Argument, MapOf, PointerArgument, PtxLaunch, Result, execute
from twill.ptx.formats import decode, encode
from twill.ptx.parse import parse

pytestmark = pytest.mark.usefixtures("quiet")

HOPPER = GPUTarget("cuda", 90, 32)
SWIZZLES = {0: 0, 1: 32, 2: 64, 3: 128}
ALIGNED = [["tt.divisibility", 16]]
HALF = "*bf16"


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.9 warns without it."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def compiled(
    name: str, signature: Mapping[str, str], constants: Mapping[str, int], aligned: bool = False, **options: int
) -> Any:
    """A kernel of `stranger_kernels`. aligned: addresses and integers are multiples of 16, as its launches find out."""
    attributes = {(i,): ALIGNED for i, type in enumerate(signature.values()) if aligned and type[0] in "*i"}
    source = ASTSource(
        fn=getattr(stranger_kernels, name),
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=dict(constants),
        attrs=attributes,
    )
    return compiled_to_ptx(source, HOPPER, options)


def run(
    kernel: Any, arguments: Sequence[Argument], tensors: Mapping[str, NDArray[Any]], grid: tuple[int, int, int]
) -> Result:
    threads, shared = 32 * kernel.metadata.num_warps, kernel.metadata.shared
    return execute(parse(kernel.asm["ptx"]), kernel.metadata.name, PtxLaunch(arguments, tensors, grid, threads, shared))


def halves(rng: np.random.Generator, *shape: int) -> NDArray[Any]:
    return encode(rng.standard_normal(shape), "bf16")


def numbers(bits: NDArray[Any]) -> NDArray[Any]:
    return decode(bits, "bf16").astype(np.float64)


def close(found: NDArray[Any], wanted: NDArray[Any], unit: float = 2.0**-8, beside: float = 2.0**-14) -> None:
    """Relative to the number itself, and beside that to the largest: what is rounded on the way."""
    assert (np.abs(found - wanted) <= unit * np.abs(wanted) + beside * np.abs(wanted).max()).all()


def pointers(*names: str) -> list[Argument]:
    return [PointerArgument(name) for name in names]


@pytest.mark.parametrize("aligned", [False, True])
def test_a_gemm_with_wgmma_and_copies_of_threads(aligned: bool) -> None:
    m, n, k = (128, 144, 208) if aligned else (130, 140, 200)
    rng = np.random.default_rng(1)
    a, b = halves(rng, m, k), halves(rng, k, n)
    signature = {"a": HALF, "b": HALF, "c": HALF, "M": "i32", "N": "i32", "K": "i32"}
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
    kernel = compiled("gemm", signature, blocks, aligned, num_warps=8, num_stages=3)
    text = kernel.asm["ptx"]
    assert "wgmma.mma_async" in text and ("cp.async" in text) == aligned
    result = run(
        kernel, [*pointers("a", "b", "c"), m, n, k], {"a": a, "b": b, "c": np.zeros((m, n), np.uint16)}, (2, 2, 1)
    )
    assert not result.findings
    close(numbers(result.tensors["c"]), numbers(a) @ numbers(b))


def test_a_gemm_with_tensor_maps() -> None:
    m, n, k = 136, 144, 208
    rng = np.random.default_rng(2)
    tensors = {"a": halves(rng, m, k), "b": halves(rng, k, n), "c": np.zeros((m, n), np.uint16)}
    blocks = {"a": (128, 64), "b": (64, 128), "c": (128, 128)}
    signature = {**{name: f"tensordesc<bf16{list(block)}>" for name, block in blocks.items()}, "K": "i32"}
    kernel = compiled("gemm_by_descriptors", signature, {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=4)
    arguments: list[Argument] = []
    for (name, tensor), meta in zip(tensors.items(), kernel.metadata.tensordesc_meta, strict=True):
        rows, columns = tensor.shape
        swizzle = SWIZZLES[meta["swizzle"]]
        box = tuple(meta["block_size"][::-1])
        arguments.append(MapOf(name, "BFLOAT16", (columns, rows), (2 * columns,), box, swizzle))
        arguments += [rows, columns, columns, 1]  # sizes and strides, which this kernel does not read
    result = run(kernel, [*arguments, k], tensors, (2, 2, 1))
    assert not result.findings
    close(numbers(result.tensors["c"]), numbers(tensors["a"]) @ numbers(tensors["b"]))


def test_attention() -> None:
    n, d = 100, 64
    rng = np.random.default_rng(3)
    q, k, v = (halves(rng, n, d) for _ in range(3))
    signature = {**dict.fromkeys("qkvo", HALF), "N": "i32", "scale": "fp32"}
    kernel = compiled("attention", signature, {"D": d, "BLOCK_M": 64, "BLOCK_N": 64}, num_warps=4)
    tensors = {"q": q, "k": k, "v": v, "o": np.zeros((n, d), np.uint16)}
    result = run(kernel, [*pointers(*"qkvo"), n, 0.125], tensors, (2, 1, 1))
    scores = numbers(q) @ numbers(k).T * 0.125
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    assert not result.findings
    close(numbers(result.tensors["o"]), weights / weights.sum(1, keepdims=True) @ numbers(v), beside=2.0**-8)


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_softmax(warps: int) -> None:
    x = np.random.default_rng(4).standard_normal((3, 1000)).astype(np.float32)
    kernel = compiled("softmax", {"x": "*fp32", "y": "*fp32", "N": "i32"}, {"BLOCK": 1024}, num_warps=warps)
    result = run(kernel, [*pointers("x", "y"), 1000], {"x": x, "y": np.zeros_like(x)}, (3, 1, 1))
    weights = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert not result.findings
    close(result.tensors["y"], weights / weights.sum(1, keepdims=True), 2.0**-20, 0.0)


def test_layer_norm() -> None:
    rng = np.random.default_rng(5)
    x, w, b = halves(rng, 3, 1000), rng.standard_normal(1000, np.float32), rng.standard_normal(1000, np.float32)
    signature = {"x": HALF, "w": "*fp32", "b": "*fp32", "y": HALF, "N": "i32", "eps": "fp32"}
    kernel = compiled("layer_norm", signature, {"BLOCK": 1024}, num_warps=4)
    tensors = {"x": x, "w": w, "b": b, "y": np.zeros_like(x)}
    result = run(kernel, [*pointers("x", "w", "b", "y"), 1000, 1e-5], tensors, (3, 1, 1))
    values = numbers(x)
    centred = values - values.mean(1, keepdims=True)
    assert not result.findings
    close(numbers(result.tensors["y"]), centred / np.sqrt(values.var(1, keepdims=True) + 1e-5) * w + b)


def test_a_reduction_with_atomics() -> None:
    x = np.random.default_rng(6).standard_normal(3000).astype(np.float32)
    signature = {"x": "*fp32", "total": "*fp32", "most": "*i32", "counts": "*i32", "N": "i32"}
    kernel = compiled("totals", signature, {"BLOCK": 1024}, num_warps=4)
    tensors = {"x": x, "total": np.zeros(1, np.float32), "most": np.zeros(1, np.int32), "counts": np.zeros(8, np.int32)}
    result = run(kernel, [*pointers("x", "total", "most", "counts"), 3000], tensors, (3, 1, 1))
    assert not result.findings
    close(result.tensors["total"], np.array([x.astype(np.float64).sum()]), 2.0**-18)
    assert result.tensors["most"][0] == int(x.max() * np.float32(1000))
    assert result.tensors["counts"].tolist() == [375] * 8


def test_what_is_taken_out_of_a_strangers_text_is_found() -> None:
    signature = {**dict.fromkeys("qkvo", HALF), "N": "i32", "scale": "fp32"}
    kernel = compiled("attention", signature, {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64}, num_warps=4)
    rng = np.random.default_rng(3)
    tensors = {name: halves(rng, 100, 64) for name in "qkvo"}
    threads, shared = 128, kernel.metadata.shared
    for line, rule in (("fence.proxy.async.shared::cta;", "proxy-fence"), ("wgmma.fence.sync.aligned;", "wgmma-fence"),
                       ("wgmma.wait_group.sync.aligned 0;", "wgmma-wait"), ("bar.sync \t0;", "order")):  # fmt: skip
        assert line in kernel.asm["ptx"]
        module = parse(kernel.asm["ptx"].replace(line, ""))
        launch = PtxLaunch([*pointers(*"qkvo"), 100, 0.125], tensors, (1, 1, 1), threads, shared)
        assert rule in rules(execute(module, kernel.metadata.name, launch))
