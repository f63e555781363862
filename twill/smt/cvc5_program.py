"""cvc5's Python package as a program that reads SMT-LIB 2: `python -m twill.smt.cvc5_program`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any


def serve(lines: Iterable[str], say: Any = print) -> None:
    """Carry out commands, one or more a line, and say what they answer."""
    cvc5: Any = importlib.import_module("cvc5")  # an option: nothing else of Twill needs it
    terms = cvc5.TermManager()
    solver, symbols = cvc5.Solver(terms), cvc5.SymbolManager(terms)
    solver.setOption("incremental", "true")
    parser = cvc5.InputParser(solver, symbols)
    for line in lines:
        parser.setIncrementalStringInput(cvc5.InputLanguage.SMT_LIB_2_6, "twill")  # once is not enough in cvc5 1.4
        parser.appendIncrementalStringInput(line)
        while not (command := parser.nextCommand()).isNull():
            answer = command.invoke(solver, symbols)
            if answer:
                say(answer, end="", flush=True)


if __name__ == "__main__":
    serve(sys.stdin)
