"""A load group that issues TMA loads and loads by its threads: only the issuing thread waits for slots of the TMA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.golden_schedules import machine
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Acquire, Publish, TmaLoad, walk
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

SCALED = """
@triton.jit
def k(a, b, c, s, M, N, K, stride, B: tl.constexpr):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    j = tl.program_id(1) * 128 + tl.arange(0, 128)
    l = tl.arange(0, B)
    acc = tl.zeros((128, 128), tl.float32)
    for n in range(0, K, B):
        x = tl.load(a + i[:, None] * K + (n + l)[None, :], mask=(i[:, None] < M) & ((n + l)[None, :] < K), other=0.0)
        y = tl.load(b + j[None, :] * K + (n + l)[:, None], mask=(j[None, :] < N) & ((n + l)[:, None] < K), other=0.0)
        acc += tl.dot(x, y) * tl.load(s + i * stride + n // B, mask=i < M, other=0.0)[:, None]
    at = c + i[:, None] * N + j[None, :]
    tl.store(at, acc.to(tl.float16), mask=(i[:, None] < M) & (j[None, :] < N))
"""
SIDECAR = """
kernel = "k"

[[specialization]]
name = "scaled"
grid = ["cdiv(M, 128)", "cdiv(N, 128)"]

[specialization.signature]
a = "*fp16:16"
b = "*fp16:16"
c = "*fp16:16"
s = "*fp32:16"
M = "i32"
N = "i32:16"
K = "i32:16"
stride = "i32"

[specialization.constexprs]
B = 64

[specialization.problem]
units = { M = 1, N = 16, K = 16 }
scalars = { stride = "cdiv(K, 64)" }
tensors = { a = ["M", "K"], b = ["N", "K"], c = ["M", "N"], s = ["M", "cdiv(K, 64)"] }
run = [{ M = 128, N = 128, K = 64 }]
"""


def test_it_may_fill_slots_of_both_kinds(kernel_file: Callable[..., str], tmp_path: Path) -> None:
    """Threads that do not issue may be late by an instance: they know nothing of those slots, and need not."""
    kernel = extract(kernel_file(SCALED, SIDECAR), "scaled")
    schedule = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic"))
    program = lower(kernel.program, schedule, machine())
    mixed = [
        group for group in program.groups
        if {Publish, TmaLoad, Acquire} <= {type(stmt) for stmt in walk(group.body)} and not group.issuer
    ]  # fmt: skip
    assert mixed
    assert verify(program, problem_of(kernel.specialization)) == ()
