"""Every kernel of a folder is found, specialized, tried and counted, whatever becomes of the others."""

from __future__ import annotations

import contextlib
import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twill.cli.coverage import report
from twill.cli.entry import main
from twill.codegen.compile import nvrtc
from twill.codegen.emission import Extracted
from twill.codegen.room import Solver
from twill.coverage.attempt import Asked, apart, attempt
from twill.coverage.keep import name_of, package_of
from twill.coverage.kernels import FoundKernel, kernels_of, specialized
from twill.coverage.outcome import AttemptOutcome, ranked, reason_of
from twill.coverage.source import literals, said_of
from twill.exc import BudgetExhausted, BuildRejected, KernelDoesNotCompile, UnsupportedOperation
from twill.kernel.importing import load
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.tile.parse import parse

KERNELS = """
@triton.jit
def piece(x, o, n):
    return tl.load(x + o, mask=o < n)


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + o, piece(x_ptr, o, n), mask=o < n)


@triton.heuristics({"HAS": lambda args: args["bias"] is not None})
@triton.jit
def biased(x, bias, y, stride_m, stride_n, scale, BLOCK: tl.constexpr, HAS: tl.constexpr, ACT: tl.constexpr):
    o = tl.arange(0, BLOCK)
    b = tl.load(x + tl.program_id(0) * stride_m + o * stride_n) * scale
    if HAS:
        b += tl.load(bias + o)
    if ACT == "relu":
        b = tl.maximum(b, 0.0)
    tl.store(y + o, b)


@triton.jit
def printing(x, y, BLOCK: tl.constexpr):
    tl.device_print("x", tl.load(x + tl.arange(0, BLOCK)))
    tl.store(y, 1)


@triton.jit
def wrong(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, 3), undefined)
"""


@pytest.fixture
def folder(kernel_file: Callable[..., str], tmp_path: Path) -> Path:
    """A folder with kernels, a file that can't be imported, and one without kernels."""
    kernel_file(KERNELS, name="some.py")
    kernel_file("import no_such_package\n\n\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n", name="broken.py")
    (tmp_path / "plain.py").write_text("raise AssertionError('imported')\n")
    return tmp_path


def test_what_stores_something_and_is_not_called_is_a_kernel(folder: Path) -> None:
    loaded = load(str(folder / "some.py"))
    assert [found.kernel for found in kernels_of(loaded)] == ["copy", "biased", "printing", "wrong"]


def test_a_guess_is_what_source_heuristics_and_names_say(folder: Path) -> None:
    loaded = load(str(folder / "some.py"))
    found, error = specialized(FoundKernel(loaded.path, "biased", 1), loaded)
    assert error is None
    assert set(found.sig) == {"x=*bf16:16", "y=*bf16:16", "stride_m=i32:16", "scale=fp32"}
    assert set(found.const) == {"bias=None", "stride_n=1", "BLOCK=1024", "HAS=False", "ACT=relu"}


def test_what_called_functions_say_of_parameters_is_said_of_the_kernel_s(folder: Path) -> None:
    said = said_of(load(str(folder / "some.py")).functions["copy"])
    assert said.addresses == {"x_ptr", "y_ptr"} and said.stores and said.block == {"BLOCK"}


SIZES = """
@triton.jit
def square(x, y, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
    tl.store(y + at, tl.load(x + at))


@triton.jit
def repeated(x, y, MAX_BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    for i in tl.static_range(MAX_BLOCKS):
        at = i * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at))


TIMES = 3


def launch(x, y, rows, *, block: int = 32, wide=None):
    TIMES = 5
    WIDE = 2 * block
    stage = 3 if rows > 5 else 1
    repeated[rows,](x, y, MAX_BLOCKS=TIMES, BLOCK=block, WIDE=WIDE, MORE=wide, NONE=None, STAGE=stage)
"""


COUNTED = """
@triton.jit
def counted(x, y, bounds, heads_ratio, scale, MODE: tl.constexpr):
    head = tl.program_id(0) // heads_ratio
    at = tl.arange(0, 64)
    end = tl.load(bounds + head)
    for i in range(0, end):
        if MODE == "none":
            tl.store(y + i * 64 + at, tl.load(x + i * 64 + at) * scale)
"""


