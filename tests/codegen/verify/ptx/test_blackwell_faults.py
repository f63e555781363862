"""Twenty faults that people made in kernels for sm_100a, put into kernels of others (docs/seeded-faults.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np
import pytest

from tests.codegen.verify.ptx import test_strangers_blackwell as strangers
from tests.codegen.verify.ptx import test_strangers_block_scales as scaled
from tests.codegen.verify.ptx import test_strangers_clusters as clusters
from tests.codegen.verify.ptx.test_strangers_blackwell import Bits, Change, error
from tests.ptx_programs import rules
from twill.codegen.verify.ptx.run import Result

pytestmark = pytest.mark.usefixtures("quiet")
quiet = strangers.quiet


def places(change: Change = str) -> tuple[Result, Bits]:
    return clusters.places(1, (), change), np.zeros(6)


PROGRAMS: dict[str, Callable[[Change], tuple[Result, Bits]]] = {
    "gemm": lambda change: strangers.gluon_gemm(1, change=change),
    "pair": lambda change: strangers.gluon_gemm(2, m=512, change=change),
    "attention": lambda change: strangers.attention(128, change),
    "block scales": lambda change: scaled.gluon(scaled.MXFP8, False, 128, 128, change),
    "two pairs": lambda change: clusters.gemm("two pairs share B", change=change),
    "places": places,
}
"""The kernels, of several steps along K and several tiles where they have any: rings come round."""
NUMBERS = "numbers"
"""Found by wrong results alone."""
HIGH, IDESC = r"\b1073758272;", r"\b270599312;"
"""Of Gluon's GEMM the upper word of matrix descriptors, and by a pair the instruction descriptor."""
BARRIER = r"barrier\.cluster\.arrive\.aligned;\s*(?:\.loc.*\s*)?barrier\.cluster\.wait\.aligned;"


@dataclass(frozen=True)
class Fault:
    """number: of the list in docs/seeded-faults.md. edits: pattern and replacement. found: a rule, or `NUMBERS`."""

    number: int
    name: str
    program: str
    edits: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]
    found: str

    def change(self, text: str) -> str:
        return reduce(lambda one, edit: strangers.replaced(*edit)(one), self.edits, text)

    def __str__(self) -> str:
        return f"{self.number} {self.name}"


def fault(
    number: int, name: str, program: str, pattern: str, by: str | Callable[[re.Match[str]], str], found: str
) -> Fault:
    return Fault(number, name, program, ((pattern, by),), found)


def flipped(mask: int) -> Callable[[re.Match[str]], str]:
    """A constant with other bits: group 1 before it."""
    return lambda match: f"{match[1]}{int(match[2]) ^ mask};"


