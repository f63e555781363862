"""Two CTAs that multiply together as one program of Gluon: compiled for sm_100a, read back and executed on the CPU.
An edit that makes it wrong is found; what two CTAs can't be said to do together is refused. Nothing was run on
hardware."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests import blackwell, module_edits
from tests.blackwell import DUAL, GELU, GEMM, WIDE
from tests.codegen.test_gluon import MOST_LINES, WIDEST
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import Example
from tests.kernels import H100
from tests.module_edits import SmallGemm, edited
from twill.cli import codes
from twill.cli.entry import main
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.compile.gluon.triton import load
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, emit_gluon
from twill.codegen.gluon_manifest import gluon_manifest
from twill.codegen.print.gluon.ring_names import with_distinct_buffers
from twill.codegen.print.gluon.sayable import reasons
from twill.codegen.print.gluon.shared import FILE
from twill.codegen.verify.abstract.coverage import three
from twill.codegen.verify.abstract.inputs import LARGE, launch
from twill.codegen.warp.program import Reduce
from twill.exc import NoGluon
from twill.kernel.specialization import problem_of
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.execute import argument, bind, count, smallest, wrapping
from twill.trial.gluon import execute, passed, recorded

pytestmark = pytest.mark.usefixtures("at_root")

# Pairs of which the second instance is missing, ragged edges, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    GELU: {"M": 272, "N": 144, "K": 592},
    GEMM: {"M": 272, "N": 144, "K": 592},  # of its three pairs one does not multiply by one B
    WIDE: {"M": 16, "N": 272, "K": 336},  # stored in parts, from two buffers in turn
    DUAL: {"M": 144, "N": 16, "K": 400},
}


@cache
def extracted(example: Example) -> Extracted:
    return extract(str(ROOT / example.file), example.spec, (), (), Allowed(conditional=False))


@cache
def emitted(example: Example) -> GluonEmission:
    return emit_gluon(extracted(example), blackwell.machine(), lambda *_: blackwell.schedule(example, 2))


def said(made: GluonEmission, example: Example | SmallGemm, folder: Path, pairs: int) -> list[str]:
    """What is wrong with a module that is executed. pairs: of CTAs."""
    if isinstance(example, SmallGemm):
        kernel, sizes = module_edits.extracted(example), SMALL_SIZES
    else:
        kernel, sizes = extracted(example), SIZES[example]
    path, specialization = folder / made.name, kernel.specialization
    problem = problem_of(specialization)
    assert problem is not None
    path.write_text(made.module.text, encoding="utf-8")
    case = problem.case(dict(sizes))
    given = launch(made.program.program, case, scale=LARGE, data="normal")
    return execute(made.compiled, path, made.module.entry, specialization, made.program, given, pairs).said()


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_two_ctas_multiply_together(example: Example, tmp_path: Path) -> None:
    made = emitted(example)
    assert made.compiled.local == 0 and ".reqnctapercluster 2" in made.compiled.ptx
    assert "cta_group::2.kind" in made.compiled.ptx and "cta_group::1" not in made.compiled.ptx
    for pairs in (1, 2):
        assert said(made, example, tmp_path, pairs) == []


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_the_module_is_as_it_was_and_as_ruff_formats_it(
    example: Example, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path, text = GOLDEN / f"gluon_b200_pairs_{example.name.replace('-', '_')}.txt", emitted(example).module.text
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES and max(map(len, text.splitlines())) <= WIDEST
    module = tmp_path / "module.py"
    module.write_text(text, encoding="utf-8")
    ruff = (sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", "120", module)
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr


def test_what_is_read_back_is_of_both_ctas() -> None:
    facts = [one.said for one in emitted(GELU).module.facts]
    assert "tcgen05_mma: m256n128 of f16, by two CTAs" in facts
    assert facts.count("tcgen05_commit, in both CTAs") == 3  # A and B are given back, an accumulator is complete
    assert "mbarrier.init: 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 arrivals, 16 slots" in facts  # full: both expect bytes
    assert "mbarrier.init: 1 2 1 2 arrivals, 4 slots" in facts  # an accumulator is empty when both have read it
    assert {"mbarrier.expect: 16384 bytes", "mbarrier.expect: 8192 bytes"} <= {*facts}  # of a CTA's own copies


SMALL_GELU = SmallGemm("b200", 128, 32, 64, gelu=True, cluster=2)
SMALL = SmallGemm("b200", 128, 32, 64, cluster=2)
SMALL_SIZES: Mapping[str, int] = {"M": 272, "N": 48, "K": 400}  # as SIZES of tiles of 32 columns and rings of 5 slots
LAST_WAITS = """    for _ in range(5):
        a_ring.acquire(a_count)
        a_count += 1
