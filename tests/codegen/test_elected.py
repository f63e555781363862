"""Kernels whose atomic operations are read, or order something, from Triton's source to what the PTX leaves; and that
each lost order, wait or fence of them is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.elected_kernels import ADD, KERNELS, LOCK, LOOPS, TILES, UNLOCK, ElectedKernel
from tests.kernels import B200, H100
from twill import exc
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.print.cuda.shared import buffers_end, tensor_barriers
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.thread_orders import BarrierPlaces, misordered
from twill.codegen.warp.parse import parse as parse_program
from twill.codegen.warp.program import Atomic, Elect, LoadGlobal, Stmt, StoreGlobal, WarpProgram, with_blocks
from twill.codegen.warp.text import text
from twill.kernel.problem import Case
from twill.machine.description import Machine
from twill.ptx.parse import parse
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

Files = Callable[..., str]
WAITS = ("in the opposite order", "one waits for the others")  # for instances that come later


def emitted(kernel_file: Files, kernel: ElectedKernel, machine: Machine = H100) -> tuple[Emission, WarpProgram]:
    made = extract(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"])
    emission = emit_scheduled(made, machine, solve(made.graph, machine, SolveOptions(strategy="heuristic")))
    return emission, emission.program


@pytest.mark.parametrize("machine", [H100, B200], ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", KERNELS)
def test_the_ptx_leaves_what_instances_in_the_same_order_do(kernel_file: Files, name: str, machine: Machine) -> None:
    kernel = KERNELS[name]
    emission, program = emitted(kernel_file, kernel, machine)
    for ctas in (5,) if name in WAITS else (5, 2, 1):
        made = launch(program.program, kernel.case())
        found = verified(emission.build.ptx, emission.manifest, program, made, ctas)
        assert found.said() == []
        assert any(not np.array_equal(found.arrays[tensor], made.arrays[tensor]) for tensor in ("y", "s"))


@pytest.mark.parametrize("name", KERNELS)
def test_warp_programs_are_read_back_from_their_text(kernel_file: Files, name: str) -> None:
    _, program = emitted(kernel_file, KERNELS[name])
    assert parse_program(text(program), program.program) == program


@pytest.mark.parametrize("machine", [H100, B200], ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", LOOPS)
def test_the_ptx_of_loops_leaves_what_instances_in_the_same_order_do(
    kernel_file: Files, name: str, machine: Machine
) -> None:
    kernel = LOOPS[name]
    emission, program = emitted(kernel_file, kernel, machine)
    case = Case({}, (5,), {"x": (15 * 256,), "y": (kernel.y,), "s": (kernel.s,)}, {"n": 3})
    for ctas in (5, 2):
        made = launch(program.program, case)
        found = verified(emission.build.ptx, emission.manifest, program, made, ctas)
        assert found.said() == []
        assert not np.array_equal(found.arrays["y"], made.arrays["y"])


@pytest.mark.parametrize("machine", [H100, B200], ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", TILES)
def test_the_ptx_of_tiles_leaves_what_instances_in_the_same_order_do(
    kernel_file: Files, name: str, machine: Machine
) -> None:
    kernel = TILES[name]
    emission, program = emitted(kernel_file, kernel, machine)
    case = Case({}, (5,), {"x": (2560,), "y": (kernel.y,), "s": (kernel.s,)}, {"n": 600})
    for ctas in (5, 2):
        made = launch(program.program, case)
        made.arrays["s"][...] = 0
        found = verified(emission.build.ptx, emission.manifest, program, made, ctas)
        assert found.said() == []
        assert not np.array_equal(found.arrays["y"], made.arrays["y"])
    touched = "s" if name in ("slots of a histogram", "exchanged with a constant") else "y"
    assert touched in emission.manifest.loads and touched in emission.manifest.reduces
    assert parse_program(text(program), program.program) == program


def test_fail_old_values_of_tiles_that_are_another_operations(kernel_file: Files) -> None:
    """The abstract machine gives them from memory."""
    _, program = emitted(kernel_file, TILES["what was there"])

    def other(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(replace(s, combine="max") if isinstance(s, StoreGlobal) and s.old is not None else s for s in body)

    assert verify(program) == ()
    assert "values" in {violation.rule for violation in verify(changed(program, other))}


def test_nothing_in_a_loop_comes_past_what_one_thread_does(kernel_file: Files) -> None:
    kernel = LOOPS["a lock in every iteration"]
    graph = extract(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"]).graph
    (loop,) = (region for region in graph.regions if region.kind == "loop")
    accesses = [node.id for node in loop.nodes if node.kind != "elementwise"]
    elected = [node.id for node in loop.nodes if node.transport_reason == "one thread does it"]
    edges = {(edge.src, edge.dst, edge.distance) for edge in loop.edges if edge.kind == "memory"}
    assert len(elected) == 2 and len(accesses) == 5
    for one in elected:
        for other in accesses:
            first, second = sorted((one, other))
            assert one == other or (first, second, 0) in edges
            assert (second, first, 1) in edges


NEST = """    for i in range(n):
        t = tl.atomic_add(s, 1)
        for j in range(n):
            tl.store(y + t * B + j * 7 + tl.arange(0, B), 1.0)
