"""Times of emitted candidates on this GPU, in turns; each is first compared with the Triton kernel.

That has the tiles of the default, or where Triton cannot have those, of the first candidate whose tiles it can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twill.exc import NothingToCompareWith
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.trial.compare import relative
from twill.trial.data import Data, emitted, make_data, original
from twill.trial.timing import interleaved

NEAR = 0.02  # relative difference from the Triton kernel's result that bf16 rounding explains
WARPS = (8, 4)  # of the Triton kernel, which of them it can run with


@dataclass
class CandidateTimes:
    """By name. times: milliseconds at each size. wrong: why a candidate has none."""

    times: dict[str, list[float]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def gain(self, name: str, default: str) -> float:
        """Speed over the default: geometric mean over the sizes."""
        ratios = [theirs / mine for mine, theirs in zip(self.times[name], self.times[default], strict=True)]
        return math.exp(sum(map(math.log, ratios)) / len(ratios))

    def best(self, default: str) -> str:
        """The fastest right one."""
        complete = [name for name in self.times if name not in self.wrong]
        return max(complete, key=lambda name: self.gain(name, default))


def measure(
    folders: Mapping[str, Path], cases: Mapping[str, Sequence[Case]], default: str, triton_kernel: Any
) -> CandidateTimes:
    """Candidates by name: where each was emitted, and its launches at the sizes (its grid is its tiles'). The kernel of
    `default` says what the tensors are. Errors: NothingToCompareWith."""
    kernels = {name: EmittedKernel.load(folder) for name, folder in folders.items()}
    found = CandidateTimes({name: [] for name in kernels})
    for index, case in enumerate(cases[default]):
        data = make_data(kernels[default].manifest, case)
        held = {name: Data(kernel.manifest, cases[name][index], data.held) for name, kernel in kernels.items()}
        wanted = _wanted(triton_kernel, [held[default], *(one for name, one in held.items() if name != default)])
        launches = {}
        for name, kernel in kernels.items():
            if name in found.wrong:
                continue
            launch = emitted(kernel, held[name])
            data.clear()
            launch()
            worst = max(relative(tensor, wanted[output]) for output, tensor in data.outputs.items())
            if not worst <= NEAR or data.outside():
                found.wrong[name] = f"differs from the Triton kernel by {worst:.1e}"
            else:
                launches[name] = launch
        if default in found.wrong:
            manifest = kernels[default].manifest
            raise NothingToCompareWith(manifest.kernel, found.wrong[default], file=manifest.file)
        for name, time in interleaved(launches).items():
            found.times[name].append(time)
    return found


def _wanted(kernel: Any, candidates: Sequence[Data]) -> dict[str, Any]:
    """What the Triton kernel makes of the inputs, with the constants of the first candidate that it can have.

    Errors: NothingToCompareWith.
    """
    first: Exception | None = None
    for data in candidates:
        try:
            return _triton(kernel, data)
        except Exception as error:  # tiles that Triton cannot spell, or has no shared memory for
            first = first or error
    manifest = candidates[0].manifest
    why = (
        f"has nothing beside it: the Triton kernel fails with every candidate's tiles ({type(first).__name__}: {first})"
    )
    raise NothingToCompareWith(manifest.kernel, why, file=manifest.file)


def _triton(kernel: Any, data: Data) -> dict[str, Any]:
    """The same, with the constants of one."""
    import torch

    for warps in WARPS:
        data.clear()
        try:
            original(kernel, data, num_warps=warps)()
            torch.cuda.synchronize()
        except Exception:  # too much shared memory with so many warps
            if warps == WARPS[-1]:
                raise
            continue
        return {name: tensor.clone() for name, tensor in data.outputs.items()}
    raise AssertionError("unreachable")
