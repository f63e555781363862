"""The certificate of a schedule: every claim with what shows it (docs/certificates.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from twill.certify.bounds import Witness
from twill.certify.question import Question
from twill.document import Document

FILE = "certificate.json"  # in a folder with schedule.json and the proofs


class ExcludedRange(Document):
    """A range of I that a bound excludes."""

    loop: int
    witness: Witness


class Proven(Document):
    """A question with a proof that its answer is no. file: beside the certificate; sha256: of its bytes."""

    loop: int
    question: Question
    file: str
    sha256: str


class Agreed(Document):
    """A question that different solvers answered with no, and why there is no proof of it. Nothing more is known."""

    loop: int
    question: Question
    solvers: tuple[str, ...]
    reason: str


class Claimed(Document):
    """A question whose answer is claimed to be no, and why nothing shows it."""

    loop: int
    question: Question
    reason: str


class CertificateDocument(Document):
    """machine, graphs: digests of the machine and of each loop's costed graph, which all of it is about."""

    schema_version: Literal["twill.certificate/1"] = Field(default="twill.certificate/1", alias="schema")
    kernel: str
    spec: str
    machine: str
    graphs: tuple[tuple[int, str], ...]
    bounds: tuple[ExcludedRange, ...]
    proven: tuple[Proven, ...]
    agreed: tuple[Agreed, ...]
    claimed: tuple[Claimed, ...]
