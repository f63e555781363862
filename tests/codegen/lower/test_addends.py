"""A product whose addend is a product that others read, too, gets a copy of it, and waits for it before that."""

from __future__ import annotations

from collections.abc import Callable

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Copy, walk

KERNEL = """
@triton.jit
def k(a, b, c, d, e, n, B: tl.constexpr):
    rows, ks = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    for i in range(0, n, B):
        at = (i + ks)[:, None] * B + ks[None, :]
        one = tl.dot(tl.load(a + rows[:, None] * B + ks[None, :]), tl.load(b + at))
        two = tl.dot(tl.load(c + rows[:, None] * B + ks[None, :]), tl.load(d + at), one)
        both = tl.where(tl.program_id(0) == 0, two, one)
        tl.store(e + rows[:, None] * n + (i + ks)[None, :], both.to(tl.float16))
"""
SIG = [*(f"{name}=*fp16:16" for name in "abcde"), "n=i32:16"]


def test_the_copy_waits_for_the_product(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(KERNEL)}::k", sig=SIG, const=["B=64"])
    program = lower(kernel.wired, scheduled(kernel.program), H100)
    copies = [stmt for group in program.groups for stmt in walk(group.body) if isinstance(stmt, Copy)]
    assert copies
    assert verify(program) == ()
