"""Promises of `twill.codegen.passes.overlay`: loops that follow one another use the same shared memory where it would
not hold the rings of both, and nobody writes there before everybody else is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests import golden_schedules
from tests.places import edit, instead, places
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.lower.candidates import CandidateRefusal, candidates
from twill.codegen.lower.streams import streams
from twill.codegen.passes.overlay import NOTE
from twill.codegen.passes.pipeline import run_passes
from twill.codegen.verify.abstract.overlays import overlapping, touches
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Acquire, Advance, Get, WarpProgram
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

TWO_LOOPS = """
@triton.jit
def k(a, b, c, d, x, y, z, n, K, B: tl.constexpr, S: tl.constexpr, T: tl.constexpr, SUMS: tl.constexpr):
    r, c_ = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    s, t = tl.arange(0, S), tl.arange(0, T)
    one = tl.zeros((B, B), tl.float32)
    for i in range(0, K, S):
        left = tl.load(a + r[:, None] * K + (i + s)[None, :])
        one += tl.dot(left, tl.load(b + (i + s)[:, None] * B + c_[None, :]))
    tl.store(x + r[:, None] * B + c_[None, :], one.to(tl.bfloat16))
    if SUMS:
        tl.store(z + r, tl.sum(one, 0))
    two = tl.zeros((B, B), tl.float32)
    for i in range(0, n, T):
        left = tl.load(c + r[:, None] * n + (i + t)[None, :])
        two += tl.dot(left, tl.load(d + (i + t)[:, None] * B + c_[None, :]))
    tl.store(y + r[:, None] * B + c_[None, :], two.to(tl.bfloat16))
"""
SIG = (
    "a=*bf16:16",
    "b=*bf16:16",
    "c=*fp16:16",
    "d=*fp16:16",
    "x=*bf16:16",
    "y=*bf16:16",
    "z=*fp32:16",
    "n=i32:16",
    "K=i32:16",
)
MACHINES = ("h100", "b200")
BACKWARD = golden_schedules.Example("examples/attention_backward.py", "causal")


def overlaid(kernel_file: Callable[..., str], machine: str, *const: str, execute: bool = False) -> WarpProgram:
    """The kernel's program, which the abstract machine accepts; also executed as PTX, if asked."""
    on = load_machine(machine)
    kernel = extract(f"{kernel_file(TWO_LOOPS)}::k", sig=SIG, const=const)
    emission = emit_scheduled(kernel, on, solve(kernel.graph, on, SolveOptions(strategy="heuristic", fuse=False)))
    if execute:
        checked(emission)
    return emission.program


def faults(program: WarpProgram) -> Iterator[tuple[str, WarpProgram]]:
    """The program without one of the statements by which memory changes hands, for each; without waits whose end a
    group may know by others: that a slot is full that was published in front of the instance, that its threads are
    there."""
    rings = {aref.id: aref for aref in program.arefs if aref.name.startswith("handoff")}
    for place in places(program):
        cursors = {c.id: c.aref for c in program.groups[place.group].cursors}
        ring = rings.get(cursors.get(getattr(place.stmt, "cursor", -1), -1))
        if isinstance(place.stmt, Advance) or (ring is None and place.stmt.note != NOTE):
            continue
        known = ring is not None and ring.name.endswith("again") and isinstance(place.stmt, Get)
        alone = ring is not None and ring.consumers == (ring.producer,) and isinstance(place.stmt, Acquire)
        if not known and not alone:
            yield type(place.stmt).__name__, edit(program, place, instead())


@pytest.mark.parametrize("machine", MACHINES)
def test_rings_of_two_loops_that_do_not_fit_lie_over_one_another(machine: str, kernel_file: Callable[..., str]) -> None:
    """Both loops have rings as deep as their schedules ask for, of more bytes than there are; what the PTX computes is
    what the tile program does."""
    program = overlaid(kernel_file, machine, "B=128", "S=128", "T=64", "SUMS=False", execute=True)
    taken = sum(buffer.slots * buffer.bytes for buffer in program.buffers if not buffer.tensor)
    assert program.shared <= load_machine(machine).capacity("shared") < taken
    assert {("left", "left")} <= {(one.name, other.name) for one, other in overlapping(program.buffers)}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_statement_by_which_memory_changes_hands_can_be_left_out(
    machine: str, kernel_file: Callable[..., str]
) -> None:
    """Threads of the computing group have sums across warps where the second loop has its rings."""
    program = overlaid(kernel_file, machine, "B=128", "S=64", "T=128", "SUMS=True")
    seen = set()
    for name, wrong in faults(program):
        assert verify(wrong), f"nothing was found without {name}"
        seen.add(name)
    assert {"Acquire", "Publish", "Get", "Consumed"} <= seen
    assert ("ProxyFence" in seen) == (machine == "h100")  # on a B200 the scratch memory has room of its own