def test_what_divides_is_a_number_whatever_its_name_and_so_are_bounds_and_a_text_is_one(
    kernel_file: Callable[..., str],
) -> None:
    loaded = load(kernel_file(COUNTED))
    found, error = specialized(FoundKernel(loaded.path, "counted", 1), loaded)
    assert error is None
    assert set(found.sig) == {"x=*bf16:16", "y=*bf16:16", "bounds=*i32:16", "heads_ratio=i32", "scale=fp32"}
    assert found.const == ('MODE="none"',)


ELEMENTS = """
@triton.jit
def mixed(seed, step):
    return seed ^ (step << 4)


@triton.jit
def read(x, y, weights, given, flags, places, seeds, rate, GROUP_RATIO: tl.constexpr, P: tl.constexpr):
    i = tl.arange(0, 64)
    group = (tl.load(given + i) + 1) // GROUP_RATIO
    w = tl.load(weights + i).to(tl.float8e4nv, bitcast=True).to(tl.float32)
    to = tl.load(places).to(tl.pointer_type(tl.float32))
    flag = tl.load(flags)
    if not flag:
        tl.store(y + i + P - 1 + rate, tl.load(x + i) * w + group + mixed(tl.load(seeds), 3))
    tl.store(to + i, w)
"""


def test_what_is_done_with_elements_says_their_type(kernel_file: Callable[..., str]) -> None:
    """Divided as whole numbers, seen as fp8, taken for an address or a truth value, combined bit by bit by a function
    that is called; and what is added to an address is a whole number."""
    loaded = load(kernel_file(ELEMENTS, name="elements.py"))
    found, error = specialized(FoundKernel(loaded.path, "read", 1), loaded)
    assert error is None
    elements = {"x=*bf16", "y=*bf16", "weights=*i8", "given=*i32", "flags=*i1", "places=*i64", "seeds=*i32"}
    assert set(found.sig) == {f"{one}:16" for one in elements} | {"rate=i32"}
    assert set(found.const) == {"GROUP_RATIO=16", "P=16"}


def test_a_launch_says_what_its_names_stand_for() -> None:
    assert literals(SIZES)["repeated"] == {"MAX_BLOCKS": 5, "BLOCK": 32, "NONE": None, "STAGE": 3}


@pytest.mark.parametrize(
    ("kernel", "constants"),
    [("square", {"BLOCK=128", "WIDE=128"}), ("repeated", {"MAX_BLOCKS=8", "BLOCK=1024"})],
)
def test_sizes_by_name_are_halved_until_tiles_are_usual_and_loops_written_out_are_short(
    kernel: str, constants: set[str], kernel_file: Callable[..., str]
) -> None:
    source = SIZES.partition("TIMES = 3")[0].replace("WIDE", "BLOCK_SIZE")
    loaded = load(kernel_file(source, name="sizes.py"))
    found, error = specialized(FoundKernel(loaded.path, kernel, 1), loaded)
    assert error is None
    assert {one.replace("BLOCK_SIZE", "WIDE") for one in found.const} == constants


PARTS = """
@triton.jit
def part(x, y, n, BLOCK: tl.constexpr, NT_OFFSET: tl.constexpr):
    at = (tl.program_id(0) + NT_OFFSET) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)
"""


def test_of_a_kernel_that_is_launched_in_parts_the_first_is_guessed(kernel_file: Callable[..., str]) -> None:
    """Blocks behind 16 others would store nothing at the sizes that checks are made with."""
    loaded = load(kernel_file(PARTS, name="parts.py"))
    found, error = specialized(FoundKernel(loaded.path, "part", 1), loaded)
    assert error is None and "NT_OFFSET=0" in found.const


BETWEEN = """
@triton.jit
def between(x, y, n, BLOCK: tl.constexpr, DST_BLOCK: tl.constexpr):
    at = (tl.program_id(0) * 4 + DST_BLOCK) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)
"""


def test_which_block_something_is_done_with_is_no_size_of_one(kernel_file: Callable[..., str]) -> None:
    loaded = load(kernel_file(BETWEEN, name="between.py"))
    found, error = specialized(FoundKernel(loaded.path, "between", 1), loaded)
    assert error is None and {"DST_BLOCK=1", "BLOCK=1024"} <= {*found.const}


