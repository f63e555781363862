"""A certificate shows what it shows: tampered, truncated, swapped or missing parts are refused or told apart."""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
from pydantic import ValidationError

from tests.certify.test_verify import asked
from tests.conftest import GOLDEN, ROOT
from twill.certify.certify import Certified, certify
from twill.certify.document import Agreed, CertificateDocument, Claimed
from twill.certify.examine import ClaimFinding, examine
from twill.certify.proof import digest, packed, unpacked
from twill.certify.prover import prove
from twill.certify.question import Question
from twill.exc import BadCertificate, BadProof, FalseClaim
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule

MACHINE = load_machine("h100")


def gemm() -> Schedule:
    return load_schedule(GOLDEN / "schedules" / "gemm_bf16.json")


@cache
def certified() -> Certified:
    return certify(gemm(), MACHINE)


def examined(certificate: CertificateDocument, proofs: dict[str, bytes] | None = None) -> tuple[ClaimFinding, ...]:
    return examine(gemm(), MACHINE, certificate, {**certified().proofs, **(proofs or {})}.__getitem__)


def with_proof(data: bytes) -> tuple[CertificateDocument, dict[str, bytes]]:
    """A certificate that names other bytes as its first proof, with their own hash."""
    document = certified().document
    first = document.proven[0].model_copy(update={"sha256": digest(data)})
    return document.model_copy(update={"proven": (first, *document.proven[1:])}), {first.file: data}


def test_every_claim_of_an_optimal_schedule_is_proven() -> None:
    findings = examined(certified().document)
    assert [f.standing for f in findings] == ["proven"] * 5
    assert findings[0].describe() == "line 33: no schedule with I in [1, 511]: proven: the resource bound of tensor"


def test_certificates_of_one_schedule_are_the_same_bytes() -> None:
    """Whatever was proven before, in the same process."""
    for _ in range(2):
        assert prove(asked()) is not None
        again = certify(gemm(), MACHINE)
        assert (again.document.canonical(), again.proofs) == (certified().document.canonical(), certified().proofs)


