"""Examples emitted for the B200: solved where they are asked for, for their schedules take a fraction of a second."""

from __future__ import annotations

from functools import cache

from tests import golden_schedules
from tests.golden_schedules import Example, built
from tests.run_cache import once
from twill.codegen.emission import Extracted
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.warp.program import WarpProgram
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

GEMM = Example("examples/gemm.py", "bf16")
FP8 = Example("examples/gemm_fp8.py", "e4m3")
GELU = Example("examples/gemm_bias_gelu.py", "bf16")
POINTERS = Example("examples/gemm_pointers.py", "bf16")
LAYER_NORM = Example("examples/layer_norm.py", "bf16")
WIDE = Example("examples/gemm_bias_gelu.py", "bf16-wide")  # 256 columns
POINTERS_WIDE = Example("examples/gemm_pointers.py", "bf16-wide")
DUAL = Example("examples/dual_gemm.py", "bf16")
MXFP8 = Example("examples/gemm_mxfp8.py", "e4m3")
NVFP4 = Example("examples/gemm_nvfp4.py", "nvfp4")
MXFP4 = Example("examples/gemm_nvfp4.py", "mxfp4")
NVFP4_WIDE = Example("examples/gemm_nvfp4.py", "nvfp4-wide")
TF32 = Example("tests/format_kernels.py", "tf32")
TF32_WIDE = Example("tests/format_kernels.py", "tf32-wide")
PLAIN = Example("tests/format_kernels.py", "plain-mxfp8")  # scales [rows, blocks], which threads load
PLAIN_WIDE = Example("tests/format_kernels.py", "plain-mxfp8-wide")
PLAIN_NVFP4 = Example("tests/format_kernels.py", "plain-nvfp4")
FP8_FP4 = Example("tests/format_kernels.py", "fp8-fp4")  # e4m3 x e2m1, which has a place of 8 bits
FP4_FP8_WIDE = Example("tests/format_kernels.py", "fp4-fp8-wide")  # e2m1 x e5m2
INT8 = Example("tests/format_kernels.py", "int8")
INT8_WIDE = Example("tests/format_kernels.py", "int8-scaled")
BY_THREADS = Example("tests/format_kernels.py", "by-threads")  # operands that threads load
SCALED = (MXFP8, NVFP4, MXFP4, NVFP4_WIDE)  # products with scales of blocks
EMITTED = (GEMM, FP8, GELU, POINTERS, LAYER_NORM, WIDE, POINTERS_WIDE, DUAL)
PAIRS = (GELU, WIDE, DUAL)  # those that two CTAs multiply together


@cache
def machine() -> Machine:
    """The B200."""
    return load_machine("b200")


@cache
def kernel(example: Example) -> Extracted:
    """The example as Blackwell takes it."""
    return golden_schedules.kernel(example).on(machine())


@cache
def schedule(example: Example, cluster: int = 1) -> Schedule:
    """Without fused program instances, as emission asks for it. cluster: 2 for products of two CTAs."""
    options = SolveOptions.model_validate({"fuse": False, "cluster": cluster})
    name = f"b200{'-pair' if cluster > 1 else ''}-schedule-{example.name}"
    found = once(name, lambda: solve(kernel(example).graph, machine(), options))
    assert isinstance(found, Schedule)
    return found


@cache
def lowered(example: Example, cluster: int = 1) -> WarpProgram:
    """Its warp program."""
    return lower(kernel(example).program, schedule(example, cluster), machine(), cluster=cluster)


@cache
def compiled(example: Example, cluster: int = 1) -> Emission:
    """The example, lowered and compiled; neither checked nor executed."""
    if cluster == 1:
        return built(example, lowered(example), schedule(example), machine())
    given = (lowered(example, cluster), kernel(example).specialization, schedule(example, cluster), machine())
    return once(f"b200-pair-{example.name}", lambda: build_kernel(*given))
