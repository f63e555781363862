"""Whether the PTX of an emission has the memory orders and the scope that its atomic operations were asked with.

Which thread does them, and which barriers are around, is what `thread_orders` looks at; whether the operation that
takes a lock says `.acquire` no run shows, for the executor does one operation after the other. So each kind of
operation (what it does, on how many bits) is held against the kinds that the warp program has: of each order that it
asks for there has to be one at the scope of the GPU, and there must be none of another order (PTX ISA, "atom", "Memory
Consistency Model").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twill.codegen.verify.ptx.findings import PtxFinding
from twill.ptx.program import Function, PtxInstruction

OPERATIONS = {"umax": "max", "umin": "min", "xchg": "exch"}
"""Operations that PTX calls otherwise; those of `PLAIN` are no atom."""
PLAIN = {"load": "ld", "store": "st"}
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "sys")


@dataclass(frozen=True)
class AtomicKind:
    """What an atomic operation does, and on how many bits. combine: as of `twill.tile.vocabulary.ATOMIC`, with "umax"
    and "umin"."""

    combine: str
    bits: int


def reordered(function: Function, asked: Iterable[tuple[AtomicKind, str]]) -> tuple[PtxFinding, ...]:
    """Every kind of which the orders differ, at its first instruction. asked: of the operations that single threads do,
    each with its order."""
    wanted: dict[tuple[str, str], set[str]] = {}
    for kind, order in asked:
        wanted.setdefault(_in_ptx(kind), set()).add(order)
    return tuple(finding for key, orders in sorted(wanted.items()) for finding in _of_kind(function, key, orders))


def _of_kind(function: Function, key: tuple[str, str], orders: set[str]) -> Iterator[PtxFinding]:
    done = [one for one in function.instructions if _key(one) == key]
    for one in done:
        found = _order(one)
        if found not in orders:
            said = f"{key[0]} on {key[1]} bits has the order {found or 'of no atomic operation'}, asked for"
            yield PtxFinding("atomic-order", f"{said} {' or '.join(sorted(orders))}", one.place)
            return
    lost = sorted(orders - {_order(one) for one in done})
    if lost:
        place = (done or function.instructions)[0].place
        yield PtxFinding("atomic-order", f"no {key[0]} on {key[1]} bits has the order {lost[0]}", place)


def _in_ptx(kind: AtomicKind) -> tuple[str, str]:
    return PLAIN.get(kind.combine) or OPERATIONS.get(kind.combine, kind.combine), str(kind.bits)


def _key(one: PtxInstruction) -> tuple[str, str] | None:
    """What a PTX instruction does on how many bits, if it is atomic, or a load or store that says an order."""
    bits = one.modifiers[-1].lstrip("busf") if one.modifiers else ""
    if one.name == "atom":
        return one.modifiers[-2], bits
    ordered = one.name in PLAIN.values() and any(word in ORDERS for word in one.modifiers)
    return (one.name, bits) if ordered and "global" in one.modifiers else None


def _order(one: PtxInstruction) -> str:
    """Its order; "" where another CTA need not see it."""
    return next((word for word in one.modifiers if word in ORDERS), "") if {*SCOPES} & {*one.modifiers} else ""
