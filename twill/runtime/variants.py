"""The variants of one kernel that were called, and what became of each: emitted, being prepared, or left to Triton."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import triton

from twill.exc import TwillError
from twill.machine.names import list_machines
from twill.runtime.comparison import TimedComparison
from twill.runtime.current import capturing
from twill.runtime.device import device as gpu
from twill.runtime.device import driver_version
from twill.runtime.forks import renew_after_fork
from twill.runtime.kernel import EmittedKernel
from twill.runtime.library import Inquiry, Library, Shelf, library
from twill.runtime.occupancy import judgement
from twill.runtime.policy import JitSettings
from twill.runtime.recording import specialization_of
from twill.runtime.request import DefaultedParameter, PrepareRequest, Typed, Valued
from twill.runtime.variant import Unsupported, Variant, compiler, constant, machine_name, variant
from twill.runtime.verdict import PredictedVerdict, SizeClass, Verdict

SLOW = "the look-up took longer than a launch may wait"
NEXT = "it is ready for the next launch"
WHOLE = 3600.0  # seconds that "require" waits for a look-up and for the helper, which have limits of their own


@dataclass
class KnownVariant:
    """A variant. kernel: the emitted one, once it is used. reason: why it is Triton's, if that is final; reported:
    whether that was said. launches: of Triton's kernel, while it is being prepared. comparisons: of the emitted kernel
    with Triton's, by class of sizes."""

    index: int
    variant: Variant | None = None
    inquiry: Inquiry | None = None
    kernel: EmittedKernel | None = None
    reason: str = ""
    reported: bool = False
    launches: int = 0
    comparisons: dict[tuple[int, ...], TimedComparison] = field(default_factory=dict)

    @property
    def shelf(self) -> Shelf | None:
        """What the library has of it, as far as that is known."""
        return self.inquiry.shelf if self.inquiry is not None and self.inquiry.over.is_set() else None

    def text(self) -> str:
        """For people."""
        return self.variant.text() if self.variant is not None else ""

    def emitted_with(self, constants: Mapping[str, Any]) -> bool:
        """Whether it has these constants, among others, and an emitted kernel that may be launched."""
        if self.variant is None or self.reason:
            return False
        ready = self.kernel is not None or (self.shelf is not None and self.shelf.kernel is not None)
        own = dict(self.variant.constants)
        return ready and all(own.get(name, value) == value for name, value in constants.items())

    def waiting(self) -> str:
        """What it waits for."""
        shelf = self.shelf
        return SLOW if shelf is None else shelf.reason or NEXT


@dataclass(frozen=True)
class MadeLaunch:
    """A launch that Triton made. grid: as it was given. bound: arguments by name."""

    grid: Any
    bound: Mapping[str, Any]