WEIGHTS = """
@triton.jit
def unpacked(a, q, y, stride_ak, stride_qk, B: tl.constexpr):
    i = tl.arange(0, B)
    at = q + (i // 8)[:, None] * stride_qk + i[None, :]
    packed = tl.load(at)
    w = ((packed >> ((i % 8) * 4)[:, None]) & 0xF).to(tl.float16)
    tl.store(y + i[:, None] * B + i[None, :], tl.dot(tl.load(a + i[:, None] * stride_ak + i[None, :]), w))


@triton.jit
def counted(a, b, y, stride_a, stride_b, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.int32)
    for k in range(4):
        left = tl.load(a + i[:, None] * stride_a + i[None, :])
        acc = tl.dot(left, tl.load(b + i[:, None] * stride_b + i[None, :]), acc)
    tl.store(y + i[:, None] * B + i[None, :], acc)
"""


@pytest.mark.parametrize(
    ("kernel", "sig"),
    [
        ("unpacked", {"a=*fp16:16", "q=*i32:16", "y=*fp16:16", "stride_ak=i32:16", "stride_qk=i32:16"}),
        ("counted", {"a=*i8:16", "b=*i8:16", "y=*bf16:16", "stride_a=i32:16", "stride_b=i32:16"}),
    ],
)
def test_what_is_shifted_or_multiplied_as_integers_is_an_integer_and_rows_are_apart(
    kernel: str, sig: set[str], kernel_file: Callable[..., str]
) -> None:
    loaded = load(kernel_file(WEIGHTS))
    found, error = specialized(FoundKernel(loaded.path, kernel, 1), loaded)
    assert error is None and set(found.sig) == sig


def test_what_spills_is_counted_among_what_is_emitted(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"key": "k", "file": "k.py", "line": 1, "spec": "guessed", "stage": "emitted"}
    outcomes = [AttemptOutcome(kernel=f"k{n}", spilled=n, **asked) for n in (0, 8, 0)]
    assert "       1 of them spill registers" in [*report(outcomes, tmp_path)]
    assert not any("spill" in line for line in report(outcomes[:1], tmp_path))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> list[AttemptOutcome]:
    """The outcomes of `twill coverage ... --json`."""
    assert main(["coverage", *words, "--jobs", "1", "--json"]) == 0
    return [AttemptOutcome.model_validate(one) for one in json.loads(capsys.readouterr().out)]


def test_every_kernel_of_a_folder_is_tried_and_the_results_are_gone_on_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = folder / "results.jsonl"
    outcomes = run(capsys, str(folder), "--results", str(results))
    stages = {one.kernel or Path(one.file).name: (one.stage, one.code) for one in outcomes}
    assert stages == {
        "broken.py": ("import", 2), "copy": ("extracted", 0), "biased": ("extracted", 0),
        "printing": ("extraction", 2), "wrong": ("triton", 2),
    }  # fmt: skip
    assert len(results.read_text().splitlines()) == 4
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    marked = "".join(json.dumps({**line, "message": "known"}) + "\n" for line in lines[:3])
    results.write_text(marked + results.read_text().splitlines()[3][:40])  # the last line was cut
    again = run(capsys, str(folder), "--results", str(results))
    assert [one.stage for one in again] == [one.stage for one in outcomes]
    assert sum(one.message == "known" for one in again) == 3
    assert len(results.read_text().splitlines()) == 4


def test_the_ranking_names_reasons_and_shares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", str(folder), "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "4 kernels, 3 of which Triton compiles (3 as guessed)" in said
    assert "     2 extracted  67 %" in said and "     1 refused at extraction 33 %" in said
    assert "1 unsupported operation: tl.device_print" in said and "printing" in said


def test_sidecars_come_before_guesses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sidecar = """
    [[specialization]]
    name = "small"
    kernel = "copy"

    [specialization.signature]
    x_ptr = "*fp32"
    y_ptr = "*fp32"
    n = "i32"

    [specialization.constexprs]
    BLOCK = 256
    """
    (folder / "some.twill.toml").write_text(textwrap.dedent(sidecar))
    (one,) = run(capsys, str(folder / "some.py"), "--only", "^copy$")
    assert (one.spec, one.stage, one.guessed) == ("small", "extracted", ())


def test_a_kernel_that_hangs_is_given_up_and_one_that_dies_is_told() -> None:
    import os
    import time

    def hang(notify: Callable[[str], None]) -> AttemptOutcome:
        notify("solve")
        time.sleep(60)
        raise AssertionError

    def die(notify: Callable[[str], None]) -> AttemptOutcome:
        os.kill(os.getpid(), 9)
        raise AssertionError

    found = FoundKernel("file.py", "k", 3)
    hung = apart(found, "key", 0.5, hang)
    assert (hung.stage, hung.code, hung.reason) == ("solve", 5, "no answer within 0.5 seconds")
    assert "signal 9" in apart(found, "key", 5.0, die).reason


