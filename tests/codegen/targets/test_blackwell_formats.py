"""Promises of products of further types for the B200: each computes its tile program, and what is misread is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests import blackwell
from tests.blackwell import TF32, TF32_WIDE
from tests.codegen.targets.test_blackwell import Faulty, changed, instead, other
from tests.golden_schedules import Example, kernel
from twill.cli import main
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.units import fragments
from twill.codegen.warp import program as aref
from twill.kernel.specialization import problem_of
from twill.ptx import formats
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

# Two tiles along each axis, or one row of them, the last one ragged, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    TF32: {"M": 144, "N": 140, "K": 268},
    TF32_WIDE: {"M": 8, "N": 268, "K": 204},
}
# The same of two CTAs, the last pair of which lacks its second instance.
PAIRS: dict[Example, Mapping[str, int]] = {TF32: {"M": 272, "N": 140, "K": 268}}


def said(example: Example, sizes: Mapping[str, int], change: Callable[[str], str] = str, cluster: int = 1) -> list[str]:
    made, problem = blackwell.compiled(example, cluster), problem_of(kernel(example).specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case(dict(sizes)), data="normal")
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given, 2).said()


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_what_is_emitted_computes_its_tile_program(example: Example) -> None:
    assert said(example, SIZES[example]) == []


@pytest.mark.parametrize("example", PAIRS, ids=[example.name for example in PAIRS])
def test_two_ctas_multiply_together(example: Example) -> None:
    assert said(example, PAIRS[example], cluster=2) == []
    assert "tcgen05.mma.cta_group::2" in blackwell.compiled(example, 2).build.ptx


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_rings_come_round_at_these_sizes(example: Example) -> None:
    constants = dict(kernel(example).specialization.constexprs)
    depths = [ring.depth for ring in blackwell.lowered(example).arefs if ring.transport == "tma"]
    assert SIZES[example]["K"] > max(depths) * int(str(constants["BLOCK_K"]))


# ---------------------------------------------------------------- tf32


def test_a_product_of_f32_is_one_of_kind_tf32_with_8_of_k_each() -> None:
    made = blackwell.compiled(TF32)
    assert "tcgen05.mma.cta_group::1.kind::tf32" in made.build.ptx
    does = instruction_descriptor(128, 128, "f32", "tf32", "tf32")
    assert does == 1 << 4 | 2 << 7 | 2 << 10 | 16 << 17 | 8 << 24  # D f32, A and B tf32, N / 8, M / 16
    assert f"{does:#010x}" in made.printed.text and "ks < 4" in made.printed.text
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


def test_digits_that_tf32_lacks_make_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that read all of an f32 would not do for the tile program, whose products cut operands off."""
    right = formats.decode
    monkeypatch.setattr(fragments, "decode", lambda bits, kind: right(bits, "f32" if kind == "tf32" else kind))
    assert said(TF32, {"M": 64, "N": 64, "K": 256})


PRINTED = {
    "elements are bf16": other(rf"\b{instruction_descriptor(128, 128, 'f32', 'tf32', 'tf32')}\b",
                               str(instruction_descriptor(128, 128, "f32", "bf16", "bf16"))),
    "B lies along N": other(rf"\b{instruction_descriptor(128, 128, 'f32', 'tf32', 'tf32')}\b",
                            str(instruction_descriptor(128, 128, "f32", "tf32", "tf32", b_mn_major=True))),
    "the kind is f16": other(r"kind::tf32", "kind::f16"),
    "a step along K is one of 16 bytes": other(r"(add\.s64\s+%rd\d+, %rd\d+, )2;", r"\g<1>1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_a_fault_of_printed_tf32_is_found_by_the_executor(name: str) -> None:
    assert said(TF32, {"M": 64, "N": 64, "K": 40}, PRINTED[name])


FAULTS: dict[str, tuple[Faulty, str]] = {
    "a product has half of its depth": (
        instead(aref.TensorMultiply, lambda stmt: replace(stmt, depth=16)), "layout",  # type: ignore[call-arg]
    ),
    "operands are not waited for": (instead(aref.Get, lambda stmt: None), "phase"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_product_of_tf32_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = FAULTS[name]
    found = verify(changed(blackwell.lowered(TF32), "mma", fault), problem_of(kernel(TF32).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


@pytest.mark.parametrize(
    ("precision", "what"),
    [("ieee", "made of 8 of bf16"), ("tf32x3", "made of 6 of bf16"), ("bf16x3", "made of 3 of bf16")],
)
def test_products_of_f32_that_are_made_of_several_are_refused(
    precision: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [TF32.file, "--spec", TF32.spec, "--machine", "b200", "--no-store", "--const", f"PRECISION={precision}"]
    assert main(["emit", *given, "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(
        rf'format_kernels\.py:\d+: `acc` is a product of f32 with input_precision="{precision}", {what}', found
    )
    assert 'instead: input_precision="tf32"' in found


def test_tf32_that_is_not_read_along_k_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    types = {"a": "fp32[128,32]", "b": "fp32[32,128]", "c": "fp32[128,128]"}
    given = [word for name, text in types.items() for word in ("--sig", f"{name}=tensordesc<{text}>")]
    sizes = [word for name, n in (("BM", 128), ("BN", 128), ("BK", 32)) for word in ("--const", f"{name}={n}")]
    asked = ["emit", "tests/format_kernels.py::across", *given, "--sig", "K=i32", *sizes, "--machine", "b200"]
    assert main([*asked, "--no-store", "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(
        r"format_kernels\.py:\d+: `acc` multiplies as tf32 tiles of f32 of which one is computed, or not", found
    )


def test_a_depth_that_is_no_multiple_of_a_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    types = ["--sig", "a_desc=tensordesc<fp32[128,36]>", "--sig", "b_desc=tensordesc<fp32[128,36]>"]
    given = [TF32.file, "--spec", TF32.spec, "--machine", "b200", "--no-store", "--const", "BLOCK_K=36", *types]
    assert main(["emit", *given, "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(
        r"format_kernels\.py:\d+: `acc` is a product over 36 of f32, and Blackwell has multiples of 8", found
    )