class Variants:
    """Of the Triton kernel `original`. Thread-safe."""

    def __init__(self, original: Any, chosen: JitSettings) -> None:
        self.original = original
        self.chosen = chosen
        self.lock = threading.Lock()
        self.known: dict[Any, KnownVariant] = {}
        self.machines: dict[int, str] = {}
        renew_after_fork(self)
        ready_driver()
        self.library: Library = library(chosen)
        self.library.warm(triton.__version__)

    def of(self, name: Any, index: int, bound: Mapping[str, Any], specialization: Sequence[Any]) -> KnownVariant:
        """The variant that Triton calls `name`, on GPU `index`; whoever asks first waits for its look-up, within the
        budget."""
        known = self.known.get(name)
        if known is None:
            known = self.begin(name, index, bound, specialization)
        if self.chosen.policy == "require" and known.inquiry is not None:
            known.inquiry.over.wait(WHOLE)
        if known.kernel is None and not known.reason:
            self.follow(known)
        return known

    def begin(self, name: Any, index: int, bound: Mapping[str, Any], specialization: Sequence[Any]) -> KnownVariant:
        """Look a new variant up."""
        begun = time.monotonic()
        made = KnownVariant(index)
        try:
            found = made.variant = variant(list(bound), specialization, list(bound.values()))
        except Unsupported as unsupported:
            made.reason = str(unsupported)
        with self.lock:  # others' variants may be looked up meanwhile, so nothing is waited for here
            known = self.known.setdefault(name, made)
            if known is not made or made.reason:
                return known
            made.inquiry = self.library.inquire(lambda: self.key_of(found, index))
        made.inquiry.over.wait(max(0.0, self.chosen.budget - (time.monotonic() - begun)))
        return made

    def key_of(self, found: Variant, index: int, more: Sequence[str] = ()) -> str:
        """What a variant's emitted kernel for GPU `index` is kept under. more: that is asked of it beside the usual.
        Errors: Unsupported."""
        machine = machine_name(self.machine(index))
        by = compiler(triton.__version__)
        unusual = (*(["strict math"] if self.chosen.strict_math else []),
                   *([self.chosen.emit] if self.chosen.emit != "cuda" else []), *more)  # fmt: skip
        return found.key(self.original.__name__, self.original.cache_key, machine, by, unusual)

    def after_fork(self) -> None:
        """See `Renewed`: what was not known yet is looked up again."""
        self.lock = threading.Lock()
        settled = {name: known for name, known in self.known.items() if known.kernel is not None or known.reason}
        self.known.clear()
        self.known.update(settled)

    def follow(self, known: KnownVariant) -> None:
        """Take over what became of a look-up by now."""
        if known.inquiry is not None and known.inquiry.failure:
            known.reason = known.inquiry.failure
            return
        shelf = known.shelf
        if shelf is None or known.variant is None:
            return
        if shelf.state == "refused":
            known.reason = shelf.reason
        elif shelf.kernel is not None and known.variant.fits(shelf.kernel.manifest):
            known.kernel = shelf.kernel
        elif shelf.kernel is not None:
            known.reason = "the stored kernel is of another variant"

    def compare(
        self, known: KnownVariant, sizes: SizeClass, notify: Callable[[Verdict | PredictedVerdict], None]
    ) -> TimedComparison:
        """Of a variant that has an emitted kernel, in a class of sizes. A stored verdict is waited for within the
        budget; one that was measured is stored; all are told."""
        there = known.comparisons.get(sizes.bits)
        if there is not None:
            return there
        key = known.shelf.key if known.shelf is not None else ""
        where = f"{gpu(known.index).name}, driver {driver_version()}"

        def found(verdict: Verdict | PredictedVerdict) -> None:
            if isinstance(verdict, Verdict):
                self.library.keep_verdict(key, sizes, verdict)
            notify(verdict)

        def stored(verdict: Verdict) -> None:
            comparison.settle(verdict, tell=False)
            notify(verdict)

        predicted = None if known.kernel is None else known.kernel.predicted
        judge = None if predicted is None else partial(judgement, predicted, known.index)
        comparison = known.comparisons.setdefault(sizes.bits, TimedComparison(sizes, known.index, where, found, judge))
        self.library.verdict(key, sizes, where, stored).wait(self.chosen.budget)
        return comparison

    def machine(self, index: int) -> str:
        """The machine of a GPU: the one that was named, or that the GPU's own name contains.

        Asks the driver, so a launch leaves it to the library's thread. Errors: Unsupported.
        """
        if self.chosen.machine:
            return self.chosen.machine
        if index not in self.machines:
            try:
                described = gpu(index).name
            except TwillError as error:
                raise Unsupported(error.message) from None
            machine = next((name for name in list_machines() if name.lower() in described.lower()), "")
            if not machine:
                raise Unsupported(f"no machine file describes the {described} (twill machines list)")
            self.machines[index] = machine
        return self.machines[index]

    def prepare(self, known: KnownVariant, compile_it: Callable[[], Any], launched: MadeLaunch) -> bool:
        """Have the helper emit a variant, if that is still to be done; whether it is under way or done. compile_it:
        gives Triton's compiled kernel."""
        shelf = known.shelf
        if shelf is None or known.variant is None:
            return False
        if shelf.state != "missing":
            return True
        recorded = ""
        if shelf.asks:
            try:
                recorded = self.recorded(known.variant, launched)
            except Exception as error:  # of what is read, which the launch does not need
                self.library.refuse(shelf, f"{shelf.reason} (the launch can't be written down: {error})")
                return True
            if not recorded:
                return False
        compiled = compile_it()
        if hasattr(compiled, "result"):  # compiled in the background
            compiled = compiled.result()
        module = getattr(compiled, "asm", {}).get("ttir")
        if not module:
            return False
        request = self.request(shelf, known, known.variant, module)
        request = replace(request, may_ask=not recorded, recorded=recorded)
        self.library.prepare(shelf, request, lambda: known.launches)
        return True

    def prepared(self, known: KnownVariant, compile_it: Callable[[], Any], launched: MadeLaunch) -> None:
        """The same, and wait for it; once more, if the helper asks for what the launch is made with."""
        shelf = known.shelf
        if known.kernel is not None or known.reason or shelf is None:
            return
        for _ in range(2):
            told = threading.Event()
            shelf.listen(told.set)
            if not self.prepare(known, compile_it, launched) or (told.wait(WHOLE) and shelf.settled.is_set()):
                break
        self.follow(known)

    def recorded(self, which: Variant, launched: MadeLaunch) -> str:
        """What a launch is made with; "" where a CUDA graph is captured, in which nothing can be read."""
        if capturing():
            return ""
        grid = launched.grid(dict(launched.bound)) if callable(launched.grid) else launched.grid
        counts = tuple(int(count) for count in grid)
        return specialization_of(self.original.__name__, which, launched.bound, counts)

    def request(
        self, shelf: Shelf, known: KnownVariant, which: Variant, module: str, split: int = 1, split_axis: int = 1
    ) -> PrepareRequest:
        """What the helper needs to know."""
        return PrepareRequest(
            key=shelf.key,
            kernel=self.original.__name__,
            file=str(Path(inspect.getfile(self.original.fn)).resolve()),
            parameters=tuple(map(_named, self.original.params)),
            signature=tuple(Typed(name, kind) for name, kind in which.signature),
            constants=tuple(Valued(name, value) for name, value in which.constants),
            divisible=which.divisible,
            module=module,
            machine=self.machine(known.index),
            solve=self.chosen.policy == "solve",
            seconds=self.chosen.solve_seconds,
            store=self.chosen.store,
            server=self.chosen.server,
            strict=self.chosen.strict_math,
            form=self.chosen.emit,
            split=split,
            split_axis=split_axis,
        )


@cache
def ready_driver() -> None:
    """Have the driver's bindings imported, and its functions found: that takes longer than a launch may wait.

    Nothing is initialized: a process that wraps kernels may still fork. What is missing is said at a launch.
    """
    with contextlib.suppress(ImportError, RuntimeError, AttributeError):
        importlib.import_module("cuda.bindings.driver").cuDriverGetVersion()


def _named(parameter: Any) -> DefaultedParameter:
    default = parameter.default if parameter.has_default else None
    try:
        return DefaultedParameter(parameter.name, bool(parameter.has_default), constant(parameter.name, default))
    except Unsupported:
        return DefaultedParameter(parameter.name, False, None)
