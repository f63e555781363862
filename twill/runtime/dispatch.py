"""A launch that is not like an earlier one: which variant it is, which kernel it gets, and how the next one is found.

1. Triton's binder says which variant of the kernel the call is (`twill.runtime.variant`);
2. the variant's emitted kernel is looked up, once (`twill.runtime.variants`);
3. its launch is prepared: everything that it relies on is checked, and is part of what the next call is compared with;
4. wherever that ends early, Triton's kernel runs as if nothing had been there, and the reason is kept.

A launch of a kernel of which nothing is emitted goes to Triton before any of that, and what Triton gives back, its
compiled kernel, says afterwards whether the variant is one that was looked into (`Dispatch.stays`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton.runtime.driver import driver

from twill.exc import KernelNotReady, TwillError
from twill.runtime.autotuner_bench import AutotunerBench
from twill.runtime.comparison import TimedComparison, TritonTurn
from twill.runtime.current import capturing, device_of
from twill.runtime.forks import renew_after_fork
from twill.runtime.hooks import AfterLaunch, enter, hooked, leave
from twill.runtime.hot import Hot, remember, remember_refusal
from twill.runtime.kernel import EmittedKernel
from twill.runtime.library import Shelf
from twill.runtime.matcher import HOW, changed, kinds, matcher, reaches
from twill.runtime.plans import STALE, Call, Plans, PreparedLaunch, RefusedLaunch
from twill.runtime.policy import JitSettings
from twill.runtime.quick_match import quick_match
from twill.runtime.reasons import Reasons
from twill.runtime.triton_launch import TritonLauncher
from twill.runtime.triton_plan import MOST, SeenCalls, triton_plan, usual
from twill.runtime.unusual import never, unusual
from twill.runtime.variants import KnownVariant, MadeLaunch, Variants
from twill.runtime.verdict import PredictedVerdict, Verdict, size_class

CAPTURING = "its code is not loaded yet, and cannot be while a CUDA graph is captured"

SETTLED = KnownVariant(0, reason="Triton's")  # stands for all of which nothing more is to be expected


@dataclass(frozen=True)
class BoundCall:
    """A call as Triton's binder sees it. name: of its variant. index: the GPU. bound: its arguments by name. options:
    Triton's own, as the call gives them."""

    name: Any
    index: int
    bound: Mapping[str, Any]
    specialization: Sequence[Any]
    options: Mapping[str, Any]


