"""An emitted kernel and Triton's, compared on the launches that a program makes anyway.

The first launches of a variant in a class of sizes go to one and to the other in turns; each of them is timed by two
events in the program's own stream. Nothing is launched twice, nothing waits for the GPU: times are read when a later
launch finds them. When there are enough, the faster one has all launches of the class.

What is timed is the GPU's work: the stream is kept busy (`twill.runtime.delay`) until the host has issued the launch
and both events. In a stream that waits for the host, two events lie as far apart as the host takes from one to the
other, and that is another time in a comparison than after it: a launch of either kernel costs the host about the same
once there is a verdict.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twill.exc import TwillError
from twill.runtime.driver import on_device
from twill.runtime.interval import TimedInterval, captures
from twill.runtime.plan import LaunchPlan
from twill.runtime.plans import RefusedLaunch
from twill.runtime.verdict import PredictedVerdict, Side, SizeClass, Verdict

WARMUP = 1  # launches of each that are not timed: code is loaded, Triton may compile
SAMPLES = 8  # timed launches of each
CLEAR, CLEAR_SAMPLES = 1.5, 3  # so much slower in so many launches of each is enough
TURNS: tuple[Side, ...] = ("emitted", "triton", "triton", "emitted")


@dataclass(frozen=True)
class Judgement:
    """What is predicted. text: of both kernels, for people. slower: whether the emitted one clearly is."""

    text: str
    slower: bool


@dataclass
class TimedComparison:
    """Of one variant in one class of sizes, on GPU `device`. Thread-safe.

    where: the GPU and its driver, for the verdict. notify: told when there is a verdict, by whoever found it. judge:
    what is predicted of the emitted kernel beside the compiled kernel that Triton launched, before the emitted one is
    launched at all; predicted: what that was. starved: launches that the GPU waited for; from some number on they
    count.
    """

    sizes: SizeClass
    device: int
    where: str
    notify: Callable[[Verdict | PredictedVerdict], None]
    judge: Callable[[Any], Judgement | None] | None = None
    predicted: str = ""
    verdict: Verdict | PredictedVerdict | None = None
    issued: dict[Side, int] = field(default_factory=lambda: {"emitted": 0, "triton": 0})
    times: dict[Side, list[float]] = field(default_factory=lambda: {"emitted": [], "triton": []})
    failures: int = 0
    starved: int = 0
    pending: list[tuple[Side, TimedInterval]] = field(default_factory=list)
    compared: list[ComparedLaunch] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, stream: int) -> Side:
        """Whose launch the next one in `stream` is."""
        if self.verdict is None:
            with self.lock:
                self.collect()
                found = self.found()
            if found is not None:
                self.settle(found)
        if self.verdict is not None:
            return self.verdict.side
        issued = self.issued
        if captures(stream):  # what is not loaded yet cannot be while a graph is captured
            return "triton" if issued["triton"] else "emitted"
        if self.judge is not None:
            return "triton"
        if min(issued.values()) >= WARMUP + SAMPLES:
            return self.ahead()
        if issued["emitted"] != issued["triton"]:
            return min(issued, key=lambda side: issued[side])
        return TURNS[2 * issued["emitted"] % len(TURNS)]

    def text(self) -> str:
        """What became of it, for people."""
        more = f"; {self.predicted}" if self.predicted else ""
        if isinstance(self.verdict, PredictedVerdict):
            return f"Triton's: {self.verdict.text()}"
        if self.verdict is not None:
            who = "emitted" if self.verdict.side == "emitted" else "Triton's"
            return f"{who}: {self.verdict.text()}{more}"
        return f"both in turns, {min(map(len, self.times.values()))} of {SAMPLES} launches of each are timed{more}"

    def ahead(self) -> Side:
        """Who seems faster while the last times are still to come; Triton where none is there: an autotuner around the
        kernel may have issued all launches that it times before the GPU comes to the first."""
        middle = {side: statistics.median(times) for side, times in self.times.items() if times}
        return min(middle, key=lambda side: middle[side]) if len(middle) == len(TURNS) // 2 else "triton"

    def timed(self, side: Side, stream: int, launch: Callable[[], Any]) -> Any:
        """What `launch` gives back, True for an emitted kernel that was launched; its time is one of `side`, if it is
        to be timed and can be."""
        if self.verdict is not None or captures(stream):
            return launch()
        with self.lock:
            self.issued[side] += 1
            counts = WARMUP < self.issued[side] <= WARMUP + SAMPLES
        interval = self.interval(stream) if counts else None
        result = launch()
        if side == "emitted" and result is not True:  # nothing was launched
            self.forget(side, interval)
            return result
        added = interval is not None and self.add(side, interval)
        if counts and not added:
            with self.lock:
                self.missed(side)
        if side == "triton" and self.judge is not None:
            self.consider(result)
        return result

    def consider(self, compiled: Any) -> None:
        """Triton launched its kernel: what is predicted of the emitted one beside it?"""
        with self.lock:
            judge, self.judge = self.judge, None
        judged = None if judge is None else judge(compiled)
        if judged is None:
            return
        self.predicted = judged.text
        if judged.slower:
            self.settle(PredictedVerdict(judged.text))

    def interval(self, stream: int) -> TimedInterval | None:
        """One that begins now; None if the driver does not want to."""
        try:
            with on_device(self.device):
                return TimedInterval(stream, delayed=True)
        except TwillError:
            return None

    def add(self, side: Side, interval: TimedInterval) -> bool:
        """A launch was made; whether its time is going to be known."""
        try:
            with on_device(self.device):
                interval.close()
        except TwillError:
            interval.forget()
            return False
        if not interval.fed and self.starved < SAMPLES:  # the host was too slow, or there was no delay
            self.starved += 1
            interval.forget()
            with self.lock:
                self.issued[side] -= 1
            return True
        with self.lock:
            self.pending.append((side, interval))
        return True

    def least(self) -> float | None:
        """Microseconds of the fastest launch of either, once a few of each are timed; None as long as they are not."""
        few = min(map(len, self.times.values())) < CLEAR_SAMPLES
        return None if few else min(min(times) for times in self.times.values())

    def awaits(self) -> bool:
        """Whether a few launches of each are issued whose times are not there yet. One more would say nothing now."""
        if self.verdict is not None or min(self.issued.values()) < WARMUP + CLEAR_SAMPLES:
            return False
        with self.lock:
            self.collect()
            return bool(self.pending)

    def forget(self, side: Side, interval: TimedInterval | None) -> None:
        """A launch was not made."""
        with self.lock:
            self.issued[side] -= 1
        if interval is not None:
            interval.forget()

    def missed(self, side: Side) -> None:
        """A time cannot be read: another launch is timed, unless that fails all the time."""
        self.failures += 1
        if self.failures <= SAMPLES:
            self.issued[side] -= 1

    def collect(self) -> None:
        """Read the times that are there by now."""
        waiting = []
        for side, interval in self.pending:
            try:
                time = interval.microseconds()
            except TwillError:
                self.missed(side)
                interval.forget()
                continue
            if time is None:
                waiting.append((side, interval))
                continue
            if not 0 < time < float("inf"):  # a clock that jumps
                self.missed(side)
                interval.forget()
                continue
            self.times[side].append(time)
            interval.forget()
        self.pending = waiting

    def found(self) -> Verdict | None:
        """The verdict, if the times say one."""
        emitted, triton = self.times["emitted"], self.times["triton"]
        count = min(len(emitted), len(triton))
        if count < CLEAR_SAMPLES:
            return None
        clear = min(emitted) > CLEAR * max(triton) or min(triton) > CLEAR * max(emitted)
        if count < SAMPLES and not clear:
            return None
        return Verdict(tuple(emitted), tuple(triton), self.where)

    def settle(self, verdict: Verdict | PredictedVerdict, *, tell: bool = True) -> None:
        """All launches of the class go to one from now on. tell: it was found here."""
        with self.lock:
            if self.verdict is not None:
                return
            self.verdict = verdict
            for compared in self.compared:
                compared.settle(verdict.side)
            self.compared = []
        if tell:
            self.notify(verdict)

    def enter(self, plan: LaunchPlan) -> ComparedLaunch | LaunchPlan | RefusedLaunch:
        """A prepared launch of the class, to be remembered."""
        with self.lock:
            if self.verdict is not None:
                return plan if self.verdict.side == "emitted" else plan.refused
            compared = ComparedLaunch(self, plan)
            self.compared.append(compared)
            return compared


class TritonTurn:
    """The launch is Triton's, and timed."""

    def __init__(self, comparison: TimedComparison, stream: int) -> None:
        self.comparison = comparison
        self.stream = stream

    def run(self, launch: Callable[[], Any]) -> Any:
        """What `launch` gives back."""
        return self.comparison.timed("triton", self.stream, launch)


class ComparedLaunch:
    """A prepared launch of an emitted kernel that takes turns with Triton's; once there is a verdict, one of them.

    start: as `LaunchPlan.start`; gives a `TritonTurn` where it is Triton's. An attribute, so that it costs nothing more
    afterwards.
    """

    def __init__(self, comparison: TimedComparison, plan: LaunchPlan) -> None:
        self.comparison = comparison
        self.plan = plan
        self.start: Callable[[Sequence[Any], int], Any] = self.take_turns

    def take_turns(self, values: Sequence[Any], stream: int) -> Any:
        """`start` before the verdict."""
        if self.comparison.turn(stream) == "triton":
            return TritonTurn(self.comparison, stream) if self.comparison.verdict is None else self.plan.refused
        return self.comparison.timed("emitted", stream, lambda: self.plan.start(values, stream))

    def settle(self, side: Side) -> None:
        """`start` after it."""
        self.start = self.plan.start if side == "emitted" else self.plan.refused.start
