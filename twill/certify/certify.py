"""Certify a schedule: show every claim that it makes, by a bound's witness, by a proof, or by a second solver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from twill.certify.claims import behind, smaller
from twill.certify.derivation import Unprovable
from twill.certify.document import Agreed, CertificateDocument, Claimed, ExcludedRange, Proven
from twill.certify.proof import digest, packed
from twill.certify.prover import EFFORT, prove
from twill.certify.question import Question
from twill.certify.second import second_solver
from twill.certify.statement import Statement
from twill.certify.witness import witnesses
from twill.exc import FalseClaim
from twill.machine.description import Machine
from twill.schedule.document import LoopSchedule, Schedule

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Certified:
    """A certificate and the proofs that it names, by file."""

    document: CertificateDocument
    proofs: dict[str, bytes]


def certify(schedule: Schedule, machine: Machine, notify: Notify | None = None, effort: int = EFFORT) -> Certified:
    """The certificate of a valid schedule. Raises FalseClaim if something better than it was found.

    effort: of z3's counter for a try at a question, so that the same schedule gets the same certificate.
    """
    work = Work(schedule, machine, notify or (lambda _: None), effort)
    for loop in schedule.loops:
        work.loop(loop)
    graphs = tuple((loop.loop, loop.graph.digest()) for loop in schedule.loops)
    document = CertificateDocument(
        kernel=schedule.kernel,
        spec=schedule.spec,
        machine=machine.digest(),
        graphs=graphs,
        bounds=tuple(work.bounds),
        proven=tuple(work.proven),
        agreed=tuple(work.agreed),
        claimed=tuple(work.claimed),
    )
    return Certified(document, work.proofs)


@dataclass
class Work:
    """What has been shown so far."""

    schedule: Schedule
    machine: Machine
    notify: Notify
    effort: int
    bounds: list[ExcludedRange] = field(default_factory=list)
    proven: list[Proven] = field(default_factory=list)
    agreed: list[Agreed] = field(default_factory=list)
    claimed: list[Claimed] = field(default_factory=list)
    proofs: dict[str, bytes] = field(default_factory=dict)

    def loop(self, loop: LoopSchedule) -> None:
        """Show what is claimed of one loop."""
        open_ = smaller(loop)
        for witness in witnesses(loop.graph, self.machine, loop.certificate.bounds, open_.stop):
            self.bounds.append(ExcludedRange(loop=loop.loop, witness=witness))
            open_ = range(witness.ii_to + 1, open_.stop)
        if open_:
            self._range(loop, open_)
        for _, question in behind(loop, self.machine.register_file.granule):
            self._show(loop, question, last=True)

    def _range(self, loop: LoopSchedule, every: range) -> None:
        """Refute all I of a range at once if that is possible, else in halves."""
        question = Question(ii=every[0], ii_to=every[-1])
        if self._show(loop, question, last=len(every) == 1):
            return
        middle = len(every) // 2
        for part in (every[:middle], every[middle:]):
            self._range(loop, part)

    def _show(self, loop: LoopSchedule, question: Question, last: bool) -> bool:
        """Show that the answer is no, one way or another. False if nothing does, and it is not the last try."""
        self.notify(f"line {loop.line}: no schedule with {question.words()}")
        statement = Statement(loop.graph, self.machine, question)
        try:
            proof = prove(statement, self.effort, loop.certificate.seed)
        except Unprovable as failed:
            if last:
                self._without_proof(loop, statement, str(failed))
            return last
        if proof is None:
            self._refuted(loop, question)
            return True
        data = packed(proof)
        name = f"loop{loop.loop}-{1 + sum(p.loop == loop.loop for p in self.proven)}.proof.gz"
        self.proofs[name] = data
        self.proven.append(Proven(loop=loop.loop, question=question, file=name, sha256=digest(data)))
        return True

    def _without_proof(self, loop: LoopSchedule, statement: Statement, reason: str) -> None:
        other = second_solver(statement)
        if other is None:
            claim = Claimed(loop=loop.loop, question=statement.question, reason=reason)
            self.claimed.append(claim)
            return
        solvers = (*dict.fromkeys(searched_by(loop)), other)
        self.agreed.append(Agreed(loop=loop.loop, question=statement.question, solvers=solvers, reason=reason))

    def _refuted(self, loop: LoopSchedule, question: Question) -> None:
        """A claim that is not true by itself: it may be true with pins, or with the main loop's warp groups."""
        main = (loop.objective, loop.certificate) == (self.schedule.objective, self.schedule.certificate)
        if main and not self.schedule.pins:
            raise FalseClaim(f"the schedule claims that none has {question.words()}, but there is one", line=loop.line)
        given = "the pins" if main else "the warp groups of the main loop"
        self.claimed.append(Claimed(loop=loop.loop, question=question, reason=f"true only with {given}"))


def searched_by(loop: LoopSchedule) -> Iterator[str]:
    """The solvers that refuted something in the search."""
    return (step.solver for step in loop.certificate.steps if step.verdict == "infeasible")
