"""Loops in loops are emitted. A persistent GEMM is the plain one, and its machine code computes what its loop does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import H100
from tests.manifests import KERNEL
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import Trial, reference, trials, verify
from twill.codegen.warp.program import WarpProgram
from twill.exc import WrongArgument
from twill.kernel.problem import Case
from twill.kernel.specialization import problem_of
from twill.manifest.evaluate import ScalarOperation
from twill.manifest.tile_loop import TileLoop, instance_grid
from twill.runtime.arguments import BoundArguments
from twill.runtime.plan import grid_of_instances, needed_by_maps
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import loops_of
from twill.trial.execute import verified

HEAD = """
@triton.jit
def k(a, b, c, M, N, K, B: tl.constexpr, STEP: tl.constexpr):
"""
WORK = """
    m, n = tile // tl.cdiv(N, B) * B, tile % tl.cdiv(N, B) * B
    acc = tl.zeros([B, B], tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))
"""
PERSISTENT = f"""{HEAD}
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * tl.cdiv(N, B), STEP):{WORK.replace(chr(10), chr(10) + "    ")}
"""
PLAIN = f"{HEAD}    tile = tl.program_id(0){WORK}"
SIG = [*(f"{name}=tensordesc<fp16[64, 64]>" for name in "abc"), "M=i32:16", "N=i32:16", "K=i32:16"]


def emission(file: str) -> Emission:
    kernel = extract(f"{file}::k", sig=SIG, const=["B=64", "STEP=4"])
    return emit_scheduled(kernel, H100, solved(kernel))


def solved(kernel: Extracted) -> Schedule:
    return solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))


def test_it_is_the_plain_kernel_on_the_grid_of_its_tiles(kernel_file: Callable[..., str]) -> None:
    persistent = emission(kernel_file(PERSISTENT))
    plain = extract(f"{kernel_file(PLAIN, name='plain.py')}::k", sig=SIG, const=["B=64", "STEP=4"])
    assert work(persistent.program) == work(lower(plain.program, solved(plain), H100))
    case = Case({}, (4,), {"a": (144, 80), "b": (80, 144), "c": (144, 144)}, {"M": 144, "N": 144, "K": 80})
    tiles = persistent.manifest.tiles
    assert plain.program.tiles is None and tiles is not None
    grid = instance_grid(tiles, case.grid, case.scalars)
    assert grid == (9,)
    made = launch(persistent.program.program, replace(case, grid=grid))
    execution = verified(persistent.build.ptx, persistent.manifest, persistent.program, made, ctas=2)
    assert execution.said() == []
    a, b = (made.arrays[name].astype(np.float64).reshape(case.shapes[name]) for name in "ab")
    found = execution.arrays["c"].reshape(144, 144)
    assert np.allclose(found, a @ b, rtol=1e-2, atol=1e-2 * np.abs(a @ b).max())


def work(made: WarpProgram) -> list[list[str]]:
    """The kinds of statements of each warp group, but for those that compute indices."""
    kinds = [[type(stmt).__name__ for stmt in group.stmts] for group in made.groups]
    return [[kind for kind in group if kind != "Let"] for group in kinds]


def test_a_launch_has_its_tiles_for_instances_and_refuses_a_grid_that_leaves_some_out() -> None:
    tiles = TileLoop(0, ScalarOperation("mul", "i32", ("M", "N")), "N", once=False)
    manifest, bound = replace(KERNEL, tiles=tiles), BoundArguments({"M": 5, "N": 8}, {})
    assert grid_of_instances(manifest, (8, 2, 1), bound) == (40, 2, 1)
    assert grid_of_instances(KERNEL, (8, 2, 1), bound) == (8, 2, 1)
    with pytest.raises(WrongArgument, match="7 programs, which leave out some of 40 tiles"):
        grid_of_instances(manifest, (7, 2, 1), bound)
    with pytest.raises(WrongArgument, match="beyond i32"):
        grid_of_instances(manifest, (8, 2, 1), BoundArguments({"M": 1 << 30, "N": 8}, {}))
    assert {"M", "N"} <= needed_by_maps(manifest)  # a launch with others is prepared anew


RECORDED = """
@triton.jit
def k(a, b, c, M, N, K, stride_a, stride_b, stride_c, B: tl.constexpr, STEP: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * tl.cdiv(N, B), STEP):
        m, n = tile // tl.cdiv(N, B) * B + tl.arange(0, B), tile % tl.cdiv(N, B) * B + tl.arange(0, B)
        acc = tl.zeros([B, B], tl.float32)
        for at in range(0, K, B):
            k = at + tl.arange(0, B)
            x = tl.load(a + m[:, None] * stride_a + k[None, :], mask=k[None, :] < K, other=0.0)
            y = tl.load(b + k[:, None] * stride_b + n[None, :], mask=k[:, None] < K, other=0.0)
            acc = tl.dot(x, y, acc)
        tl.store(c + m[:, None] * stride_c + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
"""
ONE_LAUNCH = """
[[specialization]]
name = "once"
default = true
grid = ["1"]
[specialization.signature]
a = "*fp16:16"
b = "*fp16:16"
c = "*fp16:16"
M = "i32:16"
N = "i32:16"
K = "i32:16"
stride_a = "i32:16"
stride_b = "i32:16"
stride_c = "i32:16"
[specialization.constexprs]
B = 64
STEP = 4
[specialization.problem]
units = { M = 16, N = 16, K = 16, stride_a = 16, stride_b = 16, stride_c = 16 }
tensors = { a = ["M", "M"], b = ["M", "M"], c = ["M", "M"] }
run = [{ M = 32, N = 32, K = 32, stride_a = 32, stride_b = 32, stride_c = 32 }]
"""


def test_one_recorded_launch_of_one_tile_says_enough_to_check_a_persistent_gemm_at_many(
    kernel_file: Callable[..., str],
) -> None:
    kernel = extract(f"{kernel_file(RECORDED, ONE_LAUNCH)}::k")
    program = lower(kernel.program, solved(kernel), H100)
    given = trials(program, problem_of(kernel.specialization))
    assert max(trial.launch.grid[0] for trial in given) > 4
    assert verify(program, given=given) == ()


NEST = """
@triton.jit
def k(a, b, c, M, N, K, B: tl.constexpr, STEP: tl.constexpr):
    m = tl.program_id(0) * B
    s = tl.zeros([B, B], tl.float32)
    for n in range(0, N, B):
        acc = tl.zeros([B, B], tl.float32)
        for k in range(0, K, B):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        s = s * 0.5 + acc
        c.store([m, n], s.to(tl.float16))
"""


def test_a_gemm_in_a_loop_that_carries_sums_is_one_loop_that_the_abstract_machine_consents_to(
    kernel_file: Callable[..., str],
) -> None:
    kernel = extract(f"{kernel_file(NEST)}::k", sig=SIG, const=["B=64", "STEP=0"])
    program = lower(kernel.program, solved(kernel), H100)
    nest = kernel.program.original
    assert nest is not None and len(list(loops_of(nest.body))) == 2
    case = Case({}, (2,), {"a": (80, 16), "b": (16, 144), "c": (80, 144)}, {"M": 80, "N": 144, "K": 0})
    empty = launch(kernel.program, case)  # an inner loop without iterations
    assert verify(program, given=(*trials(program), Trial(empty, (reference(program, empty),)))) == ()
