"""Promises of products of two CTAs: the first issues them for both, each with its rows of A and half of B's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests import blackwell
from tests.blackwell import DUAL, GELU, GEMM, WIDE
from tests.codegen.targets.test_blackwell import changed, instead, other, without
from tests.conftest import ROOT
from tests.golden_schedules import Example, kernel
from twill import exc
from twill.cli import main
from twill.codegen.passes.cluster import FIRST
from twill.codegen.verify.abstract.inputs import LARGE, launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Local, Number
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

ALONG_K = Example("tests/pair_kernels.py", "bf16")
ALONG_K_FP8 = Example("tests/pair_kernels.py", "e4m3")
DIAGONAL = Example("tests/pair_kernels.py", "diagonal")
HELD = Example("tests/pair_kernels.py", "held")
UNMASKED = Example("tests/pair_kernels.py", "unmasked")

# Pairs of which the second instance is missing, ragged edges, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    GELU: {"M": 272, "N": 144, "K": 592},
    GEMM: {"M": 272, "N": 144, "K": 136},  # of its three pairs one does not multiply by one B
    WIDE: {"M": 16, "N": 16, "K": 336},
    ALONG_K: {"M": 144, "N": 104, "K": 528},
    ALONG_K_FP8: {"M": 8, "N": 272, "K": 656},
    HELD: {"M": 400, "N": 64, "K": 64},
    DUAL: {"M": 144, "N": 16, "K": 336},
    UNMASKED: {"M": 384, "N": 64, "K": 192},  # three instances in two pairs, and nothing says where rows end
}


def said(example: Example, sizes: Mapping[str, int], change: Callable[[str], str] = str) -> list[str]:
    made, problem = blackwell.compiled(example, 2), problem_of(kernel(example).specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case(dict(sizes)), scale=LARGE, data="normal")
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given, 2).said()


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_two_ctas_multiply_together(example: Example) -> None:
    assert said(example, SIZES[example]) == []


def test_each_cta_has_its_rows_of_a_and_half_of_the_columns_of_b() -> None:
    made = blackwell.compiled(GELU, 2)
    shapes = {buffer.name: buffer.shape for buffer in made.program.buffers}
    assert (shapes["a"], shapes["b"], shapes["acc"]) == ((128, 64), (64, 64), (128, 128))
    assert "tcgen05.mma.cta_group::2.kind::f16" in made.build.ptx and "cta_group::1" not in made.build.ptx
    assert made.manifest.cluster == 2 and made.program.pairs
    assert parse(text(made.program), made.program.program) == made.program


def test_where_the_second_instance_is_missing_no_tile_beyond_the_grid_is_asked_for() -> None:
    """Nothing but the grid bounds such a kernel's rows."""
    program = blackwell.lowered(UNMASKED, 2)
    assert all(None in entry.sizes for entry in program.maps)
    rows = {line.strip() for line in text(program).splitlines() if line.strip().startswith("program_id 0 =")}
    assert rows == {"program_id 0 = min((pair + cta), (num_programs(0) - 1))"}


# ---------------------------------------------------------------- what is wrong is found


def broken(example: Example, program: ir.WarpProgram) -> set[str]:
    return {violation.rule for violation in verify(program, problem_of(kernel(example).specialization))}


