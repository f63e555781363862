"""Gluon's PTX for sm_100a with clusters: they take over places of others, copy to one another, multiply in pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

from tests import stranger_clusters
from tests.as_far_as_ptx import compiled_to_ptx
from tests.codegen.verify.ptx import test_strangers_blackwell as strangers
from tests.codegen.verify.ptx.test_strangers_blackwell import BLACKWELL, KNOWN, Bits, replaced
from tests.codegen.verify.ptx.test_strangers_block_scales import maps
from tests.ptx_programs import made_afresh, rules
from twill.codegen.verify.ptx import cluster_launch
from twill.codegen.verify.ptx.run import PointerArgument, PtxLaunch, Result, execute
from twill.ptx.parse import parse

pytestmark = pytest.mark.usefixtures("quiet")
quiet = strangers.quiet

Bases = tuple[tuple[int, int], ...]


def launched(kernel: Any, launch: PtxLaunch, change: Callable[[str], str] = str) -> Result:
    return execute(parse(change(kernel.asm["ptx"])), kernel.metadata.name, launch)


# ---------------------------------------------------------------- cluster launch control


@cache
def taken(ctas: int) -> Any:
    source = GluonASTSource(stranger_clusters.taken, {"out": "*i32"}, constexprs={})
    return compiled_to_ptx(source, BLACKWELL, {"num_warps": 4, "num_ctas": ctas})


def places(ctas: int, answers: tuple[int, ...], change: Callable[[str], str] = str) -> Result:
    """Of six, by whom each was computed."""
    kernel = taken(ctas)
    out = {"out": np.full(6, -1, np.int32)}
    launch = PtxLaunch(
        [PointerArgument("out")], out, (6 * ctas, 1, 1), 128, kernel.metadata.shared, ctas, answers=answers
    )
    return launched(kernel, launch, change)


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize(
    ("answers", "wanted"),
    [((), [0] * 6), ((-1,), [0, 1, 1, 1, 1, 1]), ((-1,) * 6, [0, 1, 2, 3, 4, 5]),
     ((1, 2, -1, 1, -1), [0, 1, 0, 3, 0, 1]), ((4, 3, 2, 1, 0), [0] * 6)],
)  # fmt: skip
def test_clusters_take_over_what_they_are_answered(ctas: int, answers: tuple[int, ...], wanted: list[int]) -> None:
    """By whatever order, and whoever is refused, each place is computed once."""
    result = places(ctas, answers)
    assert not result.findings
    assert result.tensors["out"].tolist() == wanted


def test_an_answer_that_is_misread_leaves_places_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made_afresh(monkeypatch)
    monkeypatch.setitem(cluster_launch._DIMENSIONS, "get_first_ctaid::x", 1)
    assert places(1, ()).tensors["out"].tolist() == [0, -1, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("pattern", "by", "rule"),
    [(r"@%p\d+ bra \t?\$L__BB0_3;", "", "cluster-launch"),  # goes on behind an answer that there is nothing more
     (r"expect_tx[^;]*, 16;", "expect_tx.shared::cta.b64 _, [%r5], 32;", "deadlock"),
     (r"mbarrier\.try_wait[^;]*;", "setp.eq.b32 complete, 0, 0;", "order"),
     (r"fence\.proxy\.async\.shared::cta;", "", "proxy-fence"),
     (r"(try_cancel\S* )\[(%r\d+)\]", r"\1[\2+8]", "alignment")],
)  # fmt: skip
def test_what_is_wrong_with_requests_is_found(pattern: str, by: str, rule: str) -> None:
    assert rule in rules(places(1, (), replaced(pattern, by)))


# ---------------------------------------------------------------- copies to several CTAs, pairs


@cache
def gemm_kernel(a: Bases, b: Bases, c: Bases, pair: bool, block: tuple[int, int]) -> Any:
    """a, b, c: where the CTAs of a cluster lie in each operand, along rows and columns."""
    m, n = block
    shapes = {"a_desc": ([m, 64], a), "b_desc": ([64, n], b), "c_desc": ([m, n], c)}
    signature = {
        name: f"tensordesc<bf16[{shape[0]},{shape[1]}],"
        f"{gl.NVMMASharedLayout.get_default_for(shape, gl.bfloat16, cga_layout=bases)!r}>"
        for name, (shape, bases) in shapes.items()
    }
    across = 1 << sum(column != 0 for _, column in c)
    accumulator = TensorMemoryLayout((128, n // across), 1, cga_layout=[list(basis) for basis in c], two_ctas=pair)
    signature |= {"K": "i32", "tiles_m": "i32", "ACC": "constexpr"}
    source = GluonASTSource(stranger_clusters.gemm, signature, constexprs={"ACC": accumulator})
    return compiled_to_ptx(source, BLACKWELL, {"num_warps": 4, "num_ctas": 1 << len(c)})


CLUSTERS: dict[str, tuple[Bases, Bases, Bases, bool, tuple[int, int]]] = {
    "one CTA": ((), (), (), False, (128, 128)),
    "two CTAs share A": (((0, 0),), ((0, 1),), ((0, 1),), False, (128, 256)),
    "a pair": (((1, 0),), ((0, 1),), ((1, 0),), True, (256, 128)),
    "two pairs share B": (((1, 0), (2, 0)), ((0, 1), (0, 0)), ((1, 0), (2, 0)), True, (512, 128)),
    "two pairs share A": (((1, 0), (0, 0)), ((0, 1), (0, 2)), ((1, 0), (0, 1)), True, (256, 256)),
}
"""Launches of 2 x 2 tiles."""


def gemm(name: str, answers: tuple[int, ...] = (1, -1), change: Callable[[str], str] = str) -> tuple[Result, Bits]:
    kernel = gemm_kernel(*CLUSTERS[name])
    *_, (m, n) = CLUSTERS[name]
    a, b = strangers.random(15, "bf16", 2 * m, 128), strangers.random(16, "bf16", 128, 2 * n)
    tensors = {"a": a, "b": b, "c": np.zeros((2 * m, 2 * n), np.uint16)}
    ctas, shared = kernel.metadata.num_ctas, kernel.metadata.shared
    arguments = [*maps(kernel, tensors, "abc"), 128, 2]
    launch = PtxLaunch(arguments, tensors, (4 * ctas, 1, 1), 128, shared, ctas, answers=answers)
    return launched(kernel, launch, change), strangers.numbers(a, "bf16") @ strangers.numbers(b, "bf16")


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_gemm_whose_clusters_take_over_tiles(name: str) -> None:
    result, wanted = gemm(name)
    assert rules(result) <= KNOWN
    assert strangers.error(result.tensors["c"], wanted) < 2**-8


@pytest.mark.parametrize(
    ("name", "pattern", "by", "rule"),
    [("two CTAs share A", r"multicast::cluster(\.b64 \[[^;]*), %rs\d+;", r"multicast::cluster\1, 1;", "deadlock"),
     ("two CTAs share A", r"\.multicast::cluster( \[[^;]*), %rs\d+;", r"\1;", "deadlock"),
     ("two pairs share B", r"\.multicast::cluster::all", "", "deadlock"),
     ("two pairs share B", r"(barrier\.cluster\.\w+)[^;]*;", "", "tensor-memory"),
     ("two pairs share A", r"(expect_tx[^;]*), \d{5};", r"\1, 8192;", "deadlock")],
)  # fmt: skip
def test_what_is_wrong_in_clusters_is_found(name: str, pattern: str, by: str, rule: str) -> None:
    result, _ = gemm(name, change=replaced(pattern, by))
    assert rule in rules(result)
