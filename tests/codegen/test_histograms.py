"""`tl.histogram`: the tile program counts as Triton's interpreter does, and machine code as the tile program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.generated.kernels import held
from tests.kernels import B200, H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import Histogram, Reduce, Sync
from twill.codegen.warp.text import text
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

HEAD = "@triton.jit\ndef k(x, y, n, B: tl.constexpr, H: tl.constexpr):\n    pid = tl.program_id(0)\n"
KERNELS = {
    "of a tile": """
    at = pid * B + tl.arange(0, B)
    tl.store(y + pid * H + tl.arange(0, H), tl.histogram(tl.load(x + at, mask=at < n, other=-1), H))
""",
    "in a loop, under a mask, with offsets behind it": """
    total = tl.zeros((H,), tl.int32)
    for i in range(0, n, B):
        at = i + tl.arange(0, B)
        total += tl.histogram(tl.load(x + at, mask=at < n, other=0), H, mask=at < n)
    tl.store(y + pid * 2 * H + tl.arange(0, H), total)
    tl.store(y + pid * 2 * H + H + tl.arange(0, H), tl.cumsum(total, 0) - total)
""",
    "of what is computed, two one after the other": """
    at = pid * B + tl.arange(0, B)
    v = tl.load(x + at, mask=at < n, other=0)
    first = tl.histogram(v & 3, H)
    tl.store(y + pid * 2 * H + tl.arange(0, H), first)
    tl.store(y + pid * 2 * H + H + tl.arange(0, H), tl.histogram(v * 5, H) + tl.max(first, 0))
""",
}
SIGNATURE = ("x=*i32:16", "y=*i32:16", "n=i32")
CASE = Case({}, (3,), {"x": (1536,), "y": (768,)}, {"n": 1100})


def numbers(bins: int) -> Mapping[str, Any]:
    """Numbers of which most have a bin."""
    return {"x": np.random.default_rng(0).integers(0, bins, 1536).astype(np.int32)}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("bins", [16, 128])
def test_the_tile_program_counts_as_tritons_interpreter_does(
    kernel_file: Callable[..., str], name: str, bins: int
) -> None:
    spec = resolve(f"{kernel_file(HEAD + KERNELS[name])}::k", sig=SIGNATURE, const=["B=512", f"H={bins}"])
    given = numbers(bins) if "computed" not in name else {"x": numbers(bins)["x"] % (bins // 5)}
    assert all(one.furthest == 0 for one in held(spec, CASE, given=given))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("machine", "bins"), [(H100, 16), (H100, 256), (B200, 64)], ids=["h16", "h256", "b64"])
def test_machine_code_counts_as_the_tile_program_does(
    kernel_file: Callable[..., str], name: str, machine: Machine, bins: int
) -> None:
    """Numbers without a bin, negative ones too, are not counted."""
    kernel = extract(f"{kernel_file(HEAD + KERNELS[name])}::k", sig=SIGNATURE, const=["B=512", f"H={bins}"])
    made = emit_scheduled(kernel, machine, solve(kernel.graph, machine, SolveOptions(strategy="heuristic")))
    one = launch(kernel.program, CASE)
    beyond = np.random.default_rng(1).integers(-bins, 2 * bins, 1536).astype(np.int32)
    for x in (numbers(bins)["x"], beyond):
        arrays = {"x": x, "y": np.zeros(3 * 2 * bins, np.int32)}
        found = verified(made.build.ptx, made.manifest, made.program, replace(one, arrays=arrays), ctas=1)
        assert not found.said() and found.arrays["y"].any()
    assert parse(text(made.program), made.program.program) == made.program


def test_one_that_follows_waits_until_all_have_read_the_counts_before(kernel_file: Callable[..., str]) -> None:
    source = HEAD + KERNELS["of what is computed, two one after the other"]
    kernel = extract(f"{kernel_file(source)}::k", sig=SIGNATURE, const=["B=512", "H=64"])
    made = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    body = [stmt for stmt in made.program.groups[0].body if isinstance(stmt, Histogram | Reduce | Sync)]
    first, second = (at for at, stmt in enumerate(body) if isinstance(stmt, Histogram))
    scratches = [None if isinstance(stmt, Sync) else stmt.scratch for stmt in body]
    assert any(one != scratches[first] for one in scratches[first + 1 : second])
