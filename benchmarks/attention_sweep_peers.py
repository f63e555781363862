"""What `benchmarks.attention_sweep` compares with: FlashAttention 3 and 4, cuDNN, PyTorch's own flash attention.

Each is optional. One that is not installed, or cannot compute a problem, is named with the reason. FlashAttention gets
its inputs in the order that it likes best, [sequences, length, heads, D].
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.attention_sweep_data import Inputs
from benchmarks.attention_sweep_launches import Contestant

Launch = Callable[[], Any]
FLASH_3 = ("flash_attn_interface", "fa3_fwd_interface", "flash_attn_3.flash_attn_interface")


class Lacking(Exception):
    """A peer that has no such attention."""


def peers(given: Inputs, names: Sequence[str]) -> Iterator[Contestant | tuple[str, str]]:
    """Those whose short names are given; or a name with the reason why not."""
    for short in names:
        for name, make in PEERS[short]:
            if (given.problem.kind == "decode") < name.endswith("with cache"):
                continue
            yield _made(name, make, given)


def _made(name: str, make: Callable[[Inputs], Launch], given: Inputs) -> Contestant | tuple[str, str]:
    import torch

    try:
        launch = make(given)
        launch()
        torch.cuda.synchronize()
        return Contestant(name, launch)
    except ModuleNotFoundError as error:
        return name, f"not installed ({error.name})"
    except Exception as error:  # a peer that fails is no reason to stop
        said = str(error).strip().splitlines()
        return name, f"{type(error).__name__}: {said[0][:200] if said else ''}"


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, tuple | list) else found


def _known(function: Any, **given: Any) -> dict[str, Any]:
    """Those that the function has parameters for: releases differ."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in given.items() if name in names}


def _flash(module: Any, given: Inputs) -> Launch:
    """`flash_attn_func`, or the one for variable lengths."""
    problem = given.problem
    if problem.kind == "variable":
        function = module.flash_attn_varlen_func
        lengths = _known(
            function, cu_seqlens_q=given.begins[0], cu_seqlens_k=given.begins[1], max_seqlen_q=problem.queries,
            max_seqlen_k=problem.keys,
        )  # fmt: skip
        q, k, v = given.q, given.k, given.v
        return lambda: _first(function(q, k, v, **lengths, causal=problem.causal))
    q, k, v = (one.transpose(1, 2).contiguous() for one in (given.q, given.k, given.v))
    return lambda: _first(module.flash_attn_func(q, k, v, causal=problem.causal)).transpose(1, 2)


def _flash_3_module() -> Any:
    for name in FLASH_3:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(name="fa3-fwd")


def _flash_3(given: Inputs) -> Launch:
    return _flash(_flash_3_module(), given)


def _flash_3_cache(given: Inputs) -> Launch:
    """As a server decodes: with a cache of keys, in as many parts as FlashAttention finds best."""
    import torch

    function = _flash_3_module().flash_attn_with_kvcache
    q, k, v = (one.transpose(1, 2).contiguous() for one in (given.q, given.k, given.v))
    lengths = torch.full((q.shape[0],), given.problem.keys, device=q.device, dtype=torch.int32)
    return lambda: _first(function(q, k, v, cache_seqlens=lengths, causal=False)).transpose(1, 2)


def _flash_4(given: Inputs) -> Launch:
    return _flash(importlib.import_module("flash_attn.cute"), given)


def _scaled(backend: str) -> Callable[[Inputs], Launch]:
    """PyTorch's scaled dot product attention with one of its backends."""

    def make(given: Inputs) -> Launch:
        import torch

        problem, chosen = given.problem, getattr(torch.nn.attention.SDPBackend, backend)
        if problem.kind == "variable":
            raise Lacking("no variable lengths")
        if problem.causal and problem.queries != problem.keys:
            raise Lacking("the first query sees the first key alone")
        attend: Any = torch.nn.functional.scaled_dot_product_attention

        def launch() -> Any:
            with torch.nn.attention.sdpa_kernel(chosen):
                return attend(given.q, given.k, given.v, is_causal=problem.causal, enable_gqa=problem.shared > 1)

        return launch

    return make


def _torch_flash(given: Inputs) -> Launch:
    if given.problem.kind != "variable":
        return _scaled("FLASH_ATTENTION")(given)
    problem, function = given.problem, importlib.import_module("torch.nn.attention.varlen").varlen_attn
    options = _known(function, enable_gqa=problem.shared > 1)
    if problem.shared > 1 and not options:
        raise Lacking("no grouped heads at variable lengths")
    if problem.causal:
        options |= _known(function, is_causal=True) or {"window_size": (-1, 0)}
    lengths = (*given.begins, problem.queries, problem.keys)
    return lambda: _first(function(given.q, given.k, given.v, *lengths, **options))


PEERS: dict[str, tuple[tuple[str, Callable[[Inputs], Launch]], ...]] = {
    "fa3": (("FlashAttention 3", _flash_3), ("FlashAttention 3 with cache", _flash_3_cache)),
    "fa4": (("FlashAttention 4", _flash_4),),
    "cudnn": (("cuDNN", _scaled("CUDNN_ATTENTION")),),
    "torch": (("PyTorch flash", _torch_flash),),
}
