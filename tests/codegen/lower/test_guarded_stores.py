"""Stores under a condition are made where it holds, by the TMA, too."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden_schedules import machine
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import If, TmaStore, walk
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

HALF = """
@triton.jit
def k(a, b, c, M, N, K, B: tl.constexpr):
    p, q = tl.program_id(0), tl.program_id(1)
    i = p * 128 + tl.arange(0, 128)
    j = q * 64 + tl.arange(0, 64)
    l = tl.arange(0, B)
    acc = tl.zeros((128, 64), tl.float32)
    for n in range(0, K, B):
        x = tl.load(a + i[:, None] * K + (n + l)[None, :], mask=(i[:, None] < M) & ((n + l)[None, :] < K), other=0.0)
        y = tl.load(b + j[None, :] * K + (n + l)[:, None], mask=(j[None, :] < N) & ((n + l)[:, None] < K), other=0.0)
        acc += tl.dot(x, y)
    if (p + q) % 2 == 0:
        tl.store(c + i[:, None] * N + j[None, :], acc.to(tl.float16), mask=(i[:, None] < M) & (j[None, :] < N))
"""
SIDECAR = """
kernel = "k"

[[specialization]]
name = "half"
grid = ["cdiv(M, 128)", "cdiv(N, 64)"]

[specialization.signature]
a = "*fp16:16"
b = "*fp16:16"
c = "*fp16:16"
M = "i32"
N = "i32:16"
K = "i32:16"

[specialization.constexprs]
B = 64

[specialization.problem]
units = { M = 1, N = 16, K = 16 }
tensors = { a = ["M", "K"], b = ["N", "K"], c = ["M", "N"] }
run = [{ M = 128, N = 128, K = 64 }]
"""


def test_a_tile_that_is_not_to_be_stored_is_not(kernel_file: Callable[..., str]) -> None:
    """Every second instance stores; the others lie within the tensor as well."""
    kernel = extract(kernel_file(HALF, SIDECAR), "half")
    schedule = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic"))
    program = lower(kernel.program, schedule, machine())
    stmts = [stmt for group in program.groups for stmt in walk(group.body)]
    guarded = {id(inner) for stmt in stmts if isinstance(stmt, If) for inner in walk(stmt.body)}
    stores = [stmt for stmt in stmts if isinstance(stmt, TmaStore)]
    assert stores and all(id(stmt) in guarded for stmt in stores)
    assert verify(program, problem_of(kernel.specialization)) == ()
