"""Promises of products with scales of blocks for the B200: mxfp8, mxfp4 and nvfp4 compute their tile programs; what
is wrong with scales is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests import blackwell
from tests.blackwell import MXFP4, MXFP8, NVFP4, NVFP4_WIDE, PLAIN, SCALED
from tests.codegen.targets.test_blackwell import Faulty, changed, instead, other, without
from tests.conftest import ROOT
from tests.golden_schedules import Example, kernel
from tests.gpu import scaled_products
from twill import exc
from twill.cli import main
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.tcgen05_descriptors import scaled_instruction_descriptor
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor
from twill.codegen.warp import program as ir
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.tile.interpret import sequential
from twill.tile.interpret.sequential import descriptor_scalars
from twill.trial import execute
from twill.trial.data import make_data

pytestmark = pytest.mark.usefixtures("at_root")

BY_POINTERS = Example("tests/scaled_kernels.py", "by_pointers")

# Two tiles along each axis, the last one ragged, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    MXFP8: {"M": 144, "N": 144, "K": 848},
    NVFP4: {"M": 8, "N": 144, "K": 1312},
    MXFP4: {"M": 144, "N": 8, "K": 1312},
    NVFP4_WIDE: {"M": 8, "N": 272, "K": 1056},
}


# The same of two CTAs, the last pair of which lacks its second instance.
PAIRS: dict[Example, Mapping[str, int]] = {
    MXFP8: {"M": 272, "N": 144, "K": 848},
    NVFP4_WIDE: {"M": 400, "N": 264, "K": 1312},
}


def said(example: Example, sizes: Mapping[str, int], change: Callable[[str], str] = str, cluster: int = 1) -> list[str]:
    made, problem = blackwell.compiled(example, cluster), problem_of(kernel(example).specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case(dict(sizes)), data="normal")
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given, 2).said()


@pytest.mark.parametrize("example", PAIRS, ids=[example.name for example in PAIRS])
def test_two_ctas_multiply_together_with_scales(example: Example) -> None:
    """Each loads the scales of its rows of A, and all of B's."""
    assert said(example, PAIRS[example], cluster=2) == []
    made = blackwell.compiled(example, 2)
    assert all(ring.pair for ring in made.program.arefs)
    shapes = {buffer.name: buffer.shape for buffer in made.program.buffers}
    columns = shapes["acc"][1]
    assert shapes["b"][0] == columns // 2 and shapes["b_scale"][0] == shapes["a_scale"][0] * columns // 128
    assert "tcgen05.cp.cta_group::2" in made.build.ptx and "tcgen05.mma.cta_group::2" in made.build.ptx


@pytest.mark.parametrize("example", SCALED, ids=[example.name for example in SCALED])
def test_products_with_scales_compute_their_tile_programs(example: Example) -> None:
    assert said(example, SIZES[example]) == []


@pytest.mark.parametrize("example", SCALED, ids=[example.name for example in SCALED])
def test_scales_have_a_slot_in_tensor_memory_for_each_in_shared_memory(example: Example) -> None:
    made = blackwell.compiled(example)
    rings = [ring for ring in made.program.arefs if len(ring.buffers) > 1]
    assert len(rings) == 2
    for ring in rings:
        here, copied = (made.program.buffers[number] for number in ring.buffers)
        assert not here.tensor and copied.tensor and here.slots == copied.slots == ring.depth > 1
        assert ring.bytes == here.shape[0] and copied.width * 128 == here.shape[0]
    assert made.program.tensor_columns == 512
    assert parse(text(made.program), made.program.program) == made.program
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


@pytest.mark.parametrize(
    ("example", "kind"),
    [(MXFP8, "mxf8f6f4.block_scale.scale_vec::1X"), (NVFP4, "mxf4nvf4.block_scale.scale_vec::4X"),
     (MXFP4, "mxf4.block_scale.scale_vec::2X")],
)  # fmt: skip
def test_the_kind_of_a_product_is_that_of_its_elements_and_scales(example: Example, kind: str) -> None:
    ptx = blackwell.compiled(example).build.ptx
    assert f"tcgen05.mma.cta_group::1.kind::{kind}" in ptx and "tcgen05.cp.cta_group::1.32x128b.warpx4" in ptx


