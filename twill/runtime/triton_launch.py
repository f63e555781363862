"""Launches that are Triton's, without what `JITFunction.run` works out again for every one of them.

Binder, compiled kernel and launcher are Triton's own, and so is what a variant is: the specialization and the options
of a call, and the settings that `JITFunction.run` adds to them. Left out are the text of Triton's cache key, and what
is made for launch hooks where nobody has hung one. Whatever is not as usual is launched by `JITFunction.run`: a variant
for the first time, hooks, another `run` put in its place, a changed global, a cache that was emptied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton import knobs
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from twill.runtime.hooks import hooked
from twill.runtime.matcher import changed

RUN = JITFunction.run
MOST = 512  # variants of a kernel that are remembered
RUNTIME, COMPILATION = knobs.runtime, knobs.compilation


@dataclass(frozen=True)
class CompiledVariant:
    """key: of the compiled kernel in Triton's cache."""

    key: Any
    compiled: Any


class TritonLauncher:
    """Of the Triton kernel `original`. Thread-safe."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.known: dict[Any, CompiledVariant] = {}

    def run(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `JITFunction.run(*args, grid=grid, warmup=False, **kwargs)`, its results and errors included."""
        original, variant = self.original, None
        if not original.pre_run_hooks and not hooked() and "run" not in vars(original) and JITFunction.run is RUN:
            active = driver.active
            device = active.get_current_device()
            cache, *_, binder = original.device_caches[device]
            try:
                bound, specialization, options = binder(*args, **kwargs)
                variant = (device, tuple(specialization), str(options), *settings_of_triton())
                known = self.known.get(variant)
            except Exception:  # Triton says what is wrong with the call
                known = variant = None
            if known is not None and cache.get(known.key) is known.compiled and not self.changed():
                compiled = known.compiled
                sizes = grid(bound) if callable(grid) else grid
                count = len(sizes)
                compiled.run(
                    sizes[0], sizes[1] if count > 1 else 1, sizes[2] if count > 2 else 1,
                    active.get_current_stream(device), compiled.function, compiled.packed_metadata, None, None, None,
                    *bound.values(),
                )  # fmt: skip
                return compiled
        compiled = original.run(*args, grid=grid, warmup=False, **kwargs)
        if variant is not None:
            self.learn(variant, compiled)
        return compiled

    def changed(self) -> bool:
        """Whether a global of the kernel is another now, which Triton refuses."""
        values = self.original.used_global_vals
        return bool(values) and changed(values)

    def learn(self, variant: Any, compiled: Any) -> None:
        """Triton launched `compiled` for a call of this variant."""
        cache, *_ = self.original.device_caches[variant[0]]
        if getattr(RUNTIME, "add_stages_inspection_hook", None) is not None or len(self.known) >= MOST:
            return
        for key, there in list(cache.items()):
            if there is compiled:
                self.known[variant] = CompiledVariant(key, compiled)


def settings_of_triton() -> tuple[Any, ...]:
    """What `JITFunction.run` adds to the options of a call, in any of Triton's versions that Twill takes, and the hook
    that may add to its key."""
    return (
        RUNTIME.debug,
        COMPILATION.instrumentation_mode,
        getattr(COMPILATION, "fpsan_homomorphic_casts", None),
        getattr(RUNTIME, "add_stages_inspection_hook", None),
    )
