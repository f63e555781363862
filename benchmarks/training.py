"""Trainings under `twill run` beside the same without it: steps' times, and losses.

    python -m benchmarks.training FOLDER [--models llama gla] [--wait S] [--rounds N]     on a GPU

A first run of each model, with the policy `solve` and time to prepare, fills the store in FOLDER. Then runs of
`benchmarks.training_model` without Twill and under `twill run`, with that store, take turns. A step's time is the
median over the later half of a run's steps; runs' times and their ratio are printed, and how far losses lie apart
between runs without Twill, and between those and runs under it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).with_name("training_model.py")
LIMIT = 400  # seconds of one run


@dataclass(frozen=True)
class Training:
    """One run. step: milliseconds. said: what `twill run` says of its kernels at the end."""

    losses: tuple[float, ...]
    step: float
    said: str


def trained(model: str, store: Path, policy: str, *words: str) -> Training:
    """One run; policy: of `twill run`, "" for none. Errors: RuntimeError with what it said."""
    under = ["-m", "twill", "run", "--policy", policy, "--store", str(store), "--script"] if policy else []
    command = [sys.executable, *under, str(MODEL), model, *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ))
    if ran.returncode:
        raise RuntimeError(f"{model}, policy {policy or 'none'}: {ran.stderr[-2000:]}")
    document = json.loads(ran.stdout.splitlines()[-1])
    times = document["milliseconds"]
    return Training(tuple(document["losses"]), statistics.median(times[len(times) // 2 :]), ran.stderr)


def apart(one: Training, other: Training) -> float:
    """The largest distance of two runs' losses at a step."""
    return max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True))


def report(model: str, plain: Sequence[Training], under: Sequence[Training]) -> list[str]:
    """For people."""
    times = [statistics.median(run.step for run in runs) for runs in (plain, under)]
    first, last_loss, ours = plain[0].losses[0], plain[0].losses[-1], under[0].losses[-1]
    between = max(apart(a, b) for a in plain for b in plain)
    to_twill = max(apart(a, b) for a in plain for b in under)
    last = under[-1].said.strip().splitlines()
    return [
        f"{model}: a step takes {times[0]:.2f} ms, under twill run {times[1]:.2f} ms: {times[0] / times[1]:.3f} x",
        f"  runs: {', '.join(f'{run.step:.2f}' for run in plain)}; {', '.join(f'{run.step:.2f}' for run in under)}",
        f"  losses {first:.4f} to {last_loss:.4f}, under {ours:.4f}; apart at most"
        f" {to_twill:.4f}, {between:.4f} between runs without",
        *(f"  {line}" for line in last[-40:]),
    ]


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="*", default=["llama", "gla"])
    parser.add_argument("--wait", type=float, default=100.0, help="seconds for filling the store; 0: it is filled")
    parser.add_argument("--rounds", type=int, default=2, help="0: the store is filled, no more")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    store = asked.folder / "store.sqlite3"
    for model in asked.models:
        if asked.wait:
            trained(model, store, "solve", "--steps", "12", "--wait", str(asked.wait))
            print(f"{model}: the store is filled", flush=True)
        plain, under = [], []
        for _ in range(asked.rounds):
            plain.append(trained(model, store, ""))
            under.append(trained(model, store, "lookup"))
        if asked.rounds:
            print("\n".join(report(model, plain, under)), flush=True)


if __name__ == "__main__":
    main()
