"""What an emitted example is timed against: configurations of the Triton kernel, the vendor's library; and its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tests.gpu.references import constants
from twill.trial.data import Blocks, Data

Launch = Callable[[], Any]


@dataclass(frozen=True)
class Configuration:
    """Of the Triton kernel: other constants, the descriptors' blocks that go with them, options of the launch."""

    constants: Mapping[str, int]
    blocks: Blocks
    options: Mapping[str, int]

    def text(self) -> str:
        """For the table."""
        return " ".join(f"{name}={value}" for name, value in {**self.constants, **self.options}.items())


def configurations(data: Data) -> Iterator[Configuration]:
    """Configurations worth trying, those that Triton's own tutorials try among them."""
    known = constants(data)
    make = _PRODUCTS if "BLOCK_K" in known else _ATTENTION if "HEAD_DIM" in known else _OTHERS
    yield from make(data, known)


def _options(warps: tuple[int, ...], stages: tuple[int, ...]) -> Iterator[dict[str, int]]:
    for count in warps:
        for depth in stages:
            yield {"num_warps": count, "num_stages": depth}


def _products(data: Data, known: Mapping[str, Any]) -> Iterator[Configuration]:
    two = data.manifest.kernel == "dual_gemm"
    tiles = ((128, 128, 64), (64, 128, 64)) if two else ((128, 256, 64), (128, 128, 64), (256, 128, 64), (64, 256, 64))
    for m, n, k in tiles:
        left, right, out = (m, k), (k, n), (m, n)
        named = {"a_desc": left, "x_desc": left, "b_desc": right, "gate_desc": right, "up_desc": right}
        blocks = {**named, "c_desc": out, "y_desc": out}
        for options in _options((4, 8), (3, 4)):
            yield Configuration({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, blocks, options)


def _attention(data: Data, known: Mapping[str, Any]) -> Iterator[Configuration]:
    dim = known["HEAD_DIM"]
    tiles = ((128, 128), (128, 64), (64, 64), (64, 128))
    if data.manifest.kernel == "attention_backward":
        tiles = ((64, 128), (64, 64), (32, 128), (128, 128))
    queries, keys = ("q_desc", "o_desc", "do_desc", "dq_desc"), ("k_desc", "v_desc", "dk_desc", "dv_desc")
    for m, n in tiles:
        blocks = {**dict.fromkeys(queries, (m, dim)), **dict.fromkeys(keys, (n, dim))}
        for options in _options((4, 8), (2, 3)):
            yield Configuration({"BLOCK_M": m, "BLOCK_N": n}, blocks, options)


def _others(data: Data, known: Mapping[str, Any]) -> Iterator[Configuration]:
    for options in _options((2, 4, 8), (2, 3, 4)):
        yield Configuration({}, {}, options)


_PRODUCTS, _ATTENTION, _OTHERS = _products, _attention, _others


# ---------------------------------------------------------------- the vendor's


def vendor(data: Data) -> tuple[str, Launch] | None:
    """PyTorch's way to the same result, without what it cannot fuse; None if it has none."""
    kernel = data.manifest.kernel
    if kernel in ("gemm", "gemm_bias_gelu"):
        return "torch.matmul", _matmul(data, "a_desc", "b_desc")
    if kernel == "gemm_pointers":
        return "torch.matmul", _matmul(data, "a_ptr", "b_ptr")
    if kernel == "dual_gemm":
        one, two = _matmul(data, "x_desc", "gate_desc"), _matmul(data, "x_desc", "up_desc")
        return "torch.matmul twice", lambda: (one(), two())
    if kernel == "attention":
        return "SDPA", _sdpa(data, "q_desc", "k_desc", "v_desc", bool(constants(data)["CAUSAL"]))
    if kernel == "attention_pointers":
        return "SDPA", _sdpa(data, "Q", "K", "V", False)
    if kernel == "layer_norm":
        x, weight, bias = (data.tensor(name) for name in ("X", "weight", "bias"))
        return "F.layer_norm", lambda: torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)
    return None


def _matmul(data: Data, left: str, right: str) -> Launch:
    a, b = data.tensor(left), data.tensor(right)
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    return lambda: torch.matmul(a, b, out=out)


def _sdpa(data: Data, q: str, k: str, v: str, causal: bool) -> Launch:
    sizes = data.case.sizes
    shape = (sizes["Z"], sizes["H"], sizes["N_CTX"], -1)
    query, key, value = (data.tensor(name).view(shape) for name in (q, k, v))
    backends = torch.nn.attention.SDPBackend

    def launch() -> object:
        with torch.nn.attention.sdpa_kernel([backends.CUDNN_ATTENTION, backends.FLASH_ATTENTION]):
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)

    return launch


# ---------------------------------------------------------------- work


def flops(data: Data) -> float:
    """Floating point operations that count: of products, masked ones left out as is usual. 0: none."""
    sizes, known, kernel = data.case.sizes, constants(data), data.manifest.kernel
    if "K" in sizes and "M" in sizes:
        return 2.0 * sizes["M"] * sizes["N"] * sizes["K"] * (2 if kernel == "dual_gemm" else 1)
    if "HEAD_DIM" in known:
        length = sizes["N_CTX"]
        pairs = length * min(length, known["WINDOW"]) if "WINDOW" in known else length * length
        products = 5 if kernel == "attention_backward" else 2
        half = 0.5 if known.get("CAUSAL") else 1.0
        return 2.0 * products * half * sizes["Z"] * sizes["H"] * pairs * int(known["HEAD_DIM"])
    if "HEAD_K" in known:
        chunk, keys = int(known["CHUNK"]), int(known["HEAD_K"])
        each = chunk * keys + chunk * sizes["HEAD_V"] + 2 * keys * sizes["HEAD_V"]
        return 2.0 * sizes["Z"] * sizes["H"] * sizes["T"] * each
    return 0.0


def moved(data: Data) -> int:
    """Bytes of all tensors, each once: what a kernel bound by memory moves at least."""
    return sum(held.tensor.numel() * held.tensor.element_size() for held in data.held.values())
