"""Trainings under `twill.jit` beside the same without it, on one GPU.

    python -m benchmarks.training prepare FOLDER MODEL [--machine M] [--configurations N]   anywhere: emits kernels
    python -m benchmarks.training run FOLDER MODEL [--rounds N] [--seeds N] [--seconds S]   on a GPU

MODEL is one of `benchmarks.training_model`: llama, gla. `prepare` needs no GPU (`benchmarks.training_prepare`). `run`
starts the program four times, twice without Twill and twice with every kernel under `twill.jit` and the store in
FOLDER: two processes of one program differ by some per cent, whatever they run. All warm up at the same time: kernels
are compiled, and comparisons of kernels find their verdicts. Then `--rounds` trainings of 50 steps, all with the same
weights and tokens, are made by each of them, in turns. A step's time is the median over a training's steps; how far
losses lie apart is printed beside how far those of trainings without Twill do. Autotuners are held to N of their
configurations, the same on both sides.

--seeds: then as many pairs of trainings on four batches that come again and again, at 3e-4, each pair with weights and
tokens of its own: whether losses of such a program, in which small differences grow, are higher or lower under
`twill.jit`. (Trainings with the same weights cannot say that: other roundings are the same other roundings in each.)
Lines are printed as they come. --seconds: none of those pairs begins after as many.
"""

from __future__ import annotations

import argparse
import json
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.training_model import gla, llama, train

MODELS = {"llama": llama, "gla": gla}
STORE, SAID = "store.sqlite3", "emitted.json"
EACH = 2  # processes of a side
READY, PATIENCE = "READY", 200.0  # seconds for what one side does at a time
WARM = 30  # steps
SIDES = ("without", "under")


@dataclass(frozen=True)
class Asked:
    """A training. batches: how many there are, 0: one for each step."""

    seed: int = 0
    rate: float = 1e-4
    batches: int = 0
    steps: int = 50


@dataclass(frozen=True)
class Training:
    """What came of one. milliseconds: of each step."""

    losses: list[float]
    milliseconds: list[float]

    @property
    def step(self) -> float:
        """Milliseconds."""
        return statistics.median(self.milliseconds)


class Side:
    """A process that trains when it is told to; what it says is printed as it comes."""

    def __init__(self, name: str, folder: Path, model: str) -> None:
        self.name = name
        command = [sys.executable, "-u", "-W", "ignore", "-m", "benchmarks.training", name, str(folder), model]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        self.said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        """Queue what it says."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line.rstrip())
        self.said.put(None)

    def wait(self) -> Training | None:
        """Until it is ready (None) or has trained. Errors: RuntimeError if it ends instead, or takes too long."""
        while True:
            try:
                line = self.said.get(timeout=PATIENCE)
            except queue.Empty:
                raise RuntimeError(f"the side {self.name!r} said nothing for {PATIENCE} seconds") from None
            if line is None:
                raise RuntimeError(f"the side {self.name!r} has ended: exit code {self.process.wait()}")
            if line == READY:
                return None
            if line.startswith('{"losses"'):
                return Training(**json.loads(line))
            say(f"{self.name}: {line[:300]}")

    def begin(self, asked: Asked | None) -> None:
        """Have it train; None: say what ran as what, and end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked.__dict__ if asked else {}) + "\n")
        self.process.stdin.flush()


BEGUN = time.monotonic()


def say(text: str) -> None:
    """At once, with the seconds since the start."""
    print(f"{time.monotonic() - BEGUN:5.0f} s  {text}", flush=True)


def side(name: str, folder: Path, model: str) -> None:
    """A process of `run`."""
    import torch

    from benchmarks.operations import held
    from benchmarks.repeated import account
    from twill.runtime import library, variants
    from twill.runtime.policy import settings
    from twill.runtime.script import every_kernel

    said = json.loads((folder / SAID).read_text(encoding="utf-8"))
    made: list[Any] = []
    with ExitStack() as stack:
        for module in (library, variants):
            stack.enter_context(mock.patch.object(module, "compiler", lambda _: said["compiler"]))
        stack.enter_context(held(said["configurations"], bench=said["configurations"] > 1))
        if name == SIDES[1]:
            chosen = settings("lookup", store=str(folder / STORE), machine=said["machine"])
            stack.enter_context(every_kernel(chosen, made))
        print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}", flush=True)

        def pause(step: int) -> None:
            if step == 0:
                torch.cuda.synchronize()
                print("the first step is made", flush=True)
                time.sleep(3.0 if made else 0.0)  # look-ups

        train(MODELS[model], WARM, 0, 1e-4, 0, pause)
        print(READY, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            if not asked:
                break
            losses, times = train(MODELS[model], asked["steps"], asked["seed"], asked["rate"], asked["batches"])
            print(json.dumps({"losses": losses, "milliseconds": times}), flush=True)
    sys.stderr = sys.stdout
    account(made)
    launched = [kernel for kernel in made if kernel.twill_dispatch.launched]
    if made:
        used = sum(bool(kernel.twill_dispatch.used) for kernel in launched)
        print(f"{len(launched)} kernels were launched, {used} of them emitted", flush=True)


def apart(one: Training, other: Training) -> float:
    """The largest distance of two trainings' losses at a step."""
    return max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True))


