"""Answers a question about a loop: a schedule's unknowns, or a proof that there is none.

z3 refutes the statement and logs the clauses that it learns. From the last backwards, every clause that the
contradiction needs is derived again: by adding inequalities up, or by crossing literals out of earlier clauses. What z3
learned but nobody needs is left out, and what cannot be derived again is not used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import z3

from twill.certify.clause_log import Log
from twill.certify.derivation import Derivation, Unprovable
from twill.certify.linear import Clause, Linear
from twill.certify.proof import Header, Proof
from twill.certify.relaxed import broken_rules
from twill.certify.statement import Key, Statement
from twill.smt.interrupt import interruptible

EFFORT = 30_000_000  # z3's counter, for one try at one question
TRIES = ((2, 1), (6, 0), (6, 1))  # solver and propagation: what one logs too little of, another logs


def prove(statement: Statement, effort: int = EFFORT, seed: int = 0) -> Proof | None:
    """A proof that the answer is no; None if the answer is yes. Raises Unprovable."""
    reason = Unprovable()
    for solver, propagation in TRIES:
        attempt = Prover(statement, effort, seed, solver, propagation)
        try:
            return attempt.prove()
        except Unprovable as failed:
            reason = failed
    raise reason


@dataclass
class Prover:
    """One try at one question. Rules that rarely bind are asserted when an answer breaks them."""

    statement: Statement
    effort: int
    seed: int
    solver: int  # z3's arith.solver
    propagation: int  # z3's arith.propagation_mode
    keys: dict[Key, None] = field(default_factory=dict)
    inputs: list[tuple[Key, int, Clause]] = field(default_factory=list)
    _declared: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._solver = z3.SimpleSolver(
            ctx=z3.Context()
        )  # of its own: what was asked before leaves no trace in the proof
        self._solver.set("arith.solver", self.solver)
        self._solver.set("arith.propagation_mode", self.propagation)
        self._solver.set("random_seed", self.seed)
        self._solver.set("relevancy", 0)
        self._solver.set("rlimit", self.effort)
        self._log = Log(self._solver)

    def prove(self) -> Proof | None:
        """A proof that the answer is no; None if the answer is yes. Raises Unprovable."""
        self._assert(self.statement.always())
        while True:
            answer = interruptible(self._solver, self._solver.check)
            if answer == z3.unsat:
                return self._proof()
            if answer != z3.sat:
                raise Unprovable("z3 did not decide the question within its limit")
            broken = [k for k in broken_rules(self.statement, self._values()) if k not in self.keys]
            if not broken:
                return None
            self._assert(broken)

    def _assert(self, keys: Iterable[Key]) -> None:
        """Assert the clauses of these names and of the unknowns in them."""
        todo, new, names = list(keys), [], []
        while todo:
            key = todo.pop(0)
            if key in self.keys:
                continue
            self.keys[key] = None
            for place, clause in enumerate(self.statement.clauses(key)):
                new.append((key, place, clause))
                for name in (name for literal in clause for name, _ in literal.terms):
                    if name not in self._declared:
                        self._declared.add(name)
                        names.append(name)
                        todo += self.statement.defining(name)
        self.inputs += new
        self._log.forget(clause for _, _, clause in new)
        declared = [f"(declare-fun {name} () Int)" for name in names]
        self._solver.from_string("\n".join([*declared, *(f"(assert {text(clause)})" for _, _, clause in new)]))

    def _values(self) -> dict[str, int]:
        model = self._solver.model()
        return {d.name(): int(model[d].as_long()) for d in model.decls()}

    def _proof(self) -> Proof:
        s = self.statement
        header = Header(graph=s.graph.digest(), machine=s.machine.digest(), question=s.question)
        return Proof(header, Derivation(self.inputs, self._log.learned).lines())


def text(clause: Clause) -> str:
    """The clause in SMT-LIB 2."""
    literals = [f"(<= {_total(literal)} {_numeral(literal.bound)})" for literal in clause]
    return literals[0] if len(literals) == 1 else f"(or {' '.join(literals)})" if literals else "false"


def _total(literal: Linear) -> str:
    parts = [name if factor == 1 else f"(* {_numeral(factor)} {name})" for name, factor in literal.terms]
    return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"


def _numeral(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"
