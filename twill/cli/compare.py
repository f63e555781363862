"""`twill compare`: the strategies side by side."""

from __future__ import annotations

from argparse import Namespace
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from twill.cli import codes

if TYPE_CHECKING:
    from twill.schedule.document import Strategy
    from twill.solve.comparison import Notify


def compare(arguments: Namespace) -> int:
    """The table, or the document; exit code 4 if joint could not prove its schedule within the budget."""
    from twill.cli.solve import graph_of, options_of
    from twill.machine.file import load_machine
    from twill.show.comparison import print_comparison
    from twill.show.console import standard_output
    from twill.solve.comparison import compare as compare_strategies

    machine = load_machine(arguments.machine)
    comparison = compare_strategies(graph_of(arguments, machine), machine, options_of(arguments), watch)
    if arguments.json:
        print(comparison.canonical())
    else:
        print_comparison(standard_output(), comparison)
    joint = comparison.rows[0].figures
    return codes.SOLVED if joint is not None and joint.proven == "all" else codes.BUDGET_EXHAUSTED


def watch(strategy: Strategy) -> AbstractContextManager[Notify | None]:
    """A live line on the error stream while a strategy is at work."""
    from twill.cli.progress import live_progress

    return live_progress(title=f"strategy {strategy}")
