"""Instructions of SASS for sm_100a, those of Twill's kernels beside those of Triton's and Gluon's: no GPU is needed.

    python -m benchmarks.instructions

Counted is what stands in the code, once: of the whole kernel, and of attention the loop with the most exponentials,
for one block of 128 keys and 128 queries of 128 elements (loops of other roles run beside it where there are roles).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator

from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.listing import ListedInstruction, ListedLoop, Listing, read_sass

CLASSES = {
    "MMA": r"UTC\w*MMA", "tensor memory load": r"LDTM", "tensor memory store": r"STTM", "MUFU": r"MUFU",
    "FFMA": r"FFMA", "FMUL, FADD": r"FMUL|FADD", "FMNMX": r"FMNMX", "conversion": r"F2F|F2FP",
    "barrier": r"SYNCS|BAR|WARPSYNC|NANOSLEEP", "TMA": r"UTMA", "shared memory": r"LDS|STS|STSM|LDSM",
    "move": r"U?MOV|R2UR|S2U?R|CS2R|U?PRMT|U?SEL", "branch": r"BRA|BSSY|BSYNC|JMP",
    "integer": r"U?IADD|U?IMAD|U?LEA|U?SHF|U?LOP|U?ISETP|VIADD|UIMOV|U?PLOP|ELECT|VOTE",
}  # fmt: skip


def kind(entry: ListedInstruction) -> str:
    """The class of an instruction."""
    return next((name for name, pattern in CLASSES.items() if re.match(pattern, entry.opcode)), "other")


def listed(cubin: bytes) -> Listing:
    """The kernel. AssertionError: there is no nvdisasm."""
    text = disassemble(cubin)
    assert text is not None, "there is no nvdisasm"
    return max(read_sass(text), key=lambda one: len(one.entries))


def whole(listing: Listing) -> Counter[str]:
    """All that stands in it, but for what fills it up."""
    return Counter(kind(entry) for entry in listing.entries if entry.opcode != "NOP")


def softmax(listing: Listing) -> Counter[str]:
    """Its innermost loop with the most exponentials."""

    def exponentials(loop: ListedLoop) -> int:
        return sum(listing.entries[at].opcode.startswith("MUFU.EX2") for at in loop.entries)

    loops = listing.loops()
    inner = [one for one in loops if not any(exponentials(b) and b.entries < one.entries for b in loops)]
    hot = max(inner, key=exponentials)
    return Counter(kind(listing.entries[at]) for at in hot.entries)


def columns() -> Iterator[tuple[str, Counter[str]]]:
    """What is compared."""
    from tests import blackwell, blackwell_attention
    from tests.codegen.verify.ptx import test_strangers_blackwell as strangers

    tile = (("D", 128), ("BLOCK_M", 128), ("BLOCK_N", 128))
    yield "GEMM, Twill", whole(listed(blackwell.compiled(blackwell.GEMM).build.cubin))
    yield "GEMM, Gluon", whole(listed(bytes(strangers.gluon_kernel(1).asm["cubin"])))
    mine = listed(blackwell_attention.compiled(blackwell_attention.FULL).build.cubin)
    others = listed(bytes(strangers.stock("attention", "*bf16", tile).asm["cubin"]))
    yield "attention, Twill", whole(mine)
    yield "attention, Triton", whole(others)
    yield "its softmax loop, Twill", softmax(mine)
    yield "its loop, Triton", softmax(others)


def table() -> str:
    """Markdown."""
    found = dict(columns())
    classes = [name for name in (*CLASSES, "other") if any(count[name] for count in found.values())]
    rows = ["| SASS | " + " | ".join(found) + " |", "| --- |" + " ---: |" * len(found)]
    rows += [f"| {name} | " + " | ".join(str(count[name]) for count in found.values()) + " |" for name in classes]
    rows.append("| all | " + " | ".join(str(sum(count.values())) for count in found.values()) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
    sys.exit(0)
