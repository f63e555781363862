"""Promises of products of further types for the B200: each computes its tile program, and what is misread is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests import blackwell
from tests.blackwell import PLAIN, PLAIN_NVFP4, PLAIN_WIDE, TF32, TF32_WIDE
from tests.codegen.targets.test_blackwell import Faulty, changed, instead, other
from tests.golden_schedules import Example, kernel
from twill import exc
from twill.cli import main
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.units import fragments
from twill.codegen.warp import program as aref
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.ptx import formats
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

# Two tiles along each axis, or one row of them, the last one ragged, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    TF32: {"M": 144, "N": 140, "K": 268},
    TF32_WIDE: {"M": 8, "N": 268, "K": 204},
    PLAIN: {"M": 144, "N": 144, "K": 848},
    PLAIN_WIDE: {"M": 8, "N": 272, "K": 592},
    PLAIN_NVFP4: {"M": 8, "N": 144, "K": 1568},
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
    depths = [ring.depth for ring in blackwell.lowered(example).arefs if ring.transport != "mma"]
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


TF32_PRINTED = {
    "elements are bf16": other(rf"\b{instruction_descriptor(128, 128, 'f32', 'tf32', 'tf32')}\b",
                               str(instruction_descriptor(128, 128, "f32", "bf16", "bf16"))),
    "B lies along N": other(rf"\b{instruction_descriptor(128, 128, 'f32', 'tf32', 'tf32')}\b",
                            str(instruction_descriptor(128, 128, "f32", "tf32", "tf32", b_mn_major=True))),
    "the kind is f16": other(r"kind::tf32", "kind::f16"),
    "a step along K is one of 16 bytes": other(r"(add\.s64\s+%rd\d+, %rd\d+, )2;", r"\g<1>1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", TF32_PRINTED)
def test_a_fault_of_printed_tf32_is_found_by_the_executor(name: str) -> None:
    assert said(TF32, {"M": 64, "N": 64, "K": 40}, TF32_PRINTED[name])


TF32_FAULTS: dict[str, tuple[Faulty, str]] = {
    "a product has half of its depth": (
        instead(aref.TensorMultiply, lambda stmt: replace(stmt, depth=16)), "layout",  # type: ignore[call-arg]
    ),
    "operands are not waited for": (instead(aref.Get, lambda stmt: None), "phase"),
}  # fmt: skip


@pytest.mark.parametrize("name", TF32_FAULTS)
def test_a_fault_in_a_product_of_tf32_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = TF32_FAULTS[name]
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


# ---------------------------------------------------------------- scales [rows, blocks]


@pytest.mark.parametrize("example", [PLAIN, PLAIN_WIDE, PLAIN_NVFP4], ids=["mxfp8", "mxfp8-wide", "nvfp4"])
def test_threads_of_a_group_of_their_own_put_plain_scales_into_chunks(example: Example) -> None:
    made = blackwell.compiled(example)
    roles = {group.role: [type(stmt) for stmt in group.stmts] for group in made.program.groups}
    (loader,) = (role for role, kinds in roles.items() if aref.StoreScales in kinds)
    assert [group.threads for group in made.program.groups] == [128, 128, 32, 32]
    assert loader != "epilogue" and aref.LoadGlobal in roles[loader] and aref.ProxyFence in roles[loader]
    assert aref.LoadAccumulator in roles["epilogue"] and aref.CopyScales in roles["mma"]
    rings = [ring for ring in made.program.arefs if ring.transport == "registers"]
    assert len(rings) == 2 and all(ring.full_count == 4 and len(ring.buffers) == 2 for ring in rings)
    assert parse(text(made.program), made.program.program) == made.program
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


def test_scales_of_the_next_iteration_are_on_their_way_while_those_of_this_one_are_stored() -> None:
    loader = next(group for group in blackwell.lowered(PLAIN).groups if any(map(stores_scales, group.stmts)))
    (loop,) = (stmt for stmt in loader.stmts if isinstance(stmt, aref.Pipeline))
    kinds = [type(stmt) for stmt in loop.steady]
    assert kinds.index(aref.LoadGlobal) < kinds.index(aref.Acquire) < kinds.index(aref.StoreScales)
    assert any(isinstance(stmt, aref.LoadGlobal) for block in loop.prologue for stmt in block)


def stores_scales(stmt: aref.Stmt) -> bool:
    return isinstance(stmt, aref.StoreScales)


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
    with pytest.raises(exc.UnsupportedInKernel, match="`of_a` are scales that threads load, each CTA by itself"):
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


def loader_without(kind: type[aref.Stmt]) -> Callable[[aref.WarpProgram], aref.WarpProgram]:
    def fault(program: aref.WarpProgram) -> aref.WarpProgram:
        role = next(group.role for group in program.groups if any(map(stores_scales, group.stmts)))
        return changed(program, role, instead(kind, lambda stmt: None))

    return fault


def from_the_first_slot(program: aref.WarpProgram) -> aref.WarpProgram:
    def first(stmt: aref.Stmt) -> aref.Stmt:
        assert isinstance(stmt, aref.StoreScales)
        return replace(stmt, target=replace(stmt.target, cursor=None))

    role = next(group.role for group in program.groups if any(map(stores_scales, group.stmts)))
    return changed(program, role, instead(aref.StoreScales, first))


PLAIN_FAULTS: dict[str, tuple[Callable[[aref.WarpProgram], aref.WarpProgram], str]] = {
    "no scales are stored": (loader_without(aref.StoreScales), "values"),
    "there is no fence of proxies": (loader_without(aref.ProxyFence), "proxy-fence"),
    "slots are not waited for": (loader_without(aref.Acquire), "phase"),
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
