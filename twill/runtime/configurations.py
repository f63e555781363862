"""Which configuration of an autotuned kernel has a launch, once some of them have emitted kernels.

An autotuner times its configurations at the first launch of a key. What it times are Triton's kernels, also where
emitted ones are ready already (`time_triton`): otherwise it would time whichever of the two has a launch while they are
compared. Emitted kernels may make another configuration the fastest. That is not found out by launching again: when
some are ready, the configurations that they belong to have the program's next launches, one after the other, until each
has its verdict (`twill.runtime.comparison`). A verdict says how an emitted kernel stands to Triton's of the same
configuration; the autotuner said how Triton's stand to each other; together they say which configuration is fastest.
One whose first few launches, of either kernel, take clearly longer than those of another one that has its verdict is
left without; and while the GPU has not come to a configuration's first few, the fastest one has the launches.

`ConfigurationTurns` is the autotuner's own `cache`: it asks there, by key, for the configuration of every launch.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from twill.runtime.autotuner_bench import AutotunerBench
from twill.runtime.verdict import MARGIN, PredictedVerdict, Verdict

MOST_TURNS = 48  # launches until a verdict of one configuration, which takes 19 if every time can be read
LONGEST = 1e9  # milliseconds; what an autotuner could not build or launch takes for ever
NOT_ASKED = -1  # `TunedKey.readied` of a key whose configurations had no turns yet
HOPELESS = 3.0  # times the fastest configuration's time as Triton's: no emitted kernel makes that good
BEHIND = 1.1  # times the fastest launches of another configuration: more launches do not make that good

AnyVerdict = Verdict | PredictedVerdict


class Compared(Protocol):
    """What is asked of a comparison (`twill.runtime.comparison.TimedComparison`)."""

    verdict: AnyVerdict | None

    def least(self) -> float | None:
        """Microseconds of the fastest launch of either kernel, once a few of each are timed."""
        ...

    def awaits(self) -> bool:
        """Whether a few launches of each are issued whose times are not there yet."""
        ...


class EmittedKernels(Protocol):
    """What is asked of a kernel's launches (`twill.runtime.dispatch.Dispatch`).

    readied: how many of its emitted kernels became ready in this process so far. bench: whether an autotuner times
    launches.
    """

    readied: int
    bench: AutotunerBench

    def has_emitted(self, constants: Mapping[str, Any]) -> bool:
        """Whether a variant with these constants, among others, has an emitted kernel."""
        ...

    def capturing(self) -> bool:
        """Whether a CUDA graph is captured on the current stream."""
        ...


@dataclass
class TunedKey:
    """Of one key of an autotuner. times: of its configurations as Triton's kernels. stale: the autotuner's times of
    another key, while those of this one are not there. readied: `EmittedKernels.readied` when `best` was found.
    compared: what had launches and has no verdict."""

    best: Any
    stale: Any
    readied: int
    times: dict[Any, float] = field(default_factory=dict)
    turns: dict[Any, int] = field(default_factory=dict)
    verdicts: dict[Any, AnyVerdict] = field(default_factory=dict)
    compared: dict[Any, Compared] = field(default_factory=dict)

    def least(self) -> float:
        """Microseconds of the fastest kernel that has a verdict, of all configurations."""
        measured = [one for one in self.verdicts.values() if isinstance(one, Verdict)]
        sides = (times for one in measured for times in (one.emitted, one.triton))
        return min(map(statistics.median, sides), default=LONGEST)


@dataclass(frozen=True)
class ConfigurationTurn:
    """The launch that this thread makes next is one of `config`, for its verdict."""

    tuned: TunedKey
    config: Any

    def over(self, compared: Compared | None) -> None:
        """The launch was made. compared: its variant at its size, as far as it is compared."""
        tuned, config = self.tuned, self.config
        if compared is None:
            return
        tuned.compared[config] = compared
        if compared.verdict is not None:
            tuned.verdicts[config] = compared.verdict
        elif (least := compared.least()) is not None and least > BEHIND * tuned.least():
            tuned.turns[config] = MOST_TURNS


class ConfigurationTurns(dict[Any, Any]):
    """See the top of this file. Thread-safe. tuner: the autotuner whose `cache` this is. chosen_anew: called when
    another configuration has the launches of some key from now on."""

    def __init__(self, tuner: Any, emitted: EmittedKernels) -> None:
        super().__init__()
        self.tuner, self.emitted = tuner, emitted
        self.chosen_anew: Callable[[], None] = lambda: None
        self.keys_tuned: dict[Any, TunedKey] = {}
        self.latest: TunedKey | None = None
        self.lock = threading.Lock()
        self.local = threading.local()

    def __setitem__(self, key: Any, config: Any) -> None:
        """The autotuner found its fastest."""
        super().__setitem__(key, config)
        with self.lock:
            self.note_times()  # of the key before, before the autotuner writes those of this one over them
            self.latest = TunedKey(config, getattr(self.tuner, "configs_timings", None), NOT_ASKED)
            self.keys_tuned[key] = self.latest
        self.chosen_anew()

    def __getitem__(self, key: Any) -> Any:
        """The configuration of the next launch with this key."""
        tuned = self.keys_tuned.get(key)
        if tuned is self.latest and tuned is not None and not tuned.times:
            with self.lock:
                self.note_times()
        if tuned is None:
            return super().__getitem__(key)
        if not tuned.times or tuned.readied == self.emitted.readied or self.emitted.capturing():
            return tuned.best
        with self.lock:
            return self.next(tuned)

    def taken(self) -> ConfigurationTurn | None:
        """Whose verdict the launch of this thread is for; it is asked for once."""
        turn: ConfigurationTurn | None = getattr(self.local, "turn", None)
        self.local.turn = None
        return turn

    def next(self, tuned: TunedKey) -> Any:
        """Whose verdict is still open, or else the fastest."""
        readied = self.emitted.readied
        times = tuned.times
        limit = min(HOPELESS * min(times.values(), default=0.0), LONGEST)
        for config in sorted(times, key=lambda one: times[one]):
            open_ = config not in tuned.verdicts and tuned.turns.get(config, 0) < MOST_TURNS
            if open_ and times[config] <= limit and self.emitted.has_emitted(config.kwargs):
                if config in tuned.compared and tuned.compared[config].awaits():
                    return tuned.best
                tuned.turns[config] = tuned.turns.get(config, 0) + 1
                self.local.turn = ConfigurationTurn(tuned, config)
                return config
        tuned.readied = readied
        before, tuned.best = tuned.best, fastest(tuned)
        if tuned.best is not before:
            self.chosen_anew()
        return tuned.best

    def has_chosen(self, constants: Mapping[str, Any]) -> bool:
        """Whether launches with these constants, among others, are of a configuration that was chosen for some key."""
        chosen = (
            self.tuner.configs if len(self.tuner.configs) == 1 else [one.best for one in [*self.keys_tuned.values()]]
        )
        return any(constants.items() >= config.kwargs.items() for config in chosen)

    def text(self) -> str:
        """For people: of every key whose configuration was chosen anew, this one and the autotuner's."""
        with self.lock:
            keys = [(key, one, self.get(key)) for key, one in self.keys_tuned.items()]
        return "\n".join(
            f"autotuned for {', '.join(map(str, key))}: {_constants(one.best)}, as Triton's {_constants(first)}"
            for key, one, first in keys
            if one.best is not first
        )

    def note_times(self) -> None:
        """Keep what the autotuner says of the key that it tuned last, as long as it says it: its times of all keys are
        in the same place. One configuration for each choice of constants; none if it had none to choose from."""
        tuned, said = self.latest, getattr(self.tuner, "configs_timings", None)
        if tuned is None or tuned.times or said is tuned.stale or not isinstance(said, dict) or tuned.best not in said:
            return
        known: set[str] = set()
        for config in sorted(said, key=lambda one: _median(said[one])):
            constants = repr(sorted(config.kwargs.items()))
            if constants not in known:  # what else differs, warps and stages, is nothing to an emitted kernel
                known.add(constants)
                tuned.times[config] = _median(said[config])


