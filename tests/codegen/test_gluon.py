"""Modules of Gluon: Triton compiles them, what it makes of them computes what the kernel says, an edit that makes them
wrong is found, and what can't be said is refused with its reason."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests import module_edits
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from tests.module_edits import SmallGemm, edited, written
from twill.cli import codes
from twill.cli.entry import main
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.compile.gluon.triton import load
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import MANIFEST, MOST_LOCAL, GluonEmission, compile_module, emit_gluon, lowerings, signature_of
from twill.codegen.gluon_manifest import gluon_manifest
from twill.codegen.gluon_sharing import with_shared_tiles
from twill.codegen.print.gluon.facts import ModuleFact
from twill.codegen.print.gluon.module import print_gluon
from twill.codegen.print.gluon.sayable import UNSAID
from twill.codegen.verify.abstract.coverage import three
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.warp.expression import Apply, Number, Symbol
from twill.codegen.warp.program import If, Multiply, Stmt, WarpProgram, with_blocks
from twill.exc import ExecutionDiffers, GluonSpills, NotInGluon
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import problem_of
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.execute import argument, bind, count, smallest, wrapping
from twill.trial.gluon import checked, passed, recorded

SMALL = SmallGemm("h100", 64, 64, 64)
MOST_LINES = 250
WIDEST = 120
MODULES = {
    "gemm": ("gemm", "bf16"), "gelu": ("gemm_bias_gelu", "bf16"), "attention": ("attention", "full"),
    "dual_gemm_h200": ("dual_gemm", "bf16"),  # a product is unfinished from one iteration to the next
    "gemm_shared": ("gemm", "bf16"),  # two partitions have half of the rows of a tile each
    "fp8": ("gemm_fp8", "e4m3"),
}  # fmt: skip


def solved(graph: DependenceGraph, machine: Machine) -> Schedule:
    return solve(graph, machine, SolveOptions(fuse=False))


@cache
def extracted(kernel: str, spec: str) -> Extracted:
    return extract(str(ROOT / "examples" / f"{kernel}.py"), spec, (), (), Allowed(conditional=False))


@cache
def emitted(name: str) -> GluonEmission:
    if name == "small":
        return module_edits.emitted(SMALL)
    machine = load_machine("h200") if name.endswith("h200") else H100
    return emit_gluon(extracted(*MODULES[name]), machine, shared if name.endswith("shared") else solved)


def shared(graph: DependenceGraph, machine: Machine) -> Schedule:
    """As `twill emit` solves it."""

    def again(blocks: int, pins: tuple[str, ...]) -> Schedule:
        return solve(graph, machine, SolveOptions(fuse=False, blocks=blocks, pins=pins))

    return with_shared_tiles(solved(graph, machine), machine, again)


@pytest.mark.parametrize("name", MODULES)
def test_the_module_is_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    path, text = GOLDEN / f"gluon_{name}.txt", emitted(name).module.text
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_what_triton_makes_of_it_computes_what_the_kernel_says(name: str) -> None:
    said = checked(emitted(name), extracted(*MODULES[name]).specialization)
    assert "equal to the tile program, nothing found" in said


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_and_every_function_of_it_says_what_it_is(name: str) -> None:
    text = emitted(name).module.text
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= WIDEST
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    assert ast.get_docstring(tree) and all(ast.get_docstring(function) for function in functions)


EDITS = {
    "a parity": ("count // self.slots & 1)\n", "count // self.slots & 1 ^ 1)\n"),
    "arrivals of readers": ("SWIZZLED_128), full=1, empty=1)", "SWIZZLED_128), full=1, empty=2)"),
    "arrivals of writers": ("SWIZZLED_128), full=1, empty=1)", "SWIZZLED_128), full=2, empty=1)"),
    "expected bytes": ("a_ring.expect(a_b_count, 8192)", "a_ring.expect(a_b_count, 4096)"),
    "a wait": ("acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))", "pass"),
    "an index": ("512 * first_m, 64 * (pid % tiles_in_group", "512 * first_m, 32 * (pid % tiles_in_group"),
    "the turn of a group": ("named_barrier_arrive(NEXT_TURN, 256)  # the turn", "pass  # the turn"),
}
"""What is edited, in the module of small tiles or in the file that modules share."""


def test_a_module_of_small_tiles_computes_what_the_kernel_says() -> None:
    assert "nothing found" in checked(module_edits.emitted(SMALL), module_edits.extracted(SMALL).specialization)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_that_makes_the_module_wrong_is_found(edit: str, tmp_path: Path) -> None:
    wrong = edited(module_edits.emitted(SMALL), *EDITS[edit], tmp_path)
    with pytest.raises(ExecutionDiffers):
        checked(wrong, module_edits.extracted(SMALL).specialization)


CONDITION = Apply("compare", (Number(3), Symbol(0, "K", "i32")), "i1", (("predicate", "lt"), ("signed", 1)))


def test_a_product_that_is_unfinished_behind_the_condition_under_which_it_is_begun_is_refused() -> None:
    """A variable of Gluon is an accumulator in flight or a tensor, and not one or the other behind a branch."""
    right, kernel = emitted("gemm"), extracted(*MODULES["gemm"])

    def guarded(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made = (with_blocks(stmt, guarded) for stmt in block)
        return tuple(If(CONDITION, (stmt,)) if isinstance(stmt, Multiply) else stmt for stmt in made)

    groups = tuple(replace(group, body=guarded(group.body)) for group in right.program.groups)
    with pytest.raises(NotInGluon, match="`acc` are begun under a condition and unfinished behind it"):
        print_gluon(replace(right.program, groups=groups), kernel.specialization, right.schedule)


def test_a_partition_that_multiplies_the_rows_of_another_one_is_found(tmp_path: Path) -> None:
    """Whose barriers are those of its own: only numbers tell them apart, and only where a tile has rows for both."""
    right, kernel = emitted("gemm_shared"), extracted(*MODULES["gemm_shared"])
    rings = "instances, a_1_ring, b_ring, staging_1"
    wrong = edited(right, rings, rings.replace("a_1", "a_0"), tmp_path)
    assert not differences(wrong.module.text, wrong.compiled.ptx, right.module.facts)
    with pytest.raises(ExecutionDiffers, match="c_desc differs"):
        checked(wrong, kernel.specialization)


def test_a_tile_that_is_no_power_of_two_is_refused_with_its_name() -> None:
    with pytest.raises(NotInGluon, match="64 x 192") as refused:
        emit_gluon(extracted("gemm", "bf16-192"), H100, solved)
    assert "--as cuda" in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["attention_causal", "dual_gemm_bf16", "linear_attention_bf16"])
def test_a_module_is_as_it_was_and_as_ruff_formats_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(ROOT)
    example = next(one for one in examples() if one.name == name)
    kernel = extract(example.file, example.spec, (), (), Allowed(conditional=False))
    found = schedule(example)
    module = tmp_path / "module.py"
    program = next(lowerings(kernel.wired, found, H100))
    text = print_gluon(program, kernel.specialization, found).text
    module.write_text(text, encoding="utf-8")
    golden = GOLDEN / f"gluon_{name}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES and max(map(len, text.splitlines())) <= WIDEST
    ruff, options = (sys.executable, "-m", "ruff"), ("--isolated", "--line-length", "120", module)
    for asked in (("format", "--diff"), ("check", "--select", "E,F,I")):
        done = subprocess.run((*ruff, *asked, *options), capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr


READ = """
@gluon.jit
def role(desc, ring):
    named_barrier_sync(8, 256)
    ring.load(desc, [0, 0], 0)
