"""`twill.jit` on a GPU, scenario by scenario, each in a process of its own.

python -m tests.gpu.check_jit prepare STORE       # without a GPU: emits what the scenarios launch, into a new store
python -m tests.gpu.check_jit run STORE [WORD...] # on a GPU: every scenario, or those with such a word in their name;
                                                  # exit code 1 if one is not as it should be
python -m tests.gpu.check_jit case STORE NAME     # one of them
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO
from unittest import mock

import torch
import triton

import twill
from tests.gpu import jit_calls
from tests.gpu.jit_broken import broken
from tests.gpu.jit_calls import ROOT, Call, calls
from tests.gpu.jit_services import SERVICES
from tests.gpu.jit_watch import Watched, like_triton, new_stream, until_emitted
from twill.runtime.plan import LaunchPlan

SECONDS = 150.0  # of one scenario


# ---------------------------------------------------------------- scenarios: each yields what is wrong


def results(store: str) -> Iterator[str]:
    """Every kernel, several sizes, again and again with the same and with other tensors."""
    watched = {name: Watched(name) for name in ("gemm", "gemm_pointers", "attention")}
    more = [
        jit_calls.gemm(1040, 528, 336), jit_calls.gemm(128, 128, 64), jit_calls.gemm(2048, 1024, 4096),
        jit_calls.gemm_pointers(1040, 528, 336), jit_calls.gemm_pointers(2048, 1024, 4096),
        jit_calls.attention(6, 640), jit_calls.attention(32, 2048), jit_calls.attention(6, 640, causal=True),
        jit_calls.attention(32, 2048, causal=True), *calls(),
    ]  # fmt: skip
    for call in (*calls(), *more):
        yield until_emitted(watched[call.kernel], call)
        yield like_triton(call, lambda call=call: call.launch(watched[call.kernel].fast))  # type: ignore[misc]
        before = watched[call.kernel].triton
        for _ in range(3):
            yield like_triton(call, lambda call=call: call.launch(watched[call.kernel].fast))  # type: ignore[misc]
        if watched[call.kernel].triton != before:
            yield f"{call.kernel} {call.text}: Triton ran"


def solved_here(store: str) -> Iterator[str]:
    """An empty store and the policy solve: Triton's first, then the emitted kernel, and right all the time."""
    with tempfile.TemporaryDirectory() as place:
        watched = Watched("gemm", policy="solve", store=f"{place}/new")
        call = jit_calls.gemm()
        yield like_triton(call, lambda: call.launch(watched.fast))
        yield "" if watched.triton == 1 else "the first launch was not Triton's"
        begun = time.perf_counter()
        yield until_emitted(watched, call)
        print(f"  solved, emitted and used {time.perf_counter() - begun:.1f} s after the first launch")
        yield like_triton(call, lambda: call.launch(watched.fast))
        another = Watched("gemm", policy="require", store=f"{place}/new")
        yield "" if another.emitted(call) else "the kernel was not kept"


def guards(store: str) -> Iterator[str]:
    """Strides that a tensor map cannot have: Triton's kernel, one reason."""
    watched = Watched("gemm_pointers", policy="solve")
    call = jit_calls.gemm_pointers(256, 256, 100)
    for _ in range(3):
        yield like_triton(call, lambda: call.launch(watched.fast))
    good = jit_calls.gemm_pointers()
    yield until_emitted(watched, good)
    offset = torch.zeros(512 * 256 + 1, dtype=torch.bfloat16, device="cuda")[1:].view(512, 256)
    offset.copy_(good.inputs[0])
    c = torch.zeros(512, 384, dtype=torch.bfloat16, device="cuda")
    b = good.inputs[1]
    for _ in range(3):
        watched.fast[(12,)](offset, b, c, 512, 384, 256, 256, 1, 384, 1, 384, 1, 128, 128, 64, 8, num_warps=8)
    torch.cuda.synchronize()
    yield "" if (c.float() - good.wanted()).norm() / good.wanted().norm() < 0.01 else "a shifted tensor"
    print("  " + twill.explain_fallback(watched.fast).replace("\n", "\n  "))
    yield like_triton(good, lambda: good.launch(watched.fast))


def autotuned(store: str) -> Iterator[str]:
    """Under an autotuner, and around one."""
    configs = [
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=w, num_stages=3)
        for w in (4, 8)
    ]
    original = jit_calls.kernel("gemm_pointers")
    under = triton.autotune(configs, key=["M", "N", "K"])(twill.jit(original))
    around = twill.jit(triton.autotune(configs, key=["M", "N", "K"])(original))
    call = jit_calls.gemm_pointers()
    a, b = call.inputs
    for name, tuned in (("under", under), ("around", around)):
        inner = tuned.fn
        for _ in range(20):
            call.out.zero_()
            tuned[lambda given: (triton.cdiv(512, given["BLOCK_M"]) * triton.cdiv(384, given["BLOCK_N"]),)](
                a, b, call.out, 512, 384, 256, *a.stride(), *b.stride(), *call.out.stride()
            )
            torch.cuda.synchronize()
            yield "" if call.error() < 0.01 else f"{name} an autotuner: wrong result"
            time.sleep(0.01)
        yield "" if inner.twill_dispatch.used else f"{name} an autotuner: not emitted"