@pytest.mark.parametrize(("caught", "stage", "code"), [(True, "emission", 2), (False, "solve", 4)])
def test_an_emission_that_goes_on_from_a_solve_without_a_schedule_ends_as_an_emission(
    caught: bool, stage: str, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the compiler refused is solved again with more room: without a schedule, what the compiler said stays."""

    def unsolved(*given: object) -> Schedule:
        raise BudgetExhausted("no schedule")

    def emit_solved(kernel: Extracted, on: Machine, solve: Solver) -> None:
        with contextlib.suppress(*([BudgetExhausted] if caught else [])):
            solve(kernel.graph, on)
        raise BuildRejected("spill", "registers are spilled", None)

    monkeypatch.setattr("twill.coverage.attempt._solved", unsolved)
    monkeypatch.setattr("twill.codegen.emission.emit_solved", emit_solved)
    loaded = load(str(folder / "some.py"))
    found = next(one for one in kernels_of(loaded) if one.kernel == "copy")
    outcome = attempt(found, loaded, Asked(emit=1.0), "key", lambda said: None)
    assert (outcome.stage, outcome.code) == (stage, code)


WIDE_PRODUCT = """
import triton
import triton.language as tl


@triton.jit
def wide_product(a_ptr, b_ptr, c_ptr):
    r, d = tl.arange(0, 128), tl.arange(0, 512)
    x, y = tl.load(a_ptr + r[:, None] * 512 + d[None, :]), tl.load(b_ptr + r[:, None] * 512 + d[None, :])
    tl.store(c_ptr + r[:, None] * 128 + r[None, :], tl.dot(x, tl.trans(y)).to(tl.bfloat16))
"""


@pytest.mark.parametrize("emit", [[], ["--emit", "5"]])
def test_what_no_schedule_can_be_emitted_of_is_refused_at_extraction(
    emit: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it is to be emitted or not: it is known before a solve."""
    (tmp_path / "wide.py").write_text(WIDE_PRODUCT)
    (one,) = run(capsys, str(tmp_path), *emit)
    assert (one.stage, one.code) == ("extraction", 3) and "one slot for each tile" in one.message


def test_reasons_have_no_names_and_numbers_and_the_most_frequent_is_first() -> None:
    def refused(name: str) -> AttemptOutcome:
        error = UnsupportedOperation(f"`{name}` of 64 x 128 is `strange`", file="a.py", line=3)
        return AttemptOutcome(
            key=name,
            file="a.py",
            kernel=name,
            line=3,
            spec="guessed",
            stage="extraction",
            code=2,
            reason=reason_of(error),
        )

    other = reason_of(KernelDoesNotCompile("of 12 things"))
    last = refused("b_x").model_copy(update={"reason": other})
    assert [(reason, len(those)) for reason, those in ranked([last, refused("b_x"), refused("b_y")], "extraction")] == [
        ("... of # is ...", 2), ("of # things", 1),
    ]  # fmt: skip
    assert reason_of(KeyError("x")) == "internal error: KeyError"
    retained = UnsupportedOperation("an early `return` of tl.inline_asm_elementwise")
    assert reason_of(retained) == retained.message
    missing = KernelDoesNotCompile("importing the file raised ModuleNotFoundError: No module named 'a_package.of_2'")
    assert reason_of(missing) == "No module named 'a_package.of_2'"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("one slot takes 288 KiB (dh 64 KiB, b_q 56 KiB, b_do 56 KiB), and there are 226 KiB",
         "one slot takes # KiB (...), and there are # KiB"),
        ("needs 2 bytes of 1: b_r 1 x 4, b_r_hi 2 x 2, b_r_mid 1 x 2, staging 3", "needs # bytes of #"),
        ("refused (M, N)", "refused (M, N)"),
    ],
)  # fmt: skip
def test_reasons_do_not_list_what_a_kernel_has(message: str, reason: str) -> None:
    assert reason_of(UnsupportedOperation(message, file="a.py")) == reason