""".lstrip()
PTX = {
    "Triton 3.6": """
        .loc 2 4 71 // twill_gluon.py:4:71 @[ kernel.py:3:40 @[ kernel.py:137 ] ]
        // begin inline asm
        bar.sync 8, 256; mov.u32 %r1, 0;
        // end inline asm
        .loc 1 3 39 // kernel.py:3:39 @[ kernel.py:137 ]
        mov.b32 %r1, 0;
        .loc 2 9 39 // twill_gluon.py:9:39 @[ kernel.py:4:5 @[ kernel.py:137 ] ]
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%r2, {%r3, %r4}], [%r5];""",
    "Triton 3.9": """
        .loc 2 4 5, function_name $L__info_string0, inlined_at 1 3 9 // twill_gluon.py:4:5
        // begin inline asm
        bar.sync 8, 256; mov.u32 %r1, 0;
        // end inline asm
        .loc 2 9 9, function_name $L__info_string0, inlined_at 1 4 5 // twill_gluon.py:9:9
        cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%r2, {%r3, %r4}], [%r5];""",
}
OWN = """
@gluon.jit
def named_barrier_sync(barrier: gl.constexpr, threads: gl.constexpr):
    gl.inline_asm_elementwise("", "=r,r", [threads], gl.int32, False, 1)


