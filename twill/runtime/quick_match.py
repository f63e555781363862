"""The function that recognizes calls (`twill.runtime.matcher`), in C: the same key and the same plan at less cost.

It is compiled where Triton finds a C compiler, which its own launchers need, in the background, and once for all
processes that share Triton's cache. The function in Python does everything until then, and what this one leaves to it.
The module has the keys of autotuners, too (`twill.runtime.wrappers`).
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twill.runtime.forks import renew_after_fork

SOURCES = [Path(__file__).with_name(name) for name in ("quick_key.c", "quick_match.c")]
PLACES = {
    "constant": 0, "fixed": 0, "free": 1, "float": 2, "tensor": 3, "open tensor": 4, "optional tensor": 5,
    "descriptor": 6, "open descriptor": 7,
}  # fmt: skip
MOST = 100  # parameters and options


class QuickMatch:
    """match: (grid, args, kwargs) -> as `Match`, or NotImplemented, which the function in Python answers; None until it
    is compiled, and for calls that are looked at in ways that it does not know."""

    def __init__(self) -> None:
        self.match: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] | None = None


class Compiler:
    """Compiles the module once, in a thread of its own. made: the module, when it is there; failed: it will not be."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: Any = None
        self.begun = self.failed = False
        self.waiting: list[Callable[[Any], None]] = []
        renew_after_fork(self)

    def after_fork(self) -> None:
        """See `Renewed`: the thread is not there, so whoever asks next begins again."""
        self.lock = threading.Lock()
        self.begun = False

    def tell(self, use: Callable[[Any], None]) -> None:
        """Call `use` with the module: now, or from the thread when it is there, or never."""
        with self.lock:
            made = self.made
            begin = made is None and not self.begun and not self.failed
            if made is None and not self.failed:
                self.waiting.append(use)
                self.begun = True
        if made is not None:
            use(made)
        elif begin:
            threading.Thread(target=self.compile, name="twill-quick-match", daemon=True).start()

    def compile(self) -> None:
        """What is missing for it is no error: launches are recognized in Python then."""
        made = None
        try:
            from triton.runtime.build import compile_module_from_src

            source = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
            made = compile_module_from_src(source, "quick_match")
        except Exception as error:
            logging.getLogger("twill.jit").debug("no C: %s", error)
        with self.lock:
            self.made, self.failed = made, made is None
            waiting, self.waiting = self.waiting, []
        for use in waiting if made is not None else ():
            use(made)


COMPILER = Compiler()


def quick_match(
    signature: inspect.Signature,
    looked_at: Mapping[str, str],
    told: Mapping[str, int],
    how: Sequence[str],
    keyed: bool,
    *others: Any,
) -> QuickMatch:
    """As `twill.runtime.matcher.matcher`, of which `others` are what the function in Python has. told: `reaches`."""
    quick = QuickMatch()
    parameters = signature.parameters
    if len(parameters) + len(how) > MOST or any(kind not in PLACES for kind in looked_at.values()):
        return quick
    if any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters.values()):
        return quick
    described = (
        tuple(parameters),
        tuple(PLACES[looked_at[name]] for name in parameters),
        tuple(() if one.default is one.empty else (one.default,) for one in parameters.values()),
        tuple(name in told for name in parameters),
        tuple(how),
        keyed,
    )

    def use(module: Any) -> None:
        with contextlib.suppress(TypeError, ValueError):  # a kernel whose insides are of other kinds
            quick.match = module.make(*described, *others).match

    COMPILER.tell(use)
    return quick