"""


SUMS = """    total = tl.zeros((B,), tl.float32)
    for i in range(n):
        t = tl.atomic_add(s, 1)
        for j in range(n):
            total += tl.load(x + t * B + j * 7 + tl.arange(0, B))
    tl.store(y + tl.arange(0, B), total)
"""
INNER = """            total += tl.load(x + tl.atomic_add(s, 1) * B + j * 7 + tl.arange(0, B))
"""


@pytest.mark.parametrize("inner", [False, True])
def test_old_values_in_a_loop_around_all_work_are_those_of_each_of_its_instances(
    kernel_file: Files, inner: bool
) -> None:
    """The outer loop is walked; an operation in it, or in the inner one, is done in the order of both."""
    text = NEST if not inner else NEST.replace("        t = tl.atomic_add(s, 1)\n", "").replace(
        "        for j in range(n):\n", "        for j in range(n):\n            t = tl.atomic_add(s, 1)\n"
    )  # fmt: skip
    kernel = ElectedKernel(text, head="", y=18 * 256 + 21)
    emission, program = emitted(kernel_file, kernel)
    case = Case({}, (2,), {"x": (1,), "y": (kernel.y,), "s": (1,)}, {"n": 3})
    found = verified(emission.build.ptx, emission.manifest, program, launch(program.program, case), 2)
    assert found.said() == []
    assert found.arrays["s"][0] == 2 * 3 * (3 if inner else 1)
    slots = found.arrays["y"][: found.arrays["s"][0] * 256].reshape(-1, 256)
    assert (slots[:, 14:] == 1).all()


def test_fail_old_values_around_a_loop_in_a_loop_that_is_not_all_work(kernel_file: Files) -> None:
    """A nest is one loop, in whose iterations the outer one's are repeated."""
    kernel = ElectedKernel(SUMS, head="")
    with pytest.raises(exc.NestedLoop, match="atomic operations whose old value or order counts"):
        extract(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"])
    lines = [line for line in SUMS.splitlines(keepends=True) if "t =" not in line and "total +=" not in line]
    inner = ElectedKernel("".join([*lines[:3], INNER, *lines[3:]]), head="")
    with pytest.raises(exc.UnsupportedOperation, match=r":8: .* in a loop inside a loop"):
        extract(f"{kernel_file(inner.text)}::k", sig=inner.sig, const=["B=256"])


def test_a_launch_is_told_what_atomic_operations_read_and_change(kernel_file: Files) -> None:
    manifest = emitted(kernel_file, KERNELS["the first one stores"])[0].manifest
    assert manifest.reduces == ("s",)
    assert {"x", "y", "s"} == set(manifest.loads)
    assert ("s", "x") in manifest.apart and ("s", "y") in manifest.apart


# ---------------------------------------------------------------- faults
def changed(program: WarpProgram, edit: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> WarpProgram:
    """The program with another body of its warp group."""
    (group,) = program.groups
    return replace(program, groups=(replace(group, body=edit(group.body)),))


def relaxed(number: int) -> Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]:
    """Atomic operations of the n-th Elect without an order."""

    def inside(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
        for stmt in stmts:
            if isinstance(stmt, Atomic):
                yield replace(stmt, order="relaxed")
            else:
                yield with_blocks(stmt, inside)

    def edit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        at = [place for place, stmt in enumerate(body) if isinstance(stmt, Elect)][number]
        return (*body[:at], *inside(body[at : at + 1]), *body[at + 1 :])

    return edit


def moved(kind: type[Stmt], tensor: str, by: int) -> Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]:
    """The access of a tensor in front of the Elect before it (by -1), or behind the one behind it (1)."""

    def edit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        at = next(n for n, s in enumerate(body) if isinstance(s, kind) and s.window.argument == tensor)  # type: ignore[attr-defined]
        elects = [n for n, stmt in enumerate(body) if isinstance(stmt, Elect)]
        to = max(n for n in elects if n < at) if by < 0 else min(n for n in elects if n > at)
        rest = [stmt for n, stmt in enumerate(body) if n != at]
        rest.insert(to, body[at])
        return tuple(rest)

    return edit


def without_last(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The lock is not given back."""
    at = [place for place, stmt in enumerate(body) if isinstance(stmt, Elect)][-1]
    return (*body[:at], *body[at + 1 :])


FAULTS = {
    "the lock acquires nothing": (relaxed(0), "cta-order"),
    "it is given back without release": (relaxed(1), "cta-order"),
    "a load in front of the lock": (moved(LoadGlobal, "y", -1), "cta-order"),
    "a store behind it": (moved(StoreGlobal, "y", 1), "cta-order"),
    "it is not given back": (without_last, "deadlock"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fail_a_lock_that_orders_less(kernel_file: Files, name: str) -> None:
    _, program = emitted(kernel_file, KERNELS["a sum under a lock"])
    assert verify(program) == ()
    edit, rule = FAULTS[name]
    assert rule in {violation.rule for violation in verify(changed(program, edit))}


def rules(emission: Emission, ptx: str) -> set[str]:
    places = BarrierPlaces(tensor_barriers(emission.program), buffers_end(emission.program))
    return {one.rule for one in misordered(parse(ptx).function(emission.printed.function), places, elects=True)}


def test_fail_a_barrier_before_or_behind_an_atomic_operation_that_is_not_there(kernel_file: Files) -> None:
    emission, _ = emitted(kernel_file, ElectedKernel(LOCK + ADD + UNLOCK))
    ptx = emission.build.ptx
    assert rules(emission, ptx) == set()
    barriers = [*re.finditer(r"bar\.sync[^;]*;", ptx)]
    found = [rules(emission, ptx[: one.start()] + ptx[one.end() :]) for one in barriers]
    assert len(barriers) == 4  # two of each; behind the last one is the next program instance
    assert [bool(one) for one in found] == [False, True, True, True]  # nothing is stored in front of the lock
    assert set().union(*found) == {"elected"}


@pytest.mark.parametrize("name", ["a sum under a lock", "the last one reduces", "slots of a compaction"])
def test_atomic_operations_have_their_order_in_the_ptx(kernel_file: Files, name: str) -> None:
    ptx = emitted(kernel_file, KERNELS[name])[0].build.ptx
    orders = re.findall(r"atom\.([a-z_]+)\.", ptx)
    assert set(orders) <= {"acq_rel"} and orders


# ---------------------------------------------------------------- what is refused
def test_fail_tiles_that_are_added_to_what_one_thread_reads(kernel_file: Files) -> None:
    kernel = ElectedKernel(
        "    tl.atomic_add(s + tl.arange(0, 16), 1)\n    t = tl.atomic_add(s, 1)\n    tl.store(y + t + at, v)\n"
    )
    with pytest.raises(exc.UnsupportedInKernel, match="`s` is changed by atomic operations on tiles"):
        extract(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"])


def test_sizes_at_which_a_kernel_waits_for_ever_are_not_made_up(kernel_file: Files) -> None:
    kernel = ElectedKernel("    while tl.atomic_add(s, 0) == 0:\n        pass\n    tl.store(y + at, v)\n")
    with pytest.raises(exc.UnknownProblem, match="with zeros in its locks and counters, `k` waits for ever"):
        emitted(kernel_file, kernel)
    assert isinstance(kernel.case(), Case)


TILE_NEST = """    for i in range(n):
        t = tl.atomic_add(s + tl.arange(0, 64), 1)
        for j in range(n):
            tl.store(y + t * 64 + j * 7 + tl.arange(0, 64), 1.0)
"""


def test_fail_old_values_of_tiles_around_a_loop_in_a_loop(kernel_file: Files) -> None:
    kernel = ElectedKernel(TILE_NEST, head="")
    with pytest.raises(exc.NestedLoop, match="atomic operations whose old value or order counts"):
        extract(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"])
