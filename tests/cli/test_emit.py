"""Promises of `twill emit`: a directory from which a kernel is launched, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GOLDEN, ROOT
from tests.fused_programs import KEPT
from tests.golden_schedules import MACHINE, Example, lowered, machine, schedule
from twill import exc
from twill.cli import main
from twill.codegen import emission, emit
from twill.codegen.compile import nvrtc
from twill.codegen.compile.nvrtc import Build
from twill.codegen.print.cuda.printer import print_cuda
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.runtime.kernel import EmittedKernel
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve import pipeline

pytestmark = pytest.mark.usefixtures("at_root")

GEMM = Example("examples/gemm.py", "bf16")
GIVEN = ["--machine", MACHINE, "--no-store"]
FILES = {"kernel.cu", "kernel.cubin", "schedule.json", "program.txt", "launch.py", "manifest.json"}


def test_every_file_is_written_and_the_kernel_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "gemm"
    assert main(["emit", "examples/gemm.py", *GIVEN, "--schedule", str(GEMM.path), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == FILES
    assert (out / "program.txt").read_text() == (GOLDEN / f"warp_{GEMM.name}.txt").read_text()
    assert (out / "schedule.json").read_text() == GEMM.path.read_text()
    manifest = EmittedKernel.load(out).manifest
    assert (manifest.kernel, manifest.machine, manifest.architecture) == ("gemm", MACHINE, "sm_90a")
    assert f'extern "C" __global__ void __launch_bounds__({manifest.threads}, 1)' in (out / "kernel.cu").read_text()
    said = capsys.readouterr().out
    assert said.startswith(f"gemm (bf16) for {MACHINE}, I = {schedule(GEMM).ii}, optimal\n") and "m64n128k16" in said


def test_the_warp_program_is_printed_without_a_compiler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "solve", lambda *_: schedule(GEMM))
    monkeypatch.setattr(emission, "emit", None)
    assert main(["emit", "examples/gemm.py", *GIVEN, "--ir"]) == 0
    assert capsys.readouterr().out == (GOLDEN / f"warp_{GEMM.name}.txt").read_text()


def test_a_program_is_printed_behind_each_pass_and_an_unknown_pass_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["emit", "--passes"])
    listed = capsys.readouterr().out
    full = Example("examples/attention.py", "full")
    words = ["emit", full.file, "--spec", full.spec, *GIVEN, "--schedule", str(full.path), "--dump-after"]
    for name, first, conditional in (
        ("extracted", "kernel attention spec full ", False),
        ("conditional-rescale", "kernel attention spec full ", True),
        ("lowering", "warp program attention full for", True),
    ):
        assert main([*words, name]) == 0
        said = capsys.readouterr().out
        assert said.startswith(first) and ("slack=8.0" in said) == conditional and name in listed
    assert main([*words, "gather"]) == 2
    told = capsys.readouterr().err
    assert "there is no pass `gather`" in told and "loop-fusion" in told and "placement" in told


def test_a_warp_program_is_read_checked_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gemm.txt"
    program = (GOLDEN / f"warp_{GEMM.name}.txt").read_text()
    words = ["emit", GEMM.file, "--from-ir", str(path)]
    fence = program[: program.index("fence %acc#0")].count("\n") + 1
    path.write_text(program)
    assert main([*words, *GIVEN]) == 0
    assert capsys.readouterr().out == print_cuda(lowered(GEMM), machine()).text
    path.write_text(program.replace("wait 0 pending: %acc#0", "commit", 1))
    assert main([*words, *GIVEN]) == 2
    assert "the warp program is wrong:\n  line 33: [mma-wait]" in capsys.readouterr().err
    for wrong, said in (
        (program.replace("fence %acc#0", "fence acc", 1), f"{path}:{fence}: column 15: found `acc`"),
        (program.replace("for h100", "for h200", 1), "the warp program is for h200, not h100"),
        (program.replace("get a_get#0", "get a_put", 1), "which is not there"),
        ("", f"{path}:1: column 1: found an empty text"),
    ):
        path.write_text(wrong)
        assert main([*words, *GIVEN]) != 0
        assert said in capsys.readouterr().err
    assert main([*words, *GIVEN, "--ir"]) == 2
    assert "only the CUDA is printed" in capsys.readouterr().err
    path.unlink()
    assert main([*words, *GIVEN]) == 2
    assert f"{path}: cannot be read: No such file" in capsys.readouterr().err


def test_why_lists_every_choice_with_its_predicted_cost_and_what_became_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["emit", GEMM.file, *GIVEN, "--schedule", str(GEMM.path), "--why"]) == 0
    said = capsys.readouterr().out
    assert "one row block (I = 512): chosen" in said and "2 row blocks along m (I = 512): worse" in said
    assert said.count(": taken\n") == 1 and "ping-pong, all that is free in registers (512 cycles an iteration" in said
    assert "not tried: predicted no faster" in said
    assert "none is missing" in said


def test_why_says_what_promises_would_buy(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["emit", "examples/gemm_pointers.py", *GIVEN, "--strategy", "heuristic", "--sig", "a_ptr=*bf16", "--why"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "by the TMA: a_ptr is not known to be aligned to 16 bytes" in said
    assert "b_ptr" not in said


def test_k_is_split_into_as_many_parts_as_asked_or_refused_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["emit", GEMM.file, *GIVEN, "--strategy", "heuristic", "--split", "3", "--out", str(tmp_path / "o")]
    assert main(words) == 0
    assert "a sum over K in parts" in capsys.readouterr().out
    split = EmittedKernel.load(tmp_path / "o").manifest.split
    assert split is not None
    assert (split.axis, split.parts, split.bytes) == (1, 3, 4 * 128 * 128)
    assert main([*words[:-2], "--ir", "--as", "gluon"]) == 2
    assert "no printer for Gluon" in capsys.readouterr().err
    assert main(["emit", "examples/attention.py", *GIVEN, "--split", "2", "--ir"]) == 2
    assert "attention.py:20: K cannot be split: the loop carries 3 values" in capsys.readouterr().err


def test_fail_a_split_of_k_whose_warp_groups_have_several_row_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    """Another program instance may be the last of another row block, and one flag a warp group says which is."""
    words = ["emit", "examples/gemm_pointers.py", *GIVEN, "--strategy", "heuristic", "--blocks", "4", "--ir"]
    assert main([*words, "--split", "2", "--const", "BLOCK_M=256"]) == 2
    assert "gemm_pointers.py:37: K is split, and a warp group has several row blocks" in capsys.readouterr().err


def test_clusters_are_emitted_if_asked_and_refused_where_nothing_is_shared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["emit", GEMM.file, *GIVEN, "--schedule", str(GEMM.path), "--cluster", "2", "--ir"]
    assert main([*words, "--out", str(tmp_path / "o")]) == 0
    assert capsys.readouterr().out == (GOLDEN / f"warp_{GEMM.name}-cluster.txt").read_text()
    manifest = EmittedKernel.load(tmp_path / "o").manifest
    assert (manifest.cluster, manifest.cluster_axis) == (2, 0)
    assert "__cluster_dims__(2, 1, 1)" in (tmp_path / "o" / "kernel.cu").read_text()
    causal = Example("examples/attention.py", "causal")
    words = ["emit", causal.file, "--spec", causal.spec, *GIVEN, "--schedule", str(causal.path), "--ir"]
    assert main([*words, "--cluster", "2"]) == 2
    told = capsys.readouterr().err
    assert "share no tile" in told and "`k` along axis 0: the bounds of its loop are others" in told
    words = ["emit", GEMM.file, *GIVEN, "--schedule", str(GEMM.path), "--cluster", "2", "--ir", "--order", "dynamic"]
    assert main(words) == 2
    assert "clusters have a static order of program instances" in capsys.readouterr().err


def test_running_maxima_move_in_every_iteration_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    full = Example("examples/attention.py", "full")
    words = ["emit", full.file, "--spec", full.spec, *GIVEN, "--schedule", str(full.path), "--ir"]
    assert main(words) == 0
    lazy = capsys.readouterr().out
    assert main([*words, "--no-conditional-rescale"]) == 0
    eager = capsys.readouterr().out
    assert lazy == (GOLDEN / f"warp_{full.name}.txt").read_text() and "slack=8.0" in lazy and "vote=1" in lazy
    assert "slack" not in eager and "vote" not in eager


def test_the_order_of_instances_is_the_one_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["emit", GEMM.file, "--spec", GEMM.spec, *GIVEN, "--schedule", str(GEMM.path), "--ir"]
    for order in ("dynamic", "static"):
        assert main([*words, "--order", order]) == 0
        assert ("fetch instance" in capsys.readouterr().out) == (order == "dynamic")


def test_a_schedule_for_emission_fuses_no_program_instances(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SolveOptions] = []

    def solve(graph: object, machine: object, options: SolveOptions, *_: object) -> Schedule:
        asked.append(options)
        return schedule(GEMM)

    monkeypatch.setattr(pipeline, "solve", solve)
    assert main(["emit", "examples/gemm.py", *GIVEN, "--ir"]) == 0
    assert {options.fuse for options in asked} == {False}


def test_a_schedule_that_fuses_instances_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    one = KEPT["attention"]
    words = [part for sig in one.sig for part in ("--sig", sig)] + [part for c in one.const for part in ("--const", c)]
    path = GOLDEN / "fused" / "attention.json"
    words += ["--spec", one.spec, "--schedule", str(path), "--ir"]
    assert main(["emit", f"examples/{one.file}.py", *GIVEN, *words]) == 2
    assert "the schedule fuses 2 program instances, which is not emitted" in capsys.readouterr().err


def test_a_schedule_that_is_not_proven_is_emitted_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_budget(*_: object) -> None:
        raise exc.BudgetExhausted("the budget ended; best I = 512", schedule=schedule(GEMM), lower_bound=500)

    monkeypatch.setattr(pipeline, "solve", out_of_budget)
    assert main(["emit", "examples/gemm.py", *GIVEN, "--ir"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("warp program gemm") and "best I = 512; that schedule is emitted" in told.err


@pytest.mark.parametrize(
    "error", [exc.BuildRejected("spill", "it spills", None), exc.WarpProgramBroken("gemm", ["wrong"]), KeyError("no")]
)
def test_a_refused_kernel_leaves_nothing_behind(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(emission, "emit", fail)
    monkeypatch.setattr(emission, "ATTEMPTS", 1)
    monkeypatch.setattr(pipeline, "solve", lambda *_: schedule(GEMM))
    assert main(["emit", "examples/gemm.py", *GIVEN, "--out", str(tmp_path / "gemm")]) != 0
    assert list(tmp_path.iterdir()) == []


def test_the_compiled_kernel_is_executed_if_asked_and_without_a_directory_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["emit", GEMM.file, *GIVEN, "--schedule", str(GEMM.path), "--execute"]) == 0
    said = capsys.readouterr().out
    assert "executed on the CPU (M = " in said and "equal to the tile program, nothing found" in said
    assert "kernel.cu" not in said


def test_a_kernel_that_computes_something_else_when_executed_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def misprinted(*given: Any, **words: Any) -> Build:
        made = nvrtc.compile_cubin(*given, **words)
        return replace(made, ptx=made.ptx.replace("fence.proxy.async.shared::cta;", ""))

    monkeypatch.setattr(emit, "compile_cubin", misprinted)
    out = tmp_path / "gemm"
    assert main(["emit", GEMM.file, *GIVEN, "--schedule", str(GEMM.path), "--execute", "--out", str(out)]) == 5
    assert "[proxy-fence]" in capsys.readouterr().err
    assert not out.exists()


def test_wrong_usage_is_said_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: Callable[..., None] = lambda *_: pytest.fail("nothing should be solved")  # noqa: E731
    monkeypatch.setattr(pipeline, "solve", played)
    assert main(["emit", "examples/gemm.py", *GIVEN]) == 2
    assert "--out DIR for the files, --ir or --dump-after PASS for the warp program" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["emit", "examples/gemm.py", *GIVEN, "--out", str(tmp_path / "file" / "x")]) == 2
    assert "is a file, not a directory" in capsys.readouterr().err
    assert main(["emit", "examples/dual_gemm.py", *GIVEN, "--ir", "--schedule", str(GEMM.path)]) == 2
    assert "for kernel gemm, not dual_gemm" in capsys.readouterr().err


def test_a_machine_without_a_target_is_refused_before_anything_is_solved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("twill.cli.solve.run", lambda *given: pytest.fail("solved"))
    described = (ROOT / "machines" / "b200.toml").read_text(encoding="utf-8")
    path = tmp_path / "later.toml"
    path.write_text(described.replace('name = "b200"', 'name = "later"').replace('"sm_100a"', '"sm_120a"'))
    for words in (["--ir"], ["--out", str(tmp_path / "out")], ["--dump-after", "fences"]):
        assert main(["emit", str(ROOT / "examples" / "gemm.py"), "--machine", str(path), "--no-store", *words]) == 2
        said = capsys.readouterr()
        assert said.out == "" and "no code is emitted for machine later (sm_120a)" in said.err
    assert not (tmp_path / "out").exists()


LOOP = """
@triton.jit
def k(x, y, n, B: tl.constexpr, LOOP: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    if LOOP:
        for i in range(0, n, B):
            tl.store(y + at + i, tl.load(x + at + i) * 2.0)
    else:
        tl.store(y + at, tl.load(x + at) * 2.0)
"""


@pytest.mark.parametrize(("loop", "budget", "had"), [(False, "120", 20.0), (False, "7", 7.0), (True, "120", 120.0)])
def test_straight_line_code_waits_for_no_proof_that_nothing_comes_of(
    loop: bool, budget: str, had: float, kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SolveOptions] = []

    def run(graph: DependenceGraph, on: Machine, options: SolveOptions, processes: int) -> Schedule:
        asked.append(options)
        return pipeline.solve(graph, on, options.model_copy(update={"strategy": "none"}))

    monkeypatch.setattr("twill.cli.solve.run", run)
    words = ["--sig", "x=*fp32:16", "--sig", "y=*fp32:16", "--sig", "n=i32:16", "--const", "B=256"]
    file = f"{kernel_file(LOOP)}::k"
    said = ["emit", file, *words, "--const", f"LOOP={loop}", "--machine", "h100", "--budget", budget]
    assert main([*said, "--ir", "--no-store"]) == 0
    assert [options.budget for options in asked] == [pytest.approx(had, abs=1.0)]


def test_passes_are_listed_and_one_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["emit", "--passes"])
    listed = capsys.readouterr().out
    assert ended.value.code == 0 and listed.index("fences") < listed.index("placement")
    assert main(["emit", str(ROOT / "examples" / "gemm.py"), "--machine", "h100", "--dump-after", "fence"]) == 2
    assert "there is no pass `fence`" in capsys.readouterr().err
