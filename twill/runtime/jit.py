"""`twill.jit`: a Triton kernel that launches the emitted kernel of its schedule where there is one, else itself.

    fast = twill.jit(kernel)
    fast[grid](a, b, c, M, N, K, BLOCK_M=128)      # as kernel[grid](...)

A `TwillKernel` is a Triton `JITFunction` with the same insides: autotuners and heuristics take it, other kernels may
call it, torch.compile compiles it. Only a launch goes another way: a call like an earlier one finds its prepared launch
by one look-up (`twill.runtime.matcher`), any other is looked into (`twill.runtime.dispatch`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction, KernelInterface

from twill.exc import NotAKernel, WrongFreeConstant
from twill.runtime.comparison import TritonTurn
from twill.runtime.configurations import ConfigurationTurns, time_triton
from twill.runtime.dispatch import Dispatch
from twill.runtime.free import FreeConstants
from twill.runtime.hooks import hooked
from twill.runtime.member_launch import MemberStart
from twill.runtime.plans import Call, RefusedLaunch
from twill.runtime.policy import JitSettings, settings
from twill.runtime.tiled_dispatch import TiledDispatch
from twill.runtime.wrappers import quicken


@dataclass(frozen=True)
class FreeTiles:
    """What a kernel's tiles may be beside what its calls say. names, blocks: `free` and `blocks` of `jit`; family: a
    directory."""

    names: Sequence[str] | Mapping[str, Sequence[int]] = ()
    blocks: Mapping[str, Sequence[str | int]] | None = None
    family: str | Path | None = None

    def dispatch(self, original: Any, chosen: JitSettings) -> Dispatch:
        """Errors: WrongFreeConstant."""
        free = FreeConstants.of(original, self.names, self.blocks) if self.names else None
        return TiledDispatch(original, chosen, free, None if self.family is None else Path(self.family))


AS_WRITTEN = FreeTiles()


class TwillKernel(JITFunction):  # type: ignore[misc]
    """See the top of this file. Made by `jit`. Its own attributes begin with `twill_`, all others are the original's.

    Errors of its launches: Triton's; KernelNotReady if the policy is "require".
    """

    def __init__(self, original: Any, chosen: JitSettings, tiles: FreeTiles = AS_WRITTEN) -> None:
        # The insides are the original's own objects, so that what is done to either is done to both; what Triton adds
        # to the original later is found by __getattr__.
        self.__dict__.update({name: value for name, value in vars(original).items() if name not in vars(TwillKernel)})
        self.twill_original = original
        self.warmup = original.warmup  # compiles, and launches nothing
        self.twill_dispatch = Dispatch(original, chosen) if tiles is AS_WRITTEN else tiles.dispatch(original, chosen)
        self.twill_tuned: ConfigurationTurns | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("twill_"):  # a copy that is not yet filled
            raise AttributeError(name)
        return getattr(self.twill_original, name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launch on `grid`."""
        return partial(self.twill_launch, grid)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As Triton's, with `grid` and `warmup` by name: what autotuners and heuristics call."""
        return self.twill_run(args, kwargs)

    def twill_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `run`; `kwargs` is nobody else's."""
        dispatch = self.twill_dispatch
        if kwargs["warmup"]:
            return self.twill_original.run(*args, **kwargs)
        grid = kwargs.pop("grid")
        del kwargs["warmup"]
        turn = None if self.twill_tuned is None else self.twill_tuned.taken()
        if turn is not None:
            launched = self.twill_start(grid, args, kwargs)
            turn.over(dispatch.comparison_of(grid, args, kwargs))
            return launched
        return self.twill_start(grid, args, kwargs)

    def _unsafe_update_src(self, new_src: str) -> None:
        """As Triton's, for both."""
        self.twill_original._unsafe_update_src(new_src)
        super()._unsafe_update_src(new_src)

    def twill_launch(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """One launch on `grid`. Triton's kernel gives back what Triton gives back, an emitted one None."""
        return self.twill_start(grid, args, kwargs)

    def twill_start(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same."""
        dispatch = self.twill_dispatch
        hot = dispatch.hot
        if hot is None:
            if not dispatch.stays:
                return dispatch.launch(None, False, grid, args, kwargs)
            return dispatch.stayed(grid, args, kwargs)
        call: Any = False
        if not self.pre_run_hooks and not hooked():
            try:
                quick = hot.quick.match
                call = NotImplemented if quick is None else quick(grid, args, kwargs)
                if call is NotImplemented:
                    call = hot.match(grid, *args, **kwargs)
                if call.__class__ is MemberStart:
                    call = call.on(grid)
            except Exception:  # a call that is not like the earlier ones, or a mistake that Triton will name
                call = False
            if call is True:
                return None
            kind = call.__class__
            if kind is RefusedLaunch:
                return dispatch.refused(hot, call, grid, args, kwargs)
            if kind is TritonTurn:
                return call.run(lambda: dispatch.as_triton.run(grid, args, kwargs))
            if kind is not Call and call is not False:
                return call
        if call is False and not dispatch.used and dispatch.stays:
            return dispatch.stayed(grid, args, kwargs)
        return dispatch.launch(hot, call, grid, args, kwargs)


def jit(
    kernel: Any = None,
    *,
    free: Sequence[str] | Mapping[str, Sequence[int]] = (),
    blocks: Mapping[str, Sequence[str | int]] | None = None,
    family: str | Path | None = None,
    **options: Any,
) -> Any:
    """`kernel` with emitted launches; see the top of this file.

    kernel: a `@triton.jit` function, or what holds one as `fn` (given back as such): an autotuner, heuristics, wrappers
    of others. Without it, a decorator. free: names of constexprs whose values emitted kernels choose, or values to try
    of each (`twill.runtime.tilings`); blocks: how blocks of descriptors follow from them, where that is not clear.
    family: a directory that `twill tune --out` wrote, whose members have the launches that they take. With both the
    grid is a function of the constants. Of an autotuner that is directly around the function, those that are free are
    chosen beside the configuration that the autotuner chose. options: policy, budget (seconds), machine, store,
    server, solve_seconds, strict_math, prefer, emit, as `JitSettings` has them; what is not given is as the environment
    says (`twill.runtime.policy`). Errors: NotAKernel, WrongPolicy, WrongFreeConstant.
    """
    if kernel is None:
        return partial(jit, free=free, blocks=blocks, family=family, **options)
    tiles = AS_WRITTEN if not free and family is None else FreeTiles(free, blocks, family)
    return _wrapped(kernel, settings(**options), tiles)


def _wrapped(kernel: Any, chosen: JitSettings, tiles: FreeTiles) -> Any:
    if isinstance(kernel, TwillKernel):
        return TwillKernel(kernel.twill_original, chosen, tiles)
    if isinstance(kernel, JITFunction):
        return TwillKernel(kernel, chosen, tiles)
    inner = getattr(kernel, "fn", None)
    if inner is None:
        raise NotAKernel(f"twill.jit takes no {type(kernel).__name__}", hint="a function under @triton.jit")
    if isinstance(kernel, KernelInterface) and not hasattr(inner, "run"):  # interpreted: there is nothing to compile
        return kernel
    if tiles.names and not (isinstance(kernel, Autotuner) and isinstance(inner, JITFunction)):
        raise WrongFreeConstant(
            f"constants of {_name(inner)} under a {type(kernel).__name__} are what that makes of a call", hint=INSIDE
        )
    outer = copy.copy(kernel)
    outer.fn = _wrapped(inner, chosen, tiles)
    if isinstance(getattr(outer, "cache", None), dict):  # of what was the fastest without emitted kernels
        outer.cache = {}
        take_turns(outer)
    hasten(outer)
    return outer


def hasten(wrapper: Any) -> None:
    """Have an autotuner or heuristics launch at less cost to the host, if a `TwillKernel` is in it that ever has
    emitted kernels (`twill.runtime.wrappers`)."""
    kernel = _inside(wrapper)
    if kernel is not None and kernel.twill_dispatch.variants is not None:
        quicken(wrapper)


def take_turns(tuner: Any) -> None:
    """Have the configurations of an autotuner take turns once they have emitted kernels, if a `TwillKernel` is in it
    (`twill.runtime.configurations`)."""
    kernel = _inside(tuner)
    if kernel is not None and kernel.twill_dispatch.variants is not None:
        kernel.twill_tuned = tuner.cache = ConfigurationTurns(tuner, kernel.twill_dispatch)
        time_triton(tuner, kernel.twill_dispatch)
        if isinstance(kernel.twill_dispatch, TiledDispatch):
            kernel.twill_dispatch.has_chosen = kernel.twill_tuned.has_chosen
            kernel.twill_tuned.chosen_anew = kernel.twill_dispatch.chosen_anew


def explain_fallback(kernel: Any) -> str:
    """Why launches of a kernel ran as Triton's, one reason a line; "" if none did."""
    seen = _inside(kernel)
    return NOT_WRAPPED.format(_name(kernel)) if seen is None else seen.twill_dispatch.explain()


def explain(kernel: Any) -> str:
    """What launches of a kernel run as, a line for each variant and class of sizes that was launched: the times of the
    emitted kernel and of Triton's where they were compared, the reason where there is nothing to compare; and which
    configurations of an autotuner have launches because of it."""
    seen = _inside(kernel)
    if seen is None:
        return NOT_WRAPPED.format(_name(kernel))
    tuned = "" if seen.twill_tuned is None else seen.twill_tuned.text()
    return "\n".join(filter(None, [seen.twill_dispatch.account(), tuned]))


INSIDE = "free constants of a kernel under @triton.jit alone, or with @triton.autotune directly above it"
NOT_WRAPPED = "{}: it is not under twill.jit"


def _inside(kernel: Any) -> TwillKernel | None:
    """The kernel in its wrappers."""
    seen = kernel
    while seen is not None and not isinstance(seen, TwillKernel):
        seen = getattr(seen, "fn", None)
    return seen


def _name(kernel: Any) -> str:
    return getattr(kernel, "__name__", type(kernel).__name__)
