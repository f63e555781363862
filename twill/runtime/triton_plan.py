"""A launch that is Triton's, of a call like an earlier one: its compiled kernel is known, so that nothing is bound.

What Triton specializes a kernel to is part of what the call was recognized by (`twill.runtime.matcher`), but for the
width of numbers, which is looked at here; and so is what else `JITFunction.run` looks at: settings, the current GPU,
whether the compiled kernel is still the one in Triton's cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from twill.runtime.matcher import Kind, kind_of
from twill.runtime.plans import STALE
from twill.runtime.triton_launch import RUN, settings_of_triton

INT32 = 1 << 31


MOST = 8  # times that the way in which calls are recognized is changed for launches of Triton's


class SeenCalls:
    """How arguments of launches of Triton's kernel `original` are looked at, by name; changed: how often that was."""

    def __init__(self, original: Any) -> None:
        self.constexprs = frozenset(parameter.name for parameter in original.params if parameter.is_constexpr)
        self.kinds: dict[str, frozenset[Kind]] = {}
        self.changed = 0

    def widen(self, bound: Mapping[str, Any]) -> bool:
        """Take another call in; whether calls are to be recognized otherwise because of it."""
        if self.changed >= MOST:
            return False
        found = {name: kind_of(value, name in self.constexprs) for name, value in bound.items()}
        before = dict(self.kinds)
        for name, kind in found.items():
            if kind is None:
                return False
            self.kinds[name] = before.get(name, frozenset()) | {kind}
        self.changed += 1
        return self.kinds != before or self.changed == 1


class TritonPlan:
    """See the top of this file. key: of the compiled kernel in Triton's cache. stays: the compiled kernels that
    launches stay with, each with what counts its launches. sizes: of the grid. bound: the arguments by name."""

    def __init__(
        self,
        original: Any,
        compiled: Any,
        key: Any,
        device: int,
        stays: Mapping[Any, Any],
        sizes: tuple[int, ...],
        bound: Mapping[str, Any],
    ) -> None:
        self.original, self.compiled, self.key, self.device, self.stays = original, compiled, key, device, stays
        self.grid = (*sizes, 1, 1)[:3]
        self.count = len(bound)  # values behind these are for emitted kernels (`twill.runtime.matcher.reaches`)
        constexprs = {parameter.name for parameter in original.params if parameter.is_constexpr}
        self.numbers = tuple(
            position for position, (name, value) in enumerate(bound.items())
            if type(value) is int and name not in constexprs
        )  # fmt: skip
        self.zeros = tuple(
            position for position, (name, value) in enumerate(bound.items())
            if type(value) is float and not value and name in constexprs
        )  # fmt: skip
        self.settings = settings_of_triton()

    def start(self, values: Sequence[Any], stream: int) -> Any:
        """The compiled kernel, which was launched; False if that takes a careful look, STALE if that may end otherwise
        for all calls like this one."""
        compiled = self.compiled
        known = self.stays.get(compiled)
        if known is None:
            return STALE
        original = self.original
        if (
            driver.active.get_current_device() != self.device
            or "run" in vars(original)
            or JITFunction.run is not RUN
            or original.device_caches[self.device][0].get(self.key) is not compiled
            or settings_of_triton() != self.settings
        ):
            return False
        for position in self.numbers:
            if not -INT32 <= values[position] < INT32:
                return False
        for position in self.zeros:
            if str(values[position]) != "0.0":
                return False
        first, second, third = self.grid
        known.launches += 1
        if len(values) > self.count:
            values = values[: self.count]
        compiled.run(
            first, second, third, stream, compiled.function, compiled.packed_metadata, None, None, None, *values
        )
        return compiled


def usual(original: Any) -> bool:
    """Whether a kernel is launched by Triton's own code, and nothing is added to its compilation."""
    return "run" not in vars(original) and JITFunction.run is RUN and settings_of_triton()[-1] is None


def triton_plan(
    original: Any, compiled: Any, device: int, stays: Mapping[Any, Any], grid: Any, bound: Mapping[str, Any]
) -> TritonPlan | None:
    """The plan of a call that Triton's `compiled` was launched for; None if calls like it cannot be told from others:
    wide numbers, zeros with a sign among constants, tensors of another GPU than the current one."""
    constexprs = {parameter.name for parameter in original.params if parameter.is_constexpr}
    for name, value in bound.items():
        if type(value) is int and not -INT32 <= value < INT32:
            return None
        if type(value) is float and name in constexprs and str(value) == "-0.0":
            return None
        get_device = getattr(getattr(value, "base", value), "get_device", None)
        if get_device is not None and get_device() != device:
            return None
    cache = original.device_caches[device][0]
    key = next((key for key, there in list(cache.items()) if there is compiled), None)
    if key is None:
        return None
    sizes = tuple(grid(bound) if callable(grid) else grid)
    return TritonPlan(original, compiled, key, device, stays, sizes, bound)
