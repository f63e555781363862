"""What NVRTC makes of every emitted kernel, executed on the CPU, computes what its tile program computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden_schedules import Example, compiled, examples, kernel
from tests.kernels import H100
from tests.lowered import scheduled
from twill import exc
from twill.codegen.emission import extract
from twill.codegen.emit import Emission
from twill.codegen.lowering import lower
from twill.codegen.manifest import make_manifest
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract.data import Data
from twill.codegen.verify.abstract.inputs import LARGE, CheckedLaunch, launch, launches, most_iterations
from twill.kernel.specialization import problem_of
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

EXAMPLES = tuple(examples())
BY_NAME = {example.name: example for example in EXAMPLES}


# Sizes beside the smallest launch's, at which the rest of the code runs: steady states of loops that were joined, rings
# that come round, rows that threads store, an instance behind another one.
FURTHER: dict[str, tuple[dict[str, int], ...]] = {
    "attention_full": ({"Z": 1, "H": 1, "N_CTX": 256}, {"Z": 2, "H": 2, "N_CTX": 128}),
    "attention_causal": ({"Z": 1, "H": 1, "N_CTX": 384},),
    "attention_full-d64": ({"Z": 2, "H": 2, "N_CTX": 128}, {"Z": 1, "H": 1, "N_CTX": 256}),
    "attention_causal-d64": ({"Z": 1, "H": 1, "N_CTX": 384},),
    "attention_causal-d256": ({"Z": 1, "H": 1, "N_CTX": 256},),
    "attention_any_length_full": ({"Z": 2, "H": 2, "N_CTX": 16}, {"Z": 1, "H": 1, "N_CTX": 256}),
    "attention_any_length_full-d64": ({"Z": 1, "H": 1, "N_CTX": 256}, {"Z": 2, "H": 2, "N_CTX": 128}),
    "attention_any_length_causal": ({"Z": 1, "H": 1, "N_CTX": 256},),
    "attention_any_length_causal-d64": ({"Z": 1, "H": 1, "N_CTX": 512},),
    "attention_full-d256": ({"Z": 2, "H": 2, "N_CTX": 128},),
    "attention_backward_full": ({"Z": 2, "H": 2, "N_CTX": 128},),
    "attention_backward_causal": ({"Z": 1, "H": 1, "N_CTX": 256},),
    "attention_descending_causal": ({"Z": 1, "H": 1, "N_CTX": 144},),
    "linear_attention_bf16": ({"Z": 1, "H": 1, "T": 256, "HEAD_V": 64}, {"Z": 2, "H": 2, "T": 64, "HEAD_V": 64}),
    "attention_pointers_full": ({"Z": 2, "H": 2, "N_CTX": 16}, {"Z": 1, "H": 1, "N_CTX": 144}),
    "sliding_window_attention_bf16": ({"Z": 1, "H": 1, "N_CTX": 1152},),
    "dual_gemm_bf16": ({"M": 144, "N": 144, "K": 208},),
    "dual_gemm_bf16-192": ({"M": 208, "N": 144, "K": 144},),
    "gemm_bf16": ({"M": 144, "N": 144, "K": 336}, {"M": 1024, "N": 16, "K": 16}),
    "gemm_bf16-wide": ({"M": 144, "N": 272, "K": 208}, {"M": 2048, "N": 16, "K": 16}),
    "gemm_bf16-192": ({"M": 144, "N": 208, "K": 208}, {"M": 1024, "N": 16, "K": 16}),
    "gemm_bf16-short": ({"M": 144, "N": 208, "K": 208}, {"M": 8192, "N": 16, "K": 16}),
    "gemm_bias_gelu_bf16": ({"M": 144, "N": 144, "K": 336},),
    "gemm_bias_gelu_bf16-wide": ({"M": 144, "N": 272, "K": 208},),
    "gemm_bias_gelu_bf16-192": ({"M": 144, "N": 208, "K": 208},),
    "gemm_fp8_e4m3": ({"M": 144, "N": 144, "K": 656}, {"M": 1024, "N": 16, "K": 16}),
    "gemm_fp8_e4m3-wide": ({"M": 144, "N": 272, "K": 400}, {"M": 2048, "N": 16, "K": 16}),
    "gemm_fp8_e4m3-192": ({"M": 144, "N": 208, "K": 400}, {"M": 1024, "N": 16, "K": 16}),
    "gemm_pointers_bf16": ({"M": 144, "N": 144, "K": 336}, {"M": 1024, "N": 16, "K": 16}),
    "gemm_pointers_bf16-wide": ({"M": 144, "N": 272, "K": 208}, {"M": 2048, "N": 16, "K": 16}),
    "layer_norm_bf16": ({"M": 4, "N": 8208},),
    "layer_norm_bf16-wide": ({"M": 9, "N": 14352},),
    "layer_norm_bf16-widest": ({"M": 3, "N": 28688},),
}
# Scale and kind of their data: maxima that move, in large steps or, where no large one does, in small ones.
DATA: dict[str, tuple[int, Data]] = {
    "sliding_window_attention_bf16": (1, "creeping"), "attention_backward_causal": (1, "normal"),
}  # fmt: skip
# What no launch of finite numbers comes to: `logf` of a sum that is infinite or no number.
OF_NO_NUMBER = re.compile(r"mov\.f32 \t?(%f\d+), 0f7F800000;\n\s*fma\.rn\.f32 \t?%f\d+, %f\d+, \1, \1;")

COPY = re.compile(r"cp\.async\.bulk\.tensor\S+ \[(%r\d+)\], \[[^]]*\], \[(%r\d+)\]")  # into shared memory

# Launched with one axis more than the kernel asks for, too, along which all instances come again.
TWICE = ("gemm", "dual_gemm", "layer_norm")


@pytest.mark.parametrize("example", EXAMPLES, ids=list(BY_NAME))
def test_every_instruction_of_every_example_is_executed_and_computes_its_tile_program(example: Example) -> None:
    emission, problem = compiled(example), problem_of(kernel(example).specialization)
    tile, unreached = emission.program.program, execute.checked(emission, problem).unreached
    for number, sizes in enumerate(FURTHER.get(example.name, ())):
        assert problem is not None
        scale, data = DATA.get(example.name, (LARGE, "normal"))
        case = problem.case(sizes)
        twice = (2,) if not number and example.name.startswith(TWICE) else ()
        made = launch(tile, replace(case, grid=(*case.grid, *twice)), scale=scale, data=data)
        found = execute.verified(emission.build.ptx, emission.manifest, emission.program, made)
        assert not found.said()
        unreached &= found.unreached
    assert never(emission.build.ptx, unreached) == []


def never(text: str, unreached: frozenset[int]) -> list[str]:
    """The opcodes on these lines, without those that only infinities and NaN come to."""
    lines = text.splitlines()
    left = set(unreached)
    for match in OF_NO_NUMBER.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        if {first, first + 1} <= unreached:
            left -= {first, first + 1}
    left -= other_way(lines, left)
    return [lines[number - 1].split()[0] for number in sorted(left)]


def other_way(lines: list[str], unreached: set[int]) -> set[int]:
    """Those of a block that copies what another block, which was reached, copies with another policy: whether a launch
    reads a tensor once is seldom both, at the sizes of a kernel (`tests.trial.test_any_size` has both)."""
    blocks, copies = list[list[int]](), dict[tuple[str, ...], list[int]]()
    for number, line in enumerate(lines, 1):
        if line.startswith("$") or not blocks:
            blocks.append([])
        blocks[-1].append(number)
        copied = COPY.search(line)
        if copied is not None:
            copies.setdefault(copied.groups(), []).append(number)
    twins = {n for both in copies.values() for n in both if n in unreached and not unreached.issuperset(both)}
    other = [block for block in blocks if twins & {*block}]
    labels = {lines[block[0] - 1].rstrip(":") for block in other}
    to_there = {number for number in unreached if lines[number - 1].split()[-1].rstrip(";") in labels}
    return to_there | {number for block in other for number in block if number in unreached}


@pytest.mark.parametrize("name", ["attention_full", "attention_causal-d64", "sliding_window_attention_bf16"])
def test_awkward_data_give_the_results_of_the_tile_program(name: str) -> None:
    """NaN, infinities and the like; products of large numbers do not overflow."""
    emission, problem = compiled(BY_NAME[name]), problem_of(kernel(BY_NAME[name]).specialization)
    awkward = next(one for one in launches(emission.program, problem) if one.data == "awkward")
    assert not said(emission, emission.build.ptx, awkward)


def longest(emission: Emission) -> CheckedLaunch:
    """The launch in which rings come round most often."""
    tile = emission.program.program
    made = [one for one in launches(emission.program) if one.ctas == 1]
    return max(made, key=lambda one: most_iterations(tile, one))


@pytest.mark.parametrize("name", ["gemm_bf16", "gemm_bf16-wide", "gemm_fp8_e4m3", "dual_gemm_bf16", "layer_norm_bf16"])
def test_rings_that_come_round_are_right_for_one_cta_and_for_several(name: str) -> None:
    emission = compiled(BY_NAME[name])
    for ctas in (1, 3):
        assert not said(emission, emission.build.ptx, longest(emission), ctas)


def said(emission: Emission, text: str, given: CheckedLaunch, ctas: int = 2) -> list[str]:
    return execute.verified(text, emission.manifest, emission.program, given, ctas).said()


# ---------------------------------------------------------------- what is wrong is found

Change = Callable[[str], str]


def without(pattern: str, number: int | None = None) -> Change:
    """Takes away the instructions that begin so, or one of them."""

    def change(text: str) -> str:
        found = list(re.finditer(rf"^\s*{pattern}[^;]*;", text, re.M))
        assert found
        for match in reversed(found if number is None else [found[number]]):
            text = text[: match.start()] + text[match.end() :]
        return text

    return change


def instead(pattern: str, new: str, count: int = 0) -> Change:
    """Writes something else."""

    def change(text: str) -> str:
        changed = re.sub(pattern, new, text, count=count)
        assert changed != text
        return changed

    return change


WRONG: dict[str, tuple[str, Change, str]] = {
    "no proxy fence before stores": ("gemm_bf16", without(r"fence\.proxy\.async"), "[proxy-fence]"),
    "no wgmma fence": ("gemm_bf16", without(r"wgmma\.fence"), "[wgmma-fence]"),
    "products read before their wait": ("gemm_bf16", without(r"wgmma\.wait_group\.sync\.aligned 0"), "[wgmma-wait]"),
    "slots given back before their products": (
        "gemm_bf16", instead(r"(wgmma\.wait_group\.sync\.aligned) 1;", r"\1 7;"), "[in-flight]"),
    "no wait for bulk stores": ("gemm_bf16", without(r"cp\.async\.bulk\.wait_group"), "[bulk-wait]"),
    "waits that are not repeated": ("gemm_bf16", without(r"@!p bra WAIT"), "[mbarrier]"),
    "slots that are never given back": ("gemm_bf16", without(r"mbarrier\.arrive\.shared::cta"), "[deadlock]"),
    "bytes that never come": (
        "gemm_bf16", instead(r"(arrive\.expect_tx\.shared::cta\.b64 _, \[%r\d+\]), %r\d+", r"\1, 49168"),
        "[deadlock]"),
    "a barrier of the warp group less": ("gemm_bf16", without(r"bar\.sync", 1), "[order]"),
    "registers taken that nobody gave back": (
        "gemm_bf16-wide", without(r"setmaxnreg\.dec"), "[deadlock]"),
    "registers given back by growing": ("gemm_bf16-wide", instead(r"setmaxnreg\.dec", "setmaxnreg.inc"), "[registers]"),
    "descriptors of another swizzle": ("attention_full-d64", instead("46116862933", "92233720368", 4), ""),
    "halves of pairs exchanged": (
        "gemm_bf16", instead(r"(cvt\.rn\.bf16x2\.f32 \s*%r\d+), (%f\d+), (%f\d+)", r"\1, \3, \2"), "[values]"),
    "another base of the exponential": (
        "attention_full-d64", instead("0f3FB8AA3B|0f3E38AA3B", "0f3E384000"), "[values]"),
    "one summand less": ("layer_norm_bf16", without(r"add\.f32", 3), "[values]"),
    "a shuffle to other lanes": (
        "layer_norm_bf16", instead(r"mov\.u32 (\s*%r\d+), 16;", r"mov.u32 \1, 8;"), "[values]"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_was_printed_wrongly_is_found(what: str) -> None:
    name, change, rule = WRONG[what]
    emission = compiled(BY_NAME[name])
    given = execute.smallest(emission.program) if "attention" in name else longest(emission)
    found = said(emission, change(emission.build.ptx), given)
    assert found and any(rule in text for text in found)


def test_an_emission_that_is_wrong_is_refused_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    emission = compiled(BY_NAME["gemm_bf16"])
    text = without(r"fence\.proxy\.async")(emission.build.ptx)
    broken = replace(emission, build=replace(emission.build, ptx=text))
    with pytest.raises(exc.ExecutionDiffers) as refused:
        execute.checked(broken)
    assert refused.value.exit_code == 5 and "[proxy-fence]" in str(refused.value)


PRODUCT = """
import triton
import triton.language as tl

