"""From a group of steps to a node of the dependence graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from twill.graph.dependence import Mma, Node, NodeKind, Tile, Transport
from twill.graph.dims import Classes
from twill.graph.wiring import Wiring
from twill.graph.work import chain_counts, is_free, moved_bytes
from twill.tile.flat import Flat, Step
from twill.tile.vocabulary import ACCESS, ELECTED, MMA, UNPACKED

KINDS: dict[str, NodeKind] = {
    "dot": "mma", "dot_scaled": "mma", "tile_load": "load", "tile_store": "store", "tile_reduce": "reduce_store",
    ELECTED: "reduce_store",
}  # fmt: skip
MX_BLOCK = 32  # elements that have one scale of type e8m0 (OCP Microscaling Formats 1.0)
TRANSPORTS: dict[str, Transport] = {"tma": "tma", "copy": "copy", "plain": "plain"}


def kind_of(step: Step) -> NodeKind:
    """The kind of node that a step becomes, alone or as the last of a chain."""
    return KINDS.get(step.op.kind, "elementwise")


class NodeMaker:
    """Makes nodes of one flat program; dimension classes are those of `Classes`."""

    def __init__(self, flat: Flat, wiring: Wiring, classes: Classes) -> None:
        self.flat, self.wiring, self.classes = flat, wiring, classes
        self.uses = Counter(cell for step in flat.steps for cell in step.cells())
        self.uses.update(cell for carry in flat.carries for cell in (carry.yielded, carry.init))

    def tile(self, cell: int) -> Tile:
        """The type of a cell."""
        kind = self.flat.cells[cell].type
        return Tile(shape=kind.shape, dims=self.classes.of[cell], dtype=kind.element)

    def node(self, number: int, members: Sequence[int]) -> Node:
        """The node of a chain of steps (indices in `Flat.steps`), or of one MMA or access."""
        last = self.flat.steps[members[-1]]
        if last.op.kind in ACCESS:
            return self._access(number, last)
        if last.op.kind in MMA:
            return self._product(number, last)
        if last.op.kind == ELECTED:
            return self._elected(number, last)
        return self._chain(number, [self.flat.steps[member] for member in members])

    def _access(self, number: int, step: Step) -> Node:
        access = step.op.access
        assert access is not None
        cell = step.results[0] if step.results else step.operands[0]
        shape = tuple(axis.extent for axis in access.axes)
        classes = self.classes.of[cell] if cell >= 0 else ()
        return Node(
            id=number,
            kind=kind_of(step),
            name=step.op.name or access.base,
            line=step.op.line,
            operations=(),
            dims=tuple(c for c in classes if c >= 0),
            result=self.tile(cell) if step.results else None,
            bytes=moved_bytes(shape, access.element),
            transport=TRANSPORTS[access.transport],
            transport_reason=access.transport_reason,
            tensor=access.base,
        )

    def _elected(self, number: int, step: Step) -> Node:
        """What one thread does: costed as a number that is combined with one in memory. Where it does nothing, all wait
        for one another."""
        assert step.op.region is not None
        first = next(step.op.region.atomics(), None)
        base, element = (str(first.attribute(name)) for name in ("base", "element")) if first else ("", "i32")
        return Node(
            id=number,
            kind=kind_of(step),
            name=step.op.name or base or "all",
            line=step.op.line,
            operations=(),
            dims=(),
            result=None,
            bytes=moved_bytes((), element),
            transport="plain",
            transport_reason="one thread does it",
            tensor=base,
        )

    def _product(self, number: int, step: Step) -> Node:
        a, b = step.operands[:2]
        m, k = self.flat.cells[a].type.shape
        n = self.flat.cells[b].type.shape[1]
        (m_dim, k_dim), (_, n_dim) = self.classes.of[a], self.classes.of[b]
        mma = Mma(
            m=m, n=n, k=2 * k if scaled_type(step) in PACKED else k, m_dim=m_dim, n_dim=n_dim, k_dim=k_dim,
            dtype=scaled_type(step) or self.flat.cells[a].type.element,
            accumulator=self.flat.cells[step.results[0]].type.element,
            a_transposed=self.wiring.is_transposed(a),
            b_transposed=self.wiring.is_transposed(b),
        )  # fmt: skip
        return Node(
            id=number,
            kind="mma",
            name=step.op.name or "dot",
            line=step.op.line,
            operations=("dot",),
            dims=tuple(c for c in (m_dim, n_dim, k_dim) if c >= 0),
            result=self.tile(step.results[0]),
            mma=mma,
        )

    def _chain(self, number: int, steps: list[Step]) -> Node:
        last = steps[-1]
        named = next((step for step in reversed(steps) if step.op.name), last)
        folded = self._folded(steps, last.stretch)
        cells = [cell for step in steps for cell in (*step.results, *_reduced(step))]
        widest = max(cells, key=lambda cell: (len(self._classes(cell)), -cells.index(cell)))
        dims = dict.fromkeys((*self._classes(widest), *(c for cell in cells for c in self._classes(cell))))
        return Node(
            id=number,
            kind="elementwise",
            name=named.op.name or last.op.kind,
            line=named.op.line,
            operations=tuple(_word(step) for step in (*folded, *steps)),
            dims=tuple(dims),
            result=self.tile(last.results[0]),
            counts=chain_counts((*folded, *steps), self.flat, self.uses),
        )

    def _classes(self, cell: int) -> tuple[int, ...]:
        return tuple(c for c in self.classes.of[cell] if c >= 0)

    def _folded(self, steps: list[Step], stretch: int) -> list[Step]:
        """The index arithmetic that a chain computes for itself: in a loop, only what changes from
        iteration to iteration.
        """
        pending = [cell for step in steps for cell in step.cells()]
        found: set[int] = set()
        seen: set[int] = set()
        while pending:
            cell = pending.pop()
            if cell in seen:
                continue
            seen.add(cell)
            carry = self.wiring.argument.get(cell) or self.wiring.result.get(cell)
            if carry is not None:
                pending.extend([carry.yielded] if carry.pure and carry.stretch == stretch else [])
                continue
            maker = self.wiring.maker[cell]
            step = self.flat.steps[maker]
            if not step.index and not is_free(step):
                continue
            pending.extend(step.cells())
            looped = stretch % 2 == 1
            if not is_free(step) and (step.stretch == stretch or not looped):
                found.add(maker)
        return [self.flat.steps[maker] for maker in sorted(found)]


PACKED = ("mxf4", "nvf4")
"""Types of operands with block scales of which a byte holds two elements."""


def scaled_type(step: Step) -> str:
    """The type of the operands of a product with block scales, of `SCALED`; "" for other products."""
    if step.op.kind != "dot_scaled":
        return ""
    element, block = step.op.attribute("a"), step.op.attribute("block")
    element = step.op.attribute("b") if element == UNPACKED else element  # beside 8 bits it is multiplied as these are
    return f"mxf8{element}" if element != UNPACKED else "mxf4" if block == MX_BLOCK else "nvf4"


def _reduced(step: Step) -> tuple[int, ...]:
    return step.operands[:1] if step.op.kind == "reduce" else ()


def _word(step: Step) -> str:
    if step.op.kind in ("reduce", "scan"):
        return f"{step.op.kind}_{step.op.attribute('combine')}"
    return step.op.kind