def test_an_import_that_takes_too_long_takes_no_other_file_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = "import time\ntry:\n    time.sleep(60)\nfinally:\n    pass\n\n\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n"
    (folder / "aaa.py").write_text("import triton\nimport triton.language as tl\n" + slow)
    outcomes = run(capsys, str(folder), "--only", "copy", "--limit", "0.6")
    stages = {one.kernel or Path(one.file).name: (one.stage, one.code) for one in outcomes}
    assert stages["aaa.py"] == ("import", 2) and stages["copy"][0] in ("extracted", "extraction", "triton")
    assert "more than 3 seconds" in next(one.message for one in outcomes if one.file.endswith("aaa.py"))


def test_a_package_that_can_be_imported_only_once_is_read_whole(
    kernel_file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = "import sys\n\nassert not hasattr(sys, 'registered'), 'registered twice'\nsys.registered = True\n"
    kernel = "\n@triton.jit\ndef {}(x):\n    tl.store(x + SIZE, 1)\n"
    for name in ("first", "second"):
        kernel_file("from . import SIZE\n" + kernel.format(name), name=f"{name}.py")
    (tmp_path / "__init__.py").write_text(once + "SIZE = __import__('triton').language.constexpr(4)\n")
    outcomes = run(capsys, str(tmp_path))
    assert {one.kernel: one.stage for one in outcomes} == {"first": "extracted", "second": "extracted"}


def test_patience_is_the_limit_and_four_solves_and_the_limit_for_an_execution() -> None:
    assert Asked(emit=30.0, limit=60.0).patience() == 180.0
    assert Asked(emit=30.0, limit=60.0, execute=True).patience() == 240.0


def test_what_is_emitted_is_executed_and_a_wrong_result_is_a_mistake_of_twill_s(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(str(folder / "some.py"))
    found = next(one for one in kernels_of(loaded) if one.kernel == "copy")
    asked = Asked(emit=20.0, execute=True)
    right = attempt(found, loaded, asked, "key", lambda stage: None)
    assert (right.stage, right.code) == ("emitted", 0) and right.seconds["execution"] > 0
    compiled = nvrtc.compile_cubin

    def another_kernel(source: str, *words: Any, **given: Any) -> nvrtc.Build:
        return compiled(source.replace("bound((i64)n", "bound((i64)n - 1"), *words, **given)

    monkeypatch.setattr("twill.codegen.emit.compile_cubin", another_kernel)
    wrong = attempt(found, loaded, asked, "key", lambda stage: None)
    assert (wrong.stage, wrong.code) == ("execution", 5) and "differs from the sequential program" in wrong.message


def test_fail_no_such_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "no_such_package"]) == 2
    assert "neither a file or folder nor an importable package" in capsys.readouterr().err


def test_fail_results_of_something_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "results.jsonl").write_text("{}\n")
    assert main(["coverage", str(folder), "--results", str(folder / "results.jsonl")]) == 2
    assert "results.jsonl:1: no outcome of a coverage" in capsys.readouterr().err


def test_what_is_emitted_is_kept_with_the_launches_it_was_checked_with(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = tmp_path / "kept"
    command = ["coverage", str(folder / "some.py"), "--only", "copy", "--jobs", "1"]
    assert main([*command, "--emit", "20", "--keep", str(left)]) == 0
    (made,) = left.iterdir()
    assert made.name.startswith("copy.") and (made / "manifest.json").is_file()
    assert parse((made / "tile.txt").read_text()).kernel == "copy"
    given = json.loads((made / "launches.json").read_text())
    assert given["module"] == "some" and given["narrowest"] == 8 and given["launches"]
    assert all(set(one["elements"]) == {"x_ptr", "y_ptr"} and one["grid"] for one in given["launches"])
    assert given["alone"] and not any(one["undefined"] for one in given["launches"])
    capsys.readouterr()
    assert main([*command, "--keep", str(left)]) == 2
    assert "--emit 20 --keep DIR" in capsys.readouterr().err
    assert main([*command, "--execute"]) == 2
    assert "--emit 20 --execute" in capsys.readouterr().err


def test_a_file_in_a_folder_without_init_is_of_the_package_around_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "pack/ops/more", tmp_path / "loose"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "k.py").touch()
    for folder in (tmp_path / "pack", tmp_path / "pack/ops"):
        (folder / "__init__.py").touch()
    assert package_of(inside / "k.py") == tmp_path / "pack"
    assert package_of(outside / "k.py") == outside / "k.py"


def test_kernels_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    files = ("a/ops.py", "b/ops.py")
    assert len({name_of(FoundKernel(file, "forward", 3)) for file in files}) == 2
    assert name_of(FoundKernel("a.py", "forward", 3, "bf16")).startswith("forward.bf16.")
