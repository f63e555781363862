"""Where there is no proof: the statement of the certificate, put to a second solver."""

from __future__ import annotations

from contextlib import suppress

from twill.certify.prover import text
from twill.certify.relaxed import broken_rules
from twill.certify.statement import Key, Statement
from twill.exc import SolverFailed, SolverMissing
from twill.smt.external import ExternalSession, program

SECONDS = 60.0


def second_solver(statement: Statement, seconds: float = SECONDS) -> str | None:
    """The name of an installed solver other than z3 that answers no, or None."""
    for name in ("yices", "cvc5"):
        with suppress(SolverMissing, SolverFailed), ExternalSession(program(name)) as session:
            if _says_no(statement, session, seconds):
                return session.name
    return None


def _says_no(statement: Statement, session: ExternalSession, seconds: float) -> bool:
    keys: dict[Key, None] = {}
    declared: set[str] = set()
    todo = list(statement.always())
    while True:
        while todo:
            key = todo.pop()
            if key in keys:
                continue
            keys[key] = None
            for clause in statement.clauses(key):
                for name in (name for literal in clause for name, _ in literal.terms):
                    if name not in declared:
                        declared.add(name)
                        session.declare(name, "Int")
                        todo += statement.defining(name)
                session.add([text(clause)])
        answer = session.check(seconds=seconds)
        if answer.outcome != "sat":
            return answer.outcome == "unsat"
        todo = [k for k in broken_rules(statement, answer.values) if k not in keys]
        if not todo:
            return False