@triton.jit
def product(x, y, z, M, N, K, B: tl.constexpr):
    rows, columns, total = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        depth = k + tl.arange(0, B)
        left = tl.load(x + rows[:, None] * K + depth, mask=(rows[:, None] < M) & (depth < K), other=0.0)
        right = tl.load(y + depth[:, None] * N + columns, mask=(depth[:, None] < K) & (columns < N), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(z + rows[:, None] * N + columns, total, mask=(rows[:, None] < M) & (columns < N))
"""
SIGNATURE = ("x=*bf16:16", "y=*bf16:16", "z=*fp32:16", "M=i32:16", "N=i32:16", "K=i32:16")


def test_of_launches_that_were_made_up_one_that_can_be_is_executed(tmp_path: Path) -> None:
    """There is no tensor map of a size 0, which a program may be asked to work on all the same."""
    path = tmp_path / "k.py"
    path.write_text(PRODUCT, encoding="utf-8")
    kernel = extract(str(path), sig=SIGNATURE, const=("B=64",))
    found = scheduled(kernel.program)
    program = lower(kernel.program, found, H100)
    printed = print_cuda(program, H100)
    manifest = make_manifest(
        program, kernel.specialization, architecture="sm_90a", entry=printed.function, threads=printed.threads,
        cubin=b"", schedule=found.key,
    )  # fmt: skip
    made = execute.small(program, execute.TRIED)
    assert manifest.maps
    empty = [replace(one, scalars={**one.scalars, "M": 0}) for one in made]
    assert not any(execute.launchable(manifest, one) for one in empty)
    assert any(execute.launchable(manifest, one) for one in made)
    assert all(one.scalars["M"] and one.scalars["N"] for one in made if execute.launchable(manifest, one))
