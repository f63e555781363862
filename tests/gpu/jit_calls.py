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
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, **constants}
    blocks = [[sizes["BLOCK_M"], sizes["BLOCK_K"]], [sizes["BLOCK_K"], sizes["BLOCK_N"]]]
    blocks.append([sizes["BLOCK_M"], sizes["BLOCK_N"]])
    descriptors = [TensorDescriptor.from_tensor(t, block) for t, block in zip((a, b, c), blocks, strict=True)]

    def grid(given: dict[str, Any]) -> tuple[int]:
        return (cdiv(given["M"], given["BLOCK_M"]) * cdiv(given["N"], given["BLOCK_N"]),)

    def launch(fast: Any) -> Any:
        return fast[grid](*descriptors, m, n, k, **sizes, num_warps=8, num_stages=3)

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


def attention(heads: int = 4, length: int = 512, causal: bool = False, device: str = "cuda", seed: int = 0) -> Call:
    """Attention of one batch, head dimension 128."""
    q, k, v = (tensor(heads * length, 128, device=device, seed=seed + i) for i in range(3))
    o = torch.zeros_like(q)
    lse = torch.zeros(heads * length, dtype=torch.float32, device=device)
    descriptors = [TensorDescriptor.from_tensor(t, [128, 128]) for t in (q, k, v, o)]
    scale = 1 / math.sqrt(128)

    def launch(fast: Any) -> Any:
        return fast[(length // 128, heads)](
            *descriptors, lse, scale, length, HEAD_DIM=128, BLOCK_M=128, BLOCK_N=128, CAUSAL=causal, num_warps=8
        )

    def wanted() -> torch.Tensor:
        queries, keys, values = (t.float().view(heads, length, 128) for t in (q, k, v))
        scores = queries @ keys.transpose(1, 2) * scale
        if causal:
            scores.masked_fill_(torch.ones(length, length, device=device).triu(1).bool(), -math.inf)
        return (scores.softmax(-1) @ values).view(heads * length, 128)

    return Call("attention", f"{heads} x {length}{' causal' if causal else ''}", launch, o, (q, k, v), wanted)


def calls(device: str = "cuda") -> list[Call]:
    """One of each variant that is in the store that the checks begin with."""
    return [
        gemm(device=device),
        gemm(BLOCK_N=256, device=device),
        gemm_pointers(device=device),
        attention(device=device),
        attention(causal=True, device=device),
    ]
