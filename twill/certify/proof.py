"""A proof that a statement's clauses contradict one another, and its text.

One JSON value a line, compressed with gzip. First the header; then, numbered from 0, the steps::

    {"schema": "twill.proof/1", "graph": DIGEST, "machine": DIGEST, "question": {...}}
    ["literal", [NAME, FACTOR, ...], BOUND]      the next literal, from 1: Σ FACTOR·NAME <= BOUND; -n is its negation
    ["rule", KEY, PLACE]                         a clause of the statement
    ["sum", [LITERAL, ...], [FACTOR, ...]]       a clause: its literals' negations, each times its factor, add up to
                                                 0 <= -1 or less
    ["follows", [LITERAL, ...], [STEP, ...]]     a clause: with all of it denied, each step in turn leaves one literal,
                                                 which holds then, until the last leaves none

The last step is the empty clause. `twill.certify.verify` reads it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from twill.certify.question import Question
from twill.document import Document
from twill.exc import BadProof

MOST_BYTES = 1 << 28  # of the text: a compressed file can claim any size


class Header(Document):
    """What a proof is about: digests of the loop's costed graph and of the machine, and the question."""

    schema_version: OneOf["twill.proof/1"] = "twill.proof/1"
    graph: str
    machine: str
    question: Question


@dataclass(frozen=True)
class Proof:
    """A header and the lines behind it."""

    header: Header
    lines: tuple[list[object], ...]


def packed(proof: Proof) -> bytes:
    """The proof's file: equal proofs are equal bytes."""
    text = "\n".join([proof.header.canonical(), *(json.dumps(line, separators=(",", ":")) for line in proof.lines)])
    return gzip.compress(text.encode() + b"\n", 9, mtime=0)


def unpacked(data: bytes, file: str = "") -> Proof:
    """The proof in a file. Raises BadProof."""
    lines = list(text_lines(data, file))
    try:
        header = Header.parse(lines[0] if lines else "")
        steps = tuple(json.loads(line) for line in lines[1:])
    except (ValueError, RecursionError):
        raise BadProof("is no proof of twill.proof/1", file=file) from None
    if not all(isinstance(step, list) for step in steps):
        raise BadProof("has a line that is no step", file=file)
    return Proof(header, steps)


def text_lines(data: bytes, file: str) -> Iterator[str]:
    """The lines of a compressed text."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            text = stream.read(MOST_BYTES + 1)
    except (OSError, EOFError, ValueError) as error:
        raise BadProof(f"is damaged: {str(error).rstrip('.') or 'not a gzip file'}", file=file) from None
    if len(text) > MOST_BYTES:
        raise BadProof(f"is longer than {MOST_BYTES} bytes", file=file)
    try:
        yield from text.decode().splitlines()
    except UnicodeDecodeError:
        raise BadProof("is no text", file=file) from None


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def names_and_factors(terms: Iterable[tuple[str, int]]) -> list[str | int]:
    """`[NAME, FACTOR, ...]`."""
    return [part for term in terms for part in term]