def half_as_many(stmt: ir.Stmt) -> ir.Stmt:
    return replace(stmt, bytes=stmt.bytes // 2) if isinstance(stmt, ir.Expect) else stmt


def first_half(stmt: ir.Stmt) -> ir.Stmt:
    """B's columns of the first CTA."""
    assert isinstance(stmt, ir.TmaLoad)
    both = (one.operands[0] if isinstance(one, Apply) and "'cta'" in str(one) else one for one in stmt.coordinates)
    return replace(stmt, coordinates=tuple(both))


def unconditional(stmt: ir.Stmt) -> ir.Stmt:
    mine = isinstance(stmt, ir.If) and stmt.condition == FIRST
    return replace(stmt, condition=Number(1, "i1")) if mine else stmt  # type: ignore[call-arg]


def rings(program: ir.WarpProgram, **changes: object) -> ir.WarpProgram:
    arefs = tuple(replace(r, **changes) if r.transport == "mma" else r for r in program.arefs)  # type: ignore[arg-type]
    return replace(program, arefs=arefs)


def meeting(program: ir.WarpProgram, **changes: bool) -> ir.WarpProgram:
    assert program.cluster is not None
    return replace(program, cluster=replace(program.cluster, **changes))  # type: ignore[arg-type]


FAULTS: dict[str, tuple[Callable[[ir.WarpProgram], ir.WarpProgram], str]] = {
    "the bytes of one CTA are expected": (lambda p: changed(p, "load", half_as_many), "bytes"),
    "both load the first half of B": (lambda p: changed(p, "load", instead(ir.TmaLoad, first_half)), "values"),
    "both expect the bytes": (lambda p: changed(p, "load", unconditional), "phase"),
    "both multiply": (lambda p: changed(p, "mma", unconditional), "deadlock"),
    "the second accumulator is not waited for": (lambda p: rings(p, empty_count=4), "counts"),
    "accumulators are those of each CTA": (lambda p: rings(p, pair=False, empty_count=4), "layout"),
    "nobody waits until both have begun": (lambda p: meeting(p, meets_first=False), "cluster"),
    "a CTA ends before the other": (lambda p: meeting(p, meets_last=False), "cluster"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_pair_is_found_by_the_abstract_machine(name: str) -> None:
    change, rule = FAULTS[name]
    found = broken(GELU, change(blackwell.lowered(GELU, 2)))
    assert rule in found, found


def test_an_arrival_behind_products_that_comes_when_its_cta_has_ended_is_found() -> None:
    program = blackwell.lowered(HELD, 2)
    assert broken(HELD, program) == set()
    assert "cluster" in broken(HELD, replace(program, groups=tuple(replace(g, finish=()) for g in program.groups)))


def test_instances_that_do_not_multiply_by_one_tile_each_have_a_turn() -> None:
    program = blackwell.lowered(GEMM, 2)
    assert parse(text(program), program.program) == program
    assert broken(GEMM, program) == set()

    def first_turn(group: ir.WarpGroup) -> ir.WarpGroup:
        assert group.loop is not None
        return replace(group, loop=replace(group.loop, end=Local("instances", "u32")))

    assert broken(GEMM, replace(program, groups=tuple(map(first_turn, program.groups)))) == {"values"}


PRINTED = {
    "bytes count on the barrier of each CTA": other(r"-16777224", "-8"),
    "the instruction has the rows of one CTA": other(r"\b270599312\b", "136381584"),
    "slots go back to the first CTA alone": other(r"(mov\.b16\s+%rs\d+), 3;", r"\1, 1;"),
    "the CTAs do not meet before they allocate": without(r"barrier\.cluster\.wait"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_fault_of_the_printer_in_a_pair_is_found_by_the_executor(name: str) -> None:
    assert said(GELU, {"M": 200, "N": 16, "K": 336}, PRINTED[name])


# ---------------------------------------------------------------- what is refused


def test_pairs_are_asked_for_by_their_size_and_have_a_static_order(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["emit", str(ROOT / GELU.file), "--machine", "b200", "--no-store", "--cluster", "2"]
    assert main([*asked, "--execute"]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out
    assert main([*asked, "--order", "dynamic", "--ir"]) == 2
    assert "clusters have a static order of program instances" in capsys.readouterr().err


def test_what_two_ctas_cannot_multiply_together_is_refused() -> None:
    with pytest.raises(exc.UnsupportedInKernel) as raised:
        blackwell.lowered(DIAGONAL, 2)
    assert "along axis 0: its address is another one" in str(raised.value)
    assert "row = tl.program_id(0) * BLOCK_M" in raised.value.hint