class Dispatch:
    """Of the Triton kernel `original`. Thread-safe.

    hot: None until calls are recognized. never: why no launch can ever be an emitted one. launched: whether it ever
    was. stays: Triton's compiled kernels whose variants were looked into and have no emitted kernel so far; seen: how
    calls that they were launched for are recognized. used: the emitted kernels that calls are recognized for. readied:
    how many emitted kernels became ready after their variants were launched as Triton's. sized: numbers that say which
    emitted kernel a launch has (`twill.runtime.tiled_dispatch`). bench: of an autotuner around the kernel.
    """

    def __init__(self, original: Any, chosen: JitSettings) -> None:
        self.original = original
        self.chosen = chosen
        self.reasons = Reasons(original.__name__)
        self.as_triton = TritonLauncher(original)
        self.lock = threading.Lock()
        self.used: list[EmittedKernel] = []
        self.hot: Hot | None = None
        self.launched = False
        self.stays: dict[Any, KnownVariant] = {}
        self.seen = SeenCalls(original)
        self.readied = 0
        renew_after_fork(self)
        self.never = never(original, chosen)
        self.variants = None if self.never else Variants(original, chosen)
        self.sized: frozenset[str] = frozenset()
        self.bench = AutotunerBench(chosen.compares)
        if self.never and chosen.policy != "off":
            self.reasons.report(self.never)

    def launch(self, hot: Hot | None, call: object, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `look_into`; a launch that stays with Triton is remembered, too."""
        compiled = self.look_into(hot, call, grid, args, kwargs)
        if compiled is not None and compiled in self.stays and self.variants is not None:
            self.stayed_so(hot, call, compiled, grid, args, kwargs)
        return compiled

    def stayed_so(self, hot: Hot | None, call: object, compiled: Any, grid: Any, args: Any, kwargs: Any) -> None:
        """Triton's `compiled` was launched: have calls like this one recognized, or remember it if they are."""
        told = hot is not None and hot.all and isinstance(call, Call)
        asked = self.ask(args, kwargs) if (told or self.seen.changed < MOST) and usual(self.original) else None
        if asked is not None and told:
            plan = triton_plan(self.original, compiled, asked.index, self.stays, grid, asked.bound)
            if plan is not None:
                remember(hot, call, plan)
        elif asked is not None:
            with self.lock:
                if self.seen.widen(asked.bound):
                    self.match(self.used)

    def look_into(self, hot: Hot | None, call: object, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch a call that `hot` did not know, and remember it if `call` is how it recognized it. Errors:
        KernelNotReady if the policy is "require"."""
        self.launched = True
        if self.variants is None:
            compiled = self.triton(self.never, "", grid, args, kwargs)
            self.stay(compiled, SETTLED)
            return compiled
        original = self.original
        asked = self.ask(args, kwargs)
        if asked is None:  # Triton says what is wrong with the call, if anything is
            return original.run(*args, grid=grid, warmup=False, **kwargs)
        known = self.variants.known.get(asked.name)
        if known is not None and known.reported:  # the usual call where nothing is emitted: as soon as possible
            remember_refusal(hot, call, asked.bound)
            compiled = self.as_triton.run(grid, args, kwargs)
            self.stay(compiled, SETTLED)
            return compiled
        why = unusual(original, asked.options)
        if why:
            compiled = self.triton(why, "", grid, args, kwargs)
            self.stay(compiled, SETTLED)
            return compiled
        known = self.variants.of(asked.name, asked.index, asked.bound, asked.specialization)

        def compile_it() -> Any:
            return original.run(*args, grid=grid, warmup=True, **kwargs)

        if self.chosen.policy == "require":
            self.variants.prepared(known, compile_it, MadeLaunch(grid, asked.bound))
        if known.kernel is not None and not self.bench.running:
            try:
                reason: str | TritonTurn = self.emitted(known, known.kernel, hot, call, grid, asked.bound, args, kwargs)
            except AfterLaunch as after:
                raise after.__cause__ or after from None
            except Exception as error:  # before the launch; if it was a grid or a hook, Triton meets it again
                reason = refusal(error)
            if isinstance(reason, TritonTurn):
                return reason.run(lambda: self.as_triton.run(grid, args, kwargs))
            return self.triton(reason, known.text(), grid, args, kwargs) if reason else None
        compiled = self.triton(known.reason, known.text(), grid, args, kwargs)
        if known.kernel is None:
            self.after_triton(known, compiled, MadeLaunch(grid, asked.bound))
        return compiled

    def refused(self, hot: Hot, call: RefusedLaunch, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A launch that was matched, and is Triton's: have those like it launched without binding them."""
        compiled = self.as_triton.run(grid, args, kwargs)
        if compiled is None or hasattr(compiled, "result") or call.tries >= MOST or not usual(self.original):
            return compiled
        asked = self.ask(args, kwargs)
        if asked is None:
            return compiled
        if hot.all:
            call.tries += 1
            call.triton = triton_plan(self.original, compiled, asked.index, {compiled: SETTLED}, grid, asked.bound)
        elif self.seen.changed < MOST:
            with self.lock:
                if self.hot is hot and self.seen.widen(asked.bound):
                    self.match(self.used)
        return compiled

    def stayed(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A launch of a kernel of which nothing is emitted: Triton's, and a look afterwards if its variant is new."""
        if self.variants is None:
            return self.original.run(*args, grid=grid, warmup=False, **kwargs)
        compiled = self.as_triton.run(grid, args, kwargs)
        known = self.stays.get(compiled)
        if known is None:
            self.look(compiled, grid, args, kwargs)
            return compiled
        known.launches += 1
        self.stayed_so(None, None, compiled, grid, args, kwargs)
        return compiled

    def look(self, compiled: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """After a launch that went straight to Triton: see what there is of its variant, for the next one."""
        asked = self.ask(args, kwargs)
        if asked is None or self.variants is None:
            return
        reason = unusual(self.original, asked.options)
        if reason:
            self.reasons.report(reason)
            self.stay(compiled, SETTLED)
            return
        known = self.variants.of(asked.name, asked.index, asked.bound, asked.specialization)
        if known.kernel is not None:
            self.use(known.kernel, known)
            return
        if known.reason:
            self.reasons.report(known.reason, known.text())
        self.after_triton(known, compiled, MadeLaunch(grid, asked.bound))

    def ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundCall | None:
        """What Triton's binder says of a call; None if it refuses it."""
        try:
            index = driver.active.get_current_device()
            *_, binder = self.original.device_caches[index]
            bound, specialization, options = binder(*args, **kwargs)
            name = (tuple(specialization), index)
            hash(name)
        except Exception:
            return None
        return BoundCall(name, index, bound, specialization, options)

    def after_triton(self, known: KnownVariant, compiled: Any, launched: MadeLaunch) -> None:
        """A variant without an emitted kernel was launched: have it prepared, and let the next launch pass."""
        known.reported = bool(known.reason)
        if self.variants is not None:
            self.variants.prepare(known, lambda: compiled, launched)
        shelf = known.shelf
        if known.reason:
            self.stay(compiled, SETTLED)
        elif shelf is not None and shelf.state == "preparing":
            self.stay(compiled, known)
            shelf.listen(lambda: self.settled(compiled, shelf))

    def settled(self, compiled: Any, shelf: Shelf) -> None:
        """The variant that Triton compiled so is emitted, or never will be, or a launch of it is asked for: its next
        launch is looked into."""
        self.stays.pop(compiled, None)
        if shelf.kernel is not None:
            with self.lock:
                self.readied += 1

    def stay(self, compiled: Any, known: KnownVariant) -> None:
        """Launches that give back this compiled kernel are not looked into again, as long as nothing becomes of it.
        Under the policy "require" every launch is, because it must not run."""
        settled = compiled is not None and not hasattr(compiled, "result")  # not one that is compiled in the background
        if settled and self.chosen.policy != "require":
            self.stays[compiled] = known

    def triton(self, reason: str, variant: str, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The Triton kernel, unchanged. reason: why, "" if that may change. Errors: KernelNotReady."""
        if reason and self.chosen.policy == "require":
            raise KernelNotReady(self.original.__name__, reason)
        if reason and self.chosen.policy != "off":
            self.reasons.report(reason, variant)
        if self.chosen.policy == "off":
            return self.original.run(*args, grid=grid, warmup=False, **kwargs)
        return self.as_triton.run(grid, args, kwargs)

    def emitted(
        self, known: KnownVariant, kernel: EmittedKernel, hot: Hot | None, call: object, grid: Any,
        bound: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any],
        member: Callable[[PreparedLaunch, tuple[int, ...]], PreparedLaunch] | None = None,
    ) -> str | TritonTurn:  # fmt: skip
        """Prepare and start the emitted kernel's launch; why it cannot be, or "", or that it is Triton's turn. member:
        of a family's member, how its prepared launch is remembered."""
        if member is None and kernel not in self.used:
            self.use(kernel, known)
        sizes = tuple(grid(bound) if callable(grid) else grid)
        if 0 in sizes:
            return ""
        stream = driver.active.get_current_stream(device_of(bound))
        if not kernel.loaded and capturing():
            return CAPTURING
        try:
            plan = kernel.plan(bound, sizes, stream)
        except TwillError as error:
            remember(hot, call, RefusedLaunch())
            return refusal(error)
        parameters = list(bound)
        places = {parameters.index(name): place for name, place in (hot.reaches if hot is not None else {}).items()}
        plan = plan.positioned([parameters.index(name) for name in kernel.runtime_names], places)
        comparison = self.compare(known, sizes, bound)
        prepared = plan if comparison is None else comparison.enter(plan)
        remember(hot, call, prepared if member is None else member(prepared, sizes))
        if plan.overlapping is not None:
            return refusal(plan.overlapping)
        if comparison is not None and comparison.turn(stream) == "triton":
            return TritonTurn(comparison, stream)
        for hook in self.original.pre_run_hooks:
            hook(*args, **kwargs)
        about = enter(self.original, kernel.manifest, plan.handle, sizes, stream, bound) if hooked() else None
        try:
            if comparison is None:
                plan.launch(stream)
            else:
                comparison.timed("emitted", stream, lambda: plan.launch(stream))
        except TwillError as error:
            return refusal(error)
        if about is not None:
            leave(about)
        return ""

    def use(self, kernel: EmittedKernel, known: KnownVariant) -> None:
        """From now on calls are matched so that this kernel's launches are found, too."""
        with self.lock:
            if kernel in self.used:
                return
            self.match([*self.used, kernel])
        self.reasons.forget(known.text())
        self.reasons.tell("its emitted kernel is launched", known.text())

    def leave(self, kernel: EmittedKernel) -> None:
        """Its launches are Triton's from now on."""
        with self.lock:
            if kernel in self.used:
                self.match([used for used in self.used if used is not kernel])

    def match(self, kernels: list[EmittedKernel]) -> None:
        """Find the launches of these kernels, with the lock."""
        original, active = self.original, driver.active
        constexprs = frozenset(p.name for p in original.params if p.is_constexpr)
        plans = Plans()
        looked_at = kinds([kernel.manifest for kernel in kernels], original.arg_names, constexprs, self.seen.kinds)
        looked_at |= {name: "fixed" for name in self.sized if looked_at.get(name) == "free"}
        reached = frozenset(name for kernel in kernels for pair in kernel.manifest.apart for name in pair[:2])
        how = [name for name in HOW if name not in original.signature.parameters]
        places = (active.get_current_stream, active.get_current_device, original.used_global_vals, changed)
        told = reaches(list(original.signature.parameters), looked_at, reached)
        others = (plans.by_key, Call, STALE, *places)
        match = matcher(original.signature, looked_at, plans, *places[:3], bool(self.seen.kinds), reached)
        quick = quick_match(original.signature, looked_at, told, how, bool(self.seen.kinds), *others)
        self.hot = Hot(match, plans, bool(self.seen.kinds), told, quick) if kernels or self.seen.kinds else None
        self.used = kernels

    def compare(self, known: KnownVariant, sizes: tuple[int, ...], bound: Mapping[str, Any]) -> TimedComparison | None:
        """Of the variant's emitted kernel with Triton's, for launches of this size; None if it runs in any case."""
        if self.variants is None or not self.chosen.compares:
            return None
        return self.variants.compare(known, size_class(sizes, bound), lambda verdict: self.decided(known, verdict))

    def has_emitted(self, constants: Mapping[str, Any]) -> bool:
        """Whether a variant with these constants, among others, has an emitted kernel that may be launched."""
        known = [] if self.variants is None or not self.chosen.compares else list(self.variants.known.values())
        return any(one.emitted_with(constants) for one in known)

    def capturing(self) -> bool:
        """Whether a CUDA graph is captured on the current stream."""
        return capturing()

    def comparison_of(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TimedComparison | None:
        """Of the variant and the class of sizes of a call that was launched, if there is one."""
        asked = self.ask(args, kwargs)
        known = None if asked is None or self.variants is None else self.variants.known.get(asked.name)
        if asked is None or known is None:
            return None
        sizes = tuple(grid(asked.bound) if callable(grid) else grid)
        comparisons = known.comparisons
        own = comparisons.get(size_class(sizes, asked.bound).bits)
        if own is None and comparisons:  # what differs is in no tensor map: it was launched as one of an earlier class
            own = next(reversed(comparisons.values()))
        return own

    def decided(self, known: KnownVariant, verdict: Verdict | PredictedVerdict) -> None:
        """A kernel that was slower in every class of sizes is left, so that its launches are not looked at."""
        verdicts = [comparison.verdict for comparison in known.comparisons.values()]
        if verdict.side == "emitted":
            self.reasons.tell(f"the emitted kernel stays: {verdict.text()}", known.text())
            return
        reason = f"the emitted kernel is not faster: {verdict.text()}"
        self.reasons.report(reason, known.text())
        if known.kernel is not None and all(one is not None and one.side == "triton" for one in verdicts):
            known.reason, known.reported = reason, True
            self.leave(known.kernel)

    def after_fork(self) -> None:
        """See `Renewed`."""
        self.lock = threading.Lock()
        self.stays = {compiled: known for compiled, known in self.stays.items() if known is SETTLED}

    def explain(self) -> str:
        """Why launches ran as Triton's, one reason a line."""
        if self.chosen.policy == "off":
            return f"{self.original.__name__}: {self.never}"
        known = [] if self.variants is None else list(self.variants.known.values())
        waiting = [
            f"{self.original.__name__}({one.text()}): {one.waiting()}"
            for one in known
            if one.kernel is None and not one.reason
        ]
        return "\n".join(filter(None, [self.reasons.text(), *waiting]))

    def account(self) -> str:
        """What ran as what, for people: a line for each variant and class of sizes."""
        if self.variants is None:
            return f"{self.original.__name__}: Triton's, as {self.never}"
        lines = []
        for known in list(self.variants.known.values()):
            name = f"{self.original.__name__}({known.text()})"
            compared = list(known.comparisons.values())
            lines += [f"{name}, {one.sizes.example}: {one.text()}" for one in compared]
            if not compared:
                why = "emitted" if known.kernel is not None else f"Triton's, as {known.reason or known.waiting()}"
                lines.append(f"{name}: {why}")
        return "\n".join(lines or [f"{self.original.__name__}: not launched"])


def refusal(error: Exception) -> str:
    """Why the emitted kernel was not launched; `Reasons` takes all of one class of error for one reason."""
    return f"{type(error).__name__}: {error.message if isinstance(error, TwillError) else error}"
