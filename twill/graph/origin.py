"""Along which dimension classes neighbouring program instances may be fused.

A parallel class is *fusable* if there is an index s of the launch grid such that

- every access with the class begins, on that axis, at `size * s + rest`, where rest is free of s:
  instance s + 1 works on the elements right after those of instance s;
- everything without the class is the same for both instances: the addresses, masks and bounds of
  the other accesses, the tiles computed from s, and the loop bounds are free of s;
- nothing without the class is added to memory: both instances would add it;
- numbers that are made of s go on from instance to instance (`twill.graph.next_instance`).

Instances whose loops have different bounds (causal attention, a sliding window) are thus never fused: the MMAs of
the one that is done would have to be left out, which is a branch in the steady state of the other.

Both instances otherwise have equal grid indices: fusing them means that one runs the tiles of
s and s + 1. Where s is computed of a grid index (as in a GEMM whose tile order groups rows of tiles),
nothing says where in the grid the neighbour of an instance is, and they are not fused.
"""

from __future__ import annotations

from itertools import zip_longest

from twill.graph.dims import Classes
from twill.graph.next_instance import NextInstance
from twill.graph.wiring import Wiring
from twill.tile.affine import Polynomial
from twill.tile.flat import UNIFORM, Flat, Step
from twill.tile.program import Access, TileProgram
from twill.tile.scalars import Scalars
from twill.tile.uniformity import Uniformity, stretches


def fusable_classes(
    program: TileProgram, uniformity: Uniformity, flat: Flat, classes: Classes, wiring: Wiring
) -> frozenset[int]:
    """The classes along which instances may be fused."""
    judge = _Judge(program, uniformity, flat, classes, wiring)
    return frozenset(c for c in classes.size if judge.may_be_cut(c) and judge.scalars_of(c))


class _Judge:
    def __init__(
        self, program: TileProgram, uniformity: Uniformity, flat: Flat, classes: Classes, wiring: Wiring
    ) -> None:
        self.program, self.uniformity, self.scalars = program, uniformity, Scalars(program, uniformity)
        self.flat, self.classes, self.wiring = flat, classes, wiring
        self.accesses = [
            (step.op.access, classes.of[tile]) for step in flat.steps if step.op.access and (tile := _tile(step)) >= 0
        ]
        self.uniform = [step.op.access for step in flat.steps if step.op.access and _tile(step) < 0]
        self.adders = [step for step in flat.steps if step.op.kind == "tile_reduce"]
        self.indices = [step.op.operands[n] for step in flat.steps for n in step.op.index_operands]
        self.makers = {result: step for step in flat.steps for result in step.results}
        bounds = [b for _, loop, _ in stretches(program) if loop for b in (loop.lower, loop.upper, loop.step)]
        self.bounds = frozenset[int]().union(*(self.scalars.reach(bound) for bound in bounds))

    def may_be_cut(self, wanted: int) -> bool:
        """Whether a class is parallel."""
        return wanted >= 0 and wanted not in self.classes.sequential

    def scalars_of(self, wanted: int) -> tuple[int, ...]:
        """The grid indices s along which instances may be fused for a class."""
        offsets = [
            axis.offset
            for access, classes in self.accesses
            for axis, c in zip(access.axes, classes, strict=True)
            if c == wanted
        ]
        if not offsets:
            return ()
        size = self.classes.size[wanted]
        shared = set.intersection(*(_leading(offset, size) for offset in offsets))
        return tuple(s for s in sorted(shared) if self.is_index(s) and self.only(wanted, s))

    def is_index(self, scalar: int) -> bool:
        """Whether a scalar is an index of the launch grid as it is."""
        maker = self.uniformity.makers.get(scalar)
        return maker is not None and maker.kind == "program_id"

    def only(self, wanted: int, scalar: int) -> bool:
        """Whether nothing but the class's own tiles depends on the scalar."""
        if scalar in self.bounds:
            return False
        for access, classes in self.accesses:
            free = [self.scalars.reach_of(p) for p in _polynomials(access, classes, wanted)]
            if any(scalar in reach for reach in free):
                return False
        if any(_tile(step) < 0 or wanted not in self.classes.of[_tile(step)] for step in self.adders):
            return False
        of_scalars = (p for access in self.uniform for p in _polynomials(access, (), wanted))
        if any(scalar in self.scalars.reach_of(p) for p in of_scalars):
            return False
        if any(scalar in self.scalars.reach(value) for value in self.indices):
            return False
        if any(scalar in reach for reach in self._tiles_without(wanted)):
            return False
        return NextInstance(self.program, self.flat, self.classes, self.wiring, self.scalars, wanted, scalar).goes_on()

    def _tiles_without(self, wanted: int) -> list[frozenset[int]]:
        """What the tile operations without the class depend on, index arithmetic that is folded
        into them included. Index arithmetic folded into operations with the class does not
        matter: each row block computes its own.
        """
        return [
            self._reach(step)
            for step in self.flat.steps
            if not step.index and not step.op.access
            if all(wanted not in self.classes.of[result] for result in step.results)
        ]

    def _reach(self, step: Step) -> frozenset[int]:
        reach = frozenset[int]()
        for value, operand in zip(step.op.operands, step.operands, strict=True):
            maker = self.makers.get(operand)
            if operand == UNIFORM:
                reach |= self.scalars.reach(value)
            elif maker is not None and maker.index:
                reach |= self._reach(maker)
        return reach


def _tile(step: Step) -> int:
    """The cell of the tile that an access moves; -1 for a uniform scalar."""
    return step.results[0] if step.results else step.operands[0]


def _leading(offset: Polynomial, size: int) -> set[int]:
    """Symbols s with offset = size * s + rest, rest free of s."""
    return {
        monomial[0][0]
        for monomial, coefficient in offset.terms
        if coefficient == size
        and len(monomial) == 1
        and monomial[0][1] == 1
        and sum(monomial[0][0] in dict(other) for other, _ in offset.terms) == 1
    }


def _polynomials(access: Access, classes: tuple[int, ...], wanted: int) -> list[Polynomial]:
    """What must be equal for two fused instances: everything but the offset and the bounds along
    the class, whose axis the tile may not even have.
    """
    found = [access.constant, *(axis.stride for axis in access.axes)]
    for axis, c in zip_longest(access.axes, classes):  # an access of a scalar has axes without classes
        if c != wanted:
            found.extend(p for p in (axis.offset, axis.lower, axis.upper) if p is not None)
    return found