def report(model: str, plain: Sequence[Training], under: Sequence[Training]) -> Iterator[str]:
    """Of trainings with the same weights and tokens."""
    times = [statistics.median(one.step for one in runs) for runs in (plain, under)]
    steps = ["/".join(f"{one.step:.2f}" for one in runs) for runs in (plain, under)]
    yield f"{model}: a step takes {times[0]:.2f} ms, under twill.jit {times[1]:.2f} ms: {times[0] / times[1]:.3f} x"
    yield f"  runs without {steps[0]}, under {steps[1]}"
    between = max(apart(a, b) for a in plain for b in plain)
    most = max(apart(a, b) for a in plain for b in under)
    yield (f"  losses {plain[0].losses[0]:.4f} to {plain[0].losses[-1]:.4f}, under {under[0].losses[0]:.4f} to "
           f"{under[0].losses[-1]:.4f}; apart at most {most:.4f}, {between:.4f} between runs without")  # fmt: skip


def pairs(plain: Sequence[Training], under: Sequence[Training]) -> Iterator[str]:
    """Of trainings with weights of their own: the mean of under - without at some steps, and its standard error."""
    for step in (0, 4, 10, 20, 30, 40, 45, 46, 47, 48, 49):
        gaps = [b.losses[step] - a.losses[step] for a, b in zip(plain, under, strict=True)]
        error = statistics.stdev(gaps) / len(gaps) ** 0.5
        mean = statistics.fmean(one.losses[step] for one in plain)
        yield (f"  step {step:2}: {mean:8.4f}, under {statistics.fmean(gaps):+8.4f} ± {error:.4f} "
               f"({len(gaps)} pairs, {sum(gap > 0 for gap in gaps)} higher)")  # fmt: skip


def run(folder: Path, model: str, rounds: int, seeds: Sequence[int], seconds: float) -> int:
    """See the top of this file."""
    say(f"{model}: all sides start")
    sides = [Side(name, folder, model) for _ in range(EACH) for name in SIDES]
    for one in sides:
        one.wait()
        say(f"{one.name}: is warm")
    came: tuple[list[Training], list[Training]] = ([], [])
    for number in range(rounds):
        for one in sides if number % 2 == 0 else sides[::-1]:
            one.begin(Asked())
            training = one.wait()
            assert training is not None
            came[SIDES.index(one.name)].append(training)
            say(f"{one.name}: {training.step:.2f} ms a step, last loss {training.losses[-1]:.4f}")
    for line in report(model, *came) if rounds else ():
        print(line, flush=True)
    grown: tuple[list[Training], list[Training]] = ([], [])
    asked = Asked(rate=3e-4, batches=4)
    for seed in seeds:
        if time.monotonic() - BEGUN > seconds:
            break
        for one in sides[: len(SIDES)]:
            one.begin(replace(asked, seed=seed))
        for one, list_ in zip(sides, grown, strict=False):
            training = one.wait()
            assert training is not None
            list_.append(training)
        say(f"seed {seed}: last losses {grown[0][-1].losses[-1]:.4f}, under {grown[1][-1].losses[-1]:.4f}")
    if len(grown[0]) > 1:
        print("\n".join(["four batches, again and again:", *pairs(*grown)]), flush=True)
    for one in sides:
        one.begin(None)
        try:
            one.wait()
        except RuntimeError:  # it has ended
            continue
    return 0


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "run", *SIDES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", choices=tuple(MODELS))
    parser.add_argument("--machine", default="h100", help="for prepare (default h100)")
    parser.add_argument("--configurations", type=int, default=1, help="of each autotuner, for prepare (default 1)")
    parser.add_argument("--solve", type=float, default=20.0, help="seconds of each solve, for prepare (default 20)")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--first", type=int, default=1, help="of the seeds (default 1)")
    parser.add_argument("--seconds", type=float, default=150.0)
    asked = parser.parse_args()
    if asked.command == "prepare":
        from benchmarks.training_prepare import prepare

        return prepare(asked.folder, asked.model, asked.machine, asked.configurations, asked.solve)
    if asked.command == "run":
        seeds = range(asked.first, asked.first + asked.seeds)
        return run(asked.folder, asked.model, asked.rounds, seeds, asked.seconds)
    side(asked.command, asked.folder, asked.model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
