"""Promises of operands that threads load for products in tensor memory, and what is wrong with them is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests import blackwell
from tests.blackwell import BY_THREADS
from tests.codegen.targets.test_blackwell import changed, instead, without
from tests.golden_schedules import kernel
from twill import exc
from twill.cli import main
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.kernel.specialization import problem_of
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

SIZES = {"M": 135, "N": 131, "K": 397}  # two tiles along each axis, the last one ragged, rows at odd distances


def said(change: Callable[[str], str] = str) -> list[str]:
    made, problem = blackwell.compiled(BY_THREADS), problem_of(kernel(BY_THREADS).specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case(SIZES), data="normal")
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given, 2).said()


def test_operands_that_threads_load_are_multiplied() -> None:
    made = blackwell.compiled(BY_THREADS)
    rings = [ring for ring in made.program.arefs if ring.transport == "registers"]
    assert len(rings) == 2 and all(ring.full_count == 4 and ring.depth * 64 < SIZES["K"] for ring in rings)
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)
    assert said() == []


def test_gathered_rows_of_a_mixture_of_experts_are_multiplied(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["tests/gather_kernels.py", "--spec", "routed_gemm", "--machine", "b200", "--no-store", "--execute"]
    assert main(["emit", *given]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


def loaders(change: Callable[[ir.Stmt], ir.Stmt | None], kind: type[ir.Stmt]) -> ir.WarpProgram:
    program = blackwell.lowered(BY_THREADS)
    for group in program.groups:
        if any(isinstance(stmt, ir.LoadGlobal) for stmt in group.stmts):
            program = changed(program, group.role, instead(kind, change))
    return program


def first_slot(stmt: ir.Stmt) -> ir.Stmt:
    assert isinstance(stmt, ir.StoreShared)
    return replace(stmt, target=replace(stmt.target, cursor=None))


FAULTS: dict[str, tuple[Callable[[ir.Stmt], ir.Stmt | None], type[ir.Stmt], str]] = {
    "no tile is stored": (lambda stmt: None, ir.StoreShared, "values"),
    "there is no fence of proxies": (lambda stmt: None, ir.ProxyFence, "proxy-fence"),
    "slots are not waited for": (lambda stmt: None, ir.Acquire, "phase"),
    "all tiles go to the first slot": (first_slot, ir.StoreShared, "order"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_with_them_is_found_by_the_abstract_machine(name: str) -> None:
    change, kind, rule = FAULTS[name]
    found = verify(loaders(change, kind), problem_of(kernel(BY_THREADS).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


def test_a_missing_fence_of_proxies_is_found_by_the_executor() -> None:
    assert said(without(r"fence\.proxy\.async\.shared"))


def test_pairs_of_ctas_whose_operands_threads_load_are_refused() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="`x` is loaded by threads, in each CTA by its own"):
        blackwell.lowered(BY_THREADS, 2)


def test_what_threads_load_is_multiplied_and_summed_by_others(capsys: pytest.CaptureFixture[str]) -> None:
    types = [
        *(f"--sig={name}=*bf16" for name in "abc"),
        *(f"--sig={name}=i32" for name in ["M", "N", "K", "sa", "sb", "sc"]),
    ]
    sizes = ["--const=BM=128", "--const=BN=64", "--const=BK=64", "--machine=b200", "--no-store"]
    assert main(["emit", "tests/format_kernels.py::summed_by_threads", *types, *sizes, "--execute"]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


NIBBLES = """
@triton.jit
def k(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        d = i + tl.arange(0, BK)
        left = tl.load(x + m[:, None] * K + d[None, :], mask=m[:, None] < M, other=0.0)
        packed = tl.load(w + (d // 2)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
        of = tl.load(s + (i // GROUP) * N + n, mask=n < N, other=0.0)
        half = (packed >> ((d % 2) * 4)[:, None]) & 0xF
        acc = tl.dot(left, ((half.to(tl.float32) - 8.0) * of[None, :]).to(tl.bfloat16), acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))
"""


def test_weights_of_four_bits_are_loaded_by_threads_and_unpacked_by_others(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two neighbours along K share a byte: no copy of the TMA brings it twice."""
    types = ["x=*bf16:16", "w=*i8:16", "s=*fp32:16", "y=*bf16:16", "M=i32", "N=i32:16", "K=i32:16"]
    sizes = ["BM=128", "BN=64", "BK=64", "GROUP=64"]
    given = [*(f"--sig={one}" for one in types), *(f"--const={one}" for one in sizes)]
    asked = ["--machine=b200", "--no-store", "--execute", "--strategy=heuristic"]
    assert main(["emit", f"{kernel_file(NIBBLES)}::k", *given, *asked]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out