"""


@pytest.mark.parametrize("version", PTX)
def test_a_fact_of_a_shared_function_stands_in_the_line_that_calls_it(version: str) -> None:
    facts = [ModuleFact(3, "named barrier: sync 8, 256"), ModuleFact(4, "copy into shared memory")]
    assert differences(READ, PTX[version], facts) == []
    without = differences(READ, PTX[version], [])
    assert [(one.line, one.found) for one in without] == [(one.line, one.said) for one in facts]


@pytest.mark.parametrize("version", PTX)
def test_so_it_does_if_somebody_brought_the_function_into_the_module(version: str) -> None:
    lines = OWN.count("\n")
    ptx = PTX[version].replace("loc 2 4 ", "loc 1 4 ").replace("twill_gluon.py:4", "kernel.py:4")
    ptx = ptx.replace("inlined_at 1 3", f"inlined_at 1 {3 + lines}").replace("kernel.py:3:", f"kernel.py:{3 + lines}:")
    found = [(one.line, one.found) for one in differences(OWN + READ, ptx, [])]
    assert (3 + lines, "named barrier: sync 8, 256") in found


def test_an_accumulator_in_flight_between_iterations_is_named_by_the_wait_of_the_next_one() -> None:
    text = emitted("dual_gemm_h200").module.text
    begun = text.index("gate = warpgroup_mma_init(gate)  # in flight from one iteration to the next")
    loop = text[text.index("for step in range(steps):", begun) :]
    waited, product = (
        loop.index(f"gate = {said}") for said in ("warpgroup_mma_wait(num_outstanding=1", "warpgroup_mma(")
    )
    assert waited < product < loop.index("gate = warpgroup_mma_wait(num_outstanding=0")


STATIC = {
    "a parity": ("small", *EDITS["a parity"], "mbarrier.wait"),
    "a slot": ("small", "a_ring.release(a_b_done)", "a_ring.release(a_b_done + 1)", "mbarrier.arrive: a_ring.empty"),
    "arrivals": ("small", *EDITS["arrivals of readers"], "mbarrier.init: 1 arrivals"),
    "expected bytes": ("small", *EDITS["expected bytes"], "mbarrier.expect: 8192 bytes"),
    "a wait that is gone": ("small", *EDITS["a wait"], "warpgroup_mma_wait: 0 products"),
    "a depth of waiting": ("attention", "num_outstanding=1", "num_outstanding=0", "warpgroup_mma_wait: 1 products"),
    "a depth of waiting, of fp8": ("fp8", "num_outstanding=1", "num_outstanding=2", "warpgroup_mma_wait: 1 products"),
    "the number of a barrier": ("small", "staging_1, 1, 8, 9", "staging_1, 1, 8, 10", "named barrier: sync 9, 256"),
    "threads of a barrier": ("small", "named_barrier_sync(OWN_TURN, 256)  # the turn of",
                             "named_barrier_sync(OWN_TURN, 128)  # the turn of", "named barrier: sync 8, 256"),
    "a fence behind reads": ("attention", "fence_async_shared()\n        q_ring.release(q_count)",
                             "pass\n        q_ring.release(q_count)", "async proxy fence"),
    "a budget": ("small", "[232, 40],", "[224, 40],",
                 "warp_specialize: registers of the partitions behind the first: 232, 40"),
}  # fmt: skip


@pytest.mark.parametrize("edit", STATIC)
def test_an_edit_is_found_in_its_line_by_reading_the_ptx_back(
    edit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, before, after, expected = STATIC[edit]
    path, files = tmp_path / emitted(name).name, emitted(name).files()
    of = files[written(files, before, after, tmp_path)]
    place = of[: of.index(before)].count("\n") + 1
    assert main(["check", "--gluon", str(path)]) == codes.NOT_GOOD
    said = capsys.readouterr().out
    assert f"expected {expected}" in said
    first = said.splitlines()[0]
    line = int(first.removeprefix(f"{path}:").partition(":")[0])
    gone = ("a parity", "a wait that is gone", "the number of a barrier", "a fence behind reads")
    assert edit in gone or line == place


def test_a_fence_that_triton_places_by_itself_is_no_difference(tmp_path: Path) -> None:
    """In front of a copy out of shared memory; it stands in the copy's line then."""
    right = module_edits.emitted(SMALL)
    made = edited(right, "fence_async_shared()\n        tma_store", "pass\n        tma_store", tmp_path)
    assert "fence.proxy.async" in made.compiled.ptx
    assert differences(made.module.text, made.compiled.ptx, right.module.facts) == []