def compared(store: str) -> Iterator[str]:
    """Both kernels in turns, results right all the time; then one of them alone; a slow emitted kernel is left."""
    watched = Watched("gemm_pointers", prefer="faster")
    call = jit_calls.gemm_pointers(2048, 1024, 4096)
    yield until_emitted(watched, call)
    for _ in range(40):
        yield like_triton(call, lambda: call.launch(watched.fast))
    said = twill.explain(watched.fast)
    print("  " + said)
    yield "" if "µs as Triton's" in said else "no verdict after 40 launches"
    before = watched.triton
    stays = [watched.emitted(call) for _ in range(10)]
    yield (
        "" if len(set(stays)) == 1 and watched.triton - before in (0, 10) else "launches change sides after the verdict"
    )
    slow, small = Watched("gemm_pointers", prefer="faster"), jit_calls.gemm_pointers()
    launch, sleep = LaunchPlan._launch, getattr(torch.cuda, "_sleep")  # noqa: B009 (it has no types)

    def sleeping(plan: LaunchPlan, stream: int) -> None:
        sleep(2_000_000)
        launch(plan, stream)

    with mock.patch.object(LaunchPlan, "_launch", sleeping):
        yield until_emitted(slow, small)
        who = []
        for _ in range(30):
            who.append(slow.emitted(small))
            torch.cuda.synchronize()
        yield "" if not any(who[20:]) else f"a slow kernel is still launched: {who}"
    print("  " + twill.explain(slow.fast))


def graphs(store: str) -> Iterator[str]:
    """Captured in a CUDA graph and replayed with other inputs; also where capturing is the first thing that is done."""
    for call in (jit_calls.gemm(), jit_calls.gemm_pointers(), jit_calls.attention()):
        watched = Watched(call.kernel)
        yield until_emitted(watched, call)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call.launch(watched.fast)
        for number in range(3):
            call.inputs[0].copy_(jit_calls.tensor(*call.inputs[0].shape, seed=100 + number))
            yield like_triton(call, graph.replay)
    call = jit_calls.gemm(640, 640, 640)
    call.launch(jit_calls.kernel("gemm"))
    watched = Watched("gemm")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call.launch(watched.fast)
    yield like_triton(call, graph.replay)


def streams(store: str) -> Iterator[str]:
    """Two streams at once, each with its own order of work."""
    watched = Watched("gemm")
    pairs = [(new_stream(), jit_calls.gemm(1024, 1024, 1024, seed=s)) for s in range(2)]
    yield until_emitted(watched, pairs[0][1])
    torch.cuda.synchronize()
    for number in range(50):
        for stream, call in pairs:
            with torch.cuda.stream(stream):
                call.out.fill_(number)
                call.launch(watched.fast)
    torch.cuda.synchronize()
    for _, call in pairs:
        yield "" if call.error() < 0.01 else "a launch was not in its stream"
    with torch.cuda.stream(pairs[0][0]):
        pairs[0][1].launch(watched.fast)
    plan = next(plan for plan in watched.fast.twill_dispatch.hot.plans.by_key.values())
    yield "" if plan.stream else "the stream was not passed on"


def devices(store: str) -> Iterator[str]:
    """Every GPU there is, in turn, then each from a thread of its own."""
    watched, wrong = Watched("gemm"), list[str]()
    placed = []
    for index in range(torch.cuda.device_count()):
        with torch.cuda.device(index):
            placed.append((index, jit_calls.gemm(seed=index)))
            yield until_emitted(watched, placed[-1][1])
    before = watched.triton

    def launch(index: int, call: jit_calls.Call, times: int) -> None:
        with torch.cuda.device(index):
            for _ in range(times):
                call.out.fill_(float("nan"))
                call.launch(watched.fast)
            torch.cuda.synchronize()
        if call.out.device.index != index or call.error() > 0.01:
            wrong.append(f"GPU {index}: error {call.error():.2e}")

    for one in (*placed, *reversed(placed), *placed):
        launch(*one, times=1)
    group = [threading.Thread(target=launch, args=(*one, 50)) for one in placed]
    for thread in group:
        thread.start()
    for thread in group:
        thread.join()
    yield from wrong
    yield "" if watched.triton == before else "Triton ran"
    print(f"  {len(placed)} GPUs")


