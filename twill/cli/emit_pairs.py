"""Whether `twill emit` makes products by pairs of CTAs, where nobody said."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, TypeVar

from twill.cli.complaint import say_more

Made = TypeVar("Made")
CTAS = 2  # of a pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from twill.cli.solves import Question, Solve
    from twill.codegen.extraction import Extracted
    from twill.machine.description import Machine


def first_asked(kernel: Extracted, machine: Machine, arguments: Namespace) -> Question:
    """What is solved first: whether pairs pay, or the kernel as its target takes it."""
    alone, paired = in_clusters(arguments)
    if arguments.cluster is None and may_pay(kernel, machine, alone):
        return kernel.graph, machine, paired
    return kernel.on(machine).graph, machine, alone


def in_clusters(arguments: Namespace) -> tuple[Namespace, Namespace]:
    """What is asked for with as many CTAs a product as was said, or one; and with two."""
    alone, paired = (Namespace(**{**vars(arguments), "cluster": n}) for n in (arguments.cluster or 1, CTAS))
    return alone, paired


def in_pairs(
    kernel: Extracted,
    machine: Machine,
    arguments: Namespace,
    make: Callable[[Namespace], Made],
    solve: Solve | None = None,
) -> Made:
    """What `make` makes with as many CTAs a product as was asked for; if nobody said, with two where they have less I
    and it does not refuse them. solve: instead of `twill.cli.emit.solved`."""
    from twill import exc
    from twill.cli import emit

    alone, paired = in_clusters(arguments)
    if arguments.cluster is None and pairs_pay(kernel, machine, alone, paired, solve or emit.solved):
        try:
            return make(paired)
        except (
            exc.UnsupportedInKernel, exc.CandidateRefused, exc.Infeasible, exc.NotInGluon, exc.NoGluon, exc.GluonSpills
        ) as refused:  # fmt: skip
            say_more(f"no pairs of CTAs: {refused.message}")
    return make(alone)


def pairs_pay(kernel: Extracted, machine: Machine, alone: Namespace, paired: Namespace, solve: Solve) -> bool:
    """Whether the kernel has less I where two CTAs make its products together; not looked at where nothing of a loop
    could be made so. alone, paired: what is asked for."""
    if not may_pay(kernel, machine, alone):
        return False
    return solve(kernel.graph, machine, paired).ii < solve(kernel.graph, machine, alone).ii


def may_pay(kernel: Extracted, machine: Machine, alone: Namespace) -> bool:
    """Whether something of a loop could be made by two CTAs together."""
    from twill.graph.pairs import may_pair
    from twill.solve.regions import main_region

    return alone.order != "dynamic" and not alone.no_pair and may_pair(main_region(kernel.graph), machine)
