"""The tile program of every example computes what the example's docstring says, at small sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tests.tile_numpy import bf16, run
from twill.kernel.specialization import resolve
from twill.tile.interpret.arithmetic import rounded
from twill.tile.translate.translate import tile_program

pytestmark = pytest.mark.usefixtures("at_root")

Z = 2  # heads


def random(*shape: int) -> np.ndarray:
    return bf16(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))


def execute(
    name: str,
    grid: tuple[int, ...],
    tensors: Mapping[str, np.ndarray],
    scalars: Mapping[str, Any],
    blocks: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    elements: Mapping[str, str] | None = None,
    **constants: Any,
) -> dict[str, np.ndarray]:
    """The tensors after the whole launch. blocks: of the descriptors, when the constants are smaller than usual;
    elements: of those that are not bf16."""
    types = {desc: "fp32" if desc == "dq_desc" else "bf16" for desc in blocks} | dict(elements or {})
    sig = [f"{desc}=tensordesc<{types[desc]}{list(shape)}>" for desc, shape in blocks.items()]
    spec = resolve(f"examples/{name}.py", sig=sig, const=[f"{key}={value}" for key, value in constants.items()])
    flat = {key: tensor.astype(np.float32).ravel().copy() for key, tensor in tensors.items()}
    shapes = {key: tensors[key].shape for key in blocks}
    run(tile_program(spec), grid, flat, {**scalars, **shapes})
    return {key: flat[key].reshape(tensor.shape) for key, tensor in tensors.items()}


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float = 0.02) -> None:
    assert np.isfinite(got).all()
    assert np.abs(got - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


def softmax(scores: np.ndarray) -> np.ndarray:
    weights: np.ndarray = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def test_gemm_multiplies_a_matrix_that_its_tiles_do_not_divide() -> None:
    m, n, k = 48, 80, 40
    a, b = random(m, k), random(k, n)
    tiles = {"a_desc": (32, 16), "b_desc": (16, 32), "c_desc": (32, 32)}
    got = execute("gemm", (2 * 3,), {"a_desc": a, "b_desc": b, "c_desc": np.zeros((m, n))},
                  {"M": m, "N": n, "K": k}, tiles, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16, GROUP_M=2)  # fmt: skip
    close(got["c_desc"], a @ b)


def test_gemm_fp8_multiplies_by_the_transposed_right_matrix() -> None:
    m, n, k = 48, 80, 72
    a, b = (rounded(random(*shape), "f8e4m3") for shape in ((m, k), (n, k)))
    tiles = {"a_desc": (32, 32), "b_desc": (32, 32), "c_desc": (32, 32)}
    got = execute("gemm_fp8", (2 * 3,), {"a_desc": a, "b_desc": b, "c_desc": np.zeros((m, n))},
                  {"M": m, "N": n, "K": k}, tiles, dict.fromkeys(("a_desc", "b_desc"), "fp8e4nv"),
                  BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=2)  # fmt: skip
    close(got["c_desc"], a @ b.T)


def test_gemm_pointers_computes_the_same_bits_as_gemm() -> None:
    m, n, k = 48, 80, 40
    a, b = random(m, k), random(k, n)
    tiles = {"a_desc": (32, 16), "b_desc": (16, 32), "c_desc": (32, 32)}
    sizes = {"M": m, "N": n, "K": k}
    constants: dict[str, Any] = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}
    zeros = np.zeros((m, n))
    one = execute("gemm", (6,), {"a_desc": a, "b_desc": b, "c_desc": zeros}, sizes, tiles, **constants)
    strides = {"stride_am": k, "stride_bk": n, "stride_cm": n}
    two = execute("gemm_pointers", (6,), {"a_ptr": a, "b_ptr": b, "c_ptr": zeros}, sizes | strides, **constants)
    assert np.array_equal(one["c_desc"], two["c_ptr"])
    close(two["c_ptr"], a @ b)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_is_softmax_attention(causal: int) -> None:
    n, d = 64, 16
    q, k, v = random(Z * n, d), random(Z * n, d) * 2, random(Z * n, d) * 3
    tiles = {"q_desc": (32, d), "k_desc": (16, d), "v_desc": (16, d), "o_desc": (32, d)}
    tensors = {"q_desc": q, "k_desc": k, "v_desc": v, "o_desc": np.zeros_like(q), "LSE": np.zeros(Z * n)}
    got = execute("attention", (n // 32, Z), tensors, {"sm_scale": 0.25, "N_CTX": n}, tiles,
                  HEAD_DIM=d, BLOCK_M=32, BLOCK_N=16, CAUSAL=causal)  # fmt: skip
    for head in range(Z):
        rows = slice(head * n, (head + 1) * n)
        scores = q[rows] @ k[rows].T * 0.25
        if causal:
            scores = np.where(np.tril(np.ones((n, n))) > 0, scores, -np.inf)
        close(got["o_desc"][rows], softmax(scores) @ v[rows])
        close(got["LSE"][rows], np.log2(np.exp(scores).sum(-1)))


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("n", "even"), [(56, 0), (48, 0), (48, 1), (8, 0)])
def test_attention_at_any_length_leaves_out_what_does_not_exist(n: int, even: int, causal: int) -> None:
    d = 16
    q, k, v = random(Z, n, d), random(Z, n, d) * 2, random(Z, n, d) * 3
    tiles = {"q_desc": (1, 32, d), "k_desc": (1, 16, d), "v_desc": (1, 16, d), "o_desc": (1, 32, d)}
    tensors = {"q_desc": q, "k_desc": k, "v_desc": v, "o_desc": np.zeros_like(q), "LSE": np.zeros(Z * n)}
    got = execute("attention_any_length", (-(-n // 32), Z), tensors, {"sm_scale": 0.25, "N_CTX": n}, tiles,
                  HEAD_DIM=d, BLOCK_M=32, BLOCK_N=16, CAUSAL=causal, EVEN_N=even)  # fmt: skip
    for head in range(Z):
        scores = q[head] @ k[head].T * 0.25
        if causal:
            scores = np.where(np.tril(np.ones((n, n))) > 0, scores, -np.inf)
        close(got["o_desc"][head], softmax(scores) @ v[head])
        close(got["LSE"][head * n : head * n + n], np.log2(np.exp(scores).sum(-1)))


@pytest.mark.parametrize("block_n", [16, 32])
@pytest.mark.parametrize("n", [64, 56, 8])
def test_attention_from_the_last_block_down_is_causal_attention(n: int, block_n: int) -> None:
    d = 16
    q, k, v = random(Z, n, d), random(Z, n, d) * 2, random(Z, n, d) * 3
    tiles = {"q_desc": (1, 32, d), "k_desc": (1, block_n, d), "v_desc": (1, block_n, d), "o_desc": (1, 32, d)}
    tensors = {"q_desc": q, "k_desc": k, "v_desc": v, "o_desc": np.zeros_like(q), "LSE": np.zeros(Z * n)}
    got = execute("attention_descending", (-(-n // 32), Z), tensors, {"sm_scale": 0.25, "N_CTX": n}, tiles,
                  HEAD_DIM=d, BLOCK_M=32, BLOCK_N=block_n, CAUSAL=1, MASKED=32 // block_n)  # fmt: skip
    for head in range(Z):
        scores = np.where(np.tril(np.ones((n, n))) > 0, q[head] @ k[head].T * 0.25, -np.inf)
        close(got["o_desc"][head], softmax(scores) @ v[head])
        close(got["LSE"][head * n : head * n + n], np.log2(np.exp(scores).sum(-1)))


def test_attention_pointers_handles_a_length_that_its_blocks_do_not_divide() -> None:
    n, d = 56, 16
    q, k, v = random(Z * n, d), random(Z * n, d) * 2, random(Z * n, d) * 3
    tensors = {"Q": q, "K": k, "V": v, "Out": np.zeros_like(q), "LSE": np.zeros(Z * n)}
    got = execute("attention_pointers", (2, Z), tensors, {"sm_scale": 0.25, "N_CTX": n, "stride": d},
                  HEAD_DIM=d, BLOCK_M=32, BLOCK_N=16)  # fmt: skip
    for head in range(Z):
        rows = slice(head * n, (head + 1) * n)
        close(got["Out"][rows], softmax(q[rows] @ k[rows].T * 0.25) @ v[rows])


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_backward_gives_the_three_gradients(causal: int) -> None:
    n, d, scale = 64, 16, 0.25
    q, k, v, do = (random(Z * n, d) * (1 + 0.1 * i) for i in range(4))
    q, k, v, do = map(bf16, (q, k, v, do))
    lse, delta = np.zeros(Z * n), np.zeros(Z * n)
    wanted: list[tuple[slice, np.ndarray, np.ndarray, np.ndarray]] = []
    for head in range(Z):
        rows = slice(head * n, (head + 1) * n)
        scores = q[rows] @ k[rows].T * scale
        if causal:
            scores = np.where(np.tril(np.ones((n, n))) > 0, scores, -np.inf)
        p = softmax(scores)
        delta[rows] = ((p @ v[rows]) * do[rows]).sum(-1)
        lse[rows] = np.log2(np.exp(scores).sum(-1))
        ds = p * (do[rows] @ v[rows].T - delta[rows][:, None])
        wanted.append((rows, ds @ k[rows], ds.T @ q[rows] * scale, p.T @ do[rows]))
    query, key = (16, d), (32, d)
    tiles = {"q_desc": query, "k_desc": key, "v_desc": key, "do_desc": query, "dq_desc": query, "dk_desc": key,
             "dv_desc": key}  # fmt: skip
    tensors = {"q_desc": q, "k_desc": k, "v_desc": v, "do_desc": do, "LSE": lse, "delta": delta}
    tensors |= {name: np.zeros_like(q) for name in ("dq_desc", "dk_desc", "dv_desc")}
    got = execute("attention_backward", (n // 32, Z), tensors, {"sm_scale": scale, "N_CTX": n}, tiles,
                  HEAD_DIM=d, BLOCK_M=16, BLOCK_N=32, CAUSAL=causal)  # fmt: skip
    for rows, dq, dk, dv in wanted:
        close(got["dq_desc"][rows], dq)
        close(got["dk_desc"][rows], dk)
        close(got["dv_desc"][rows], dv)


def test_gemm_bias_gelu_applies_the_exact_gelu() -> None:
    m, n, k = 32, 48, 32
    a, b, bias = random(m, k), random(k, n), random(n)
    tensors = {"a_desc": a, "b_desc": b, "c_desc": np.zeros((m, n)), "bias_ptr": bias}
    tiles = {"a_desc": (32, 16), "b_desc": (16, 32), "c_desc": (32, 32)}
    got = execute("gemm_bias_gelu", (1, 2), tensors, {"M": m, "N": n, "K": k}, tiles,
                  BLOCK_M=32, BLOCK_N=32, BLOCK_K=16)  # fmt: skip
    x = a @ b + bias
    close(got["c_desc"], 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def test_dual_gemm_gates_one_product_with_the_other() -> None:
    m, n, k = 32, 32, 48
    x, gate, up = random(m, k), random(k, n), random(k, n) * 2
    tensors = {"x_desc": x, "gate_desc": gate, "up_desc": up, "y_desc": np.zeros((m, n))}
    tiles = {"x_desc": (32, 16), "gate_desc": (16, 32), "up_desc": (16, 32), "y_desc": (32, 32)}
    got = execute("dual_gemm", (1, 1), tensors, {"K": k}, tiles, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16)
    g = x @ gate
    close(got["y_desc"], g / (1 + np.exp(-g)) * (x @ up))


def test_linear_attention_carries_its_state_over_chunks() -> None:
    t, d, e = 64, 16, 32
    q, k, v = random(Z * t, d), random(Z * t, d), random(Z * t, e)
    tensors = {"q_desc": q, "k_desc": k, "v_desc": v, "o_desc": np.zeros_like(v)}
    tiles = {"q_desc": (16, d), "k_desc": (16, d), "v_desc": (16, 16), "o_desc": (16, 16)}
    got = execute("linear_attention", (2, Z), tensors, {"T": t, "scale": 0.25}, tiles,
                  HEAD_K=d, BLOCK_V=16, CHUNK=16)  # fmt: skip
    for head in range(Z):
        rows = slice(head * t, (head + 1) * t)
        close(got["o_desc"][rows], np.tril(q[rows] @ k[rows].T) @ v[rows] * 0.25)


def test_sliding_window_attention_sees_the_window_through_the_soft_cap() -> None:
    n, d, window, cap = 96, 16, 24, 5.0
    q, k, v = random(Z * n, d), random(Z * n, d) * 4, random(Z * n, d)
    tensors = {"q_desc": q, "k_desc": k, "v_desc": v, "o_desc": np.zeros_like(q)}
    tiles = {"q_desc": (32, d), "k_desc": (16, d), "v_desc": (16, d), "o_desc": (32, d)}
    got = execute("sliding_window_attention", (n // 32, Z), tensors, {"sm_scale": 0.25, "N_CTX": n}, tiles,
                  HEAD_DIM=d, BLOCK_M=32, BLOCK_N=16, WINDOW=window, CAP=cap)  # fmt: skip
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    for head in range(Z):
        rows = slice(head * n, (head + 1) * n)
        scores = cap * np.tanh(q[rows] @ k[rows].T * 0.25 / cap)
        scores = np.where((distance >= 0) & (distance < window), scores, -np.inf)
        close(got["o_desc"][rows], softmax(scores) @ v[rows])


def test_layer_norm_normalizes_rows_longer_than_its_block() -> None:
    m, n = 3, 40
    x, weight, bias = random(m, n) * 3 + 1, random(n), random(n) + 1
    tensors = {"X": bf16(x), "Y": np.zeros((m, n)), "weight": weight, "bias": bias,
               "mean_ptr": np.zeros(m), "rstd_ptr": np.zeros(m)}  # fmt: skip
    got = execute("layer_norm", (m,), tensors, {"stride": n, "N": n, "eps": 1e-5}, BLOCK=16)
    x = bf16(x)
    mean, rstd = x.mean(-1), 1 / np.sqrt(x.var(-1) + 1e-5)
    close(got["Y"], (x - mean[:, None]) * rstd[:, None] * weight + bias)
    close(got["mean_ptr"], mean, 1e-4)
    close(got["rstd_ptr"], rstd, 1e-4)
