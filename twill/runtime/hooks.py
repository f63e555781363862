"""Triton's launch hooks around emitted launches, so that what profiles Triton's kernels sees these, too.

A hook gets what Triton gives: name, function and stream of the launch, and what the kernel's own `launch_metadata` says
of it, computed when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from triton import knobs
from triton.compiler.compiler import LazyDict

from twill.manifest.document import Manifest

RUNTIME = knobs.runtime
WARP = 32  # threads


class AfterLaunch(Exception):
    """An exit hook failed: the kernel runs already, and must not be launched again. The cause is the hook's error."""


def hooked() -> bool:
    """Whether anybody wants to know of launches; looked at before every one."""
    enter, leave = RUNTIME.launch_enter_hook, RUNTIME.launch_exit_hook
    try:
        return bool(enter.calls or leave.calls)
    except AttributeError:  # no chain, but one function or None
        return _has_calls(enter) or _has_calls(leave)


def _has_calls(hook: Any) -> bool:
    return hook is not None and bool(getattr(hook, "calls", True))


def enter(
    original: Any, manifest: Manifest, function: int, grid: Sequence[int], stream: int, bound: Mapping[str, Any]
) -> Any:
    """Tell of a launch that begins; what is to be told when it has. bound: arguments by name."""
    about = LazyDict({"name": original.__name__, "function": function, "stream": stream})
    if original.launch_metadata is not None:
        about.add(original.launch_metadata, (tuple(grid), metadata(original, manifest), dict(bound)))
    _call(knobs.runtime.launch_enter_hook, about)
    return about


def leave(about: Any) -> None:
    """Tell of a launch that was made. Errors: AfterLaunch."""
    try:
        _call(knobs.runtime.launch_exit_hook, about)
    except Exception as error:
        raise AfterLaunch from error


def _call(hook: Any, about: Any) -> None:
    if _has_calls(hook):
        hook(about)


def metadata(original: Any, manifest: Manifest) -> SimpleNamespace:
    """Of the fields that Triton's metadata of a compiled kernel has, those that an emitted one has, too."""
    return SimpleNamespace(
        name=original.__name__,
        num_warps=manifest.threads // WARP,
        num_ctas=manifest.cluster,
        shared=manifest.shared,
        num_stages=0,
    )
