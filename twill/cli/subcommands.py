"""How a command of the command line is made."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]

EXIT_CODES = """exit codes: 0 done, and for a joint solve proven optimal; 2 bad input; 3 proven infeasible;
4 budget exhausted; 5 internal error; 6 not as it should be (store verify, store import, ci)"""


def new(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """A command with its one-line help."""
    return commands.add_parser(name, help=text, description=text, epilog=EXIT_CODES, allow_abbrev=False)
