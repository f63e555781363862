"""Sessions with a solver that is a program of its own and speaks SMT-LIB 2 over pipes.

Yices (`yices-smt2`) and cvc5 are used where they are installed; neither is needed. A program has no counter that
z3's `effort` could be handed to, so effort is turned into seconds: what it leaves undecided may differ from run to
run, what it decides may not. When its time is up it is killed, and started anew for the next question.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from twill.exc import SolverFailed, SolverMissing
from twill.smt.backend import AUXILIARY, Answer, Outcome, Sort

EFFORT_PER_SECOND = 5_000_000  # what z3's counter advances by in a second, roughly
PR_SET_PDEATHSIG = 1  # linux/prctl.h
END = "twill-end"
_VALUE = re.compile(r"\(\s*([A-Za-z_][\w.]*)\s+(true|false|\d+|\(-\s+\d+\))\s*\)")


def _ending_with(parent: int) -> Callable[[], None] | None:
    """What a new process does first so that Linux ends it with its parent, however that ends.

    A program that works on a question does not look at its input, and would go on alone for as long as that takes.
    """
    if not sys.platform.startswith("linux"):
        return None
    control = ctypes.CDLL(None).prctl

    def begin() -> None:
        control(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return begin


@dataclass(frozen=True)
class Program:
    """How a solver is called."""

    name: str
    command: tuple[str, ...]


def program(name: str) -> Program:
    """The installed solver called "yices" or "cvc5". Raises SolverMissing."""
    beside = str(Path(sys.executable).parent)  # where a package of this environment puts its programs
    for place in (None, beside):
        if name == "yices" and (found := shutil.which("yices-smt2", path=place)):
            return Program(name, (found, "--incremental"))
        if name == "cvc5" and (found := shutil.which("cvc5", path=place)):
            return Program(name, (found, "--incremental", "--lang=smt2", "--produce-unsat-assumptions"))
    if name == "cvc5" and importlib.util.find_spec("cvc5") is not None:
        return Program(name, (sys.executable, "-m", "twill.smt.cvc5_program"))
    raise SolverMissing(name)


@dataclass
class ExternalSession:
    """One conversation with a program. Use it in a `with`, or call `close`."""

    program: Program
    name: str = ""
    _text: list[str] = field(default_factory=list)  # all of it, to be told again to a new process
    _told: int = 0
    _names: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None
    _unread: bytes = b""

    def __post_init__(self) -> None:
        self.name = self.name or self.program.name
        self._text = [
            "(set-option :produce-models true)",
            "(set-option :produce-unsat-assumptions true)",
            "(set-logic QF_LIA)",
        ]

    def __enter__(self) -> ExternalSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def declare(self, name: str, sort: Sort) -> None:
        """Introduce a constant."""
        self._text.append(f"(declare-fun {name} () {sort})")
        if not AUXILIARY.match(name):
            self._names.append(name)

    def add(self, assertions: Iterable[str]) -> None:
        """Assert terms for good."""
        self._text.extend(f"(assert {a})" for a in assertions)

    def check(
        self,
        extra: Sequence[str] = (),
        assuming: Sequence[str] = (),
        seconds: float | None = None,
        effort: int = 0,
    ) -> Answer:
        """Decide the assertions with `extra` for this check only. Raises SolverFailed."""
        begun = time.perf_counter()
        limits = [s for s in (seconds, effort / EFFORT_PER_SECOND if effort else None) if s is not None]
        if limits and min(limits) <= 0:
            return Answer("unknown", 0.0, {})
        self._begin(extra, assuming)
        said = self._hear(min(limits, default=None))
        if said is None:
            self.close()
            return Answer("unknown", time.perf_counter() - begun, {})
        outcome, values, core = self._read(said, assuming)
        return Answer(outcome, time.perf_counter() - begun, values, core)

    def _begin(self, extra: Sequence[str], assuming: Sequence[str] = ()) -> None:
        """Put the question."""
        if self._process is None:
            self._process = subprocess.Popen(
                self.program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=_ending_with(os.getpid()),
            )
            self._told, self._unread = 0, b""
        new, self._told = self._text[self._told :], len(self._text)
        question = ["(check-sat)"]
        if assuming:  # the core at once: Yices 2.6 mixes its names up after another command
            question = [f"(check-sat-assuming ({' '.join(assuming)}))", "(get-unsat-assumptions)"]
        self._say([*new, "(push 1)", *(f"(assert {t})" for t in extra), *question, f'(echo "{END}")'])

    def _read(self, said: str, assuming: Sequence[str]) -> tuple[Outcome, dict[str, int], tuple[str, ...]]:
        """Verdict, values and core of an answer. Raises SolverFailed."""
        verdict = said.split()[0] if said.split() else ""
        values: dict[str, int] = {}
        core: tuple[str, ...] = ()
        if verdict == "sat" and self._names:
            values = _values(self._ask(f"(get-value ({' '.join(self._names)}))"))
        elif verdict == "unsat" and assuming:
            core = tuple(re.findall(r"[A-Za-z_]\w*", said.partition("unsat")[2]))
            core = core if set(core) <= set(assuming) else tuple(assuming)
        elif verdict not in ("sat", "unsat", "unknown"):
            self.close()
            raise SolverFailed(self.program.name, said)
        self._say(["(pop 1)"])
        return verdict, values, core  # type: ignore[return-value]

    def close(self) -> None:
        """End the program, if it runs; the next question starts it anew."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # it died with something unsaid
                pipe.close()

    # -- the pipes ------------------------------------------------------------------------------

    def _say(self, lines: Iterable[str]) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(("\n".join(lines) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            said = self._unread.decode(errors="replace")
            self.close()
            raise SolverFailed(self.program.name, said) from None

    def _ask(self, command: str) -> str:
        self._say([command, f'(echo "{END}")'])
        said = self._hear(None)
        assert said is not None
        return said

    def _hear(self, seconds: float | None) -> str | None:
        """What the program said up to the mark; None if the mark does not come in time."""
        assert self._process is not None and self._process.stdout is not None
        until = None if seconds is None else time.perf_counter() + seconds
        mark = END.encode()
        while mark not in self._unread:
            left = None if until is None else max(0.0, until - time.perf_counter())
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            if not ready:
                return None
            said = self._process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not said:
                text = self._unread.decode(errors="replace")
                self.close()
                raise SolverFailed(self.program.name, text)
            self._unread += said
        before, _, self._unread = self._unread.partition(mark)
        self._unread = self._unread.lstrip(b'"')
        return before.decode().strip().rstrip('"').strip()


def _values(text: str) -> dict[str, int]:
    found = {}
    for name, value in _VALUE.findall(text):
        digits = re.sub(r"\D", "", value)
        found[name] = int(value == "true") if not digits else -int(digits) if value.startswith("(") else int(digits)
    return found
