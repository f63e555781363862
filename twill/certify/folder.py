"""A certificate's folder: certificate.json, the schedule and the proofs."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from twill.certify.document import FILE, CertificateDocument
from twill.certify.examine import ClaimFinding, examine
from twill.exc import BadCertificate
from twill.machine.description import Machine
from twill.schedule.document import Schedule

AGAIN = "make it with `twill solve --certify DIR`"


def load_certificate(folder: Path) -> CertificateDocument:
    """The certificate in a folder. Raises BadCertificate."""
    path = folder / FILE
    try:
        return CertificateDocument.parse(path.read_bytes())
    except OSError as error:
        raise BadCertificate(f"cannot be read: {error.strerror}", file=str(path), hint=AGAIN) from None
    except (ValidationError, RecursionError):
        raise BadCertificate("is no certificate of twill.certificate/1", file=str(path), hint=AGAIN) from None


def examine_folder(schedule: Schedule, machine: Machine, folder: Path) -> tuple[ClaimFinding, ...]:
    """What the certificate in a folder shows of a schedule. Raises BadCertificate, BadProof."""

    def read(name: str) -> bytes:
        if Path(name).name != name:
            raise BadCertificate(f"names a proof outside its folder: {name}", file=str(folder / FILE))
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise BadCertificate(f"names a proof that cannot be read: {name}: {error.strerror}") from None

    return examine(schedule, machine, load_certificate(folder), read)
