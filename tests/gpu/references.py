"""What the examples compute, by PyTorch in float32 or float64, and inputs that fit together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.gpu import scaled_products
from twill.trial.data import Data

Reference = Callable[[Data, torch.dtype], dict[str, Tensor]]


def constants(data: Data) -> dict[str, Any]:
    """The specialization's constexprs."""
    return {a.name: a.value for a in data.manifest.arguments if a.kind == "constant"}


def _wide(data: Data, dtype: torch.dtype, *names: str) -> list[Tensor]:
    return [data.tensor(name).to(dtype) for name in names]


# ---------------------------------------------------------------- products


def gemm(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    a, b = _wide(data, dtype, "a_desc", "b_desc")
    return {"c_desc": a @ b}


def gemm_fp8(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    a, b = _wide(data, dtype, "a_desc", "b_desc")
    return {"c_desc": a @ b.T}


def gemm_int8(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    a, b = _wide(data, torch.float64, "a_desc", "b_desc")  # exact up to 2^53
    scale = data.case.scalars["scale"] if constants(data)["SCALED"] else 1
    return {"c_desc": a @ b.T * scale}


def gemm_pointers(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    a, b = _wide(data, dtype, "a_ptr", "b_ptr")
    return {"c_ptr": a @ b}


def gemm_by_threads(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    a, b = _wide(data, dtype, "a", "b")
    return {"c": a @ b}


def gemm_bias_gelu(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    a, b, bias = _wide(data, dtype, "a_desc", "b_desc", "bias_ptr")
    return {"c_desc": torch.nn.functional.gelu(a @ b + bias)}


def dual_gemm(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    x, gate, up = _wide(data, dtype, "x_desc", "gate_desc", "up_desc")
    return {"y_desc": torch.nn.functional.silu(x @ gate) * (x @ up)}


# ---------------------------------------------------------------- attention


def _heads(data: Data, tensor: Tensor) -> Tensor:
    """[heads, N_CTX, columns]."""
    sizes = data.case.sizes
    return tensor.view(sizes["Z"] * sizes["H"], -1, tensor.shape[-1])


def _softmax(scores: Tensor, visible: Tensor | None, v: Tensor) -> tuple[Tensor, Tensor]:
    """Output and base-2 log-sum-exp of natural scores."""
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1) / math.log(2)


def _visible(like: Tensor, window: int = 0) -> Tensor:
    """Which keys each query of [heads, length, columns] sees."""
    index = torch.arange(like.shape[1], device=like.device)
    distance = index[:, None] - index[None, :]
    return (distance >= 0) & (distance < window) if window else distance >= 0


def _attention(data: Data, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    outs, sums = [], []
    visible = _visible(q) if causal else None
    for one in range(q.shape[0]):  # head by head: the scores of all would not fit
        o, lse = _softmax(q[one] @ k[one].T * data.case.scalars["sm_scale"], visible, v[one])
        outs.append(o)
        sums.append(lse)
    return torch.cat(outs), torch.cat(sums)


def attention(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    q, k, v = (_heads(data, t) for t in _wide(data, dtype, "q_desc", "k_desc", "v_desc"))
    out, lse = _attention(data, q, k, v, bool(constants(data)["CAUSAL"]))
    return {"o_desc": out, "LSE": lse}


def attention_pointers(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    q, k, v = (_heads(data, t) for t in _wide(data, dtype, "Q", "K", "V"))
    out, lse = _attention(data, q, k, v, False)
    return {"Out": out, "LSE": lse}


def sliding_window_attention(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    q, k, v = (_heads(data, t) for t in _wide(data, dtype, "q_desc", "k_desc", "v_desc"))
    known = constants(data)
    visible = _visible(q, known["WINDOW"])
    outs = []
    for one in range(q.shape[0]):
        scores = q[one] @ k[one].T * data.case.scalars["sm_scale"]
        scores = known["CAP"] * torch.tanh(scores / known["CAP"])
        outs.append(_softmax(scores, visible, v[one])[0])
    return {"o_desc": torch.cat(outs)}


def linear_attention(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    q, k, v = (_heads(data, t) for t in _wide(data, dtype, "q_desc", "k_desc", "v_desc"))
    visible = _visible(q)
    outs = [(q[i] @ k[i].T * visible) @ v[i] * data.case.scalars["scale"] for i in range(q.shape[0])]
    return {"o_desc": torch.cat(outs)}


def prepare_backward(data: Data) -> None:
    """LSE and delta of a forward pass over the same Q, K, V."""
    q, k, v = (_heads(data, t) for t in _wide(data, torch.float32, "q_desc", "k_desc", "v_desc"))
    out, lse = _attention(data, q, k, v, bool(constants(data)["CAUSAL"]))
    data.tensor("LSE").copy_(lse)
    data.tensor("delta").copy_((out.to(torch.bfloat16).float() * data.tensor("do_desc").float()).sum(-1))


def attention_backward(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    q, k, v, do = (_heads(data, t) for t in _wide(data, dtype, "q_desc", "k_desc", "v_desc", "do_desc"))
    lse, delta = (data.tensor(name).to(dtype).view(q.shape[0], -1, 1) for name in ("LSE", "delta"))
    scale = data.case.scalars["sm_scale"]
    visible = _visible(q) if constants(data)["CAUSAL"] else None
    grads: dict[str, list[Tensor]] = {"dq_desc": [], "dk_desc": [], "dv_desc": []}
    for i in range(q.shape[0]):
        p = torch.exp2(q[i] @ k[i].T * (scale * math.log2(math.e)) - lse[i])
        p = p if visible is None else p * visible
        ds = p * (do[i] @ v[i].T - delta[i])
        grads["dv_desc"].append(p.T @ do[i])
        grads["dk_desc"].append(ds.T @ q[i] * scale)
        grads["dq_desc"].append(ds @ k[i])
    return {name: torch.cat(parts) for name, parts in grads.items()}


# ---------------------------------------------------------------- rows


def layer_norm(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    x, weight, bias = _wide(data, dtype, "X", "weight", "bias")
    mean = x.mean(1)
    rstd = 1 / torch.sqrt(x.var(1, unbiased=False) + data.case.scalars["eps"])
    return {"Y": (x - mean[:, None]) * rstd[:, None] * weight + bias, "mean_ptr": mean, "rstd_ptr": rstd}


@dataclass(frozen=True)
class Example:
    """An example kernel. more: sizes beside the sidecar's `run`, for every specialization. prepare: makes inputs fit
    together. warps: of the Triton kernel."""

    reference: Reference
    more: tuple[Mapping[str, int], ...] = ()
    prepare: Callable[[Data], None] | None = None
    warps: int = 8


def _products(*sizes: tuple[int, int, int]) -> tuple[Mapping[str, int], ...]:
    return tuple({"M": m, "N": n, "K": k} for m, n, k in sizes)


def _contexts(*sizes: tuple[int, int, int]) -> tuple[Mapping[str, int], ...]:
    return tuple({"Z": z, "H": h, "N_CTX": n} for z, h, n in sizes)


# Iterations 1, 2, few, many; one tile, a few, more than SMs; ragged where kernels allow it.
PRODUCTS = _products(
    (128, 128, 128), (128, 256, 192), (256, 128, 256), (384, 640, 448), (16, 16, 16), (144, 272, 80), (16000, 64, 64),
    (128, 128, 8192), (2304, 2560, 1024), (4096, 4096, 512),
)  # fmt: skip
CONTEXTS = _contexts((1, 1, 256), (1, 1, 384), (1, 3, 512), (2, 2, 1152), (5, 7, 256), (1, 2, 4096), (3, 50, 128))
RAGGED = _contexts((1, 1, 16), (1, 2, 48), (2, 3, 144), (1, 5, 1008), (1, 1, 80), (1, 2, 192))

EXAMPLES: Mapping[str, Example] = {
    "gemm": Example(gemm, PRODUCTS),
    "gemm_fp8": Example(gemm_fp8, PRODUCTS),
    "gemm_pointers": Example(gemm_pointers, PRODUCTS),
    "gemm_bias_gelu": Example(gemm_bias_gelu, PRODUCTS),
    "dual_gemm": Example(dual_gemm, PRODUCTS),
    "attention": Example(attention, CONTEXTS),
    "attention_any_length": Example(attention, (*CONTEXTS, *RAGGED)),
    "attention_descending": Example(attention, (*CONTEXTS, *RAGGED)),
    "attention_pointers": Example(
        attention_pointers, (*CONTEXTS, *_contexts((1, 1, 16), (1, 2, 48), (2, 3, 144), (1, 5, 1008)))
    ),
    "sliding_window_attention": Example(sliding_window_attention, CONTEXTS),
    "linear_attention": Example(
        linear_attention,
        tuple(
            {"Z": z, "H": h, "T": t, "HEAD_V": v}
            for z, h, t, v in ((1, 1, 128, 64), (1, 1, 192, 128), (2, 5, 512, 128), (1, 3, 4096, 64), (4, 40, 256, 256))
        ),
        warps=4,
    ),
    "layer_norm": Example(
        layer_norm,
        tuple({"M": m, "N": n} for m, n in ((1, 16), (1, 1024), (2, 2048), (7, 1040), (133, 3072), (1000, 8192))),
        warps=4,
    ),
    "attention_backward": Example(attention_backward, CONTEXTS, prepare_backward),
    "gemm_mxfp8": Example(scaled_products.reference, PRODUCTS, scaled_products.prepare),
    "gemm_nvfp4": Example(scaled_products.reference, PRODUCTS, scaled_products.prepare),
    "gemm_tf32": Example(gemm_fp8, PRODUCTS),
    "gemm_int8": Example(gemm_int8, PRODUCTS),
    "gemm_by_threads": Example(gemm_by_threads, PRODUCTS),
    "gemm_fp8_fp4": Example(scaled_products.reference, PRODUCTS, scaled_products.prepare),
    "gemm_plain_scales": Example(scaled_products.reference, PRODUCTS, scaled_products.prepare),
}
