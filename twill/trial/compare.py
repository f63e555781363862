"""How far two kernels are from a reference, and whether one of them repeats itself bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twill.trial.data import Data

LIMIT = 1.2  # the emitted kernel's error over the Triton kernel's
NOISE = 1e-6  # relative errors below it are float32's own rounding: their ratio means nothing


@dataclass(frozen=True)
class Difference:
    """Errors of one output: ‖x − reference‖ / ‖reference‖, of the emitted kernel and of Triton's (None: not run)."""

    output: str
    emitted: float
    original: float | None

    @property
    def ok(self) -> bool:
        """Whether the emitted kernel is as near to the reference as Triton's (NaN is not)."""
        if self.original is None or self.original != self.original:
            return self.emitted <= 0.02
        return self.emitted <= max(LIMIT * self.original, NOISE)


def relative(found: Any, reference: Any) -> float:
    """‖found − reference‖ / ‖reference‖ in float64; NaN if any element is."""
    difference = (found.double() - reference.double()).norm()
    return float(difference / reference.double().norm().clamp(min=1e-30))


def differences(
    data: Data, launch: Callable[[], None], triton_launch: Callable[[], None] | None, reference: Mapping[str, Any]
) -> list[Difference]:
    """Errors of every output that the reference has."""
    data.clear()
    launch()
    ours = {name: tensor.clone() for name, tensor in data.outputs.items()}
    theirs: dict[str, Any] = {}
    if triton_launch is not None:
        data.clear()
        triton_launch()
        theirs = {name: tensor.clone() for name, tensor in data.outputs.items()}
    return [
        Difference(name, relative(ours[name], wanted), relative(theirs[name], wanted) if theirs else None)
        for name, wanted in reference.items()
    ]


def repeats(data: Data, launch: Callable[[], None], times: int) -> dict[str, int]:
    """Launches, of `times`, whose output differs in some bit from the first; by output. What is added to in any order
    is left out."""
    import torch

    names = [name for name in data.manifest.stores if name not in data.manifest.reduces]
    differing = dict.fromkeys(names, 0)
    first: dict[str, Any] = {}
    for _ in range(times):
        data.clear()
        launch()
        for name in names:
            bits = data.tensor(name).view(torch.uint8)
            if name not in first:
                first[name] = bits.clone()
            elif not torch.equal(first[name], bits):
                differing[name] += 1
    return differing