def test_what_is_stored_from_a_loops_memory_has_left_it_before_the_next_instance_loads_there() -> None:
    """The gradients of a row block are stored from where its loop has Q."""
    kernel, schedule = golden_schedules.kernel(BACKWARD), golden_schedules.schedule(BACKWARD)
    whole = golden_schedules.lowered(BACKWARD)
    (first, *_) = candidates(kernel.program, schedule, golden_schedules.machine())
    made = streams(kernel.wired, schedule, golden_schedules.machine(), first, "chosen", 1)
    assert not isinstance(made, CandidateRefusal)
    program = run_passes(made.program, replace(made.choices, capacity=whole.shared - 20000, overlay=True))
    assert {("q", "staging 0"), ("q", "staging 1")} == {
        (one.name, other.name) for one, other in overlapping(program.buffers)
    }
    assert not verify(program)
    waits = [wrong for name, wrong in faults(program) if name == "BulkWait"]
    assert len(waits) == 2
    assert all("bulk" in {violation.rule for violation in verify(wrong)} for wrong in waits)


def test_loops_whose_rings_fit_beside_one_another_keep_their_own(kernel_file: Callable[..., str]) -> None:
    program = overlaid(kernel_file, "h100", "B=64", "S=64", "T=64", "SUMS=False")
    assert not list(overlapping(program.buffers))
    assert not any(aref.name.startswith("handoff") for aref in program.arefs)


TWO_PRODUCTS = """
@triton.jit
def k(a, b, c, x, y, n, N: tl.constexpr):
    r, o, t = tl.arange(0, 64), tl.arange(0, N), tl.arange(0, 64)
    i = tl.program_id(0)
    left = tl.zeros((64, N), tl.float32)
    right = tl.zeros((64, N), tl.float32)
    for j in range(n):
        v = tl.load(a + (i * 64 + r)[:, None] * (n * 64) + (j * 64 + t)[None, :])
        left = tl.dot(v, tl.load(b + (i * n * 64 + j * 64 + t)[:, None] * N + o[None, :]), left)
        right = tl.dot(v, tl.load(c + (i * n * 64 + j * 64 + t)[:, None] * N + o[None, :]), right)
    tl.store(x + (i * 64 + r)[:, None] * N + o[None, :], left.to(tl.bfloat16))
    tl.store(y + (i * 64 + r)[:, None] * N + o[None, :], right.to(tl.bfloat16))
"""


def test_buffers_of_which_no_warp_group_has_both_lie_over_one_another(kernel_file: Callable[..., str]) -> None:
    """What one group multiplies, and what the other one stores from: each has a product of its own."""
    machine = load_machine("h100")
    sig = [f"{name}=*bf16:16" for name in "abcxy"]
    kernel = extract(f"{kernel_file(TWO_PRODUCTS)}::k", sig=[*sig, "n=i32:16"], const=["N=256"])
    schedule = solve(kernel.graph, machine, SolveOptions(strategy="heuristic", fuse=False))
    (first, *_) = candidates(kernel.program, schedule, machine)
    made = streams(kernel.wired, schedule, machine, first, "chosen", 1)
    assert not isinstance(made, CandidateRefusal)
    whole = run_passes(made.program, made.choices)
    program = run_passes(made.program, replace(made.choices, capacity=whole.shared - 8192, overlay=True))
    touched = [
        [any(number in touches(program, group, stmt) for stmt in group.stmts) for group in program.groups]
        for number in next((one.id, other.id) for one, other in overlapping(program.buffers) if other.name[-1] == "1")
    ]
    assert not any(one and other for one, other in zip(*touched, strict=True))
    assert verify(program) == ()
    waits = [wrong for name, wrong in faults(program) if name in ("Acquire", "Consumed")]
    assert len(waits) > 2 and all(map(verify, waits))
