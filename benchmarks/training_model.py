"""A training program that knows nothing of Twill: 50 steps of a language model with random weights, on one GPU.

    python benchmarks/training_model.py llama|gla [--steps 50] [--wait S]

`llama` is transformers' Llama with the kernels of liger-kernel; `gla` has a layer of gated linear attention by fla-core
in the place of every attention. Tokens are random and the same in every run. It prints a line of JSON: the loss of each
step, and the milliseconds that it took. --wait: after three steps, seconds without work, once; the time in which
something else may prepare kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

LAYERS, WIDTH, INNER, HEADS, VOCABULARY = 8, 2048, 5632, 16, 32000
BATCH, LENGTH = 4, 2048


def llama() -> Any:
    """Llama as transformers has it, its norms, rotations, activations and loss by liger-kernel."""
    from liger_kernel.transformers import apply_liger_kernel_to_llama
    from transformers import LlamaConfig, LlamaForCausalLM

    apply_liger_kernel_to_llama(rope=True, rms_norm=True, swiglu=True, fused_linear_cross_entropy=True)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 4,
        max_position_embeddings=LENGTH,
        attn_implementation="sdpa",
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def gla() -> Any:
    """The same with `chunk_gla` of fla-core in the place of attention."""
    import torch
    from fla.ops.gla import chunk_gla

    class GatedLinearAttention(torch.nn.Module):
        """In the place of transformers' attention."""

        def __init__(self) -> None:
            super().__init__()
            self.qkvg = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
            self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, hidden_states: Any, **_: Any) -> tuple[Any, None]:
            """Of (batch, length, width)."""
            batch, length, _ = hidden_states.shape
            q, k, v, g = self.qkvg(hidden_states).view(batch, length, 4 * HEADS, -1).chunk(4, dim=2)
            gates = torch.nn.functional.logsigmoid(g) / 16
            result, _ = chunk_gla(q.contiguous(), k.contiguous(), v.contiguous(), gates.contiguous())
            return self.out(result.reshape(batch, length, WIDTH)), None

    model = llama()
    for layer in model.model.layers:
        layer.self_attn = GatedLinearAttention()
    return model


def train(
    make: Callable[[], Any],
    steps: int,
    seed: int = 0,
    rate: float = 1e-4,
    batches: int = 0,
    pause: Callable[[int], None] = lambda step: None,
) -> tuple[list[float], list[float]]:
    """One training: the loss of each step, and its milliseconds. batches: as many come again and again, 0: each step
    has its own. pause: called behind each step."""
    import torch

    torch.manual_seed(seed)
    with torch.device("cuda"):
        model = make().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batches or steps, BATCH, LENGTH), device="cuda")
    losses, times = [], []
    for step in range(steps):
        batch = tokens[step % len(tokens)]
        torch.cuda.synchronize()
        begun = time.perf_counter()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begun))
        pause(step)
    return [float(one) for one in losses], times


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=("llama", "gla"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--wait", type=float, default=0.0)
    asked = parser.parse_args()

    def pause(step: int) -> None:
        if step == 2:
            time.sleep(asked.wait)

    losses, times = train(llama if asked.model == "llama" else gla, asked.steps, pause=pause)
    print(json.dumps({"losses": losses, "milliseconds": times}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
