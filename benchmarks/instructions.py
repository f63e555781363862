"""Instructions of SASS for sm_100a, those of Twill's kernels beside those of others: no GPU is needed.

    python -m benchmarks.instructions [--cute-gemm CUBIN --cute-attention CUBIN]

Counted is what stands in the code, once: of the whole kernel, and of attention the loop with the most exponentials,
for one block of 128 keys and 128 queries of 128 elements (loops of other roles run beside it where there are roles).
Triton's and Gluon's kernels are compiled here. CuTe DSL's are those of CUTLASS' examples, which keep their cubins if
they are compiled with CUTE_DSL_ARCH=sm_100a, CUTE_DSL_KEEP=cubin and tensors of `cutlass.cute.runtime` that have no
memory (docs/blackwell.md says which).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.listing import ListedInstruction, ListedLoop, Listing, read_sass

CLASSES = {
    "MMA": r"UTC\w*MMA", "tensor memory load": r"LDTM", "tensor memory store": r"STTM", "MUFU": r"MUFU",
    "FFMA": r"FFMA", "FMUL, FADD": r"FMUL|FADD", "FMNMX": r"FMNMX", "conversion": r"F2F|F2FP",
    "barrier": r"SYNCS|BAR|WARPSYNC|NANOSLEEP", "TMA": r"UTMA", "shared memory": r"LDS|STS|STSM|LDSM",
    "move": r"U?MOV|R2UR|S2U?R|CS2R|U?PRMT|U?SEL", "branch": r"BRA|BSSY|BSYNC|JMP",
    "integer": r"U?IADD|U?IMAD|U?LEA|U?SHF|U?LOP|U?ISETP|VIADD|UIMOV|U?PLOP|ELECT|VOTE",
}  # fmt: skip
TWO = "of F*, two at once"


def kind(entry: ListedInstruction) -> str:
    """The class of an instruction."""
    return next((name for name, pattern in CLASSES.items() if re.match(pattern, entry.opcode)), "other")


def listed(cubin: bytes) -> Listing:
    """The kernel. AssertionError: there is no nvdisasm."""
    text = disassemble(cubin)
    assert text is not None, "there is no nvdisasm"
    return max(read_sass(text), key=lambda one: len(one.entries))


def counted(entries: Iterable[ListedInstruction]) -> Counter[str]:
    """By class; those of floating point that do two elements are also counted apart."""
    given = list(entries)
    made = Counter(kind(entry) for entry in given)
    made[TWO] = sum(re.match(r"(FFMA|FMUL|FADD)2", entry.opcode) is not None for entry in given)
    return made


def whole(listing: Listing) -> Counter[str]:
    """All that stands in it, but for what fills it up."""
    return counted(entry for entry in listing.entries if entry.opcode != "NOP")


def softmax(listing: Listing) -> Counter[str]:
    """Its innermost loop with the most exponentials."""

    def exponentials(loop: ListedLoop) -> int:
        return sum(listing.entries[at].opcode.startswith("MUFU.EX2") for at in loop.entries)

    loops = listing.loops()
    inner = [one for one in loops if not any(exponentials(b) and b.entries < one.entries for b in loops)]
    hot = max(inner, key=exponentials)
    return counted(listing.entries[at] for at in hot.entries)


def columns(cute_gemm: Path | None, cute_attention: Path | None) -> Iterator[tuple[str, Counter[str]]]:
    """What is compared. cute: cubins of CuTe DSL's kernels."""
    from tests import blackwell, blackwell_attention
    from tests.codegen.verify.ptx import test_strangers_blackwell as strangers

    tile = (("D", 128), ("BLOCK_M", 128), ("BLOCK_N", 128))
    yield "GEMM, Twill", whole(listed(blackwell.compiled(blackwell.GEMM).build.cubin))
    yield "GEMM, Gluon", whole(listed(bytes(strangers.gluon_kernel(1).asm["cubin"])))
    if cute_gemm:
        yield "GEMM, CuTe DSL", whole(listed(cute_gemm.read_bytes()))
    mine = listed(blackwell_attention.compiled(blackwell_attention.FULL).build.cubin)
    others = listed(bytes(strangers.stock("attention", "*bf16", tile).asm["cubin"]))
    yield "attention, Twill", whole(mine)
    yield "attention, Triton", whole(others)
    cute = listed(cute_attention.read_bytes()) if cute_attention else None
    if cute:
        yield "attention, CuTe DSL", whole(cute)
    yield "its softmax loop, Twill", softmax(mine)
    yield "its loop, Triton", softmax(others)
    if cute:
        yield "its softmax loop, CuTe DSL", softmax(cute)


def table(words: Sequence[str]) -> str:
    """Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--cute-gemm", type=Path)
    parser.add_argument("--cute-attention", type=Path)
    given = parser.parse_args(words)
    found = dict(columns(given.cute_gemm, given.cute_attention))
    classes = [name for name in (*CLASSES, TWO, "other") if any(count[name] for count in found.values())]
    rows = ["| SASS | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    rows += [f"| {name} | " + " | ".join(str(count[name]) for count in found.values()) + " |" for name in classes]
    rows.append("| all | " + " | ".join(str(sum(count.values()) - count[TWO]) for count in found.values()) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(sys.argv[1:]))
    sys.exit(0)
