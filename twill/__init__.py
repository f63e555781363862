"""Twill: optimal software pipelines and warp specialization for unmodified Triton kernels.

    import twill

    fast = twill.jit(kernel)
    fast[grid](...)                     # as kernel[grid](...), emitted where there is a schedule
    print(twill.explain(fast))          # what ran as what, and why

Importing this loads nothing; the first use of a name does (docs/jit.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twill.runtime.jit import explain, explain_fallback, jit

__all__ = ["explain", "explain_fallback", "jit"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from twill.runtime import jit as module

    return getattr(module, name)
