"""Whether CTAs fetch program instances one by one instead of having every n-th.

How they do is `twill.codegen.passes.dynamic_scheduler`.
"""

from __future__ import annotations

from typing import Literal

from twill import exc
from twill.codegen.lower.longest_first import unequal
from twill.codegen.lower.plan import LoweringPlan
from twill.tile.order_dependence import depends_on_order

Order = Literal["chosen", "static", "dynamic"]
"""What may be asked for. "chosen": dynamic where program instances have unequal trip counts, or CTAs share an SM."""


def is_dynamic(plan: LoweringPlan, asked: Order) -> bool:
    """Whether instances are fetched. Only a thread that issues loads can do it without holding others up.

    Of its own, where trip counts are unequal, and where CTAs share an SM, for how fast one is depends on the others.
    Where neither is so, fetching gained nothing (docs/performance-log.md). Parts of a split are equal but for the last.
    Instances whose order counts are never fetched: checks compare with them in the order that CTAs have them in.
    """
    program = plan.wired.program
    if asked == "dynamic" and depends_on_order(program):
        raise exc.UnsupportedInKernel(
            "atomic operations whose old value or order counts, in program instances that are fetched one by one",
            file=program.file, hint="emit without `--order dynamic`",
        )  # fmt: skip
    if asked == "static" or depends_on_order(program) or not any(group.issuer for group in plan.groups):
        return False
    apart = unequal(plan) and program.split is None
    return asked == "dynamic" or apart or plan.candidate.ctas > 1