FAULTS = (
    fault(1, "stride of a matrix descriptor", "gemm", HIGH, f"{1073758272 - 32};", NUMBERS),
    fault(1, "version of a matrix descriptor", "gemm", HIGH, f"{1073758272 ^ 1 << 14};", "form"),
    fault(1, "swizzle of a matrix descriptor", "gemm", HIGH, f"{1073758272 ^ 6 << 29};", NUMBERS),
    fault(1, "leading offset", "gemm", r"or\.b32 (\s*%r\d+, %r\d+), 33554432", r"or.b32 \1, 0", NUMBERS),
    fault(2, "rows of one CTA, not of the pair", "pair", IDESC, f"{270599312 - (8 << 24)};", "form"),
    fault(3, "B along the other way", "pair", IDESC, f"{270599312 ^ 1 << 16};", NUMBERS),
    fault(4, "a step along K off the atom", "pair", r"(add\.s32 \s*%r66, %r63), 2;", r"\1, 1;", NUMBERS),
    fault(4, "a step along K into the next field", "pair", r"(add\.s32 \s*%r66, %r63), 2;", r"\1, 16386;", "form"),
    fault(5, "the first step adds to what was there", "pair", r"mov\.pred (\s*%p9), 0;", r"mov.pred \1, -1;", NUMBERS),
    fault(6, "bytes of one CTA", "pair", r"(expect_tx[^;]*), 24576;", r"\1, 12288;", "deadlock"),
    fault(7, "a commit to one CTA", "pair", r"mov\.b16 (\s*%rs1), 3;", r"mov.b16 \1, 1;", "deadlock"),
    fault(7, "a commit to the first pair", "two pairs", r"(tcgen05\.commit[^;]*), %rs\d+;", r"\1, 3;", "deadlock"),
    fault(8, "no wait::ld", "attention", r"tcgen05\.wait::ld\.sync\.aligned;", "", "tcgen05-wait"),
    fault(8, "no wait::ld before the accumulator is given back", "gemm", r"tcgen05\.wait::ld\.sync\.aligned;", "",
          "tcgen05-wait"),
    fault(9, "no wait::st", "attention", r"tcgen05\.wait::st\.sync\.aligned;", "", "tcgen05-wait"),
    fault(11, "no proxy fence", "gemm", r"fence\.proxy\.async\.shared::cta;", "", "proxy-fence"),
    fault(12, "another quarter of the lanes", "gemm", r"and\.b32 (\s*%r\d+, %r\d+), 6291456;", r"and.b32 \1, 0;",
          "form"),
    fault(13, "given back while others read", "attention",
          r"(?:bar|barrier)\.sync \t0;(?=(?:(?!wait::ld)[\s\S])*tcgen05\.dealloc)", "", "order"),
    fault(13, "given back at the start", "pair", r"(@%p\d+ tcgen05\.relinquish\w*\.cta_group::2\.sync\.aligned;)",
          r"\1 @%p1 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, 256;", "tensor-memory"),
    fault(13, "never given back", "pair", r"@%p\d+ tcgen05\.dealloc[^;]*;", "", "tensor-memory"),
    fault(14, "allocated before the other CTA is there", "pair", rf"(%tid\.x;[^@]*?){BARRIER}", r"\1", "tensor-memory"),
    fault(15, "ends before the other CTA", "pair", rf"{BARRIER}(?=\s*(?:\.loc.*\s*)?barrier\.sync)", "", "exit"),
    fault(16, "a request before all have read the answer", "places", r"bar\.sync \t0;(?=[\s\S]*try_cancel)", "",
          "order"),
    fault(16, "half of the warps take no answer", "places", r"(get_first_ctaid::x\.b32\.b128 )(%r\d+), (%rq\d+);",
          r"\1 \2, \3; setp.lt.u32 %p0, %r1, 64; selp.b32 \2, %r6, \2, %p0;", NUMBERS),
    fault(17, "the parity of a slot stays", "pair", r"bfe\.u32 (\s*%r78), %r80, 1, 1;", r"mov.b32 \1, 0;", "in-flight"),
    fault(17, "the parity of an accumulator stays", "pair", r"bfe\.u32 (\s*%r166), %r304, 1, 1;", r"mov.b32 \1, 0;",
          "order"),
    fault(18, "the byte of a scale", "block scales", r"(mov\.b32 \s*%r\d+, )(6815\d{5});", flipped(1 << 29), NUMBERS),
    fault(19, "registers beyond those of the launch", "pair", r"(setmaxnreg\.inc\S* \t)232;", r"\g<1>256;", "deadlock"),
    Fault(20, "P over the accumulator of O", "attention",
          ((r"(add\.s32 \s*%r820, %r1474), 128;", r"\1, 32;"), (r"(add\.s32 \s*%r946, %r1473), 128;", r"\1, 32;")),
          NUMBERS),
)  # fmt: skip


@cache
def before(program: str) -> Counter[str]:
    """How often each rule is broken in a program as it is; its numbers are right."""
    result, wanted = PROGRAMS[program](str)
    assert is_right(result, wanted)
    return Counter(finding.rule for finding in result.findings)


def is_right(result: Result, wanted: Bits) -> bool:
    if "out" in result.tensors:
        return bool((result.tensors["out"] == wanted).all())
    (found,) = (result.tensors[name] for name in ("c", "o") if name in result.tensors)
    return scaled.is_right(result, wanted) if found.dtype == np.float32 else error(found, wanted) < 2**-7


@pytest.mark.parametrize("one", FAULTS, ids=str)
def test_a_fault_that_people_made_is_found(one: Fault) -> None:
    known = before(one.program)
    result, wanted = PROGRAMS[one.program](one.change)
    if one.found == NUMBERS:
        assert not is_right(result, wanted)
    else:
        assert Counter(finding.rule for finding in result.findings)[one.found] > known[one.found]


def with_fences(text: str) -> str:
    """Triton prints none: in front of and behind whatever orders its threads."""
    both = r"tcgen05.fence::before_thread_sync; \1 tcgen05.fence::after_thread_sync;"
    text = re.sub(r"((?:bar|barrier)\.sync \t\d+[^;]*;)", both, text)
    text = re.sub(r"((?:@%p\d+ )?mbarrier\.arrive[^;]*;)", r"tcgen05.fence::before_thread_sync; \1", text)
    return re.sub(r"(@!complete bra\.uni waitLoop;)", r"\1 tcgen05.fence::after_thread_sync;", text)


@pytest.mark.parametrize("program", ["gemm", "pair", "attention"])
@pytest.mark.parametrize("side", ["", "before", "after"])
def test_fences_of_tensor_memory_are_missed_where_they_are_missing(program: str, side: str) -> None:
    """10 of the list. With fences at all barriers nothing of them is found; without those of one side it is."""

    def change(text: str) -> str:
        text = with_fences(text)
        return text.replace(f"tcgen05.fence::{side}_thread_sync;", "") if side else text

    result, wanted = PROGRAMS[program](change)
    assert is_right(result, wanted)
    assert ("tcgen05-fence" in rules(result)) == bool(side)