def test_another_process_makes_the_same_certificate() -> None:
    code = (
        "from tests.certify.test_examine import certified\n"
        "from twill.certify.proof import digest\n"
        "print(certified().document.digest(), *(digest(p) for p in certified().proofs.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    own = [certified().document.digest(), *(digest(p) for p in certified().proofs.values())]
    assert done.stdout.split() == own


def test_a_proof_with_other_bytes_than_the_certificate_says_is_refused() -> None:
    name = certified().document.proven[0].file
    with pytest.raises(BadProof, match="SHA-256"):
        examined(certified().document, {name: certified().proofs[name] + b"\n"})


def test_a_truncated_proof_is_refused() -> None:
    whole = next(iter(certified().proofs.values()))
    with pytest.raises(BadProof, match="damaged"):
        examined(*with_proof(whole[: len(whole) // 2]))
    lines = gzip.decompress(whole).splitlines(keepends=True)
    with pytest.raises(BadProof, match="before it comes to a contradiction"):
        examined(*with_proof(gzip.compress(b"".join(lines[:-1]), mtime=0)))
    with pytest.raises(BadProof, match="no proof of twill.proof/1"):
        examined(*with_proof(gzip.compress(b"", mtime=0)))


def test_a_proof_that_was_tampered_with_is_refused() -> None:
    proof = unpacked(next(iter(certified().proofs.values())))
    number = max(n for n, line in enumerate(proof.lines) if line[0] == "sum")
    kind, clause, factors = proof.lines[number]
    assert isinstance(factors, list)
    lines = (*proof.lines[:number], [kind, clause, [f + 1 for f in factors]], *proof.lines[number + 1 :])
    if len(set(factors)) == 1:
        lines = (*proof.lines[:number], [kind, clause, [*factors[:-1], factors[-1] + 1]], *proof.lines[number + 1 :])
    with pytest.raises(BadProof, match=f"proves nothing: line {number + 2}"):
        examined(*with_proof(packed(replace(proof, lines=lines))))


def test_a_proof_of_another_question_is_refused() -> None:
    other = r"answers another question: I = 512, .*crossing <= \d+, not I = 512, length <= \d+$"
    with pytest.raises(BadProof, match=other):
        examined(*with_proof(certified().proofs["loop0-2.proof.gz"]))


def test_a_proof_whose_header_was_changed_proves_nothing() -> None:
    """The steps of one question under the name of another."""
    wanted = certified().document.proven[0].question
    other = unpacked(certified().proofs["loop0-4.proof.gz"])
    forged = replace(other, header=other.header.model_copy(update={"question": wanted}))
    with pytest.raises(BadProof, match="proves nothing"):
        examined(*with_proof(packed(forged)))


def test_a_proof_about_another_graph_is_refused() -> None:
    proof = unpacked(certified().proofs["loop0-1.proof.gz"])
    other = replace(proof, header=proof.header.model_copy(update={"graph": "0" * 64}))
    with pytest.raises(BadProof, match="about another loop or another machine"):
        examined(*with_proof(packed(other)))


def test_a_tampered_witness_is_refused() -> None:
    document = certified().document
    (bound,) = document.bounds
    for change, reason in (
        ({"ii_to": 512}, "the resource bound of loop 0 does not hold: .* only I < 512"),
        ({"place": "mufu"}, "only I < 0"),
        ({"kind": "recurrence"}, "no cycle"),
    ):
        wrong = bound.model_copy(update={"witness": bound.witness.model_copy(update=change)})
        with pytest.raises(BadCertificate, match=reason):
            examined(document.model_copy(update={"bounds": (wrong,)}))


def test_what_the_certificate_leaves_out_is_only_claimed() -> None:
    nothing = certified().document.model_copy(update={"bounds": (), "proven": ()})
    assert {(f.standing, f.how) for f in examined(nothing)} == {("claimed", "the certificate says nothing of it")}


def test_an_agreement_and_a_claim_are_told_as_what_they_are() -> None:
    document = certified().document
    one, two, *rest = document.proven
    agreed = Agreed(loop=0, question=one.question, solvers=("z3 5.4.0", "yices"), reason="no proof")
    claimed = Claimed(loop=0, question=two.question, reason="no time")
    weaker = document.model_copy(update={"proven": tuple(rest), "agreed": (agreed,), "claimed": (claimed,)})
    findings = examined(weaker)
    assert [f.standing for f in findings] == ["proven", "agreed", "claimed", "proven", "proven"]
    assert findings[1].how == "z3 5.4.0 and yices say so; no proof"


def test_a_certificate_of_another_schedule_is_refused() -> None:
    with pytest.raises(BadCertificate, match="other loops or another machine"):
        other = load_schedule(GOLDEN / "schedules" / "dual_gemm_bf16.json")
        examine(other, MACHINE, certified().document, certified().proofs.__getitem__)
    with pytest.raises(BadCertificate, match="other loops or another machine"):
        examine(gemm(), load_machine("b200"), certified().document, certified().proofs.__getitem__)


def test_a_schedule_that_is_not_the_best_gets_no_certificate() -> None:
    """It claims that no schedule has I = 512, and there is one."""
    good = gemm()
    loop = good.loops[0]
    certificate = loop.certificate.model_copy(update={"lower_bound": 513})
    wrong = good.model_copy(
        update={"certificate": certificate, "loops": (loop.model_copy(update={"certificate": certificate}),)}
    )
    with pytest.raises(FalseClaim, match="I = 512, but there is one"):
        certify(wrong, MACHINE)


def test_a_question_about_nothing_is_no_question() -> None:
    """It would be answered with no, whatever the kernel."""
    for wrong in ({"ii": 9, "ii_to": 8}, {"ii": 0, "ii_to": 3}, {"ii": 3, "ii_to": 4, "length": 7}):
        with pytest.raises(ValidationError):
            Question(**wrong)


def test_no_solver_is_needed_to_check_a_certificate() -> None:
    heavy = ("z3", "pyscipopt", "triton", "twill.smt", "twill.zlp")
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({heavy!r}))\n"  # an import of any of them raises ImportError
        "import twill.certify.folder\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
