"""Promises of `twill.codegen.verify.ptx.early_accesses`: no way leads to global memory without a wait for earlier
grids, in a kernel whose launch begins early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden_schedules import compiled, examples
from tests.ptx_programs import kernel
from twill import exc
from twill.codegen.emit import refuse_early
from twill.codegen.verify.ptx.early_accesses import early_accesses
from twill.ptx.parse import parse

WAIT = "griddepcontrol.wait;"
HEAD = "ld.param.u64 %r90, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; "
EMITTED = ("gemm_bf16", "layer_norm_bf16", "attention_causal")


def found(body: str) -> list[str]:
    """The instructions that come too early."""
    (function,) = parse(kernel(HEAD + body, ("out",))).functions
    return [one.message.split("`")[1] for one in early_accesses(function)]


@pytest.mark.parametrize(
    ("body", "early"),
    [
        (f"{WAIT} ld.global.u32 %r2, [%r90];", []),
        (f"ld.global.u32 %r2, [%r90]; {WAIT}", ["ld.global.u32"]),
        (f"prefetch.tensormap [%r90]; st.shared.u32 [%r3], %r1; {WAIT} st.global.u32 [%r90], %r1;", []),
        (f"@%p1 {WAIT} red.global.add.u32 [%r90], %r1;", ["red.global.add.u32"]),
        (f"@%p1 bra L; {WAIT} L: st.global.u32 [%r90], %r1;", ["st.global.u32"]),
        (f"@%p1 bra L; {WAIT} ld.global.u32 %r2, [%r90]; L: ret;", []),
        (f"bra M; L: ld.global.u32 %r2, [%r90]; ret; M: {WAIT} bra L;", []),
        (f"ld.u32 %r2, [%r90]; {WAIT}", ["ld.u32"]),
        ("ld.global.u32 %r2, [%r90];", ["ld.global.u32"]),
    ],
)
def test_what_a_way_without_a_wait_leads_to_is_found(body: str, early: list[str]) -> None:
    assert found(body) == early


@pytest.mark.parametrize("name", EMITTED)
def test_emitted_kernels_wait_and_each_wait_that_is_missing_is_found(name: str) -> None:
    emission = compiled(next(one for one in examples() if one.name == name))
    assert emission.manifest.early
    refuse_early(emission.program, emission)
    places = emission.build.ptx.split(WAIT)
    assert len(places) > 1
    for number in range(1, len(places)):
        ptx = WAIT.join(places[:number]) + WAIT.join(["", *places[number:]])[len(WAIT) :]
        with pytest.raises(exc.CodeBroken, match="before earlier grids have ended"):
            refuse_early(emission.program, replace(emission, build=replace(emission.build, ptx=ptx)))
