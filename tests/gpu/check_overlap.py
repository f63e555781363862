"""Launches of one kernel that run at the same time: in two streams, and from a CUDA graph beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.gpu.examples import Row
from tests.gpu.references import Example
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.trial.data import Data, emitted, make_data

TIMES = 20
AHEAD = 200_000  # cycles that the GPU waits, so that launches of several streams begin together


def overlap(name: str, kernel: EmittedKernel, example: Example, case: Case, words: str) -> Row:
    """Whether each of four launches gives the bits that it gives alone: two in streams, two in one graph. What is added
    to in any order is left out."""
    apart = [made(kernel, example, case, seed) for seed in range(4)]
    launches = [emitted(kernel, data) for data in apart]
    wanted = [alone(data, launch) for data, launch in zip(apart, launches, strict=True)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches[2:]:
            launch()
    cuda: Any = torch.cuda
    streams = [cuda.Stream() for _ in range(2)]
    wrong = 0
    for _ in range(TIMES):
        for data in apart:
            data.clear()
        torch.cuda.synchronize()
        for stream, launch in zip(streams, launches[:2], strict=True):
            with torch.cuda.stream(stream):
                cuda._sleep(AHEAD)
                launch()
        graph.replay()
        torch.cuda.synchronize()
        wrong += sum(not equal(bits(data), first) for data, first in zip(apart, wanted, strict=True))
    note = f"{4 * TIMES} launches at the same time, {wrong} with other bits than alone"
    return Row(name, "overlap", words, not wrong, note=note)


def made(kernel: EmittedKernel, example: Example, case: Case, seed: int) -> Data:
    """Tensors of a launch."""
    data = make_data(kernel.manifest, case, seed)
    if example.prepare:
        example.prepare(data)
    return data


def alone(data: Data, launch: Callable[[], None]) -> Mapping[str, Any]:
    """What a launch makes by itself."""
    data.clear()
    launch()
    torch.cuda.synchronize()
    return {name: tensor.clone() for name, tensor in bits(data).items()}


def bits(data: Data) -> Mapping[str, Any]:
    """Outputs as bytes."""
    names = [name for name in data.manifest.stores if name not in data.manifest.reduces]
    return {name: data.tensor(name).view(torch.uint8) for name in names}


def equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether they are, all of them."""
    return all(torch.equal(one[name], other[name]) for name in other)