def test_descriptors_of_products_with_scales_are_read_back() -> None:
    read = InstructionDescriptor.decoded(scaled_instruction_descriptor(128, 256, "f8e5m2", "i8") | 2 << 4 | 3 << 29,
                                         "mxf8f6f4")  # fmt: skip
    assert (read.a, read.b, read.m, read.n, read.scale, read.scale_ids) == ("e5m2", "e5m2", 128, 256, "ue8m0", (3, 2))
    read = InstructionDescriptor.decoded(scaled_instruction_descriptor(128, 64, "i8", "f8e4m3"), "mxf4nvf4")
    assert (read.a, read.b, read.m, read.n, read.scale) == ("e2m1x2", "e2m1x2", 128, 64, "ue4m3")
    read = InstructionDescriptor.decoded(scaled_instruction_descriptor(256, 64, "f8e4m3", "i8", pair=True), "mxf8f6f4")
    assert (read.a, read.m) == ("e4m3", 256)
    with pytest.raises(ValueError, match="192 x 64"):
        scaled_instruction_descriptor(192, 64, "i8", "i8")


def small(element: str, other: str = "") -> list[str]:
    """What kernels of `tests/scaled_kernels.py` are emitted with. other: elements of B, if they are others."""
    types = {"a": f"{element}[128,128]", "b": f"{other or element}[128,128]", "c": "bf16[128,128]",
             **dict.fromkeys(("sa", "sb"), "u8[1,1,1,2,256]")}  # fmt: skip
    given = [word for name, kind in types.items() for word in ("--sig", f"{name}=tensordesc<{kind}>")]
    constants = [word for name in ("BM", "BN", "BK") for word in ("--const", f"{name}=128")]
    return [*given, "--sig", "K=i32", *constants, "--machine", "b200", "--no-store", "--execute"]


@pytest.mark.parametrize(("name", "element"), [("twice", "fp8e4nv"), ("with_one", "fp8e5")])
def test_scales_that_are_read_twice_are_copied_once(
    name: str, element: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["emit", f"tests/scaled_kernels.py::{name}", *small(element)]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["mixed", "unscaled"])
