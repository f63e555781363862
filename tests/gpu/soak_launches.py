"""Emitted launches under `twill.jit`, as many as there is time for, on four streams and in CUDA graphs: all are right.

    python -m tests.gpu.soak_launches prepare FOLDER               # without a GPU: emits what is launched
    python -m tests.gpu.soak_launches run FOLDER [--seconds 60]    # on a GPU

Four threads with a stream each launch three kernels (GEMM by descriptors and by pointers, attention), on tensors of
their own that change places. Every output is filled with NaN between rounds, and must have the bits that it had after
the first launch, whose distance from float32 is compared with Triton's. Then the same is captured, a graph of 60
launches for each stream, and replayed. Triton's kernels must not run meanwhile, and calls are recognized in C. At the
end, a kernel that has become slow is left (`tests.gpu.check_jit.compared`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import triton

from tests.gpu import check_jit, jit_calls
from tests.gpu.jit_calls import Call
from tests.gpu.jit_watch import Watched, like_triton, new_stream, until_emitted
from twill.runtime import library, quick_match, variants
from twill.runtime.variant import compiler

STREAMS, ROUND, CAPTURED = 4, 500, 10  # launches of a call in a round, and of each call in a graph
STORE, SAID, MACHINE = "store.sqlite3", "emitted.json", "h200"  # any Hopper GPU
KERNELS = (jit_calls.gemm, jit_calls.gemm_pointers, jit_calls.attention)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """As integers."""
    return tensor.view(torch.int16)


class Worker:
    """One stream, and calls whose results are known."""

    def __init__(self, number: int, watched: dict[str, Watched]) -> None:
        self.stream, self.watched = new_stream(), watched
        self.calls: list[Call] = [make(seed=10 * number + place) for place in range(2) for make in KERNELS]
        self.launches, self.rounds = 0, 0
        self.wrong: list[str] = []

    def learn(self) -> None:
        """Have every kernel emitted, and keep what its launches give."""
        for call in self.calls:
            fast = self.watched[call.kernel].fast
            self.wrong += filter(None, [until_emitted(self.watched[call.kernel], call)])
            self.wrong += filter(None, [like_triton(call, lambda: call.launch(fast))])  # noqa: B023 (called at once)
        self.kept = [call.out.clone() for call in self.calls]
        torch.cuda.synchronize()

    def clear(self) -> None:
        """No result is left."""
        for call in self.calls:
            call.out.fill_(float("nan"))

    def check(self, what: str) -> None:
        """Every result is as it was."""
        for call, kept in zip(self.calls, self.kept, strict=True):
            if not torch.equal(bits(call.out), bits(kept)):
                self.wrong.append(f"{call.kernel} {call.text}: other bits, {what} {self.rounds}")
        self.rounds += 1

    def run(self, until: float) -> None:
        """Launch, round after round."""
        with torch.cuda.stream(self.stream):
            while time.monotonic() < until and not self.wrong:
                self.clear()
                for _ in range(ROUND):
                    for call in self.calls:
                        call.launch(self.watched[call.kernel].fast)
                self.launches += ROUND * len(self.calls)
                self.check("round")

    def captured(self) -> Any:
        """A graph of launches."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for _ in range(CAPTURED):
                for call in self.calls:
                    call.launch(self.watched[call.kernel].fast)
        return graph


def prepare(folder: Path) -> int:
    """Into a new folder."""
    folder.mkdir(parents=True)
    (folder / SAID).write_text(json.dumps({"compiler": compiler(triton.__version__)}), encoding="utf-8")
    made = [make(device="cpu") for make in KERNELS]
    return check_jit.prepare(str(folder / STORE), made)


def run(folder: Path, seconds: float) -> int:
    """How much is wrong."""
    said = json.loads((folder / SAID).read_text(encoding="utf-8"))
    quick_match.COMPILER.begun = True
    quick_match.COMPILER.compile()
    print(
        f"{torch.cuda.get_device_name()}; calls are recognized in C: {quick_match.COMPILER.made is not None}",
        flush=True,
    )
    with ExitStack() as stack:
        for module in (library, variants):
            stack.enter_context(mock.patch.object(module, "compiler", lambda _: said["compiler"]))
        where = {"TWILL_STORE": str(folder / STORE), "TWILL_MACHINE": MACHINE}
        stack.enter_context(mock.patch.dict(os.environ, where))
        watched = {one.__name__: Watched(one.__name__, prefer="emitted") for one in KERNELS}
        workers = [Worker(number, watched) for number in range(STREAMS)]
        for one in workers:
            one.learn()
        before = sum(one.triton for one in watched.values())
        print("every kernel is emitted", flush=True)
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=one.run, args=(until,)) for one in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count, rounds = sum(one.launches for one in workers), sum(one.rounds for one in workers)
        print(f"{count:,} launches on {STREAMS} streams, results compared {rounds} times", flush=True)
        graphs = [(one, one.captured()) for one in workers]
        replays, until = 0, time.monotonic() + seconds / 4
        while time.monotonic() < until and not any(one.wrong for one in workers):
            for one, graph in graphs:
                with torch.cuda.stream(one.stream):
                    one.clear()
                    for _ in range(10):
                        graph.replay()
            replays += 10 * len(graphs)
            torch.cuda.synchronize()
            for one, _ in graphs:
                one.check("replay")
        captured = replays * CAPTURED * len(workers[0].calls)
        print(f"{captured:,} launches in graphs, in {replays} replays", flush=True)
        wrong = [line for one in workers for line in one.wrong]
        more = sum(one.triton for one in watched.values()) - before
        wrong += [f"Triton's kernels ran {more} times"] if more else []
        wrong += filter(None, check_jit.compared(where["TWILL_STORE"]))  # a slow kernel is left, too
        wrong += [] if quick_match.COMPILER.made is not None else ["no C compiler"]
    print("\n".join([*wrong[:20], "FAIL" if wrong else "PASS"]), flush=True)
    return len(wrong)


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    return prepare(asked.folder) if asked.command == "prepare" else int(bool(run(asked.folder, asked.seconds)))


if __name__ == "__main__":
    sys.exit(main())
