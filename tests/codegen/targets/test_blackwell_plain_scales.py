"""Promises of scales [rows, blocks along K] for the B200: threads load them, and what is wrong with them is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests import blackwell
from tests.blackwell import PLAIN, PLAIN_NVFP4, PLAIN_WIDE
from tests.codegen.targets.test_blackwell import changed, instead
from tests.golden_schedules import Example, kernel
from twill import exc
from twill.cli import main
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")


@pytest.mark.parametrize("example", [PLAIN, PLAIN_WIDE, PLAIN_NVFP4], ids=["mxfp8", "mxfp8-wide", "nvfp4"])
def test_threads_of_a_group_of_their_own_put_plain_scales_into_chunks(example: Example) -> None:
    made = blackwell.compiled(example)
    roles = {group.role: [type(stmt) for stmt in group.stmts] for group in made.program.groups}
    (loader,) = (role for role, kinds in roles.items() if ir.StoreScales in kinds)
    assert [group.threads for group in made.program.groups] == [128, 128, 32, 32]
    assert loader != "epilogue" and ir.LoadGlobal in roles[loader] and ir.ProxyFence in roles[loader]
    assert ir.LoadAccumulator in roles["epilogue"] and ir.CopyScales in roles["mma"]
    rings = [ring for ring in made.program.arefs if ring.transport == "registers"]
    assert len(rings) == 2 and all(ring.full_count == 4 and len(ring.buffers) == 2 for ring in rings)
    assert parse(text(made.program), made.program.program) == made.program
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


def test_scales_of_the_next_iteration_are_on_their_way_while_those_of_this_one_are_stored() -> None:
    loader = next(group for group in blackwell.lowered(PLAIN).groups if any(map(stores_scales, group.stmts)))
    (loop,) = (stmt for stmt in loader.stmts if isinstance(stmt, ir.Pipeline))
    kinds = [type(stmt) for stmt in loop.steady]
    assert kinds.index(ir.LoadGlobal) < kinds.index(ir.Acquire) < kinds.index(ir.StoreScales)
    assert any(isinstance(stmt, ir.LoadGlobal) for block in loop.prologue for stmt in block)


def stores_scales(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.StoreScales)


@pytest.mark.parametrize("inner", [4, 16])
def test_plain_scales_of_a_descriptor_are_loaded_by_threads(inner: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of 16 bytes are enough for the TMA, which puts them where no copy to tensor memory takes them from."""
    k = 32 * inner
    types = {"a": f"fp8e4nv[128,{k}]", "b": f"fp8e4nv[128,{k}]", "c": "bf16[128,128]",
             **dict.fromkeys(("sa", "sb"), f"u8[128,{inner}]")}  # fmt: skip
    given = [word for name, kind in types.items() for word in ("--sig", f"{name}=tensordesc<{kind}>")]
    sizes = ["--sig", "K=i32", "--const", "BM=128", "--const", "BN=128", "--const", f"BK={k}", "--machine", "b200"]
    assert main(["emit", "tests/pair_kernels.py::scaled", *given, *sizes, "--no-store", "--execute"]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


def test_pairs_of_ctas_that_load_plain_scales_are_refused() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="`of_a` is loaded by threads, in each CTA by its own"):
        blackwell.lowered(PLAIN, 2)


