"""How much a row computes or moves: what its rates are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flops(kernel: str, known: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
    """Floating point operations that count: of products, masked ones left out. known: constants. 0: none."""
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


def moved(data: Any) -> int:
    """Bytes of all tensors, each once: what a kernel bound by memory moves at least. data: twill.trial.data.Data."""
    return sum(held.tensor.numel() * held.tensor.element_size() for held in data.held.values())
