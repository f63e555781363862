"""Atomic operations whose old values or order count in kernels of products: all warp groups of a program wait for the
one thread that does them, and what they do in front of it and behind it keeps that order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import B200, H100
from tests.places import edit, instead, places
from twill import exc
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import Acquire, Consumed, Get, Multiply, Publish, ReceiveElected, WarpProgram
from twill.codegen.warp.text import text
from twill.kernel.problem import Case
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

Files = Callable[..., str]

KERNEL = """
@triton.jit
def k(a, b, c, w, s, M, N, K, B: tl.constexpr, SPLIT: tl.constexpr):
    i, j, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
{first}    rm, rn, rk = i * B + tl.arange(0, B), j * 64 + tl.arange(0, 64), tl.arange(0, 64)
    at = rm[:, None] * N + rn[None, :]
    acc = tl.zeros((B, 64), tl.float32)
    for k in range(z, tl.cdiv(K, 64), SPLIT):
        x = tl.load(a + rm[:, None] * K + (k * 64 + rk)[None, :])
        y = tl.load(b + (k * 64 + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y, acc)
{last}"""
TICKET = """    tl.store(w + z * M * N + at, acc)
    if tl.atomic_add(s + i * tl.num_programs(1) + j, 1) == SPLIT - 1:
        out = tl.zeros((B, 64), tl.float32)
        for p in tl.static_range(SPLIT):
            out += tl.load(w + p * M * N + at)
        tl.store(c + at, out.to(tl.float16))
"""
TURN = """    turn = s + i * tl.num_programs(1) + j
    while tl.atomic_add(turn, 0) != z:
        pass
    acc += tl.load(w + at) * 0.5
    tl.store(w + at, acc)
    tl.atomic_add(turn, 1)
"""
TAKEN = """    t = tl.atomic_add(s, 1)
    i, j = t // tl.cdiv(N, 64), t % tl.cdiv(N, 64)
"""
SLOT = """    t = tl.atomic_add(s, (tl.max(tl.max(acc, 1), 0) < 1e30).to(tl.int32))
    tl.store(w + t * B * 64 + tl.arange(0, B)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)
"""
OUT = "    tl.store(c + at, acc.to(tl.float16))\n"
KERNELS = {  # what stands in front of the loop and behind it, parts of K, rows
    "the last part adds all": ("", TICKET, 2, 64),
    "the last part adds all, two groups": ("", TICKET, 2, 128),
    "parts are added in their order": ("", TURN, 3, 64),
    "each takes its tile": (TAKEN, OUT, 1, 64),
    "each takes its place in memory": ("", SLOT, 1, 64),
}
SIG = [*(f"{name}=*fp16:16" for name in "abc"), "w=*fp32:16", "s=*i32:16", "M=i32:16", "N=i32:16", "K=i32:16"]


def emitted(kernel_file: Files, name: str, order: Order = "chosen") -> Emission:
    first, last, split, rows = KERNELS[name]
    file = kernel_file(KERNEL.format(first=first, last=last))
    kernel = extract(f"{file}::k", sig=SIG, const=[f"B={rows}", f"SPLIT={split}"])
    options = SolveOptions(strategy="heuristic", fuse=False, blocks=rows // 64)
    return emit_scheduled(replace(kernel, order=order), H100, solve(kernel.graph, H100, options))


@pytest.mark.parametrize("name", KERNELS)
def test_the_ptx_leaves_what_programs_in_the_same_order_do(kernel_file: Files, name: str) -> None:
    emission = emitted(kernel_file, name)
    program, (_, last, split, rows) = emission.program, KERNELS[name]
    assert len([group for group in program.groups if not group.issuer]) == rows // 64
    assert parse(text(program), program.program) == program
    shapes = {"a": (rows * 192,), "b": (192 * 128,), "c": (rows * 128,), "w": (3 * rows * 128,), "s": (8,)}
    case = Case({}, (1, 2, split), shapes, {"M": rows, "N": 128, "K": 192})
    for ctas in (2 * split,) if last == TURN else (2 * split, 1):
        made = launch(program.program, case)
        found = verified(emission.build.ptx, emission.manifest, program, made, ctas)
        assert found.said() == []
        assert any(not np.array_equal(found.arrays[tensor], made.arrays[tensor]) for tensor in ("c", "w"))


def test_products_of_tf32_are_held_against_the_program_as_it_is_written(kernel_file: Files) -> None:
    """The abstract machine multiplies what was loaded, where tensor cores leave its last bits out."""
    columns = KERNEL.replace("(k * 64 + rk)[:, None] * N + rn[None, :]", "rn[None, :] * K + (k * 64 + rk)[:, None]")
    file = kernel_file(columns.format(first="", last=TICKET))
    sig = [*(f"{name}=*fp32:16" for name in "ab"), "c=*fp16:16", *SIG[3:]]
    kernel = extract(f"{file}::k", sig=sig, const=["B=64", "SPLIT=2"])
    options = SolveOptions(strategy="heuristic", fuse=False, blocks=1)
    program = emit_scheduled(kernel, H100, solve(kernel.graph, H100, options)).program
    assert any(isinstance(place.stmt, Multiply) and place.stmt.operand == "f32" for place in places(program))
    assert verify(program) == ()


def faults(program: WarpProgram) -> Iterator[tuple[str, WarpProgram]]:
    """The program without one of the waits of its groups for one another, or what tells them."""
    rings = {ring.id for ring in program.arefs if ring.name.startswith(("told", "before"))}
    for place in places(program):
        cursors = {cursor.id: cursor.aref for cursor in program.groups[place.group].cursors}
        named = cursors.get(getattr(place.stmt, "cursor", -1)) in rings
        if isinstance(place.stmt, ReceiveElected) or (named and isinstance(place.stmt, Get | Publish | Consumed)):
            yield type(place.stmt).__name__, edit(program, place, instead())


def test_no_wait_of_warp_groups_for_the_thread_can_be_left_out(kernel_file: Files) -> None:
    """The group that loads waits for which tile it is."""
    program = emitted(kernel_file, "each takes its tile").program
    assert verify(program) == ()
    assert any(isinstance(place.stmt, Acquire) for place in places(program))
    seen = set()
    for what, wrong in faults(program):
        assert verify(wrong), f"nothing was found without {what}"
        seen.add(what)
    assert seen == {"Get", "Publish", "Consumed", "ReceiveElected"}


def refused(kernel_file: Files, last: str, machine: Machine = H100) -> str:
    file = kernel_file(KERNEL.format(first="", last=last))
    with pytest.raises(exc.UnsupportedInKernel) as raised:
        kernel = extract(f"{file}::k", sig=SIG, const=["B=64", "SPLIT=1"]).on(machine)
        options = SolveOptions(strategy="heuristic", fuse=False, blocks=1)
        emit_scheduled(kernel, machine, solve(kernel.graph, machine, options))
    return str(raised.value)


def test_fail_what_warp_groups_do_not_bring_into_an_order(kernel_file: Files) -> None:
    """In loops, for a B200, tiles that are read, and tiles of a tensor that is written, which go to shared memory."""
    loop = "    for p in range(K):\n        acc += tl.atomic_add(s, 1).to(tl.float32)\n" + OUT
    assert "old value or order counts, in a loop of a kernel with tl.dot" in refused(kernel_file, loop)
    assert "in a kernel with tl.dot for b200" in refused(kernel_file, SLOT, B200)
    old = "    acc = tl.atomic_add(w + at, acc)\n" + OUT
    assert "the old values of an atomic operation on a tile" in refused(kernel_file, old)
    product = "        acc = tl.dot(tl.load(c + at), tl.load(b + rk[:, None] * N + rn[None, :]), acc)\n"
    again = TURN.replace("!= z:", "!= 0:") + "    for p in range(2):\n" + product + OUT
    assert "beside a tile of `c`, which the kernel writes" in refused(kernel_file, again)


def test_fail_instances_whose_order_counts_and_are_fetched_one_by_one(kernel_file: Files) -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="that are fetched one by one"):
        emitted(kernel_file, "each takes its tile", order="dynamic")


STRAIGHT = """
@triton.jit
def k(a, b, c, w, s, M, N, K):
    r = tl.arange(0, 64)
    at = r[:, None] * 64 + r[None, :]
    x = tl.load(a + at)
    d = tl.dot(x, x)
    d += tl.atomic_add(s, 1).to(tl.float32)
    tl.store(c + tl.program_id(0) * 4096 + at, d.to(tl.float16))
"""


def test_a_product_outside_of_loops_beside_an_old_value(kernel_file: Files) -> None:
    kernel = extract(f"{kernel_file(STRAIGHT)}::k", sig=SIG)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False)))
    shapes = {"a": (4096,), "b": (1,), "c": (3 * 4096,), "w": (1,), "s": (1,)}
    made = launch(emission.program.program, Case({}, (3,), shapes, {"M": 16, "N": 16, "K": 16}))
    assert verified(emission.build.ptx, emission.manifest, emission.program, made, 2).said() == []
