"""What an instruction is once it is made: a function that changes the registers of some lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Array = Any  # np.ndarray
WARP = 32


class LaneRegisters(Protocol):
    """Lanes that run together. registers: by number, arrays of one element (all lanes have the same) or of one for
    each lane, replaced and never changed. mask: lanes that run now, None for all."""

    registers: list[Array]
    mask: Array | None


Step = Callable[[Any], None]
"""Of `LaneRegisters`, or of threads that are more than that (`twill.codegen.verify.ptx.threads`)."""
