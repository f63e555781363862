"""Runs every example kernel on the GPU, as its sidecar specializes it, and compares it with PyTorch.

Needs a GPU with tensor descriptors, PyTorch and Triton, nothing of Twill: the examples are plain
Triton kernels. Prints one line a specialization; exits with 1 if one is wrong.

    python benchmarks/check_examples.py
"""

from __future__ import annotations

import importlib
import math
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from torch.nn import functional
from triton.tools.tensor_descriptor import TensorDescriptor

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Z, N = 8, 2048  # batch times heads; sequence length
TOLERANCE = 0.02  # of the largest magnitude: bf16 results

Outputs = Iterator[tuple[torch.Tensor, torch.Tensor]]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, device="cuda", dtype=dtype)


def desc(tensor: torch.Tensor, *block: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(tensor, list(block))


def heads(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(Z, -1, tensor.shape[-1]).float()


def gemm(kernel: Any, c: dict[str, Any], m: int = 1152, n: int = 1408, k: int = 832) -> Outputs:
    a, b, out = random(m, k), random(k, n), zeros(m, n)
    bm, bn, bk = c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"]
    kernel[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](
        desc(a, bm, bk), desc(b, bk, bn), desc(out, bm, bn), m, n, k, **c, num_warps=8
    )
    yield out, a.float() @ b.float()


def gemm_fp8(kernel: Any, c: dict[str, Any], m: int = 1152, n: int = 1408, k: int = 832) -> Outputs:
    a, b = (random(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    out = zeros(m, n)
    bm, bn, bk = c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"]
    kernel[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](
        desc(a, bm, bk), desc(b, bn, bk), desc(out, bm, bn), m, n, k, **c, num_warps=8
    )
    yield out, a.float() @ b.float().T


def gemm_pointers(kernel: Any, c: dict[str, Any], m: int = 1000, n: int = 1400, k: int = 840) -> Outputs:
    a, b, out = random(m, k), random(k, n), zeros(m, n)
    grid = (triton.cdiv(m, c["BLOCK_M"]) * triton.cdiv(n, c["BLOCK_N"]),)
    c = {name: value for name, value in c.items() if not name.startswith("stride")}
    kernel[grid](a, b, out, m, n, k, k, 1, n, 1, n, 1, **c, num_warps=8)
    yield out, a.float() @ b.float()


def gemm_bias_gelu(kernel: Any, c: dict[str, Any], m: int = 1152, n: int = 1400, k: int = 832) -> Outputs:
    a, b, bias, out = random(m, k), random(k, n), random(n), zeros(m, n)
    bm, bn, bk = c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"]
    kernel[(triton.cdiv(m, bm), triton.cdiv(n, bn))](
        desc(a, bm, bk), desc(b, bk, bn), desc(out, bm, bn), bias, m, n, k, **c, num_warps=8
    )
    yield out, functional.gelu(a.float() @ b.float() + bias.float())


def dual_gemm(kernel: Any, c: dict[str, Any], m: int = 1152, n: int = 1408, k: int = 832) -> Outputs:
    x, gate, up, out = random(m, k), random(k, n), random(k, n), zeros(m, n)
    bm, bn, bk = c["BLOCK_M"], c["BLOCK_N"], c["BLOCK_K"]
    kernel[(triton.cdiv(m, bm), triton.cdiv(n, bn))](
        desc(x, bm, bk), desc(gate, bk, bn), desc(up, bk, bn), desc(out, bm, bn), k, **c, num_warps=8
    )
    yield out, functional.silu(x.float() @ gate.float()) * (x.float() @ up.float())


def scores(q: torch.Tensor, k: torch.Tensor, scale: float, causal: bool) -> torch.Tensor:
    product = heads(q) @ heads(k).mT * scale
    hidden = torch.ones(N, N, device="cuda", dtype=torch.bool).triu(1)
    return product.masked_fill(hidden, -math.inf) if causal else product


def attention(kernel: Any, c: dict[str, Any]) -> Outputs:
    d, bm, bn = c["HEAD_DIM"], c["BLOCK_M"], c["BLOCK_N"]
    q, k, v, out = random(Z * N, d), random(Z * N, d), random(Z * N, d), zeros(Z * N, d)
    lse, scale = zeros(Z * N, dtype=torch.float32), d**-0.5
    kernel[(N // bm, Z)](
        desc(q, bm, d), desc(k, bn, d), desc(v, bn, d), desc(out, bm, d), lse, scale, N, **c, num_warps=8, num_stages=2
    )
    wanted = scores(q, k, scale, c["CAUSAL"])
    yield heads(out), wanted.softmax(-1) @ heads(v)
    yield lse.view(Z, N), wanted.logsumexp(-1) * math.log2(math.e)


def attention_pointers(kernel: Any, c: dict[str, Any]) -> Outputs:
    d = c["HEAD_DIM"]
    q, k, v, out = random(Z * N, d), random(Z * N, d), random(Z * N, d), zeros(Z * N, d)
    lse = zeros(Z * N, dtype=torch.float32)
    grid = (triton.cdiv(N, c["BLOCK_M"]), Z)
    kernel[grid](q, k, v, out, lse, d**-0.5, N, d, **c, num_warps=8, num_stages=2)
    yield heads(out), scores(q, k, d**-0.5, False).softmax(-1) @ heads(v)


def attention_backward(kernel: Any, c: dict[str, Any]) -> Outputs:
    d, bm, bn, scale = c["HEAD_DIM"], c["BLOCK_M"], c["BLOCK_N"], c["HEAD_DIM"] ** -0.5
    q, k, v, do = (random(Z * N, d).requires_grad_() for _ in range(4))
    weights = scores(q, k, scale, c["CAUSAL"])
    out = weights.softmax(-1) @ heads(v)
    gradients = torch.autograd.grad(out, (q, k, v), heads(do).detach(), retain_graph=True)
    lse = (weights.logsumexp(-1) * math.log2(math.e)).detach().flatten().contiguous()
    delta = (out * heads(do)).sum(-1).detach().flatten().contiguous()
    dq, dk, dv = zeros(Z * N, d, dtype=torch.float32), zeros(Z * N, d), zeros(Z * N, d)
    with torch.no_grad():
        kernel[(N // bn, Z)](
            desc(q, bm, d), desc(k, bn, d), desc(v, bn, d), desc(do, bm, d), desc(dq, bm, d), desc(dk, bn, d),
            desc(dv, bn, d), lse, delta, scale, N, **c, num_warps=8, num_stages=2,
        )  # fmt: skip
    yield from zip((dq * scale, dk, dv), gradients, strict=True)


def linear_attention(kernel: Any, c: dict[str, Any]) -> Outputs:
    d, bv, chunk = c["HEAD_K"], c["BLOCK_V"], c["CHUNK"]
    q, k, v, out = random(Z * N, d), random(Z * N, d), random(Z * N, 2 * bv), zeros(Z * N, 2 * bv)
    kernel[(2, Z)](desc(q, chunk, d), desc(k, chunk, d), desc(v, chunk, bv), desc(out, chunk, bv), N, d**-0.5, **c)
    yield heads(out), (heads(q) @ heads(k).mT).tril() @ heads(v) * d**-0.5


def sliding_window_attention(kernel: Any, c: dict[str, Any]) -> Outputs:
    d, bm, bn = c["HEAD_DIM"], c["BLOCK_M"], c["BLOCK_N"]
    q, k, v, out = random(Z * N, d), random(Z * N, d), random(Z * N, d), zeros(Z * N, d)
    kernel[(N // bm, Z)](
        desc(q, bm, d), desc(k, bn, d), desc(v, bn, d), desc(out, bm, d), d**-0.5, N, **c, num_warps=8, num_stages=2
    )
    capped = c["CAP"] * torch.tanh(scores(q, k, d**-0.5, False) / c["CAP"])
    seen = torch.ones(N, N, device="cuda", dtype=torch.bool).tril().triu(1 - c["WINDOW"])
    yield heads(out), capped.masked_fill(~seen, -math.inf).softmax(-1) @ heads(v)


def layer_norm(kernel: Any, c: dict[str, Any], m: int = 777, n: int = 5000) -> Outputs:
    x, weight, bias, out = random(m, n), random(n), random(n), zeros(m, n)
    mean, rstd = zeros(m, dtype=torch.float32), zeros(m, dtype=torch.float32)
    kernel[(m,)](x, out, weight, bias, mean, rstd, n, n, 1e-5, **c)
    yield out, functional.layer_norm(x.float(), (n,), weight.float(), bias.float(), 1e-5)
    yield mean, x.float().mean(-1)
    yield rstd, (x.float().var(-1, correction=0) + 1e-5).rsqrt()


def error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest error, relative to the largest magnitude; infinite for NaN."""
    worst = (got.float() - wanted.float()).abs().max() / wanted.float().abs().max()
    return worst.item() if worst.isfinite() else math.inf


def main() -> int:
    """Checks every specialization of every sidecar."""
    sys.path.insert(0, str(EXAMPLES))
    torch.manual_seed(0)
    wrong = 0
    for sidecar in sorted(EXAMPLES.glob("*.twill.toml")):
        document = tomllib.loads(sidecar.read_text())
        name = document["kernel"]
        kernel = getattr(importlib.import_module(sidecar.name.removesuffix(".twill.toml")), name)
        check: Callable[..., Outputs] = globals()[name]
        for table in document["specialization"]:
            errors = [error(got, wanted) for got, wanted in check(kernel, table["constexprs"])]
            right = max(errors) <= TOLERANCE
            wrong += not right
            figures = " ".join(f"{figure:.1e}" for figure in errors)
            print(f"{'ok   ' if right else 'WRONG'} {name:26} {table['name']:12} {figures}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