def test_the_two_kinds_of_fp8_are_multiplied_together(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", f"tests/scaled_kernels.py::{name}", *small("fp8e4nv", "fp8e5")]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


def test_the_descriptor_of_a_mixed_product_has_both_types() -> None:
    word = scaled_instruction_descriptor(128, 64, "f8e4m3", "i8", operand_b="f8e5m2")
    read = InstructionDescriptor.decoded(word, "mxf8f6f4")
    assert (read.a, read.b) == ("e4m3", "e5m2")


@pytest.mark.parametrize("example", [MXFP8, NVFP4], ids=[MXFP8.name, NVFP4.name])
def test_what_a_board_is_compared_with_is_the_tile_program(example: Example) -> None:
    """`tests.gpu.scaled_products`, which runs on a B200 alone otherwise."""
    made, problem = blackwell.compiled(example), problem_of(kernel(example).specialization)
    assert problem is not None
    case = problem.case({"M": 136, "N": 16, "K": 288})
    data = make_data(made.manifest, case, device="cpu")
    scaled_products.prepare(data)
    wanted = scaled_products.reference(data, torch.float64)["c_desc"].numpy()
    program = kernel(example).program
    names = ("a_desc", "a_scales", "b_desc", "b_scales", "c_desc")
    arrays = {name: held(data.tensor(name)).reshape(-1) for name in names}
    sequential.run(program, case.grid, arrays, {**case.scalars, **descriptor_scalars(program, case.shapes)})
    assert np.abs(arrays["c_desc"].reshape(wanted.shape) - wanted).max() <= 2**-7 * np.abs(wanted).max() > 0


def held(tensor: torch.Tensor) -> Any:
    """As the interpreter holds elements."""
    return tensor.numpy().view(np.int8).copy() if tensor.dtype == torch.uint8 else tensor.float().numpy().copy()


def test_scales_behind_pointers_are_copied_row_by_row() -> None:
    """Boxes of 256 bytes, of which a tile of scales for 256 columns and 256 of K has 16."""
    program = blackwell.lowered(BY_POINTERS)
    loads = [stmt for group in program.groups for stmt in group.stmts if isinstance(stmt, ir.TmaLoad)]
    boxes = [stmt.target.columns for stmt in loads if program.buffers[stmt.target.buffer].name == "sb"]
    assert boxes == [(at, at + 256) for at in range(0, 4096, 256)]
    assert said(BY_POINTERS, {"M": 8, "N": 264, "K": 1024}) == []


# ---------------------------------------------------------------- what is wrong is found


def no_copy_of(name: str) -> Callable[[ir.WarpProgram], Faulty]:
    def fault(program: ir.WarpProgram) -> Faulty:
        gone = next(buffer.id for buffer in program.buffers if buffer.name == name)
        return lambda stmt: None if isinstance(stmt, ir.CopyScales) and stmt.source.buffer == gone else stmt

    return fault


def plain(change: Faulty) -> Callable[[ir.WarpProgram], Faulty]:
    return lambda program: change


def exchanged(stmt: ir.Stmt) -> ir.Stmt:
    return replace(stmt, of_a=stmt.of_b, of_b=stmt.of_a)  # type: ignore[attr-defined, call-arg]


def first_slot(field: str) -> Faulty:
    """Of a ring: always the first slot, without a cursor."""
    return lambda stmt: replace(stmt, **{field: replace(getattr(stmt, field), cursor=None)})


def behind_its_product(stmt: ir.Stmt) -> ir.Stmt | None:
    """Copies that come behind the product which reads them."""
    if not isinstance(stmt, ir.Pipeline):
        return stmt

    def moved(block: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        copies = [one for one in block if isinstance(one, ir.CopyScales)]
        rest = [one for one in block if one not in copies]
        place = next((n for n, one in enumerate(rest) if isinstance(one, ir.TensorMultiply)), 0)
        return (*rest[: place + 1], *copies, *rest[place + 1 :]) if copies else block

    return replace(
        stmt, steady=moved(stmt.steady), prologue=tuple(map(moved, stmt.prologue)),
        epilogue=tuple(map(moved, stmt.epilogue)),
    )  # fmt: skip


FAULTS: dict[str, tuple[Callable[[ir.WarpProgram], Faulty], str]] = {
    "scales of A are not copied": (no_copy_of("a_scale"), "values"),
    "scales of B are not copied": (no_copy_of("b_scale"), "values"),
    "each has the other's": (plain(instead(ir.TensorMultiply, exchanged)), "values"),
    "they are copied to the first columns": (plain(instead(ir.CopyScales, first_slot("target"))), "order"),
    "they are copied from the first slot": (plain(instead(ir.CopyScales, first_slot("source"))), "values"),
    "a product reads the first columns": (plain(instead(ir.TensorMultiply, first_slot("of_b"))), "values"),
    "copies come behind their product": (plain(behind_its_product), "mma-wait"),
    "scales are of other blocks": (plain(instead(ir.TensorMultiply, lambda s: replace(s, block=16))), "layout"),  # type: ignore[call-arg]
    "they are not waited for": (plain(instead(ir.Get, lambda stmt: None)), "phase"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_with_scales_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = FAULTS[name]
    program = blackwell.lowered(MXFP8)
    found = verify(changed(program, "mma", fault(program)), problem_of(kernel(MXFP8).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


def test_a_fault_with_scales_of_a_pair_is_found_by_the_abstract_machine() -> None:
    fault, rule = FAULTS["scales of B are not copied"]
    program = blackwell.lowered(MXFP8, 2)
    found = verify(changed(program, "mma", fault(program)), problem_of(kernel(MXFP8).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


MULTIPLY = r"(tcgen05\.mma\S* \[%r\d+\], %rd\d+, %rd\d+, )(%?\w+)(, \[)(%r\d+)(\], \[)(%r\d+)\]"
PRINTED = {
    "no scales are copied": without(r"(@%p\d+ )?tcgen05\.cp"),
    "the bytes of scales are always the first": other(
        r"\b(\d{9,10})\b(?=, \[|;)", lambda found: str(int(found[0]) & ~(3 << 4 | 3 << 29))
    ),
    "scales of A and of B change places": other(MULTIPLY, r"\1\2\3\6\5\4]"),
    "rows of scales are 32 bytes apart": other(rf"\b{1 << 46 | 8 << 32}\b", str(1 << 46 | 16 << 32)),
}


def test_every_byte_of_a_word_of_scales_is_read() -> None:
    """What each fault below needs to be one."""
    cuda = blackwell.compiled(MXFP8).printed.text
    assert "(ks * 1 % 4) << 4 | (ks * 1 % 4) << 29" in cuda


@pytest.mark.parametrize("name", PRINTED)
def test_a_fault_of_printed_scales_is_found_by_the_executor(name: str) -> None:
    assert said(MXFP8, {"M": 64, "N": 64, "K": 144}, PRINTED[name])


# ---------------------------------------------------------------- bad input

TALL = ["--const", "BLOCK_M=256", "--sig", "a_desc=tensordesc<fp8e4nv[256, 128]>", "--sig",
        "a_scales=tensordesc<u8[1,2,1,2,256]>", "--sig", "c_desc=tensordesc<bf16[256, 128]>"]  # fmt: skip


def test_256_rows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", str(ROOT / MXFP8.file), "--machine", "b200", "--no-store", "--ir", *TALL]) == 2
    found = capsys.readouterr().err
    assert re.search(r"gemm_mxfp8\.py:\d+: `acc` has 256 rows", found) and "A of 128 rows" in found


def test_modules_of_gluon_of_scales_that_threads_put_in_order_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    spec = ["--spec", PLAIN.spec, "--machine", "b200", "--no-store", "--execute", "--as", "gluon"]
    assert main(["emit", str(ROOT / PLAIN.file), *spec]) == 2
    assert "no printer for Gluon" in capsys.readouterr().err


def test_scales_that_have_no_columns_left_are_refused() -> None:
    small = blackwell.machine().model_copy(
        update={"memories": tuple(
            m.model_copy(update={"bytes": m.bytes.model_copy(update={"value": 65536})}) if m.name == "tmem" else m
            for m in blackwell.machine().memories
        )}
    )  # fmt: skip
    schedule = blackwell.schedule(MXFP8).model_copy(update={"machine_digest": small.digest()})
    with pytest.raises(exc.UnsupportedInKernel, match="more than tensor memory"):
        lower(kernel(MXFP8).program, schedule, small)


def test_what_is_to_be_written_for_hopper_is_emitted(capsys: pytest.CaptureFixture[str]) -> None:
    types = {"a": "tensordesc<fp8e4nv[64,32]>", "b": "tensordesc<fp8e4nv[64,32]>", "c": "tensordesc<bf16[64,64]>",
             "sa": "*u8", "sb": "*u8", "M": "i32", "N": "i32", "K": "i32"}  # fmt: skip
    given = [word for name, kind in types.items() for word in ("--sig", f"{name}={kind}")]
    asked = ["tests/scaled_kernels.py::instead", *given, "--const", "BM=64", "--const", "BN=64"]
    assert main(["emit", *asked, "--machine", "h100", "--no-store", "--ir"]) == 0
    assert "k 32 f8e4m3" in capsys.readouterr().out


def test_a_machine_without_such_products_says_so_when_it_is_solved_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", str(ROOT / MXFP8.file), "--machine", "h100", "--no-store"]) == 2
    assert "a machine that has products with scales of blocks (`--machine b200`)" in capsys.readouterr().err


def test_k_is_split_among_program_instances(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["emit", str(ROOT / MXFP8.file), "--machine", "b200", "--no-store", "--execute", "--split", "2"]
    assert main(asked) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out
