"""`while` loops that do not count: over scalars, and with a condition from memory around tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.emittable import refuse_unemittable
from twill.codegen.print.gluon.sayable import refuse_at_once
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Let, ScalarLoop, Stmt, with_blocks
from twill.exc import DataDependentControlFlow, NotInGluon, UnknownProblem, UnsupportedInKernel
from twill.kernel.problem import Case
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.parse import parse
from twill.tile.scalar_region import Endless, ScalarRegion
from twill.tile.text import program_text
from twill.trial.execute import verified


@cache
def emission(name: str) -> Emission:
    made = extract(f"tests/while_kernels.py::{name}", spec=name)
    return emit_scheduled(made, H100, solve(made.graph, H100, SolveOptions(strategy="heuristic")))


def run(name: str, rows: int, scalars: dict[str, int], **given: Sequence[int]) -> CheckedLaunch:
    """A launch with these numbers in tensors of integers; its results are held against the tile program's."""
    made = emission(name)
    shapes = {one: (64 * 128,) for one in ("x", "y")} | {one: (len(numbers),) for one, numbers in given.items()}
    case = Case({}, (rows,), shapes, scalars)
    begun = launch(made.program.program, case)
    arrays = {**begun.arrays, **{one: np.array(numbers, np.int32) for one, numbers in given.items()}}
    begun = replace(begun, arrays=arrays)
    found = verified(made.build.ptx, made.manifest, made.program, begun)
    assert found.said() == []
    return replace(begun, arrays={**arrays, "y": found.arrays["y"]})


def rows(made: CheckedLaunch, name: str, count: int) -> np.ndarray:
    return np.asarray(made.arrays[name]).reshape(-1, 128)[:count]


@pytest.mark.parametrize("count", [5, 1, 0, -3])
def test_a_search_finds_what_it_looks_for(count: int) -> None:
    starts = [0, 0, 2, 5, 6]
    made = run("searched", 7, {"count": count}, starts=starts)
    found = np.array([sum(start <= row for start in starts[: max(count, 0)]) for row in range(7)], np.float32)
    assert np.array_equal(rows(made, "y", 7), rows(made, "x", 7) * found[:, None])


def test_a_condition_from_memory_ends_a_loop_over_tiles() -> None:
    flags = [1, 1, 1, 0, 0, 7, 1, -1, 1, 0]
    made = run("chained", 8, {}, flags=flags)
    ends = [next(i for i in range(row, 10) if not flags[i]) for row in range(8)]
    wanted = [made.arrays["x"].reshape(-1, 128)[row:end].sum(axis=0) + end for row, end in enumerate(ends)]
    assert np.allclose(rows(made, "y", 8), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [30, 0, 2**29, -(2**31) + 3])
def test_loops_in_loops_over_scalars_and_under_conditions(n: int) -> None:
    made = run("halved", 4, {"n": n})
    for row in range(4):
        steps = powers = 0
        left = n + row if row != 1 else 0
        while left > 1:
            left, steps, power = left // 2, steps + 1, 1
            while power < left:
                power, powers = power * 3, powers + 1
        assert np.array_equal(rows(made, "y", 4)[row], np.arange(128) * powers + steps)


def test_a_loop_over_scalars_is_read_back_from_text() -> None:
    for name in ("searched", "chained", "halved"):
        written = program_text(emission(name).program.program)
        assert "scalar_loop" in written
        assert program_text(parse(written)) == written


def hastily(stmt: Stmt) -> Stmt:
    """A loop over scalars whose last scalar begins as what it was behind its first turn."""
    if isinstance(stmt, ScalarLoop):
        return replace(stmt, yields=(stmt.yields[-2], *stmt.yields[1:])) if len(stmt.yields) > 2 else stmt
    return with_blocks(stmt, lambda block: map(hastily, block))


def test_a_wrong_loop_over_scalars_is_found() -> None:
    made = emission("searched").program
    assert verify(made, enough=1) == ()
    groups = tuple(replace(group, body=tuple(map(hastily, group.body))) for group in made.groups)
    assert groups != made.groups
    assert verify(replace(made, groups=groups), enough=1)


def test_a_loop_that_never_ends_is_an_error_and_no_wait() -> None:
    always = ScalarRegion((0,), (), (), (), 0, (), (), (), (), ((0, "i1"),))
    with pytest.raises(Endless):
        always.run([True], lambda op, operands, elements: operands)


def test_numbers_that_decide_on_a_loop_are_asked_for() -> None:
    made = emission("searched").program
    with pytest.raises(UnknownProblem, match="looks numbers up in `starts`"):
        verify(replace(made, program=replace(made.program, file="nowhere.py")))


def test_modules_of_gluon_have_no_such_loop() -> None:
    with pytest.raises(NotInGluon, match="no `while` loops"):
        refuse_at_once(emission("searched").program.program, "sm_90a")


HEAD = "@triton.jit\ndef k(p, x, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
REFUSED = {
    "a condition on tiles": (
        """
    t = tl.load(x + i)
    while tl.sum(t) > 1.0:
        t = t * 0.5
    tl.store(x + i, t)
""",
        DataDependentControlFlow,
        8,
    ),
    "numbers that the kernel writes": (
        """
    s = 0
    while tl.load(p + s) > 0:
        s += 2 - s % 2
    tl.store(p + s, 0)
    tl.store(x + i, s.to(tl.float32) + i)
""",
        UnsupportedInKernel,
        8,
    ),
    "a search in every iteration": (
        """
    t = tl.zeros([B], tl.float32)
    for g in range(n):
        s = g
        while s * s < n:
            s = s * 2 + 1
        t += tl.load(x + s * B + i)
    tl.store(x + i, t)
""",
        UnsupportedInKernel,
        10,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_known_ahead_is_refused(kernel_file: Callable[..., str], name: str) -> None:
    body, error, line = REFUSED[name]
    with pytest.raises(error) as refused:
        made = extract(f"{kernel_file(HEAD + body)}::k", sig=["p=*i32", "x=*fp32:16", "n=i32"], const=["B=128"])
        refuse_unemittable(made.program)
    assert refused.value.line == line, refused.value.describe()


def test_what_a_loop_leaves_has_a_name() -> None:
    made = emission("searched").program
    lets = [stmt for group in made.groups for stmt in group.body if isinstance(stmt, Let | ScalarLoop)]
    assert any(isinstance(stmt, ScalarLoop) and stmt.line == 13 for stmt in lets)
