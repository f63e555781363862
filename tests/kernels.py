"""Dependence graphs and costed graphs of the examples, read once for all tests."""

from __future__ import annotations

from functools import cache

from tests.conftest import ROOT
from tests.run_cache import once
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.graph.extract import extract
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.solve.pipeline import main_region
from twill.tile.rewrite.pipeline import DEFAULT, Allowed, Rewriting

H100: Machine = load_machine("h100")
B200: Machine = load_machine("b200")


@cache
def example(name: str, spec: str | None = None, rewriting: Rewriting = DEFAULT) -> DependenceGraph:
    """The dependence graph of `examples/<name>.py`."""
    file = str(ROOT / "examples" / f"{name}.py")
    return once(f"graph-{name}-{spec}-{rewriting}", lambda: extract(file, spec, allowed=Allowed(rewriting))[1])


def costed_example(
    name: str,
    spec: str | None = None,
    machine: Machine = H100,
    *,
    split: int = 1,
    fuse: int = 1,
    operand_a: str = "",
    polynomial: int = 0,
    columns: bool = False,
) -> CostedGraph:
    """The main loop of an example under one cooperation; operand_a: "" for the machine's first choice.
    polynomial: of 16 exponentials. columns: whether what joins row blocks is made in shares."""
    graph = example(name, spec)
    region = main_region(graph)
    for c in cooperations(graph, region, machine):
        if (c.split, c.fuse) == (split, fuse) and operand_a in ("", c.operand_a):
            return cost(graph, region, machine, c.model_copy(update={"polynomial": polynomial, "columns": columns}))
    raise AssertionError(f"{name} has no cooperation with {split} parts of {fuse} instances")
