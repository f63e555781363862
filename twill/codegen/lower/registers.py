"""The fragments of one warp group: the variables of its values, and of their older versions.

A reader that runs after the next definition of
what it reads sees an older version, kept in a variable of its own by a copy in front of the definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.stream import Made
from twill.codegen.lower.values import Values
from twill.codegen.warp.layout import Accumulator, Layout
from twill.codegen.warp.program import Copy, Fragment, Stmt


@dataclass
class Registers:
    """Fragments of one warp group. values: which of them share a variable. names: taken so far."""

    plan: LoweringPlan
    values: Values
    numbers: Iterator[int]
    fragments: list[Fragment] = field(default_factory=list)
    variable: dict[Made, int] = field(default_factory=dict)
    older: dict[tuple[int, int], int] = field(default_factory=dict)  # (variable, versions ago) -> variable
    names: set[str] = field(default_factory=set)

    def new(self, name: str, element: str, layout: Layout) -> int:
        """A fragment with a name of its own."""
        base, count = name or "t", 2
        name = base
        while name in self.names:
            name, count = f"{base}_{count}", count + 1
        self.names.add(name)
        made = Fragment(next(self.numbers), name, element, layout)
        self.fragments.append(made)
        return made.id

    def fragment(self, number: int) -> Fragment:
        """The fragment of that number."""
        return next(f for f in self.fragments if f.id == number)

    # -- variables ----------------------------------------------------------------------------

    def of(self, made: Made) -> int:
        """The variable that holds a value."""
        root = self.values.find(made)
        if root not in self.variable:
            step, block = made
            fetched = step < 0
            of = self.plan.flat.steps[~step if fetched else step]
            cell, op = of.operands[0] if fetched else of.results[0], of.op
            element = self.plan.flat.cells[cell].type.element
            if fetched:
                name, layout = f"{op.name or 'product'}_a", Accumulator(*self.plan.tiles.shape(cell))
                self.variable[root] = self.new(name, element, layout)
            else:
                name = (op.name or op.kind).replace(".", "_") + ("" if block < 0 else f"_{block}")
                self.variable[root] = self.new(name, element, self.plan.tiles.layout(cell))
        return self.variable[root]

    def hold(self, made: Made, name: str, element: str, layout: Layout) -> None:
        """A variable of that layout for a value, instead of the one that its readers would want."""
        self.variable[self.values.find(made)] = self.new(name, element, layout)

    # -- versions -----------------------------------------------------------------------------

    def version(self, variable: int, ago: int) -> int:
        """The variable that keeps what `variable` was `ago` definitions before."""
        if ago == 0:
            return variable
        if (variable, ago) not in self.older:
            now = self.fragment(variable)
            self.older[variable, ago] = self.new(f"{now.name}_before", now.element, now.layout)
        return self.older[variable, ago]

    def keep(self, variable: int) -> list[Stmt]:
        """The copies in front of a definition, oldest first."""
        most = max((ago for v, ago in self.older if v == variable), default=0)
        return [Copy(self.version(variable, ago - 1), self.version(variable, ago)) for ago in range(most, 0, -1)]