@pytest.mark.parametrize(("rows", "k", "held"), [(64, 128, "64 rows and 4"), (128, 64, "128 rows and 2")])
def test_plain_scales_of_less_than_a_chunk_are_refused(
    rows: int, k: int, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    types = [f"--sig=a_desc=tensordesc<fp8e4nv[128,{k}]>", f"--sig=b_desc=tensordesc<fp8e4nv[{rows},{k}]>",
             f"--sig=c_desc=tensordesc<bf16[128,{rows}]>", f"--const=BLOCK_N={rows}",
             f"--const=BLOCK_K={k}"]  # fmt: skip
    given = [PLAIN.file, "--spec", PLAIN.spec, "--machine", "b200", "--no-store", *types]
    assert main(["emit", *given, "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(rf"format_kernels\.py:\d+: `acc` has scales of {held} blocks along K", found)
    assert "a copy to tensor memory has 128 and 4" in found


def test_scales_that_other_work_reads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    types = {
        "a": "fp8e4nv[128,128]",
        "b": "fp8e4nv[128,128]",
        "c": "bf16[128,128]",
        "sa": "u8[128,4]",
        "sb": "u8[128,4]",
    }
    given = [word for name, kind in types.items() for word in ("--sig", f"{name}=tensordesc<{kind}>")]
    sizes = ["--sig", "K=i32", "--const", "BM=128", "--const", "BN=128", "--const", "BK=128", "--machine", "b200"]
    assert main(["emit", "tests/format_kernels.py::computed_scales", *given, *sizes, "--no-store", "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(r"format_kernels\.py:\d+: the scales of `acc` are not loaded as the tensor core has them", found)


def loader_without(kind: type[ir.Stmt]) -> Callable[[ir.WarpProgram], ir.WarpProgram]:
    def fault(program: ir.WarpProgram) -> ir.WarpProgram:
        role = next(group.role for group in program.groups if any(map(stores_scales, group.stmts)))
        return changed(program, role, instead(kind, lambda stmt: None))

    return fault


def from_the_first_slot(program: ir.WarpProgram) -> ir.WarpProgram:
    def first(stmt: ir.Stmt) -> ir.Stmt:
        assert isinstance(stmt, ir.StoreScales)
        return replace(stmt, target=replace(stmt.target, cursor=None))

    role = next(group.role for group in program.groups if any(map(stores_scales, group.stmts)))
    return changed(program, role, instead(ir.StoreScales, first))


PLAIN_FAULTS: dict[str, tuple[Callable[[ir.WarpProgram], ir.WarpProgram], str]] = {
    "no scales are stored": (loader_without(ir.StoreScales), "values"),
    "there is no fence of proxies": (loader_without(ir.ProxyFence), "proxy-fence"),
    "slots are not waited for": (loader_without(ir.Acquire), "phase"),
    "all scales go to the first slot": (from_the_first_slot, "order"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN_FAULTS)
def test_a_fault_with_plain_scales_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = PLAIN_FAULTS[name]
    found = verify(fault(blackwell.lowered(PLAIN)), problem_of(kernel(PLAIN).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


PLACE = r"scale_place<4>\(tile, (\(.*?\)), (\(.*?\))\), Vector<i8, 4>\{\{(.*?), (.*?), "
PLAIN_PRINTED = {
    "rows are those 32 further on": (PLACE, r"scale_place<4>(tile, (\1 + 32) % 128, \2), Vector<i8, 4>{{\3, \4, "),
    "neighbouring rows change places": (PLACE, r"scale_place<4>(tile, \1 ^ 1, \2), Vector<i8, 4>{{\3, \4, "),
    "blocks along K change places": (PLACE, r"scale_place<4>(tile, \1, \2), Vector<i8, 4>{{\4, \3, "),
    "there is no fence of proxies": (r"fence_proxy_async\(\);", ""),
    "one warp does not store": (r"write_shared\(scale_place", r"if (thread / 32 != 2) write_shared(scale_place"),
}  # fmt: skip
"""Seeded into the CUDA text, which is compiled again."""


@pytest.mark.parametrize("name", PLAIN_PRINTED)
def test_a_fault_of_printed_plain_scales_is_found_by_the_executor(name: str) -> None:
    made, (right, wrong) = blackwell.compiled(PLAIN), PLAIN_PRINTED[name]
    cuda, changes = re.subn(right, wrong, made.printed.text)
    assert changes
    found = compile_cubin(cuda, made.manifest.architecture, lines=None)
    problem = problem_of(kernel(PLAIN).specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case({"M": 128, "N": 128, "K": 272}), data="normal")
    assert execute.verified(found.ptx, made.manifest, made.program, given, 2).said()
