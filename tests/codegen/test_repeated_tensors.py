"""Axes along which a tensor is repeated (a stride of 0, as `Tensor.expand` has it): tensor maps can't have them where
nothing in the kernel says where they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.warp.expression import Apply, Number
from twill.codegen.warp.multiples import multiple_of
from twill.runtime.plan import map_parameters
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import TRIED, bind, launchable, small

ROWS = """
@triton.jit
def k(x, y, s, n, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for t in range(n):
        a = tl.load(x + t * s + i[:, None] * B + j[None, :])
        acc = tl.dot(a, a, acc)
    tl.store(y + i[:, None] * B + j[None, :], acc)
"""


def test_a_tensor_repeated_along_an_axis_without_an_end_stays_with_triton(kernel_file: Callable[..., str]) -> None:
    """The map would have to go on for ever along it: with one that ends behind one element the rest was read as zeros,
    and at one of the largest size an H100 stops with an illegal instruction."""
    kernel = extract(f"{kernel_file(ROWS)}::k", sig=["x=*fp16:16", "y=*fp32:16", "s=i32:16", "n=i32"], const=["B=64"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    (entry,) = (one for one in emission.manifest.maps if one.argument == "x")
    assert entry.sizes[0] is None
    launch = small(emission.program, TRIED, None)[0]
    assert launchable(emission.manifest, launch)
    repeated = replace(launch, scalars={**launch.scalars, "s": 0})
    with pytest.raises(exc.MisalignedTensor, match="`x` is repeated along an axis"):
        map_parameters(entry, bind(emission.manifest, repeated))
    assert not launchable(emission.manifest, repeated)
    before = replace(entry, offset=-1)  # of kernels that were emitted when maps might begin anywhere
    with pytest.raises(exc.WrongArgument, match="`x` is seen from 1 elements in front of it on"):
        map_parameters(before, bind(emission.manifest, launch))


def test_what_infinity_is_a_multiple_of_is_not_known() -> None:
    assert multiple_of(Apply("add", (Number(float("inf"), "f32"), Number(16, "f32")), "f32"), {}, {}) == 1
