"""Who takes part in a row, and whether what one computes is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.kernels.measure import Launch

WRONG = 0.02  # relative error of a bf16 result that nothing excuses
LIMIT = 1.2  # of an emitted kernel, over the error of the Triton kernel
NOISE = 1e-6  # relative errors below it are float32's own rounding

Outputs = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Contestant:
    """One way to a row's result. outputs: launches once, on outputs that held nothing, and gives those that can be
    compared with the reference, by its names. host: whether the host's time of a launch is worth a column."""

    name: str
    group: str
    launch: Launch
    outputs: Outputs
    detail: str = ""
    host: bool = False


def errors(contestant: Contestant, reference: Mapping[str, Any]) -> dict[str, float]:
    """Of every output that both have: ‖x − reference‖ / ‖reference‖, NaN if an element is."""
    return {name: relative(found, reference[name]) for name, found in contestant.outputs().items() if name in reference}


def relative(found: Any, wanted: Any) -> float:
    """In float32, piece by piece: tensors may be large."""
    over = under = 0.0
    for one, other in zip(found.reshape(-1).split(1 << 26), wanted.reshape(-1).split(1 << 26), strict=True):
        over += float((one.float() - other.float()).double().square().sum())
        under += float(other.double().square().sum())
    return math.sqrt(over) / max(math.sqrt(under), 1e-30)


def right(found: Mapping[str, float], triton: Mapping[str, float]) -> bool:
    """Whether every output is near the reference: for an emitted kernel, `triton` has the errors to be held to."""
    if not found:
        return False
    for name, error in found.items():
        known = triton.get(name, math.nan)
        limit = WRONG if math.isnan(known) else max(LIMIT * known, NOISE)
        if not error <= limit:  # NaN is not
            return False
    return True
