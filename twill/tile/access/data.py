"""Which scalars of a program, its accesses still as Triton spells them, are made of data that only the warp group has
which computes with it: reductions of tiles, and what is loaded from where the kernel stores."""

from __future__ import annotations

from collections.abc import Sequence

from twill.reach import reach
from twill.tile.access.analysis import Analysis
from twill.tile.access.value import AffineTile, DescriptorWindow, Mask
from twill.tile.program import Op, loops_of
from twill.tile.vocabulary import ELECTED, HISTOGRAM, MMA, REARRANGE, REDUCE, SCAN

COMPUTED = frozenset((*REDUCE, *SCAN, *REARRANGE, *HISTOGRAM, *MMA))
WRITES = ("store", "atomic_add", "descriptor_store", "descriptor_reduce")


class DataScalars:
    """Of one program."""

    def __init__(self, analysis: Analysis) -> None:
        program = analysis.program
        self.forms = analysis.forms
        self.makers = {result: op for op in program.ops() for result in op.results}
        self.known: dict[int, bool] = {}
        self.carried: dict[int, tuple[int, ...]] = {}
        for carry in (carry for loop in loops_of(program.body) for carry in loop.carried):
            self.carried |= dict.fromkeys((carry.argument, carry.result), (carry.init, carry.yielded))
        self.multiplies = any(op.kind in MMA for op in program.ops())
        self.written = {self.base(op) for op in program.ops() if op.kind in WRITES} - {""}

    def base(self, op: Op) -> str:
        """The argument that an access is of; "" where that is not known."""
        form = self.forms.get(op.operands[0])
        return form.base or "" if isinstance(form, AffineTile | DescriptorWindow) else ""

    def is_source(self, op: Op) -> bool:
        """Whether an operation's result is such data, whatever it is made of."""
        if op.kind == "load":
            return self.base(op) in self.written
        return op.kind in COMPUTED or op.kind == "atomic_add"

    def is_data(self, scalar: int) -> bool:
        """Whether a number is made of such data."""
        if scalar not in self.known:
            makers = (self.makers.get(value) for value in reach([scalar], self._made_of))
            self.known[scalar] = any(op is not None and self.is_source(op) for op in makers)
        return self.known[scalar]

    def _made_of(self, value: int) -> Sequence[int]:
        op = self.makers.get(value)
        return self.carried.get(value, ()) if op is None else () if op.kind == ELECTED else op.operands

    def unbounded(self, mask: Mask, kind: str) -> Mask:
        """The mask without bounds that are made of data, which is one of elements then. It stays as it is for loads of
        kernels with products, which others do than those who have the data."""
        if self.multiplies and kind == "tile_load":
            return mask
        bounds = tuple(one for one in mask.bounds if not any(map(self.is_data, one.limit.symbols())))
        return mask if bounds == mask.bounds else Mask(bounds, complete=False)
