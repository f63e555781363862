"""Check a certificate: what of a schedule's claims is proven, what solvers agree on, and what is only claimed.

No solver is needed and none is imported. Bounds are computed again, proofs are read step by step; what the certificate
leaves out is found by going through the schedule's claims, not the certificate's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from twill.certify.bounds import NotExcluded, exclude
from twill.certify.claims import behind, smaller
from twill.certify.document import Agreed, CertificateDocument, Claimed, Proven
from twill.certify.proof import digest, unpacked
from twill.certify.question import Question
from twill.certify.statement import Statement
from twill.certify.verify import WrongStep, verify
from twill.exc import BadCertificate, BadProof
from twill.machine.description import Machine
from twill.schedule.document import LoopSchedule, Schedule

Read = Callable[[str], bytes]


@dataclass(frozen=True)
class ClaimFinding:
    """One claim. standing: "proven", "agreed" or "claimed"; how: by what."""

    line: int
    claim: str
    standing: str
    how: str

    def describe(self) -> str:
        """`line 97: no schedule with I < 2048: proven: busy cycles of the unit tensor`."""
        return f"line {self.line}: no schedule with {self.claim}: {self.standing}: {self.how}"


def examine(
    schedule: Schedule, machine: Machine, certificate: CertificateDocument, read: Read
) -> tuple[ClaimFinding, ...]:
    """Every claim of the schedule and how it stands. `read` gives the bytes of a proof's file.

    Raises BadCertificate if it is not about this schedule or a bound is wrong; BadProof if a proof is.
    """
    graphs = tuple((loop.loop, loop.graph.digest()) for loop in schedule.loops)
    if certificate.graphs != graphs or certificate.machine != machine.digest():
        raise BadCertificate("is about other loops or another machine than this schedule", hint="certify it again")
    known = {number for number, _ in graphs}
    spoken_of = {entry.loop for entry in answers(certificate)} | {bound.loop for bound in certificate.bounds}
    for number in sorted(spoken_of - known):
        raise BadCertificate(f"speaks of loop {number}, which the schedule has not")
    found: list[ClaimFinding] = []
    for loop in schedule.loops:
        found += examine_loop(loop, machine, certificate, read)
    return tuple(found)


def examine_loop(
    loop: LoopSchedule, machine: Machine, certificate: CertificateDocument, read: Read
) -> Iterator[ClaimFinding]:
    """The claims of one loop."""
    shown: list[tuple[range, str, str]] = []
    for bound in certificate.bounds:
        if bound.loop != loop.loop:
            continue
        try:
            exclude(loop.graph, machine, bound.witness)
        except NotExcluded as error:
            kind = bound.witness.kind
            raise BadCertificate(f"the {kind} bound of loop {loop.loop} does not hold: {error}") from None
        excluded = range(bound.witness.ii, bound.witness.ii_to + 1)
        where = f" of {bound.witness.place}" if bound.witness.place else ""
        shown.append((excluded, "proven", f"the {bound.witness.kind} bound{where}"))

    answered: dict[Question, tuple[str, str]] = {}
    for entry in answers(certificate):
        if entry.loop == loop.loop:
            answered[entry.question] = standing(entry, loop, machine, read)
    for question, (how_well, how) in answered.items():
        if question.length is question.crossing is question.registers is None:
            shown.append((range(question.ii, question.ii_to + 1), how_well, how))

    for part, how_well, how in covering(smaller(loop), shown):
        words = f"I = {part[0]}" if len(part) == 1 else f"I in [{part[0]}, {part[-1]}]"
        yield ClaimFinding(loop.line, words, how_well, how)
    for _, question in behind(loop, machine.register_file.granule):
        how_well, how = answered.get(question, ("claimed", "the certificate says nothing of it"))
        yield ClaimFinding(loop.line, question.words(), how_well, how)


def answers(certificate: CertificateDocument) -> tuple[Proven | Agreed | Claimed, ...]:
    """Its answers to questions; where one has several, the best comes last."""
    weak: tuple[Claimed | Agreed, ...] = (*certificate.claimed, *certificate.agreed)
    return (*weak, *certificate.proven)


def standing(entry: Proven | Agreed | Claimed, loop: LoopSchedule, machine: Machine, read: Read) -> tuple[str, str]:
    """How well an entry shows its question's answer, and how. Raises BadProof."""
    if isinstance(entry, Agreed):
        return "agreed", f"{' and '.join(entry.solvers)} say so; {entry.reason}"
    if isinstance(entry, Claimed):
        return "claimed", entry.reason
    data = read(entry.file)
    if digest(data) != entry.sha256:
        raise BadProof("is not the file that the certificate names: its SHA-256 differs", file=entry.file)
    proof = unpacked(data, entry.file)
    header = proof.header
    if (header.graph, header.machine) != (loop.graph.digest(), machine.digest()):
        raise BadProof("is about another loop or another machine", file=entry.file)
    if header.question != entry.question:
        asked, wanted = header.question.words(), entry.question.words()
        raise BadProof(f"answers another question: {asked}, not {wanted}", file=entry.file)
    try:
        steps = verify(proof, Statement(loop.graph, machine, entry.question))
    except (WrongStep, ValueError) as error:
        raise BadProof(f"proves nothing: {error}", file=entry.file) from None
    return "proven", f"{entry.file}, {steps} steps"


def covering(wanted: range, shown: list[tuple[range, str, str]]) -> Iterator[tuple[range, str, str]]:
    """`wanted` cut into ranges with what shows them, the best where there are several."""
    rank = {"proven": 0, "agreed": 1, "claimed": 2}
    cuts = sorted(
        {wanted.start, wanted.stop, *(end for r, _, _ in shown for end in (r.start, r.stop) if end in wanted)}
    )
    for start, stop in zip(cuts, cuts[1:], strict=False):
        part = range(start, stop)
        over = [(rank[how_well], how_well, how) for r, how_well, how in shown if r.start <= start and stop <= r.stop]
        _, how_well, how = min(over, default=(2, "claimed", "the certificate says nothing of it"))
        yield part, how_well, how