def elsewhere(store: str) -> Iterator[str]:
    """Tensors that lie elsewhere at every launch, some of them with less memory behind them, some misaligned."""
    for make in (jit_calls.gemm, jit_calls.gemm_pointers, jit_calls.attention):
        calls_ = [make(seed=seed) for seed in range(24)]
        watched = Watched(calls_[0].kernel)
        yield until_emitted(watched, calls_[0])
        yield until_emitted(watched, calls_[0])
        before, plans = watched.triton, watched.fast.twill_dispatch.hot.plans
        for call in (*calls_, *reversed(calls_)):
            yield like_triton(call, lambda call=call, fast=watched.fast: call.launch(fast))  # type: ignore[misc]
        yield "" if watched.triton == before else f"{calls_[0].kernel}: Triton ran"
        yield "" if len(plans.by_key) < 5 else f"{calls_[0].kernel}: {len(plans.by_key)} launches were prepared"


def threads(store: str) -> Iterator[str]:
    """Eight threads from the first launch on."""
    watched = Watched("gemm")
    wrong: list[str] = []

    def work(number: int) -> None:
        try:
            call = jit_calls.gemm(256 + 128 * number, 384, 256, seed=number)
            with torch.cuda.stream(new_stream()):
                for _ in range(100):
                    call.out.zero_()
                    call.launch(watched.fast)
                torch.cuda.current_stream().synchronize()
            if call.error() > 0.01:
                wrong.append(f"thread {number}: error {call.error():.2e}")
        except Exception as error:
            wrong.append(f"thread {number}: {type(error).__name__}: {error}")

    group = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in group:
        one.start()
    for one in group:
        one.join()
    yield from wrong
    yield "" if watched.fast.twill_dispatch.used else "nothing was emitted"


