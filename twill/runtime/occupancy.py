"""A prediction beside the kernel that Triton compiled: how many of its CTAs an SM holds is asked of the driver."""

from __future__ import annotations

from typing import Any

from twill.exc import TwillError
from twill.manifest.prediction import Prediction
from twill.runtime.comparison import Judgement
from twill.runtime.device import resident
from twill.runtime.hooks import WARP


def judgement(predicted: Prediction, device: int, compiled: Any) -> Judgement | None:
    """What is predicted of an emitted kernel beside Triton's `compiled`; None if that cannot be said."""
    try:
        threads = int(compiled.metadata.num_warps) * WARP
        ctas = resident(int(compiled.function), threads, int(compiled.metadata.shared), device)
    except (TwillError, AttributeError, TypeError, ValueError):
        return None
    if not ctas:
        return None
    return Judgement(predicted.text(threads, ctas), predicted.slower(threads, ctas))
