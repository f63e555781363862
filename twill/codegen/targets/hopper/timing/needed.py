"""Which instructions have to be computed: those on which a branch, a barrier or an asynchronous copy depends.

All others are only timed. Liveness, backwards over the control flow graph, of what control reads: an instruction is
needed if it writes something of that.
"""

from __future__ import annotations

from collections.abc import Sequence

from twill.codegen.targets.hopper.timing.instruction import SassCode, SassInstruction
from twill.codegen.targets.hopper.timing.operands import RZ, ports, register

CONTROL = frozenset(("BRA", "EXIT", "SYNCS", "BAR", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "WARPGROUP", "DEPBAR",
                     "USETMAXREG", "HGMMA", "QGMMA", "IGMMA", "LDGDEPBAR", "ARRIVES"))  # fmt: skip
_STORES = {"LDS": "STS", "LDL": "STL"}  # what stores where a load loads: in shared memory, and of spilled registers
_DATA_COMPARISONS = frozenset(("FSETP", "DSETP", "HSETP2"))


def needed(code: SassCode) -> frozenset[int]:
    """Indices of the instructions whose results control depends on, and of those that are control."""
    body = code.instructions
    places = [ports(one) for one in body]
    writes = [_mask(place.writes) for place in places]
    reads = [_mask(_control_reads(one, place.reads)) for one, place in zip(body, places, strict=True)]
    kills = [0 if one.guard else mask for one, mask in zip(body, writes, strict=True)]
    follows = [_successors(body, at) for at in range(len(body))]
    before = [0] * len(body)
    mattering: set[str] = set()  # stores to memory from which something is loaded that matters
    changed = True
    while changed:
        changed = False
        for at in range(len(body) - 1, -1, -1):
            one = body[at]
            after = 0
            for follower in follows[at]:
                after |= before[follower]
            relevant = one.name in CONTROL or bool(after & writes[at]) or one.name in mattering
            if one.name in _STORES and after & writes[at]:
                mattering.add(_STORES[one.name])
            live = (after & ~kills[at]) | (reads[at] if relevant else 0)
            if live != before[at]:
                before[at], changed = live, True
    found = set()
    for at, one in enumerate(body):
        after = 0
        for follower in follows[at]:
            after |= before[follower]
        if one.name in CONTROL or after & writes[at] or one.name in mattering:
            found.add(at)
    return frozenset(found)


def _control_reads(one: SassInstruction, reads: Sequence[int]) -> Sequence[int]:
    """What has to be known for it. Data of a product and what floats are compared with has not."""
    if one.name.endswith("GMMA"):
        return ()
    if one.name in _DATA_COMPARISONS:
        return tuple(r for r in (register(one.guard[1:]) if one.guard else None,) if r is not None)
    if one.name in _STORES.values():
        width = 4 if "128" in one.modifiers else 2 if "64" in one.modifiers else 1
        first = register(one.operands[1])
        return (*reads, *(first + i for i in range(1, width) if first is not None and first < RZ))
    return reads


def _mask(numbers: Sequence[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _successors(body: Sequence[SassInstruction], at: int) -> list[int]:
    one = body[at]
    found = [one.target] if one.name == "BRA" and one.target >= 0 else []
    conditional = bool(one.guard) or len(one.operands) > 1
    if (one.name not in ("BRA", "EXIT") or conditional) and at + 1 < len(body):
        found.append(at + 1)
    return found
