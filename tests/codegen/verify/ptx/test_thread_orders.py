"""Promises of `twill.codegen.verify.ptx.thread_orders`: the PTX of an emission has the fences and waits that its warp
program takes for granted, on every path."""

from __future__ import annotations

import re

import pytest

from tests import blackwell, blackwell_attention, blackwell_kept
from tests.codegen.test_split_k import emitted as emitted_split
from tests.golden_schedules import kernel as kernel_of
from tests.ptx_programs import kernel
from twill import exc
from twill.codegen.emit import Emission, build_kernel, refuse_misordered
from twill.codegen.print.cuda import print_synchronization
from twill.codegen.print.cuda.shared import buffers_end, tensor_barriers
from twill.codegen.verify.ptx.thread_orders import BarrierPlaces, misordered
from twill.ptx.parse import parse

EMITTED = {
    "a product": lambda: blackwell.compiled(blackwell.GEMM),
    "by pairs of CTAs": lambda: blackwell.compiled(blackwell.GELU, 2),
    "scales": lambda: blackwell.compiled(blackwell.MXFP8),
    "attention": lambda: blackwell_attention.compiled(blackwell_attention.FULL),
    "a state": lambda: blackwell_kept.compiled(blackwell_kept.LINEAR),
}
AFTER, BEFORE = r"tcgen05\.fence::after_thread_sync;", r"tcgen05\.fence::before_thread_sync;"
LOADED, STORED = r"tcgen05\.wait::ld\.sync\.aligned;", r"tcgen05\.wait::st\.sync\.aligned;"


def found(emission: Emission, ptx: str = "") -> set[str]:
    """The rules that its PTX, or that text, breaks."""
    places = BarrierPlaces(tensor_barriers(emission.program), buffers_end(emission.program))
    function = parse(ptx or emission.build.ptx).function(emission.printed.function)
    return {one.rule for one in misordered(function, places)}


def without_each(pattern: str, ptx: str) -> list[str]:
    """The text without each of the places of a pattern, one at a time."""
    return [ptx[: one.start()] + ptx[one.end() :] for one in re.finditer(pattern, ptx)]


@pytest.mark.parametrize("name", EMITTED)
def test_what_is_emitted_has_its_fences_and_waits(name: str) -> None:
    emission = EMITTED[name]()
    refuse_misordered(emission.program, emission)


@pytest.mark.parametrize("name", ["a product", "by pairs of CTAs", "a state"])
@pytest.mark.parametrize(
    ("pattern", "rule"), [(AFTER, "tcgen05-fence"), (BEFORE, "tcgen05-fence"), (LOADED, "tcgen05-wait")]
)
def test_each_fence_and_each_wait_that_is_missing_is_found(name: str, pattern: str, rule: str) -> None:
    emission = EMITTED[name]()
    texts = without_each(pattern, emission.build.ptx)
    assert texts
    assert all(found(emission, text) == {rule} for text in texts)


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [(AFTER, "tcgen05-fence"), (BEFORE, "tcgen05-fence"), (LOADED, "tcgen05-wait"), (STORED, "tcgen05-wait")],
)
def test_kinds_of_fences_and_waits_that_are_missing_everywhere_are_found(pattern: str, rule: str) -> None:
    """In attention some of them follow one another, so that one alone may be missing."""
    emission = EMITTED["attention"]()
    assert rule in found(emission, re.sub(pattern, "", emission.build.ptx))


@pytest.mark.parametrize("which", ["after", "before"])
def test_fail_a_printer_that_forgets_the_fences_of_one_side(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is emitted."""
    printed = print_synchronization._fence
    monkeypatch.setattr(
        print_synchronization, "_fence", lambda cursor, side, ctx: None if side == which else printed(cursor, side, ctx)
    )
    right = EMITTED["a product"]()
    given = (kernel_of(blackwell.GEMM).specialization, right.schedule, blackwell.machine())
    with pytest.raises(exc.CodeBroken, match=rf"the PTX made for gemm is wrong and was not emitted:\n.*{which}_thread"):
        refuse_misordered(right.program, build_kernel(right.program, *given))


@pytest.mark.parametrize(
    ("pattern", "wanted"), [(r"fence\.acq_rel\.gpu;", 12), (r"bar\.sync\s+\d+, 128;|bar\.sync\s+%r\d+, %r\d+;", 6)]
)
def test_partial_sums_are_counted_and_read_behind_fences_and_barriers(pattern: str, wanted: int) -> None:
    """Fences in front of each count and behind it, and barriers of the threads around them: where one instance adds all
    parts, two and two. The other barriers are those of the stores, and of words of shared memory."""
    emission = emitted_split()
    assert found(emission) == set()
    missing = [found(emission, text) for text in without_each(pattern, emission.build.ptx)]
    assert missing.count({"partial-sums"}) == wanted
    assert all(one in ({"partial-sums"}, set()) for one in missing)


WAIT = "W{0}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+{1}], 0; @!%p1 bra W{0};"
MULTIPLY = "tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd2, %r3, %p2;"
FENCE = "tcgen05.fence::after_thread_sync;"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r2];"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r1+1024];"
TENSOR = BarrierPlaces((range(1024, 1040),), 1024)


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (WAIT.format(1, 1024) + MULTIPLY, {"tcgen05-fence"}),
        (WAIT.format(1, 1040) + MULTIPLY, set()),  # of another ring
        (WAIT.format(1, 1024) + FENCE + MULTIPLY, set()),
        (WAIT.format(1, 1024) + "@%p3 bra PAST;" + FENCE + "PAST: " + MULTIPLY, {"tcgen05-fence"}),
        (WAIT.format(1, 1024) + f"@%p3 {FENCE}" + MULTIPLY, {"tcgen05-fence"}),
        ("L: " + MULTIPLY + WAIT.format(1, 1024) + "@%p3 bra L;", {"tcgen05-fence"}),  # in the next iteration
        (LOAD + "tcgen05.wait::ld.sync.aligned;" + ARRIVE, {"tcgen05-fence"}),
        (LOAD + "tcgen05.fence::before_thread_sync;" + ARRIVE, {"tcgen05-wait"}),
        (LOAD + "add.u32 %r10, %r9, 1; tcgen05.wait::ld.sync.aligned;", {"tcgen05-wait"}),
        (LOAD + "tcgen05.wait::ld.sync.aligned; add.u32 %r10, %r9, 1;", set()),
        # A slot that goes round: the first one's place is known.
        ("mov.u32 %r4, 0; S: shl.b32 %r5, %r4, 3; add.u32 %r6, %r1, %r5; "
         "X: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r6+1024], 0; @!%p1 bra X;" + MULTIPLY +
         "add.u32 %r4, %r4, 1; @%p3 bra S;", {"tcgen05-fence"}),
        # One whose place nobody knows is taken for a ring's.
        ("mul.wide.u32 %rd4, %r7, %r8; cvt.u32.u64 %r6, %rd4; "
         "X: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r6], 0; @!%p1 bra X;" + MULTIPLY, {"tcgen05-fence"}),
    ],
)  # fmt: skip
def test_paths(body: str, rules: set[str]) -> None:
    function = parse(kernel(f"mov.u32 %r1, memory; {body}")).function("k")
    assert {one.rule for one in misordered(function, TENSOR)} == rules