def test_a_module_with_other_names_and_comments_is_still_what_its_schedule_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written("small", tmp_path)
    before = path.read_text(encoding="utf-8")
    text = before.replace("first_m", "first_row").replace("import gluon\n", "import gluon\n\n")
    text = text.replace("a_ring", "tiles_of_a").replace(
        "acc.to(gl.bfloat16)", "acc.to(\n            gl.bfloat16,\n        )"
    )
    assert text.count("\n") > before.count("\n")
    path.write_text(text, encoding="utf-8")
    assert main(["check", "--gluon", str(path)]) == codes.SOLVED
    assert "edited, and what the schedule of gemm asks for" in capsys.readouterr().out


def test_a_module_without_what_was_emitted_with_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written("gemm", tmp_path)
    (tmp_path / "gluon.json").unlink()
    assert main(["check", "--gluon", str(path)]) == codes.BAD_INPUT
    assert "gluon.json" in capsys.readouterr().err


def _written(name: str, folder: Path) -> Path:
    for file, content in emitted(name).files().items():
        (folder / file).write_text(content, encoding="utf-8")
    return folder / emitted(name).name


def test_what_a_module_keeps_in_local_memory_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = emitted("attention")
    path = tmp_path / right.name
    path.write_text(right.module.text.replace("[232, 40],", "[24, 240],"), encoding="utf-8")
    starved = compile_module(path, right.module.entry, right.signature, right.asked)
    assert right.compiled.local < MOST_LOCAL < starved.local
    (tmp_path / MANIFEST).write_text(right.manifest(), encoding="utf-8")
    assert main(["check", "--gluon", str(path)]) == codes.NOT_GOOD
    assert f"at most {MOST_LOCAL} bytes a thread in local memory, found {starved.local}" in capsys.readouterr().out


def whole_tiles() -> Machine:
    """The H100 with shallower rings, which leave room to store all columns of a tile at a time."""
    return H100.model_copy(update={"emission": H100.emitting.model_copy(update={"multiplying": None})})


def with_long_error_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kernel has it whose results are wider: the registers do not hold GELU of a whole tile."""
    monkeypatch.setattr("twill.codegen.gluon.UNSAID", (*UNSAID, "erf-tails"))


def test_a_module_whose_registers_do_not_hold_its_epilogue_has_it_in_parts_of_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = emit_gluon(extracted(*MODULES["gelu"]), whole_tiles(), solved)
    assert "scaled_erfc(" in short.module.text and "column_halves" not in short.module.text
    with_long_error_function(monkeypatch)
    made = emit_gluon(extracted(*MODULES["gelu"]), whole_tiles(), solved)
    assert made.compiled.local == 0 and "left, right = column_halves(acc, MMA_64)" in made.module.text


def test_a_module_that_spills_is_refused_with_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    with_long_error_function(monkeypatch)
    monkeypatch.setattr("twill.codegen.gluon.ATTEMPTS", 1)
    with pytest.raises(GluonSpills, match=r"keeps \d{3} bytes a thread .* more than 64") as refused:
        emit_gluon(extracted(*MODULES["gelu"]), whole_tiles(), solved)
    assert "--blocks" in (refused.value.hint or "")


def launches_of(program: WarpProgram, kernel: Extracted) -> tuple[CheckedLaunch, ...]:
    problem = problem_of(kernel.specialization)
    return (wrapping(program, problem), smallest(program, problem))


@pytest.mark.parametrize("name", ["gemm", "attention", "causal"])
def test_the_runtime_passes_what_the_module_s_launcher_passes(name: str, tmp_path: Path, at_root: Path) -> None:
    if name == "causal":  # printed is enough: it has one number more, of the launch grid
        example = next(one for one in examples() if one.name == "attention_causal")
        kernel = extract(example.file, example.spec, (), (), Allowed(conditional=False))
        program = next(lowerings(kernel.wired, schedule(example), H100))
        module = print_gluon(program, kernel.specialization, schedule(example))
    else:
        kernel, program, module = extracted(*MODULES[name]), emitted(name).program, emitted(name).module
    path = tmp_path / "module.py"
    path.write_text(module.text, encoding="utf-8")
    made = replace(emitted("attention"), program=program, module=module, signature=signature_of(module, program, path))
    manifest = gluon_manifest(made, kernel.specialization, H100.architecture)
    elements = {a.name: a.type.element.partition(":")[2] for a in program.program.arguments}
    for launch in launches_of(program, kernel):
        launched = recorded(load(path), module.entry, kernel.specialization, launch, 2)
        bound, grid = bind(manifest, launch), three(launch.grid)
        wanted = [one for argument in launched.arguments for one in passed(argument, elements)]
        assert [argument(one, manifest, bound, grid) for one in manifest.parameters] == [*wanted, 0, 0]
        assert count(manifest, grid, 2) == launched.grid[0]
