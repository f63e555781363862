"""The operations of `benchmarks.operations`: 8 of liger-kernel, 6 of fla-core, with the sizes they are measured at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

BATCH, LENGTH, HIDDEN, INNER, VOCABULARY = 2, 2048, 4096, 8192, 32000
HEADS, KEY = 16, 64  # of the operations of fla-core
ROPE_HEADS, ROPE_KV_HEADS, ROPE_WIDTH = 32, 8, 128
GROUPS, CHANNELS, PIXELS, IMAGES = 32, 512, 1024, 8
EPS = 1e-6


@dataclass(frozen=True)
class Operation:
    """module: where it is, imported anew for each side. inputs: tensors from a `Maker`. call: the module and the
    inputs to the results. gradients: which inputs have one."""

    name: str
    module: str
    inputs: Callable[[Maker], list[Any]]
    call: Callable[..., Any]
    gradients: Sequence[int]

    @property
    def package(self) -> str:
        """The outermost package."""
        return self.module.partition(".")[0]


class Maker:
    """Makes tensors on a device: random numbers, or empty memory where nothing is run."""

    def __init__(self, torch: Any, device: str, *, empty: bool = False) -> None:
        self.torch = torch
        self.device = device
        self.empty = empty

    def bf16(self, *shape: int, scale: float = 1.0) -> Any:
        """Numbers of a normal distribution."""
        kind = self.torch.bfloat16
        if self.empty:
            return self.torch.zeros(shape, dtype=kind, device=self.device)
        return self.torch.randn(shape, dtype=kind, device=self.device) * scale

    def gates(self, *shape: int) -> Any:
        """Logarithms of gates."""
        return self.torch.nn.functional.logsigmoid(self.bf16(*shape).float()).to(self.torch.bfloat16)

    def unit(self, *shape: int) -> Any:
        """Rows of length 1."""
        return self.torch.nn.functional.normalize(self.bf16(*shape).float(), dim=-1).to(self.torch.bfloat16)

    def labels(self, count: int, below: int) -> Any:
        """Indices."""
        return self.torch.randint(0, below, (count,), device=self.device)

    def angles(self, length: int, width: int) -> Any:
        """Angles of a rotation, twice in a row as transformers has them."""
        torch = self.torch
        steps = torch.arange(length, device=self.device).float()
        rates = 10000.0 ** (-torch.arange(0, width, 2, device=self.device).float() / width)
        one = steps[:, None] * rates[None, :]
        return torch.cat((one, one), dim=-1)[None]


def _rows(make: Maker) -> Any:
    return make.bf16(BATCH * LENGTH, HIDDEN)


def _attention(make: Maker, *more: Callable[[Maker], Any]) -> list[Any]:
    shape = (BATCH, LENGTH, HEADS, KEY)
    return [make.bf16(*shape), make.unit(*shape), make.bf16(*shape), *(one(make) for one in more)]


def _rope_inputs(make: Maker) -> list[Any]:
    angles = make.angles(LENGTH, ROPE_WIDTH)
    q, k = ((BATCH, heads, LENGTH, ROPE_WIDTH) for heads in (ROPE_HEADS, ROPE_KV_HEADS))
    return [make.bf16(*q), make.bf16(*k), angles.cos().bfloat16(), angles.sin().bfloat16()]


LIGER, FLA = "liger_kernel.ops", "fla.ops"
OPERATIONS = (
    Operation("rms_norm", f"{LIGER}.rms_norm", lambda m: [_rows(m), m.bf16(HIDDEN)],
              lambda o, x, w: o.LigerRMSNormFunction.apply(x, w, EPS, 0.0, "llama", False), (0, 1)),
    Operation("layer_norm", f"{LIGER}.layer_norm", lambda m: [_rows(m), m.bf16(HIDDEN), m.bf16(HIDDEN)],
              lambda o, x, w, b: o.LigerLayerNormFunction.apply(x, w, b, EPS), (0, 1, 2)),
    Operation("swiglu", f"{LIGER}.swiglu", lambda m: [m.bf16(BATCH * LENGTH, INNER) for _ in range(2)],
              lambda o, a, b: o.LigerSiLUMulFunction.apply(a, b), (0, 1)),
    Operation("geglu", f"{LIGER}.geglu", lambda m: [m.bf16(BATCH * LENGTH, INNER) for _ in range(2)],
              lambda o, a, b: o.LigerGELUMulFunction.apply(a, b), (0, 1)),
    Operation("cross_entropy", f"{LIGER}.cross_entropy",
              lambda m: [m.bf16(BATCH * LENGTH, VOCABULARY), m.labels(BATCH * LENGTH, VOCABULARY)],
              lambda o, x, labels: o.LigerCrossEntropyFunction.apply(x, labels, None)[0], (0,)),
    Operation("rope", f"{LIGER}.rope", _rope_inputs,
              lambda o, q, k, cos, sin: o.LigerRopeFunction.apply(q, k, cos, sin), (0, 1)),
    Operation("group_norm", f"{LIGER}.group_norm",
              lambda m: [m.bf16(IMAGES, CHANNELS, PIXELS), m.bf16(CHANNELS), m.bf16(CHANNELS)],
              lambda o, x, w, b: o.LigerGroupNormFunction.apply(x, w, b, CHANNELS, GROUPS, EPS), (0, 1, 2)),
    Operation("softmax", f"{LIGER}.softmax", lambda m: [_rows(m)],
              lambda o, x: o.LigerSoftmaxFunction.apply(x), (0,)),
    Operation("chunk_gla", f"{FLA}.gla.chunk",
              lambda m: _attention(m, lambda m: m.gates(BATCH, LENGTH, HEADS, KEY)),
              lambda o, q, k, v, g: o.chunk_gla(q, k, v, g)[0], (0, 1, 2, 3)),
    Operation("chunk_retention", f"{FLA}.retention.chunk", _attention,
              lambda o, q, k, v: o.chunk_retention(q, k, v)[0], (0, 1, 2)),
    Operation("chunk_linear_attn", f"{FLA}.linear_attn.chunk", _attention,
              lambda o, q, k, v: o.chunk_linear_attn(q, k, v, normalize=False)[0], (0, 1, 2)),
    Operation("chunk_delta_rule", f"{FLA}.delta_rule.chunk",
              lambda m: _attention(m, lambda m: m.bf16(BATCH, LENGTH, HEADS).sigmoid()),
              lambda o, q, k, v, beta: o.chunk_delta_rule(q, k, v, beta)[0], (0, 1, 2, 3)),
    Operation("chunk_gated_delta_rule", f"{FLA}.gated_delta_rule.chunk",
              lambda m: _attention(m, lambda m: m.gates(BATCH, LENGTH, HEADS),
                                   lambda m: m.bf16(BATCH, LENGTH, HEADS).sigmoid()),
              lambda o, q, k, v, g, beta: o.chunk_gated_delta_rule(q, k, v, g, beta)[0], (0, 1, 2, 3, 4)),
    Operation("parallel_attn", f"{FLA}.attn.parallel", _attention,
              lambda o, q, k, v: o.parallel_attn(q, k, v), (0, 1, 2)),
)  # fmt: skip


@contextmanager
def no_gpu() -> Iterator[None]:
    """PyTorch and Triton as they are on a Hopper GPU, for what the packages ask them; kernels are not run."""
    import torch

    from tests.fake_triton import installed

    about = SimpleNamespace(name="NVIDIA H200", multi_processor_count=132, major=9, minor=0,
                            shared_memory_per_block=49152, shared_memory_per_block_optin=232448)  # fmt: skip
    says: dict[str, Any] = {
        "get_device_name": lambda *_: about.name, "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: about, "device_count": lambda: 1, "current_device": lambda: 0,
    }  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(installed())
        for name, answer in says.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        yield
