"""Promises of the manifest that a warp program gets: calls, promises and maps as the Triton kernel's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.codegen.warp.test_text import PROGRAM
from twill import exc
from twill.codegen.manifest import call_arguments, make_manifest, map_entry, scalar_of
from twill.codegen.print.launcher import launcher
from twill.codegen.warp.expression import Apply, Number, ProgramId, Symbol
from twill.codegen.warp.program import TensorMapSpec
from twill.kernel.specialization import resolve
from twill.manifest.document import CallArgument, Manifest, Promise, parse_manifest
from twill.manifest.evaluate import ScalarOperation
from twill.tile.access.resolve import resolve_accesses
from twill.tile.program import Argument, TileProgram, TileType
from twill.tile.translate.translate import tile_program

KERNEL = """
@triton.jit
def k(a, d, n, scale, stride, out, BLOCK: tl.constexpr, MODE: tl.constexpr = 3, extra=None):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + o, tl.load(a + o) * scale)
"""
SIDECAR = """
[[specialization]]
name = "one"
grid = ["cdiv(n, BLOCK)"]
[specialization.signature]
a = "*fp32:16"
d = "tensordesc<fp8e4nv[64, 32]>"
n = "i32:16"
scale = "fp32"
out = "*fp32"
[specialization.constexprs]
stride = 1
BLOCK = 64
"""


def made(kernel_file: Callable[..., str], program: TileProgram | None = None) -> Manifest:
    path = kernel_file(KERNEL, SIDECAR)
    specialization = resolve(path)
    tile = program or resolve_accesses(tile_program(specialization))
    return make_manifest(
        replace(PROGRAM, program=tile), specialization,
        architecture="sm_90a", entry="twill_k", threads=256, cubin=b"code", schedule="key",
    )  # fmt: skip


def test_arguments_are_those_of_the_triton_kernel_in_order(kernel_file: Callable[..., str]) -> None:
    path = kernel_file(KERNEL, SIDECAR)
    assert call_arguments(resolve(path)) == (
        CallArgument("a", "pointer", "*fp32", "f32"),
        CallArgument("d", "descriptor", "tensordesc<fp8e4nv[64, 32]>", "f8e4m3fn", (64, 32)),
        CallArgument("n", "number", "i32"),
        CallArgument("scale", "number", "fp32"),
        CallArgument("stride", "constant", value=1),
        CallArgument("out", "pointer", "*fp32", "f32"),
        CallArgument("BLOCK", "constant", value=64),
        CallArgument("MODE", "constant", value=3, optional=True, default=3),
        CallArgument("extra", "constant", value=None, optional=True, default=None),
    )


def test_promises_and_accesses_are_those_of_the_tile_program(kernel_file: Callable[..., str]) -> None:
    manifest = made(kernel_file)
    assert {Promise("a", 16), Promise("d", 16), Promise("d.stride.0", 16), Promise("n", 16)} == set(manifest.promises)
    assert (manifest.loads, manifest.stores, manifest.reduces) == (("a",), (), ("out",))
    assert manifest.grid == ("cdiv(n, BLOCK)",)
    assert manifest.belongs_to(b"code")
    assert replace(parse_manifest(manifest.text()), digest="") == manifest


def test_a_map_is_written_over_arguments() -> None:
    size = Apply("cast", (Symbol(3, "x.shape.0", "i32"),), "i64")
    entry = TensorMapSpec(0, "x", "f8e4m3", (size, None), (Symbol(4, "s", "i64"), Number(1)), Number(0), (64, 32), 32)
    made = map_entry(entry, "k.py")
    assert made.element == "f8e4m3fn"
    assert (made.sizes, made.strides) == ((ScalarOperation("cast", "i64", ("x.shape.0",)), None), ("s", 1))


def test_what_a_launch_does_not_know_is_refused() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="needs ProgramId") as caught:
        scalar_of(Apply("add", (ProgramId(0), Number(1)), "i32"), "k.py")
    assert caught.value.file == "k.py"
    with pytest.raises(exc.UnsupportedInKernel, match="needs exp2"):
        scalar_of(Apply("exp2", (Number(1.0, "f32"),), "f32"), "k.py")


def test_a_scalar_that_a_kernel_cannot_take_is_refused(kernel_file: Callable[..., str]) -> None:
    arguments = (Argument("N", 3, TileType((), "f16"), 1),)
    with pytest.raises(exc.UnsupportedInKernel, match="argument N is a scalar of type f16"):
        made(kernel_file, TileProgram("k", "one", "k.py", arguments, (), ()))


def test_the_launcher_shows_how_to_call_and_is_python(kernel_file: Callable[..., str]) -> None:
    text = launcher(made(kernel_file))
    compile(text, "launch.py", "exec")
    assert "k[grid](a, d, n, scale, out)" in text
    assert "grid = (cdiv(n, BLOCK),)" in text
    assert "n: i32, a multiple of 16\n" in text and "a: *fp32, a multiple of 16 bytes\n" in text
    assert "BLOCK = 64\n" in text
