"""What is current: the GPU of a call, whether a CUDA graph is captured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from triton.runtime.driver import driver


def device_of(bound: Mapping[str, Any]) -> int:
    """The GPU of the first tensor, or the current one."""
    for value in bound.values():
        get_device: Callable[[], int] | None = getattr(getattr(value, "base", value), "get_device", None)
        if get_device is not None:
            return int(get_device())
    return int(driver.active.get_current_device())


def capturing() -> bool:
    """Whether PyTorch captures a CUDA graph on the current stream."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and bool(torch.cuda.is_current_stream_capturing())
