"""The cubins of the GPU checks: which text with which macros and multiplies, and what their kernels take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from twill.codegen.compile.nvrtc import Build, compile_cubin
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape, Operand
from twill.runtime.module import LaunchParameter

KERNELS = Path(__file__).parent / "kernels"
BYTES: dict[str, int] = {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1}


@dataclass(frozen=True)
class GpuBuild:
    """One cubin. kernels: name -> parameters."""

    name: str
    source: str
    kernels: dict[str, tuple[LaunchParameter, ...]]
    shapes: tuple[MultiplyShape, ...] = ()
    defines: dict[str, str] = field(default_factory=dict)

    def compile(self) -> Build:
        """Built here and now."""
        text = (KERNELS / self.source).read_text(encoding="utf-8")
        return compile_cubin(text, shapes=self.shapes, defines=self.defines, name=self.source)


def _maps(*names: str) -> tuple[LaunchParameter, ...]:
    return tuple(LaunchParameter(name, "tensor_map") for name in names)


def _numbers(*names: str) -> tuple[LaunchParameter, ...]:
    return tuple(LaunchParameter(name, "i32") for name in names)


def _pointers(**dtypes: str) -> tuple[LaunchParameter, ...]:
    return tuple(LaunchParameter(name, "pointer", dtype, 4) for name, dtype in dtypes.items())


@dataclass(frozen=True)
class Gemm:
    """A variant of gemm.cu."""

    operand: Operand
    columns: int
    b_mn: bool = False
    a_in: Literal["shared", "register"] = "shared"

    @property
    def slots(self) -> int:
        """Of the ring: as many as fit beside the C tile."""
        return 3 if self.columns > 192 else 4

    @property
    def build(self) -> GpuBuild:
        """Its cubin."""
        shape = MultiplyShape(self.operand, self.operand, self.columns, self.a_in)
        majors = ("<1>" if self.a_in == "register" else "<0, 1>") if self.b_mn else ""
        return GpuBuild(
            f"gemm_{self.operand}_{self.columns}_{'kn' if self.b_mn else 'nk'}_{self.a_in}",
            "gemm.cu",
            {"gemm": _maps("A", "B", "C") + _numbers("rows", "columns", "steps")},
            (shape,),
            {
                "CFG_D": str(self.slots),
                "CFG_BN": str(self.columns),
                "IN_BYTES": str(BYTES[self.operand]),
                "B_MN": str(int(self.b_mn)),
                "A_REG": str(int(self.a_in == "register")),
                "MULTIPLY": shape.name + majors,
            },
        )


@dataclass(frozen=True)
class Layout:
    """A variant of operand.cu."""

    operand: Operand
    columns: int
    swizzle: Literal[32, 64, 128]
    a_mn: bool = False
    b_mn: bool = False
    depth: int = 128

    @property
    def build(self) -> GpuBuild:
        """Its cubin."""
        shape = MultiplyShape(self.operand, self.operand, self.columns)
        majors = f"<{int(self.a_mn)}, {int(self.b_mn)}>" if shape.transposable else ""
        defines = {
            "CFG_N": str(self.columns),
            "CFG_K": str(self.depth),
            "CFG_SW": str(self.swizzle),
            "CFG_ES": str(BYTES[self.operand]),
            "A_MN": str(int(self.a_mn)),
            "B_MN": str(int(self.b_mn)),
            "MULTIPLY": shape.name + majors,
        }
        majors_text = ("m" if self.a_mn else "k") + ("n" if self.b_mn else "k")
        name = f"layout_{self.operand}_{self.columns}_{self.swizzle}_{majors_text}"
        kernels = {"operand_layouts": _maps("A", "B") + _pointers(out="f32")}
        return GpuBuild(name, "operand.cu", kernels, (shape,), defines)


GEMMS = (
    Gemm("bf16", 256),
    Gemm("bf16", 128, b_mn=True),
    Gemm("f16", 192),
    Gemm("bf16", 128, a_in="register"),
    Gemm("f16", 128, b_mn=True, a_in="register"),
    Gemm("e4m3", 256),
    Gemm("e4m3", 128, a_in="register"),
)

LAYOUTS = (
    *(Layout("bf16", 64, swizzle, a, b) for swizzle in (128, 64, 32) for a in (False, True) for b in (False, True)),
    Layout("f16", 192, 128, b_mn=True),
    Layout("bf16", 80, 128),
    Layout("bf16", 8, 64),
    Layout("e4m3", 96, 128),
    Layout("e4m3", 96, 32),
    Layout("tf32", 128, 128, depth=64),
)

COPIES = GpuBuild(
    "copies",
    "copies.cu",
    {
        **{
            f"copy{rank}": _maps("in", "out", "sum")
            + _numbers("e0", "n0", "e1", "n1")
            + (LaunchParameter("bytes", "u32"),)
            for rank in range(1, 6)
        },
        "copy_rows": _pointers(**{"in": "bf16", "out": "bf16", "again": "bf16"}) + _numbers("rows"),
        "multicast": _maps("in") + _pointers(out="f32") + _numbers("tiles"),
    },
)

FRAGMENTS = GpuBuild(
    "fragments",
    "fragments.cu",
    {
        "matrices": _pointers(**{"in": "i32", "out": "i32"}),
        "functions": _pointers(x="f32", y="f32", packed="i32") + _numbers("n"),
        "talk": _pointers(counts="i32", sums="f32", bf16s="bf16", wide="f64"),
    },
)

BUILDS: tuple[GpuBuild, ...] = (*(g.build for g in GEMMS), *(x.build for x in LAYOUTS), COPIES, FRAGMENTS)
