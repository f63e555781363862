"""What people would use instead of a Triton kernel: cuBLAS, cuDNN, FlashAttention 3 and 4, PyTorch's own kernels.

Each is optional. One that is not installed, or cannot compute a row, is named with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.kernels.contestant import Contestant
from benchmarks.kernels.measure import Launch
from benchmarks.kernels.variants import constants
from twill.trial.data import Data

Made = tuple[Launch, Callable[[], Mapping[str, Any]]]


@dataclass(frozen=True)
class Library:
    """A peer. kernels: the examples whose result it can make. whole: whether it makes all of it."""

    name: str
    kernels: tuple[str, ...]
    make: Callable[[Data], Made]
    whole: bool = True

    def contestant(self, data: Data) -> Contestant | str:
        """It, on the row's inputs; or why not."""
        import torch

        try:
            launch, outputs = self.make(data)
            launch()
            torch.cuda.synchronize()
            return Contestant(self.name, "library" if self.whole else "partial", launch, outputs)
        except ModuleNotFoundError as error:
            return f"not installed ({error.name})"
        except Exception as error:  # a peer that fails is no reason to stop
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error).strip() else ''}"


def libraries(kernel: str) -> Iterator[Library]:
    """Those that have something for this kernel."""
    return (library for library in LIBRARIES if kernel in library.kernels)


# ---------------------------------------------------------------- products


def _matmul(data: Data) -> Made:
    import torch

    left, right = ("a_ptr", "b_ptr") if data.manifest.kernel == "gemm_pointers" else ("a_desc", "b_desc")
    a, b = data.tensor(left), data.tensor(right)
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    names = {"gemm": "c_desc", "gemm_pointers": "c_ptr"}
    return lambda: torch.matmul(a, b, out=out), _once(lambda: torch.matmul(a, b, out=out), names[data.manifest.kernel])


def _matmul_gelu(data: Data) -> Made:
    """cuBLASLt's epilogue: GELU by its tanh formula, within 1e-3 of the one by the error function."""
    import torch

    a, b, bias = (data.tensor(name) for name in ("a_desc", "b_desc", "bias_ptr"))

    def launch() -> Any:
        return torch._addmm_activation(bias, a, b, use_gelu=True)

    return launch, _once(launch, "c_desc")


def _matmul_only(data: Data) -> Made:
    """The product alone, of a kernel that does more: nothing that can be compared."""
    import torch

    a, b = data.tensor("a_desc"), data.tensor("b_desc")
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    return lambda: torch.matmul(a, b, out=out), dict


def _matmul_twice(data: Data) -> Made:
    import torch

    x, gate, up = (data.tensor(name) for name in ("x_desc", "gate_desc", "up_desc"))
    one, two = (torch.empty(x.shape[0], gate.shape[1], dtype=x.dtype, device=x.device) for _ in range(2))

    def launch() -> None:
        torch.matmul(x, gate, out=one)
        torch.matmul(x, up, out=two)

    return launch, dict


def _scaled_mm(data: Data) -> Made:
    import torch

    a, b = data.tensor("a_desc"), data.tensor("b_desc").t()
    scale = torch.ones((), device=a.device)

    def launch() -> Any:
        return torch._scaled_mm(a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True)

    return launch, _once(launch, "c_desc")


# ---------------------------------------------------------------- attention


def _causal(data: Data) -> bool:
    return bool(constants(data.manifest).get("CAUSAL", False))


def _inputs(data: Data, *names: str) -> list[Any]:
    """[Z, H, N_CTX, HEAD_DIM]."""
    sizes = data.case.sizes
    return [data.tensor(name).view(sizes["Z"], sizes["H"], sizes["N_CTX"], -1) for name in names]


def _queries(data: Data) -> tuple[list[Any], str]:
    if data.manifest.kernel == "attention_pointers":
        return _inputs(data, "Q", "K", "V"), "Out"
    return _inputs(data, "q_desc", "k_desc", "v_desc"), "o_desc"


