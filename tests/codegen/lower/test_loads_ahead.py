"""Promises of `twill.codegen.lower.loads_ahead`: threads of a load group load a tile before its slot is free, and no
ring is filled in another order for that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tests.conftest import ROOT
from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import Acquire, Copy, LoadGlobal, Pipeline, Stmt, StoreShared, WarpProgram, walk
from twill.kernel.specialization import problem_of

FILE = f"{ROOT / 'tests' / 'gpu' / 'flow_kernels.py'}::block_scaled"
SIG = [f"{name}=*fp8e4nv:16" for name in ("a_ptr", "b_ptr")] + [f"{name}=*fp32:16" for name in ("as_ptr", "bs_ptr")]


@cache
def block_scaled() -> WarpProgram:
    """A product whose operands the TMA brings, and whose scales threads load."""
    kernel = extract(FILE, sig=[*SIG, "c_ptr=*bf16:16", *(f"{n}=i32:16" for n in "MNK")],
                     const=["BM=64", "BN=64", "BK=128"])  # fmt: skip
    made = lower(kernel.wired, scheduled(kernel.program), H100)
    assert verify(made, problem_of(kernel.specialization)) == ()  # trip counts of 0 and 1, too
    return made


def loops() -> list[Pipeline]:
    """Of the groups whose threads load."""
    every = [stmt for group in block_scaled().groups for stmt in group.body if isinstance(stmt, Pipeline)]
    return [loop for loop in every if any(isinstance(stmt, LoadGlobal) for stmt in walk(loop.steady))]


def test_the_first_tiles_are_loaded_in_front_of_the_steady_state() -> None:
    assert loops()
    for loop in loops():
        of = sum(isinstance(stmt, LoadGlobal) for stmt in walk(loop.steady))
        assert loop.stages == 1 and sum(isinstance(stmt, LoadGlobal) for stmt in walk(loop.prologue[0])) == of
        assert not any(isinstance(stmt, LoadGlobal) for stmt in walk(loop.epilogue[0]))


def test_what_is_stored_was_loaded_an_iteration_before_and_is_not_waited_for_with_the_slot() -> None:
    for loop in loops():
        stmts: list[Stmt] = [*walk(loop.steady)]
        kept = {stmt.source: stmt.result for stmt in stmts if isinstance(stmt, Copy)}
        for at, load in enumerate(stmts):
            if not isinstance(load, LoadGlobal):
                continue
            (store,) = (
                n for n, one in enumerate(stmts) if isinstance(one, StoreShared) and one.operand == kept[load.result]
            )
            assert at < max(n for n in range(store) if isinstance(stmts[n], Acquire))


NIBBLES = """
@triton.jit
def k(x, w, y, M, N, K, B: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + ks[None, :], mask=m[:, None] < M, other=0.0)
        both = tl.load(w + (ks // 2)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
        one = (both >> ((ks % 2) * 4)[:, None]) & 0xF
        acc = tl.dot(a, (one.to(tl.float32) - 8.0).to(tl.bfloat16), acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))
"""


def test_bytes_that_wait_in_registers_take_one_each(kernel_file: Callable[..., str]) -> None:
    sig = ["x=*bf16:16", "w=*i8:16", "y=*bf16:16", "M=i32", "N=i32:16", "K=i32:16"]
    kernel = extract(f"{kernel_file(NIBBLES)}::k", sig=sig, const=["B=128", "BK=64"])
    made = lower(kernel.wired, scheduled(kernel.program, blocks=2), H100)
    assert len([group for group in made.groups if group.role.startswith("consumer")]) == 2
    for group in made.groups:
        waiting = {stmt.source for stmt in walk(group.body) if isinstance(stmt, Copy)}
        held = [fragment for fragment in group.fragments if fragment.element == "i8" and fragment.id in waiting]
        assert 2 * sum(elements_of(fragment.layout) for fragment in held) <= group.registers
