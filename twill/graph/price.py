"""What one node costs on a machine: reservation table, latency, hold, and who may issue it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from twill.graph.costed import Use
from twill.graph.dependence import SCALED, Node
from twill.graph.exponentials import split_exponentials
from twill.machine.description import Machine, Transfer

BYTES = {"f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "mxf8e4m3": 1, "mxf8e5m2": 1, "mxf4": 0.5, "nvf4": 0.5}

BLOCKS = {"nvf4": 16}  # elements that have a scale of one byte; else 32


@dataclass(frozen=True)
class Price:
    """Fields as in `twill.graph.costed.Instruction`; cycles of one row block's part."""

    uses: tuple[Use, ...]
    latency: int
    hold: int
    asynchronous: bool = False
    variable_latency: bool = False
    contexts: tuple[str, ...] = ("compute",)
    single_issuer: str = ""

    @property
    def unit(self) -> str:
        """The unit that is busy longest."""
        return max(self.uses, key=lambda u: u.cycles).unit if self.uses else ""

    def then(self, other: Price) -> Price:
        """The price of this work followed by `other` in the same instruction (both synchronous)."""
        later = tuple(Use(unit=u.unit, start=u.start + self.hold, cycles=u.cycles) for u in other.uses)
        mine = {u.unit: u for u in self.uses}
        merged = list(self.uses)
        for u in later:
            first = mine.get(u.unit)
            if first is not None and first.start + first.cycles >= u.start:
                joined = Use(unit=u.unit, start=first.start, cycles=u.start + u.cycles - first.start)
                merged[merged.index(first)] = joined
            else:
                merged.append(u)
        hold = self.hold + other.hold
        return replace(self, uses=tuple(merged), hold=hold, latency=max(self.latency, self.hold + other.latency))


def price_node(
    node: Node, machine: Machine, parts: int, a_shared: bool = True, polynomial: int = 0, pair: bool = False
) -> Price:
    """The price of 1/parts of a node; `a_shared`: an MMA's operand A is read from shared memory; polynomial: how many
    of 16 exponentials are one (`twill.graph.exponentials`); pair: CTAs multiply together, and what they load and
    multiply arrives in both.

    Raises KeyError naming an operation the machine has no price for.
    """
    later = round(machine.mma.pair.value) if pair and machine.mma is not None and machine.mma.pair is not None else 0
    if node.mma is not None:
        price = price_mma(node, machine, parts, a_shared, pair)
        return replace(price, latency=price.latency + later)
    if node.kind == "load":
        price = price_transfer(machine.transfer(f"{node.transport}_load"), node.bytes // parts)
        return replace(price, latency=price.latency + later)
    if node.kind in ("store", "reduce_store"):
        return price_store(node, machine, parts)
    return price_elementwise(split_exponentials(node, parts, polynomial), machine, parts)


def price_mma(node: Node, machine: Machine, parts: int, a_shared: bool, pair: bool = False) -> Price:
    """A MMA: rows are padded to the instruction's row block, and the tensor core waits for
    the operands that it reads from shared memory once for every row block of the instruction, and for the copies of
    scales in front of it. pair: an SM reads half of B."""
    mma, work = machine.mma, node.mma
    if mma is None or work is None:
        raise KeyError("mma")
    rate = next((r.per_cycle.value for r in mma.rates if r.dtype == work.dtype), None)
    if rate is None:
        raise KeyError(f"mma.{work.dtype}")
    rows = math.ceil(work.m / parts / mma.row_block) * mma.row_block
    cycles = math.ceil(rows * work.n * work.k / rate)
    if mma.shared_read is not None:
        size = BYTES.get(work.dtype, 4)
        columns = work.n // 2 if pair else work.n
        read = (rows // mma.row_block) * columns * work.k * size + (rows * work.k * size if a_shared else 0)
        cycles = max(cycles, math.ceil(read / mma.shared_read.per_cycle.value))
    if mma.scale_copy is not None and work.dtype in SCALED:
        scales = (rows + work.n) * work.k // BLOCKS.get(work.dtype, 32)
        cycles += math.ceil(scales / mma.scale_copy.per_cycle.value)
    issue = round(mma.issue.value)
    return Price(
        uses=(Use(unit=mma.unit, start=0, cycles=cycles),),
        latency=cycles + round(mma.latency.value),
        hold=issue,
        asynchronous=True,
        contexts=mma.contexts,
        single_issuer="mma" if mma.single_issuer else "",
    )


def price_transfer(transfer: Transfer, nbytes: int) -> Price:
    """One bulk movement of `nbytes`."""
    uses = transfer_uses(transfer, nbytes)
    cycles = uses[0].cycles
    issue = max(1, round(transfer.issue.value))
    latency = cycles + round(transfer.latency.value)
    return Price(
        uses=uses,
        latency=max(latency, issue),
        hold=issue if transfer.asynchronous else max(cycles, issue),
        asynchronous=transfer.asynchronous,
        variable_latency=transfer.variable_latency,
        contexts=transfer.contexts,
    )


def price_store(node: Node, machine: Machine, parts: int) -> Price:
    """Registers to shared memory by the warp group, then the bulk store on its own."""
    nbytes = node.bytes // parts
    kind = "tma_reduce" if node.kind == "reduce_store" else "tma_store"
    if node.transport != "tma":
        return price_transfer(machine.transfer("plain_store"), nbytes)
    staged = price_move("to", "shared", nbytes, machine)
    bulk = price_transfer(machine.transfer(kind), nbytes)
    price = staged.then(bulk)
    return replace(price, latency=staged.hold + bulk.latency, hold=staged.hold + bulk.hold)


def price_elementwise(node: Node, machine: Machine, parts: int) -> Price:
    """A fused chain: its pipes work side by side, its warp group is held while the busiest works."""
    busy: dict[str, float] = {}
    depth = 0.0
    for count in node.counts:
        operation = machine.operation(count.operation)
        depth = max(depth, operation.latency.value)
        for rate in operation.rates:
            busy[rate.unit] = busy.get(rate.unit, 0.0) + count.elements / parts / rate.per_cycle.value
    uses = tuple(Use(unit=u, start=0, cycles=math.ceil(c)) for u, c in busy.items() if c > 0)
    hold = max([1, *(u.cycles for u in uses)])
    return Price(uses=uses, latency=hold + round(depth), hold=hold)


def price_move(direction: str, place: str, nbytes: int, machine: Machine) -> Price:
    """Registers "to" or "from" shared or tensor memory, synchronously by the warp group."""
    names = {
        ("to", "shared"): "register_to_shared",
        ("from", "shared"): "shared_to_register",
        ("to", "tmem"): "tmem_store",
        ("from", "tmem"): "tmem_load",
    }
    transfer = machine.transfer(names[direction, place])
    uses = transfer_uses(transfer, nbytes)
    cycles = max(u.cycles for u in uses)
    hold = cycles + round(transfer.issue.value)
    return Price(uses=uses, latency=max(hold, cycles + round(transfer.latency.value)), hold=hold)


def transfer_uses(transfer: Transfer, nbytes: int) -> tuple[Use, ...]:
    """The units that a movement of `nbytes` occupies, its own first."""
    rates = [(transfer.unit, transfer.bytes_per_cycle.value), *((r.unit, r.per_cycle.value) for r in transfer.also)]
    return tuple(Use(unit=unit, start=0, cycles=max(1, math.ceil(nbytes / rate))) for unit, rate in rates)
