"""Every emitted launch of a program, made again by Triton on copies of what it was given, and compared.

    with shadowed() as seen:
        ...                      # launches of kernels under `twill.jit`
    print(seen.text())

Tensors of a call are copied with all of their storage, before the launch, so that arguments that share memory share it
in the copy, too. Each launch is also repeated by the emitted kernel on copies of its own: a race shows as other bits.
The GPU is waited for; times of such a program mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from twill.runtime.jit import TwillKernel

BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}  # integers by bytes


@dataclass
class Compared:
    """Of one tensor of one kernel. distance: the largest of ||ours - Triton's|| / ||Triton's|| of any launch. largest:
    of an element, in shares of the largest of Triton's. unequal: launches whose repetition had other bits; placed:
    launches with a NaN or infinity where Triton has none."""

    launches: int = 0
    distance: float = 0.0
    largest: float = 0.0
    unequal: int = 0
    placed: int = 0

    def add(self, ours: Any, theirs: Any, again: Any) -> None:
        """One launch."""
        self.launches += 1
        self.unequal += not bool((bits(ours) == bits(again)).all())
        mine, wanted = ours.double(), theirs.double()
        self.placed += not bool((mine.isfinite() == wanted.isfinite()).all())
        gap = (mine - wanted).nan_to_num(0.0, 0.0, 0.0)
        norm, most = wanted.nan_to_num(0.0, 0.0, 0.0).norm(), wanted.nan_to_num(0.0, 0.0, 0.0).abs().amax()
        self.distance = max(self.distance, float(gap.norm() / norm.clamp_min(1e-30)))
        self.largest = max(self.largest, float(gap.abs().amax() / most.clamp_min(1e-30)))


@dataclass
class Seen:
    """What was compared, by kernel and argument."""

    compared: dict[tuple[str, str], Compared] = field(default_factory=dict)

    def add(self, kernel: str, name: str, ours: Any, theirs: Any, again: Any) -> None:
        """One tensor of one launch."""
        self.compared.setdefault((kernel, name), Compared()).add(ours, theirs, again)

    def text(self) -> str:
        """For people."""
        lines = []
        for (kernel, name), one in sorted(self.compared.items()):
            verdict = "FAIL" if one.unequal or one.placed else "ok  "
            lines.append(
                f"{verdict} {kernel} {name}: {one.launches} launches, apart {one.distance:.1e} (norm) {one.largest:.1e}"
                f" (largest element); {one.unequal} with other bits when repeated, {one.placed} with a NaN or infinity"
                " of their own"
            )
        return "\n".join(lines)


def bits(tensor: Any) -> Any:
    """The same bytes as integers."""
    import torch

    return tensor.contiguous().view(getattr(torch, BITS[tensor.element_size()]))


def copied(values: Sequence[Any]) -> list[Any]:
    """The values, each storage copied once: what shared memory still does."""
    import torch

    storages: dict[int, Any] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        whole: Any = value.untyped_storage()
        if whole.data_ptr() not in storages:
            storages[whole.data_ptr()] = whole.clone()
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(storages[whole.data_ptr()], value.storage_offset(), value.shape, value.stride())
        return made

    with torch.no_grad():
        return [copy(value) for value in values]


@contextmanager
def shadowed() -> Iterator[Seen]:
    """Emitted launches inside are compared."""
    import torch

    seen = Seen()
    start = TwillKernel.twill_start

    def compared(self: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = [name for name in self.arg_names if name not in kwargs][: len(args)] + list(kwargs)
        given = [*args, *kwargs.values()]
        theirs, again = copied(given), copied(given)
        compiled = start(self, grid, args, dict(kwargs))
        if compiled is not None:
            return compiled

        def split(values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :], strict=True))

        more, named = split(theirs)
        self.twill_original.run(*more, grid=grid, warmup=False, **named)
        more, named = split(again)
        if start(self, grid, more, named) is not None:
            again = given  # it became Triton's turn
        for name, ours, other, repeated in zip(names, given, theirs, again, strict=True):
            if isinstance(ours, torch.Tensor):
                seen.add(self.twill_original.__name__, name, ours.detach(), other, repeated.detach())
        return None

    with mock.patch.object(TwillKernel, "twill_start", compared):
        yield seen
