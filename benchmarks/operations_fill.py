"""`python -m benchmarks.operations fill`: kernels of the operations, solved and emitted where they are measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.operations import PACKAGES, SAID, STORE, held, imported, inputs_of, named, step, without_backward
from benchmarks.operations_table import OPERATIONS, Maker


def fill(folder: Path, only: str, machine: str, seconds: float, count: int) -> int:
    """Have the operations' kernels solved and emitted on this machine, whatever is ready within the time."""
    import triton

    from twill.runtime.variant import compiler

    said = {"compiler": compiler(triton.__version__), "machine": machine, "configurations": count}
    (folder / SAID).write_text(json.dumps(said), encoding="utf-8")
    until = time.time() + seconds
    names = [one.name for one in named(only)]
    more = ["--fill", str(until), "--machine", machine]
    command = [sys.executable, "-m", "benchmarks.operations", "filling", str(folder), *more, "--only"]
    started = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in names]
    outputs = [one.communicate()[0] for one in started]
    print("".join(outputs), flush=True)
    return sum(one.returncode != 0 for one in started)


def filling(folder: Path, name: str, machine: str, until: float) -> None:
    """One operation of `fill`, until that time of the clock."""
    import torch

    from twill.runtime.policy import settings

    operation = next(one for one in OPERATIONS if one.name == name)
    sys.path.insert(0, str(folder / PACKAGES))
    said = json.loads((folder / SAID).read_text(encoding="utf-8"))
    with held(said["configurations"], bench=said["configurations"] > 1):
        sides = imported(operation, settings("solve", store=str(folder / STORE), machine=machine))
        make = Maker(torch, "cuda")
        refused = without_backward(operation, sides.plain, make)
        for _ in range(2):
            step(operation, sides.wrapped, inputs_of(operation, make), backward=not refused)
            torch.cuda.synchronize()
            time.sleep(1)
        variants = [
            known
            for kernel in sides.made
            if kernel.twill_dispatch.launched and kernel.twill_dispatch.variants is not None
            for known in kernel.twill_dispatch.variants.known.values()
        ]
        while time.time() < until and not all(known.shelf and known.shelf.settled.is_set() for known in variants):
            time.sleep(0.5)
        for known in variants:
            state = "no look-up" if known.shelf is None else f"{known.shelf.state} {known.shelf.reason[:160]}"
            print(f"{operation.name}: {known.text()[:60]}: {state}")
