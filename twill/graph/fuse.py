"""Fusing elementwise operations and reductions into chains, one chain one node.

Start with one atom an operation; contract the chain that ends in u with the chain of v when the
operation v is the only reader of u's result, in the same iteration, and

- u and v run on the same pipe (arithmetic, or transcendental), or
- u's chain works on less than 1/16 of the elements of v's (a row vector that a tile operation
  needs), or both on less than 1/16 of the elements of the largest tile around (row vectors),

unless another node would have to run between them. So a chain ends where its value is read twice,
carried to the next iteration or read by another stretch, and has exactly one result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SMALL = 16  # a vector is at most this part of a tile


@dataclass(frozen=True)
class Atom:
    """An operation before fusion. pipe: "" for what never fuses (products and accesses).
    escapes: its value is read in a later iteration or another stretch.
    """

    id: int
    pipe: str
    elements: int
    escapes: bool = False


def chains(
    atoms: Iterable[Atom], uses: Mapping[int, frozenset[int]], order: Iterable[tuple[int, int]], largest: int
) -> tuple[tuple[int, ...], ...]:
    """Groups of atom ids, each in the order given, ordered by their last member.

    uses: the atoms that read each atom's value in the same iteration. order: pairs (u, v) where u
    comes before v in the same iteration for any other reason. largest: elements of the largest tile.
    """
    fuser = _Fuser(tuple(atoms), uses, order, largest)
    while fuser.contract_one():
        pass
    return fuser.groups()


class _Fuser:
    """A chain is known by its last atom."""

    def __init__(
        self,
        atoms: tuple[Atom, ...],
        uses: Mapping[int, frozenset[int]],
        order: Iterable[tuple[int, int]],
        largest: int,
    ) -> None:
        self.position = {atom.id: i for i, atom in enumerate(atoms)}
        self.largest = largest
        self.pipe = {atom.id: atom.pipe for atom in atoms}
        self.reader = {a.id: next(iter(uses[a.id])) for a in atoms if len(uses.get(a.id, ())) == 1 and not a.escapes}
        self.elements = {atom.id: atom.elements for atom in atoms}
        self.chain = {atom.id: atom.id for atom in atoms}  # atom -> its chain
        self.members: dict[int, list[int]] = {atom.id: [atom.id] for atom in atoms}
        self.after: dict[int, set[int]] = {atom.id: set(uses.get(atom.id, ())) for atom in atoms}
        for first, second in order:
            self.after[first].add(second)

    def contract_one(self) -> bool:
        """Contracts the first pair that may be, in program order; False if there is none."""
        for u in sorted(self.members, key=lambda chain: self.position[chain]):
            reader = self.reader.get(u)
            if reader is None or self.chain[reader] == u or not self.may_fuse(u, reader):
                continue
            if not self.between(u, self.chain[reader]):
                self.contract(u, self.chain[reader])
                return True
        return False

    def may_fuse(self, u: int, reader: int) -> bool:
        v = self.chain[reader]
        if "" in (self.pipe[u], self.pipe[reader]):
            return False
        small = self.is_small(u) and self.is_small(v)
        return self.pipe[u] == self.pipe[reader] or small or self.elements[u] * SMALL < self.elements[v]

    def is_small(self, chain: int) -> bool:
        return self.elements[chain] * SMALL < self.largest

    def between(self, u: int, v: int) -> bool:
        """Whether some other node must come after u and before v."""
        pending = [chain for chain in self.after[u] if chain != v]
        seen = set(pending)
        while pending:
            chain = pending.pop()
            if chain == v:
                return True
            fresh = self.after[chain] - seen
            seen |= fresh
            pending.extend(fresh)
        return False

    def contract(self, u: int, v: int) -> None:
        """Joins chain u to chain v, which keeps its last atom."""
        self.members[v] = sorted(self.members.pop(u) + self.members[v], key=lambda atom: self.position[atom])
        self.chain.update((member, v) for member in self.members[v])
        self.elements[v] = max(self.elements[u], self.elements[v])
        self.after[v] = (self.after.pop(u) | self.after[v]) - {u, v}
        for chain, later in self.after.items():
            if u in later:
                later.discard(u)
                later.add(v)
            later.discard(chain)

    def groups(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.members[last]) for last in sorted(self.members, key=lambda chain: self.position[chain]))