def compiled(store: str) -> Iterator[str]:
    """Called by code under torch.compile: without breaking the graph."""
    watched = Watched("gemm_pointers")
    call = jit_calls.gemm_pointers()
    yield until_emitted(watched, call)
    fast = watched.fast

    def double(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty(512, 384, dtype=torch.bfloat16, device="cuda")
        fast[(12,)](a, b, c, 512, 384, 256, 256, 1, 384, 1, 384, 1, 128, 128, 64, 8, num_warps=8)
        return c * 2

    wanted = 2 * call.wanted()
    for backend in ("eager", "inductor"):
        got = torch.compile(double, backend=backend, fullgraph=True)(*call.inputs)
        yield "" if (got.float() - wanted).norm() / wanted.norm() < 0.01 else f"{backend}: wrong result"

    @torch.compiler.disable
    def launch(*tensors: torch.Tensor) -> None:
        fast[(12,)](*tensors, 512, 384, 256, 256, 1, 384, 1, 384, 1, 128, 128, 64, 8, num_warps=8)

    def outside(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty(512, 384, dtype=torch.bfloat16, device="cuda")
        launch(a, b, c)
        return c * 2

    before, got = watched.triton, torch.compile(outside)(*call.inputs)
    yield "" if (got.float() - wanted).norm() / wanted.norm() < 0.01 else "outside of the compiled code: wrong result"
    yield "" if watched.triton == before else "outside of the compiled code: Triton ran"


def inside(store: str) -> Iterator[str]:
    """A custom operator inside of a compiled region launches the emitted kernel, as docs/jit.md has it."""
    watched = Watched("gemm_pointers")
    call = jit_calls.gemm_pointers()
    yield until_emitted(watched, call)

    @torch.library.custom_op("twill_check::product", mutates_args=())
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty(512, 384, dtype=torch.bfloat16, device="cuda")
        watched.fast[(12,)](a, b, c, 512, 384, 256, 256, 1, 384, 1, 384, 1, 128, 128, 64, 8, num_warps=8)
        return c

    @product.register_fake
    def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.new_empty(512, 384)

    region = torch.compile(lambda a, b: 2 * product(a, b).float() + 1, fullgraph=True)
    wanted, before = 2 * call.wanted() + 1, watched.triton
    for turn in range(5):
        got = region(*call.inputs)
        right = (got - wanted).norm() / wanted.norm() < 0.01
        yield "" if right else f"inside of the compiled region: wrong result in launch {turn}"
    yield "" if watched.triton == before else "inside of the compiled region: Triton ran"


def required(store: str) -> Iterator[str]:
    """The policy require: the emitted kernel, or an error."""
    call = jit_calls.attention()
    watched = Watched("attention", policy="require")
    yield like_triton(call, lambda: call.launch(watched.fast))
    yield "" if watched.triton == 0 else "Triton ran"
    with tempfile.TemporaryDirectory() as place:
        try:
            call.launch(twill.jit(jit_calls.kernel("attention"), policy="require", store=f"{place}/new"))
            yield "no error without a schedule"
        except twill.exc.KernelNotReady as error:  # type: ignore[attr-defined]
            print(f"  {error}")


def unedited(store: str) -> Iterator[str]:
    """`python -m twill run script.py`."""
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "script.py"
        script.write_text(SCRIPT.format(root=str(ROOT)), encoding="utf-8")
        words = [sys.executable, "-m", "twill", "run", str(script), "--size", "512"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=100)
        said = done.stdout + done.stderr
        print("  " + said.strip()[-400:].replace("\n", "\n  "))
        yield "" if done.returncode == 0 and "right 512" in done.stdout else f"exit code {done.returncode}"
        yield "" if "1 emitted" in done.stderr else "the script's kernel was not emitted"


SCRIPT = """
import sys, torch, triton
sys.path.insert(0, {root!r} + "/examples")
import time
import gemm_pointers as module

size = int(sys.argv[sys.argv.index("--size") + 1])
a, b = (torch.randn(size, size, device="cuda").bfloat16() for _ in range(2))
c = torch.zeros_like(a)
for _ in range(20):
    module.gemm_pointers[(16,)](a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride(), 128, 128, 64, 8)
    time.sleep(0.02)
assert torch.allclose(c.float(), a.float() @ b.float(), atol=1, rtol=0.02)
print("right", size)
"""


SCENARIOS: dict[str, Callable[[str], Iterator[str]]] = {
    "solved here": solved_here, "results": results, "guards": guards, "autotuned": autotuned, "CUDA graphs": graphs,
    "compared": compared,
    "streams": streams, "devices": devices, "elsewhere": elsewhere, "threads": threads, "torch.compile": compiled,
    "custom operator": inside,
    "require": required, "unedited": unedited,
    **{f"service {kind}": broken(kind) for kind in SERVICES},
}  # fmt: skip


def case(store: str, name: str) -> int:
    """One scenario, with its own copy of the store."""
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        copied = shutil.copy(store, place)
        os.environ["TWILL_STORE"] = copied
        for reason in SCENARIOS[name](copied):
            if reason:
                wrong += 1
                print(f"  WRONG {reason}", flush=True)
    sys.stdout.flush()
    os._exit(1 if wrong else 0)  # a helper may still be at work


def run(store: str, names: list[str], at_once: int) -> int:
    """Every scenario, `at_once` at a time."""
    waiting, failed = list(names), 0
    running: list[tuple[str, float, IO[str], subprocess.Popen[bytes]]] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            words = [sys.executable, "-m", "tests.gpu.check_jit", "case", store, name]
            out = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
            running.append((name, time.monotonic(), out, subprocess.Popen(words, stdout=out, stderr=out, cwd=ROOT)))
        for one in list(running):
            name, begun, said, process = one
            late = time.monotonic() - begun > SECONDS
            if process.poll() is None and not late:
                continue
            if late:
                process.kill()
                process.wait()
            running.remove(one)
            said.seek(0)
            failed += process.returncode != 0
            ending = "ok" if process.returncode == 0 else "FAILED" + (", too late" if late else "")
            print(f"{name}: {ending} ({time.monotonic() - begun:.0f} s)\n{said.read()[-1800:]}", end="", flush=True)
        time.sleep(0.05)
    print(f"{len(names) - failed} scenarios as they should be, {failed} not")
    return 1 if failed else 0


def prepare(store: str, only: Sequence[Call] = ()) -> int:
    """Emit every variant that the scenarios begin with, where no GPU is; or those of some calls of tensors there."""
    from tests.fake_triton import installed

    with installed():
        for call in only or calls("cpu"):
            fast = twill.jit(jit_calls.kernel(call.kernel), policy="solve", store=store, machine="h200")
            call.launch(fast)
            for known in list(fast.twill_dispatch.variants.known.values()):
                known.inquiry.over.wait()
                call.launch(fast)
                known.shelf.settled.wait(600)
                print(call.kernel, call.text, known.shelf.state, known.shelf.reason, flush=True)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that the one file can be copied
    return 0


def main(words: list[str]) -> int:
    """See the top of this file."""
    logging.basicConfig(level=logging.WARNING, format="  log: %(name)s: %(message)s")
    what, store, *rest = words
    with contextlib.suppress(KeyError):
        del os.environ["TWILL_SERVER"]
    os.environ["TWILL_JIT_PREFER"] = "emitted"  # the scenarios say where both kernels may run
    if what == "prepare":
        return prepare(store)
    if what == "case":
        return case(store, rest[0])
    return run(store, [name for name in SCENARIOS if not rest or any(word in name for word in rest)], 8)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
