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
from heapq import heappop, heappush

from twill.reach import reach

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
    fuser.contract_all()
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
        self.atoms = tuple(atom.id for atom in atoms)
        self.position = {atom: number for number, atom in enumerate(self.atoms)}
        self.largest = largest
        self.pipe = {atom.id: atom.pipe for atom in atoms}
        self.reader = {a.id: next(iter(uses[a.id])) for a in atoms if len(uses.get(a.id, ())) == 1 and not a.escapes}
        self.elements = {atom.id: atom.elements for atom in atoms}
        self.joined: dict[int, int] = {}  # a chain that is no more -> the one that it went into
        self.after: dict[int, set[int]] = {atom.id: set(uses.get(atom.id, ())) for atom in atoms}
        for first, second in order:
            self.after[first].add(second)
        self.before: dict[int, set[int]] = {atom.id: set() for atom in atoms}
        for first, later in self.after.items():
            for second in later:
                self.before[second].add(first)
        self.waiting: dict[int, set[int]] = {atom.id: set() for atom in atoms}  # chains that only this one reads
        for chain, reader in self.reader.items():
            self.waiting[reader].add(chain)

    def chain(self, atom: int) -> int:
        """The chain that an atom is in."""
        last = atom
        while last in self.joined:
            last = self.joined[last]
        while atom != last:
            self.joined[atom], atom = last, self.joined[atom]
        return last

    def contract_all(self) -> None:
        """Contracts the first pair that may be, in program order, until there is none.

        A pair that may not be stays so until one of its two chains grows: only those are looked at again.
        """
        ahead = [(position, atom) for atom, position in self.position.items() if atom in self.reader]  # a heap
        while ahead:
            _, u = heappop(ahead)
            if u in self.joined:
                continue
            v = self.chain(self.reader[u])
            if v == u or not self.may_fuse(u, v) or self.between(u, v):
                continue
            self.contract(u, v)
            for chain in (*self.waiting[v], v):
                if chain in self.reader:
                    heappush(ahead, (self.position[chain], chain))

    def may_fuse(self, u: int, v: int) -> bool:
        """Whether the work of chain u is of a kind with that of its reader in chain v."""
        pipe = self.pipe[self.reader[u]]
        if "" in (self.pipe[u], pipe):
            return False
        small = self.is_small(u) and self.is_small(v)
        return self.pipe[u] == pipe or small or self.elements[u] * SMALL < self.elements[v]

    def is_small(self, chain: int) -> bool:
        """Whether it works on vectors beside the largest tile."""
        return self.elements[chain] * SMALL < self.largest

    def between(self, u: int, v: int) -> bool:
        """Whether some other node must come after u and before v."""
        return v in reach((chain for chain in self.after[u] if chain != v), self.after.__getitem__)

    def contract(self, u: int, v: int) -> None:
        """Joins chain u to chain v, which keeps its last atom."""
        self.joined[u] = v
        self.elements[v] = max(self.elements[u], self.elements[v])
        self.waiting[v] |= self.waiting.pop(u)
        self.waiting[v].discard(u)
        later, earlier = self.after.pop(u) - {v}, self.before.pop(u) - {v}
        self.after[v] |= later
        self.before[v] |= earlier
        self.after[v].discard(u)
        self.before[v].discard(u)
        for chain in later:
            self.before[chain].discard(u)
            self.before[chain].add(v)
        for chain in earlier:
            self.after[chain].discard(u)
            self.after[chain].add(v)

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The atoms of each chain."""
        members: dict[int, list[int]] = {}
        for atom in self.atoms:
            members.setdefault(self.chain(atom), []).append(atom)
        return tuple(tuple(members[last]) for last in self.atoms if last in members)
