"""Calls of the examples' Triton kernels, as a user writes them: tensors, arguments and what must come out."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Call:
    """One call. launch: of a kernel, with these tensors. out: what it writes. wanted: that in float32."""

    kernel: str
    text: str
    launch: Callable[[Any], Any]
    out: torch.Tensor
    inputs: tuple[torch.Tensor, ...]
    wanted: Callable[[], torch.Tensor]

    def error(self) -> float:
        """Relative, of what was written."""
        wanted = self.wanted()
        return float((self.out.float() - wanted).norm() / wanted.norm())


@cache
def kernel(name: str) -> Any:
    """The `@triton.jit` function of an example."""
    return another(name)


def another(name: str) -> Any:
    """The same function, read again, so that what is done to it is not done to the other."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def tensor(*shape: int, device: str = "cuda", seed: int = 0) -> torch.Tensor:
    """Normal numbers in bf16."""
    generator = torch.Generator(device).manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device=device).to(torch.bfloat16)


def cdiv(size: int, block: int) -> int:
    """Blocks that hold `size`."""
    return -(-size // block)


def gemm(m: int = 512, n: int = 384, k: int = 256, device: str = "cuda", seed: int = 0, **constants: int) -> Call:
    """C = A B with descriptors, a grid that is a function, constants by name."""
    a, b = tensor(m, k, device=device, seed=seed), tensor(k, n, device=device, seed=seed + 1)
    c = torch.zeros(m, n, dtype=torch.bfloat16, device=device)
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3, **constants}
    blocks = [[sizes["BLOCK_M"], sizes["BLOCK_K"]], [sizes["BLOCK_K"], sizes["BLOCK_N"]]]
    blocks.append([sizes["BLOCK_M"], sizes["BLOCK_N"]])
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in zip((a, b, c), blocks, strict=True)]

    def grid(given: dict[str, Any]) -> tuple[int]:
        return (cdiv(given["M"], given["BLOCK_M"]) * cdiv(given["N"], given["BLOCK_N"]),)

    def launch(fast: Any) -> Any:
        return fast[grid](*descriptors, m, n, k, **sizes)

    return Call("gemm", f"{m} x {n} x {k}", launch, c, (a, b), lambda: a.float() @ b.float())


def gemm_pointers(m: int = 512, n: int = 384, k: int = 256, device: str = "cuda", seed: int = 0) -> Call:
    """C = A B with pointers and strides, everything by position."""
    a, b = tensor(m, k, device=device, seed=seed), tensor(k, n, device=device, seed=seed + 1)
    c = torch.zeros(m, n, dtype=torch.bfloat16, device=device)
    strides = (*a.stride(), *b.stride(), *c.stride())
    grid = (cdiv(m, 128) * cdiv(n, 128),)

    def launch(fast: Any) -> Any:
        return fast[grid](a, b, c, m, n, k, *strides, 128, 128, 64, 8, num_warps=8)

    return Call("gemm_pointers", f"{m} x {n} x {k}", launch, c, (a, b), lambda: a.float() @ b.float())


