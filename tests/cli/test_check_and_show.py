"""Promises of `twill check` and `twill show` for stored documents, sound and spoiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.schedules import attention_schedule
from tests.show.test_view import spoiled
from twill.certify.document import CertificateDocument, Proven
from twill.certify.question import Question
from twill.cli import main
from twill.machine.file import load_machine
from twill.schedule.document import Schedule


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A stored schedule."""
    return store(tmp_path, attention_schedule())


def store(directory: Path, schedule: Schedule) -> Path:
    """The document in a file."""
    path = directory / "schedule.json"
    path.write_text(schedule.canonical() + "\n")
    return path


def test_a_valid_schedule_passes(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(stored)]) == 0
    assert capsys.readouterr().out == f"{stored}: a valid schedule of attention for h100, I = 2048, proven optimal\n"


def test_a_broken_rule_exits_with_2_and_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = attention_schedule()
    late = schedule.ops[2].model_copy(update={"start": 980, "row": 980})
    path = store(tmp_path, schedule.model_copy(update={"ops": (*schedule.ops[:2], late, *schedule.ops[3:])}))
    assert main(["check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "capacity" in err and "line" in err and "qk" in err


def test_another_machine_can_be_given(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(stored), "--machine", "b200"]) == 2
    assert "h100" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema":"twill.schedule/1"}', "\x00\xff", "{}" * 3])
def test_what_is_no_schedule_document_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    path = tmp_path / "schedule.json"
    path.write_bytes(text.encode("latin-1"))
    assert main([command, str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and str(path) in err and "instead: " in err


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_truncated_document_exits_with_2(stored: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    text = stored.read_text()
    for part in (0.1, 0.5, 0.99):
        stored.write_text(text[: int(len(text) * part)])
        assert main([command, str(stored)]) == 2
        assert "ends in the middle" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize(
    "what",
    ["loop", "group", "start", "unit", "id", "twice", "missing", "no loops", "edge", "ii", "short", "endless"],
)
def test_a_document_that_contradicts_itself_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, what: str
) -> None:
    path = store(tmp_path, spoiled(what))
    page = tmp_path / "page.html"
    assert main([command, str(path), *(["--html", str(page)] if command == "show" else [])]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and not page.exists()


def test_show_prints_and_writes(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    assert main(["show", str(stored), "--html", str(page), "--trace", str(trace)]) == 0
    assert "consumer 1" in capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>") and "traceEvents" in trace.read_text()


def test_show_needs_no_machine_file(tmp_path: Path) -> None:
    schedule = attention_schedule().model_copy(update={"machine": "a machine that is described nowhere"})
    assert main(["show", str(store(tmp_path, schedule))]) == 0


def test_a_certificate_is_made_and_checked_without_the_solver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = str(ROOT / "examples" / "gemm.py")
    folder = tmp_path / "certified"
    asked = ["solve", kernel, "--machine", "h100", "--spec", "bf16", "--no-store"]
    assert main([*asked, "--certify", str(folder)]) == 0
    capsys.readouterr()
    assert main(["check", str(folder / "schedule.json"), "--certificate"]) == 0
    said = capsys.readouterr().out
    assert "proven: loop0-1.proof.gz" in said and "no schedule with I in [1, " in said
    assert said.splitlines()[-1] == "  5 proven, 0 agreed, 0 claimed"
    assert "other cooperations is better" in said.splitlines()[-2]

    proof = folder / "loop0-1.proof.gz"
    proof.write_bytes(proof.read_bytes()[:-9])
    assert main(["check", str(folder / "schedule.json"), "--certificate"]) == 2
    assert "loop0-1.proof.gz" in capsys.readouterr().err
    proof.unlink()
    assert main(["check", str(folder / "schedule.json"), "--certificate"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_schedule_without_a_certificate_is_told_so(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(stored), "--certificate"]) == 2
    assert "certificate.json" in capsys.readouterr().err


def test_a_certificate_that_names_a_file_elsewhere_is_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = attention_schedule()
    loop = schedule.loops[0]
    question = Question(ii=loop.ii, ii_to=loop.ii, length=1)
    document = CertificateDocument(
        kernel="attention",
        spec="full",
        machine=load_machine("h100").digest(),
        graphs=((loop.loop, loop.graph.digest()),),
        bounds=(),
        proven=(Proven(loop=loop.loop, question=question, file="../../secret", sha256="0" * 64),),
        agreed=(),
        claimed=(),
    )
    (stored.parent / "certificate.json").write_text(document.canonical())
    assert main(["check", str(stored), "--certificate"]) == 2
    assert "outside its folder" in capsys.readouterr().err