def time_triton(tuner: Any, emitted: EmittedKernels) -> None:
    """Have an autotuner time Triton's kernels, whatever is emitted. `_bench` is Triton's name for what times one
    configuration."""

    def bench(*args: Any, **kwargs: Any) -> Any:
        with emitted.bench.run():
            return type(tuner)._bench(tuner, *args, **kwargs)

    tuner._bench = bench


def fastest(tuned: TunedKey) -> Any:
    """The configuration with the least time, its verdict considered; what the autotuner chose, unless another is
    clearly faster."""
    took = {config: time * emitted_share(tuned.verdicts.get(config)) for config, time in tuned.times.items()}
    if not took:
        return tuned.best
    best = min(took, key=lambda one: took[one])
    chosen = next((one for one in took if one.kwargs == tuned.best.kwargs), best)
    return tuned.best if took[chosen] <= took[best] * (1 + MARGIN) else best


def emitted_share(verdict: AnyVerdict | None) -> float:
    """What a launch takes of what it takes as Triton's."""
    if not isinstance(verdict, Verdict) or verdict.side == "triton":
        return 1.0
    return statistics.median(verdict.emitted) / statistics.median(verdict.triton)


def _constants(config: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in config.kwargs.items())


def _median(times: Any) -> float:
    """Of what a benchmark says of one configuration: its median comes first (quantiles), or is all."""
    return float(times[0] if isinstance(times, list | tuple) else times)