def attention(
    heads: int = 4, length: int = 512, causal: bool = False, device: str = "cuda", seed: int = 0, **constants: int
) -> Call:
    """Attention of one batch, head dimension 128."""
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, **constants}
    rows, columns = [sizes["BLOCK_M"], 128], [sizes["BLOCK_N"], 128]
    q, k, v = (tensor(heads * length, 128, device=device, seed=seed + i) for i in range(3))
    o = torch.zeros_like(q)
    lse = torch.zeros(heads * length, dtype=torch.float32, device=device)
    tiles = zip((q, k, v, o), (rows, columns, columns, rows), strict=True)
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in tiles]
    scale = 1 / math.sqrt(128)

    def launch(fast: Any) -> Any:
        grid = (length // sizes["BLOCK_M"], heads)
        return fast[grid](*descriptors, lse, scale, length, HEAD_DIM=128, CAUSAL=causal, **sizes)

    def wanted() -> torch.Tensor:
        queries, keys, values = (t.float().view(heads, length, 128) for t in (q, k, v))
        scores = queries @ keys.transpose(1, 2) * scale
        if causal:
            scores.masked_fill_(torch.ones(length, length, device=device).triu(1).bool(), -math.inf)
        return (scores.softmax(-1) @ values).view(heads * length, 128)

    return Call("attention", f"{heads} x {length}{' causal' if causal else ''}", launch, o, (q, k, v), wanted)


def gemm_bias_gelu(
    m: int = 512, n: int = 384, k: int = 256, device: str = "cuda", seed: int = 0, **constants: int
) -> Call:
    """C = GELU(A B + bias)."""
    a, b = tensor(m, k, device=device, seed=seed), tensor(k, n, device=device, seed=seed + 1)
    bias = tensor(n, device=device, seed=seed + 2)
    c = torch.zeros(m, n, dtype=torch.bfloat16, device=device)
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3, **constants}
    tall, wide, deep = sizes["BLOCK_M"], sizes["BLOCK_N"], sizes["BLOCK_K"]
    tiles = zip((a, b, c), ([tall, deep], [deep, wide], [tall, wide]), strict=True)
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in tiles]

    def launch(fast: Any) -> Any:
        return fast[(cdiv(m, tall), cdiv(n, wide))](*descriptors, bias, m, n, k, **sizes)

    def wanted() -> torch.Tensor:
        return torch.nn.functional.gelu(a.float() @ b.float() + bias.float())

    return Call("gemm_bias_gelu", f"{m} x {n} x {k}", launch, c, (a, b, bias), wanted)


def dual_gemm(m: int = 512, n: int = 384, k: int = 256, device: str = "cuda", seed: int = 0, **constants: int) -> Call:
    """Y = silu(X W_gate) * (X W_up)."""
    x, gate, up = (tensor(*shape, device=device, seed=seed + i) for i, shape in enumerate(((m, k), (k, n), (k, n))))
    y = torch.zeros(m, n, dtype=torch.bfloat16, device=device)
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3, **constants}
    tall, wide, deep = sizes["BLOCK_M"], sizes["BLOCK_N"], sizes["BLOCK_K"]
    tiles = zip((x, gate, up, y), ([tall, deep], [deep, wide], [deep, wide], [tall, wide]), strict=True)
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in tiles]

    def launch(fast: Any) -> Any:
        return fast[(cdiv(m, tall), cdiv(n, wide))](*descriptors, k, **sizes)

    def wanted() -> torch.Tensor:
        return torch.nn.functional.silu(x.float() @ gate.float()) * (x.float() @ up.float())

    return Call("dual_gemm", f"{m} x {n} x {k}", launch, y, (x, gate, up), wanted)


def linear_attention(heads: int = 4, length: int = 512, device: str = "cuda", seed: int = 0, **constants: int) -> Call:
    """Causal linear attention of heads of 128 x 128, in chunks of 64 rows."""
    q, k, v = (tensor(heads * length, 128, device=device, seed=seed + i) for i in range(3))
    o = torch.zeros_like(q)
    sizes = {"BLOCK_V": 64, "CHUNK": 64, "num_warps": 4, "num_stages": 3, **constants}
    whole, part = [sizes["CHUNK"], 128], [sizes["CHUNK"], sizes["BLOCK_V"]]
    tiles = zip((q, k, v, o), (whole, whole, part, part), strict=True)
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in tiles]
    scale = 1 / math.sqrt(128)

    def launch(fast: Any) -> Any:
        return fast[(128 // sizes["BLOCK_V"], heads)](*descriptors, length, scale, HEAD_K=128, **sizes)

    def wanted() -> torch.Tensor:
        of_heads = zip(*(t.float().view(heads, length, 128) for t in (q, k, v)), strict=True)
        return torch.cat([(queries @ keys.T).tril() @ values * scale for queries, keys, values in of_heads])

    return Call("linear_attention", f"{heads} x {length}", launch, o, (q, k, v), wanted)


def calls(device: str = "cuda") -> list[Call]:
    """One of each variant that is in the store that the checks begin with."""
    return [
        gemm(device=device),
        gemm(BLOCK_N=256, device=device),
        gemm_pointers(device=device),
        attention(device=device),
        attention(causal=True, device=device),
    ]
