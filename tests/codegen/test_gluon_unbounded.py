"""A kernel without masks as a module of Gluon: axes that it does not bound end where the tensor's memory does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.kernels import B200, H100
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import emit_gluon
from twill.codegen.print.gluon import twill_gluon
from twill.exc import NotInGluon
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

KERNEL = """
@triton.jit
def k(a, b, c, N, K, B: tl.constexpr):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    j = tl.program_id(1) * 128 + tl.arange(0, 128)
    l = tl.arange(0, B)
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, B):
        left = tl.load(a + i[:, None] * K + (k + l)[None, :])
        acc = tl.dot(left, tl.load(b + (k + l)[:, None] * N + j[None, :]), acc)
    tl.store(c + i[:, None] * N + j[None, :], acc.to(tl.bfloat16))
"""
SIG = ("a=*bf16:16", "b=*bf16:16", "c=*bf16:16", "N=i32:16", "K=i32:16")


def extracted(kernel_file: Callable[..., str]) -> Extracted:
    return extract(f"{kernel_file(KERNEL)}::k", None, SIG, ("B=64",), Allowed(conditional=False))


@pytest.mark.parametrize("machine", [H100, B200], ids=lambda one: one.name)
def test_it_is_right_and_its_launcher_asks_the_tensor(machine: Machine, kernel_file: Callable[..., str]) -> None:
    kernel = extracted(kernel_file)
    emission = emit_gluon(kernel, machine, lambda graph, on: solve(graph, on, SolveOptions(fuse=False)))
    assert "[steps_within(a, K), steps_within(a, 1)], [K, 1]" in emission.module.text
    assert "nothing found" in checked(emission, kernel.specialization)


def test_a_pair_that_may_lack_an_instance_is_refused(kernel_file: Callable[..., str]) -> None:
    options = SolveOptions(fuse=False, cluster=2)
    with pytest.raises(NotInGluon, match="a pair that lacks an instance would read past the end of `[abc]`"):
        emit_gluon(extracted(kernel_file), B200, lambda graph, on: solve(graph, on, options))


def test_an_axis_has_what_the_tensor_has_and_no_more_than_a_descriptor_counts() -> None:
    steps_within: Callable[..., int] = twill_gluon.steps_within
    tensor = SimpleNamespace(shape=(6, 40), stride=lambda: (64, 1))
    assert [steps_within(tensor, stride) for stride in (1, 64, 500)] == [5 * 64 + 40, 6, 1]
    assert steps_within(SimpleNamespace(shape=(2**32,), stride=lambda: (1,)), 1) == 2**31 - 1