def _cudnn(data: Data) -> Made:
    import torch

    (q, k, v), name = _queries(data)
    causal, backend = _causal(data), torch.nn.attention.SDPBackend.CUDNN_ATTENTION

    def launch() -> Any:
        with torch.nn.attention.sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return launch, _once(launch, name)


def _cudnn_backward(data: Data) -> Made:
    import torch

    q, k, v, do = (one.detach() for one in _inputs(data, "q_desc", "k_desc", "v_desc", "do_desc"))
    q, k, v = (one.requires_grad_() for one in (q, k, v))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=_causal(data))
    return _gradients(data, out, (q, k, v), do, lambda found: found)


def _flash(module: str) -> Callable[[Data], Made]:
    """Forward of FlashAttention, on [Z, N_CTX, H, HEAD_DIM] as it likes best."""

    def make(data: Data) -> Made:
        function = importlib.import_module(module).flash_attn_func
        inputs, name = _queries(data)
        q, k, v = (one.transpose(1, 2).contiguous() for one in inputs)
        options: dict[str, Any] = {"causal": _causal(data)}
        if data.manifest.kernel == "sliding_window_attention":
            known = constants(data.manifest)
            options = {"causal": True, "window_size": (known["WINDOW"] - 1, 0), "softcap": float(known["CAP"])}

        def launch() -> Any:
            return function(q, k, v, **options)

        return launch, _once(lambda: _first(launch()).transpose(1, 2), name)

    return make


def _flash_backward(data: Data) -> Made:
    function = importlib.import_module("flash_attn.cute").flash_attn_func
    inputs = [one.transpose(1, 2).contiguous() for one in _inputs(data, "q_desc", "k_desc", "v_desc", "do_desc")]
    q, k, v = (one.detach().requires_grad_() for one in inputs[:3])
    out = _first(function(q, k, v, causal=_causal(data)))
    return _gradients(data, out, (q, k, v), inputs[3], lambda found: found.transpose(1, 2))


def _gradients(data: Data, out: Any, to: tuple[Any, ...], do: Any, heads_first: Callable[[Any], Any]) -> Made:
    """Backward alone; it makes delta too, and dQ with the scale that the example leaves out."""
    import torch

    scale = data.case.scalars["sm_scale"]

    def launch() -> Any:
        return torch.autograd.grad(out, to, do, retain_graph=True)

    def outputs() -> dict[str, Any]:
        dq, dk, dv = (heads_first(found) for found in launch())
        return {"dq_desc": dq / scale, "dk_desc": dk, "dv_desc": dv}

    return launch, outputs


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


def _once(launch: Launch, name: str) -> Callable[[], Mapping[str, Any]]:
    return lambda: {name: launch()}


# ---------------------------------------------------------------- rows


def _layer_norm(data: Data) -> Made:
    import torch

    x, weight, bias = (data.tensor(name) for name in ("X", "weight", "bias"))

    def launch() -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, data.case.scalars["eps"])

    return launch, _once(launch, "Y")


FORWARD = ("attention", "attention_pointers")
LIBRARIES = (
    Library("cuBLAS", ("gemm", "gemm_pointers"), _matmul),
    Library("cuBLAS", ("gemm_fp8",), _scaled_mm),
    Library("cuBLAS, bias and GELU", ("gemm_bias_gelu",), _matmul_gelu),
    Library("cuBLAS, product alone", ("gemm_bias_gelu",), _matmul_only, whole=False),
    Library("cuBLAS, products alone", ("dual_gemm",), _matmul_twice, whole=False),
    Library("cuDNN", FORWARD, _cudnn),
    Library("FlashAttention 3", FORWARD, _flash("fa3_fwd_interface")),
    Library("FlashAttention 4", (*FORWARD, "sliding_window_attention"), _flash("flash_attn.cute")),
    Library("cuDNN", ("attention_backward",), _cudnn_backward),
    Library("FlashAttention 4", ("attention_backward",), _flash_backward),
    Library("PyTorch", ("layer_norm",), _layer_norm),
)