"""
STATIC = {
    "arrivals": ("[2, 256, 32], full=1, empty=1)", "[2, 256, 32], full=1, empty=2)", "mbarrier.init: 1 2 1 2"),
    "bytes of both CTAs": ("expect(b_count, 2048)", "expect(b_count, 4096)", "mbarrier.expect: 2048 bytes"),
    "the slot of a commit": ("empty_barrier(a_b_count)", "empty_barrier(a_b_count + 1)", "mbarrier.commit: a_ring"),
    "one CTA waits for a slot": (
        "of_full = mbarrier.allocate_mbarrier(batch=slots, two_ctas=True)",
        "of_full = mbarrier.allocate_mbarrier(batch=slots)",
        "mbarrier.init: 2 1",
    ),
}
EXECUTED = {
    "no waits at the end": (SMALL_GELU, LAST_WAITS, ""),
    "one wait too few at the end": (SMALL_GELU, LAST_WAITS, LAST_WAITS.replace("range(5)", "range(4)")),
    "the second CTA stores nothing": (SMALL_GELU, "if pid_0 + cta < grid_0:", "if cta == 0:"),
    "both have the first rows": (SMALL, "first_m - 128 * cta, 64 * step]", "first_m, 64 * step]"),
    "each turn works": (SMALL, "return pid_0, present, worked_on", "return pid_0, cta == 0, turn == 0"),
}


@pytest.mark.parametrize("edit", STATIC)
def test_an_edit_is_found_by_reading_the_ptx_back(edit: str, tmp_path: Path) -> None:
    before, after, expected = STATIC[edit]
    made = edited(module_edits.emitted(SMALL_GELU), before, after, tmp_path)
    shared = (tmp_path / FILE).read_text(encoding="utf-8")
    found = differences(made.module.text, made.compiled.ptx, made.module.facts, shared)
    assert any(one.expected.startswith(expected) for one in found), found


@pytest.mark.parametrize("edit", EXECUTED)
def test_an_edit_that_makes_the_module_wrong_is_found_by_executing_it(edit: str, tmp_path: Path) -> None:
    small, before, after = EXECUTED[edit]
    assert said(edited(module_edits.emitted(small), before, after, tmp_path), small, tmp_path, 1)


@pytest.mark.parametrize("small", [SMALL_GELU, SMALL], ids=["gelu", "gemm"])
def test_pairs_of_small_tiles_multiply_together(small: SmallGemm, tmp_path: Path) -> None:
    assert said(module_edits.emitted(small), small, tmp_path, 1) == []


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_the_runtime_passes_what_the_launcher_of_pairs_passes(example: Example, tmp_path: Path) -> None:
    made, specialization = emitted(example), extracted(example).specialization
    path = tmp_path / made.name
    path.write_text(made.module.text, encoding="utf-8")
    manifest = gluon_manifest(made, specialization, "sm_100a")
    assert manifest.cluster == 2
    elements = {a.name: a.type.element.partition(":")[2] for a in made.program.program.arguments}
    problem = problem_of(specialization)
    for given in (wrapping(made.program, problem), smallest(made.program, problem)):
        for ctas in (2, 3, 8):
            launched = recorded(load(path), made.module.entry, specialization, given, ctas)
            bound, grid = bind(manifest, given), three(given.grid)
            wanted = [one for argument in launched.arguments for one in passed(argument, elements)]
            assert [argument(one, manifest, bound, grid) for one in manifest.parameters] == [*wanted, 0, 0]
            assert launched.ctas == 2 and count(manifest, grid, ctas) == 2 * launched.grid[0]


def test_a_launcher_that_starts_no_pairs_is_found(tmp_path: Path) -> None:
    made = edited(module_edits.emitted(SMALL_GELU), "num_warps=4,\n        num_ctas=2,", "num_warps=4,", tmp_path)
    found = said(made, SMALL_GELU, tmp_path, 1)
    assert "launched with 4 warps and 1 CTAs of a cluster, and compiled for 4 and 2" in found


# ---------------------------------------------------------------- what is refused
def test_buffers_of_one_name_are_told_apart() -> None:
    program = blackwell.lowered(WIDE)
    names = [buffer.name for buffer in program.buffers]
    assert len({*names}) < len(names), "the epilogue stores from two buffers in turn"
    named = with_distinct_buffers(program)
    assert len({buffer.name for buffer in named.buffers}) == len(names)


def test_tiles_that_are_loaded_together_and_multiplied_alone_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twill.cli.emit.solved", lambda *_: pytest.fail("something is solved"))
    words = ["emit", "examples/attention.py", "--spec", "full", "--as", "gluon", "--cluster", "2"]
    for machine in ("b200", "h100"):
        assert main([*words, "--machine", machine, "--out", str(tmp_path / "o")]) == codes.BAD_INPUT
        assert "load together and multiply alone" in capsys.readouterr().err


def test_tiles_of_tensors_of_more_axes_are_refused_with_both_numbers() -> None:
    program = emitted(DUAL).program
    maps = tuple(replace(one, box=(1, *one.box)) for one in program.maps)
    said = [what for _, what, _ in reasons(replace(program, maps=maps), 16)]
    assert len(said) == len(maps) and all("has 3 axes and its tiles have 2, of which two CTAs" in one for one in said)


def test_reductions_over_the_rows_of_both_ctas_are_refused() -> None:
    program = emitted(DUAL).program
    epilogue = program.groups[0]
    body = (*epilogue.body, Reduce(epilogue.fragments[0].id, epilogue.fragments[0].id, 0, "add", line=7))
    reduced = replace(program, groups=(replace(epilogue, body=body), *program.groups[1:]))
    assert (7, "what is reduced along rows would be reduced over both CTAs") in {r[:2] for r in reasons(reduced, 16)}
    assert not list(reasons(program, H100.emitting.named_barriers.whole))


def test_a_triton_whose_ctas_do_not_wait_for_one_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.codegen.compile.gluon.triton._version", lambda: "3.8.0")
    with pytest.raises(NoGluon, match=r"Triton 3\.8\.0 is installed.*two CTAs") as refused:
        emit_gluon(extracted(GELU), blackwell.machine(), lambda *_: blackwell.schedule(GELU, 2))
    assert "Triton 3.9 to 3.9" in (refused.value.hint or "")
