"""`twill bench`: an emitted kernel's time beside that of the Triton kernel, at the sizes of its sidecar."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.trial.data import Data, emitted, make_data, original
from twill.trial.timing import host_microseconds, interleaved, milliseconds

WARPS, STAGES = (4, 8), (2, 3, 4)


@dataclass(frozen=True)
class BenchTimes:
    """One size. Times on the GPU in milliseconds, of a launch on the host in microseconds. options: of the fastest
    Triton launch."""

    case: Case
    emitted_ms: float
    triton_ms: float
    options: str
    emitted_host_us: float
    triton_host_us: float

    @property
    def speedup(self) -> float:
        """Over the Triton kernel."""
        return self.triton_ms / self.emitted_ms


def bench(kernel: EmittedKernel, triton_kernel: Any, cases: Sequence[Case]) -> Iterator[BenchTimes]:
    """Every size; the Triton kernel as specialized, with the options that are fastest."""
    for case in cases:
        data = make_data(kernel.manifest, case)
        name, triton_launch = _fastest(triton_kernel, data)
        launch = emitted(kernel, data)
        times = interleaved({"emitted": launch, "triton": triton_launch})
        hosts = host_microseconds(launch, 200), host_microseconds(triton_launch, 200)
        yield BenchTimes(case, times["emitted"], times["triton"], name, *hosts)


def _fastest(triton_kernel: Any, data: Data) -> tuple[str, Any]:
    found: list[tuple[float, str, Any]] = []
    refused = ""
    for warps, stages in itertools.product(WARPS, STAGES):
        launch = original(triton_kernel, data, num_warps=warps, num_stages=stages)
        try:
            found.append((milliseconds(launch, 0.02), f"num_warps={warps} num_stages={stages}", launch))
        except Exception as error:  # too much shared memory or too many registers for these options
            refused = str(error)
    if not found:
        raise RuntimeError(f"the Triton kernel runs with none of the options tried: {refused}")
    _, name, launch = min(found, key=lambda entry: entry[0])
    return name, launch
