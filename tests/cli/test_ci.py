"""Promises of `twill ci`, with a solver that is played by the test."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.services import answer, entry_answer, playing, refusal
from tests.stores import entry_of, schedule_of
from twill.ci.lock_diff import MissingSchedule, ScheduleChange
from twill.ci.lock_file import Excluded, Lock, load_lock
from twill.cli import main
from twill.cli.ci_report import in_data, in_property, junit
from twill.exc import BudgetExhausted, Infeasible
from twill.schedule.document import Certificate, Schedule
from twill.solve import pipeline
from twill.store.api import Job, JobProblem

KERNELS = ("gemm", "layer_norm")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two kernels, a file without a sidecar and a hidden directory; the test runs in it."""
    for place in ("kernels", "kernels/.hidden"):
        (tmp_path / place).mkdir(parents=True)
        for name in KERNELS:
            for end in (".py", ".twill.toml"):
                text = (ROOT / "examples" / f"{name}{end}").read_text(encoding="utf-8")
                if end == ".twill.toml":  # its first specialization alone
                    text = "[[specialization]]".join(text.split("[[specialization]]")[:2])
                (tmp_path / place / f"{name}{end}").write_text(text, encoding="utf-8")
    (tmp_path / "kernels" / "helper.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def solver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Remembers real solves, and changes or refuses their answers as it is told."""
    asked: list[str] = []
    rules: dict[str, Any] = {}
    real = pipeline.solve

    def solve(graph: Any, machine: Any, options: Any, progress: Any = None, processes: int = 1) -> Schedule:
        asked.append(f"{graph.kernel} {machine.name}")
        if isinstance(rules.get(graph.kernel), Exception):
            raise rules[graph.kernel]
        return real(graph, machine, options, progress).model_copy(update=rules.get(graph.kernel, {}))

    def notify(**more: Any) -> list[str]:
        rules.update(more)
        return asked

    monkeypatch.setattr(pipeline, "solve", solve)
    return notify


def figures(path: Path) -> dict[str, tuple[int, int]]:
    """I and copies of every schedule in a lock file."""
    lock = load_lock(path)
    assert lock is not None
    return {f"{one.file} {one.spec} {one.machine}": (one.ii, one.copies) for one in lock.schedules}


def rewrite(path: Path, **update: Any) -> None:
    """Change the first schedule of a lock file."""
    lock = load_lock(path)
    assert lock is not None
    first, *rest = lock.schedules
    path.write_text(Lock(schedules=(first.model_copy(update=update), *rest)).text(), encoding="utf-8")


def test_the_first_run_writes_the_lock_file_and_the_next_one_agrees(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ci", "kernels", "--store", "store"]) == 0
    assert figures(Path("schedules.lock")) == {
        "kernels/gemm.py bf16 h100": (512, 4),
        "kernels/layer_norm.py bf16 h100": (200, 5),
    }
    assert solver() == ["gemm h100", "layer_norm h100"]
    before = Path("schedules.lock").read_bytes()
    capsys.readouterr()
    assert main(["ci", "kernels", "--store", "store"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^ok       kernels/gemm.py:\d+ gemm\[bf16\] on h100: I 512, copies 4, .*\(store, ", out)
    assert out.endswith("2 same of 2 schedules\n")
    assert len(solver()) == 2
    assert Path("schedules.lock").read_bytes() == before


def test_a_worse_schedule_fails_with_a_diff_an_annotation_and_a_junit_failure(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["ci", "kernels", "--store", "store"]) == 0
    rewrite(Path("schedules.lock"), ii=500)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    capsys.readouterr()
    assert main(["ci", "kernels", "--store", "store", "--junit", "result.xml"]) == 6
    out = capsys.readouterr().out
    assert "           I          500 -> 512 (+2.4%)\n" in out
    assert re.search(
        r"^::error file=kernels/gemm.py,line=\d+,title=Schedule worse%3A gemm\[bf16\] on h100::I", out, re.M
    )
    assert out.count("::error") == 1
    suite = ET.parse("result.xml").getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    failures = [(case.attrib["name"], failure.text) for case in suite for failure in case]
    assert failures[0][0] == "gemm[bf16] on h100"
    assert "500 -> 512" in str(failures[0][1])
    assert main(["ci", "kernels", "--store", "store", "--update"]) == 0
    assert figures(Path("schedules.lock"))["kernels/gemm.py bf16 h100"] == (512, 4)


def test_a_better_or_new_schedule_passes_and_is_said(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ci", "kernels", "--store", "store"]) == 0
    rewrite(Path("schedules.lock"), copies=5, spec="bf16")
    text = Path("schedules.lock").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["ci", "kernels", "--store", "store", "--annotations"]) == 0
    out = capsys.readouterr().out
    assert "better   kernels/gemm.py" in out
    assert "::notice file=kernels/gemm.py" in out
    assert "schedules.lock is not up to date; `twill ci --update` writes it" in out
    assert Path("schedules.lock").read_text(encoding="utf-8") == text


def test_a_kernel_that_is_gone_fails(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ci", "kernels", "--store", "store"]) == 0
    Path("kernels/layer_norm.py").unlink()
    assert main(["ci", "kernels", "--store", "store"]) == 6
    assert "missing  kernels/layer_norm.py layer_norm[bf16] on h100" in capsys.readouterr().out
    assert main(["ci", "kernels/gemm.py", "--store", "store"]) == 0  # only what is asked about
    assert main(["ci", "kernels", "--store", "store", "--update"]) == 0
    assert list(figures(Path("schedules.lock"))) == ["kernels/gemm.py bf16 h100"]


def test_an_update_of_a_part_keeps_the_rest(repository: Path) -> None:
    assert main(["ci", "kernels", "--store", "store", "--machine", "h100", "--machine", "h200"]) == 0
    four = figures(Path("schedules.lock"))
    assert len(four) == 4
    assert main(["ci", "kernels/gemm.py", "--store", "store", "--machine", "h200", "--update"]) == 0
    assert figures(Path("schedules.lock")) == four
    rewrite(Path("schedules.lock"), ii=1)
    assert main(["ci", "kernels", "--store", "store", "--machine", "h200"]) == 0  # the first one is for the h100
    assert main(["ci", "kernels", "--store", "store"]) == 6  # those of the lock file


def test_a_kernel_that_cannot_be_read_or_solved_fails_at_its_line_and_others_go_on(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path("kernels/gemm.py").read_text(encoding="utf-8")
    Path("kernels/gemm.py").write_text(source + "\nbroken(\n", encoding="utf-8")
    solver(layer_norm=Infeasible("nothing fits", line=12, hint="smaller tiles"))
    assert main(["ci", "kernels", "--store", "store", "--annotations"]) == 6
    out = capsys.readouterr().out
    line = source.count("\n") + 2
    assert f"failed   kernels/gemm.py:{line} gemm[bf16] on h100\n" in out
    assert (
        "failed   kernels/layer_norm.py:12 layer_norm[bf16] on h100\n           nothing fits (instead: smaller tiles)"
        in out
    )
    assert f"::error file=kernels/gemm.py,line={line},title=Schedule failed%3A" in out
    assert not Path("schedules.lock").exists()


def test_nothing_to_look_at_is_bad_input(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ci", "kernels/helper.py"]) == 2
    assert "no specialization of a kernel in kernels/helper.py" in capsys.readouterr().err
    assert main(["ci", "nowhere"]) == 2
    assert main(["ci", "kernels", "--lock", "nowhere/schedules.lock"]) == 2
    Path("schedules.lock").write_text("{", encoding="utf-8")
    assert main(["ci", "kernels"]) == 2


@pytest.mark.parametrize("lost", ["an entry", "all entries", "the file"])
def test_a_frozen_lock_file_cannot_lose_what_it_guards(
    lost: str, repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("schedules.lock")
    assert main(["ci", "kernels", "--store", "store"]) == 0
    assert main(["ci", "kernels", "--store", "store", "--frozen"]) == 0
    lock = load_lock(path)
    assert lock is not None
    if lost == "the file":
        path.unlink()
    else:
        path.write_text(Lock(schedules=lock.schedules[1:] if lost == "an entry" else ()).text(), encoding="utf-8")
    before = path.read_bytes() if path.exists() else b""
    capsys.readouterr()
    assert main(["ci", "kernels", "--store", "store", "--frozen", "--annotations"]) == (2 if lost == "the file" else 6)
    out, err = capsys.readouterr()
    assert "there is no lock file" in err if lost == "the file" else "::error file=kernels/gemm.py" in out
    assert (path.read_bytes() if path.exists() else b"") == before


def test_frozen_and_update_exclude_each_other(repository: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ci", "kernels", "--frozen", "--update"])


def test_a_schedule_without_a_proof_is_locked_as_the_best_known_and_held_to(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    best = schedule_of()
    steps = [loop.model_copy(update={"certificate": unproven(loop.certificate)}) for loop in best.loops]
    best = best.model_copy(update={"loops": tuple(steps), "certificate": unproven(best.certificate)})
    solver(gemm=BudgetExhausted("the budget is over", schedule=best, lower_bound=500))
    assert main(["ci", "kernels", "--store", "store"]) == 0
    assert "I 512 (I >= 500 is proven), copies 4" in capsys.readouterr().out
    lock = load_lock(Path("schedules.lock"))
    assert lock is not None and [one.bound for one in lock.schedules] == [500, None]
    assert main(["ci", "kernels", "--store", "store", "--frozen"]) == 0
    rewrite(Path("schedules.lock"), ii=511)
    assert main(["ci", "kernels", "--store", "store"]) == 6
    rewrite(Path("schedules.lock"), ii=512, bound=None)
    capsys.readouterr()
    assert main(["ci", "kernels", "--store", "store"]) == 0
    assert "proof      optimal -> I >= 500" in capsys.readouterr().out


def unproven(certificate: Certificate) -> Certificate:
    return certificate.model_copy(update={"optimal": False, "lower_bound": 500})


def test_an_excluded_specialization_is_not_solved_and_blocks_nothing(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    solver(gemm=BudgetExhausted("the budget is over"))
    assert main(["ci", "kernels", "--store", "store"]) == 6
    assert not Path("schedules.lock").exists()
    gone = Excluded(file="kernels/gemm.py", spec="bf16", reason="no proof within an hour")
    Path("schedules.lock").write_text(Lock(schedules=(), excluded=(gone,)).text(), encoding="utf-8")
    asked = len(solver())
    assert main(["ci", "kernels", "--store", "store", "--update"]) == 0
    assert solver()[asked:] == []  # layer_norm is in the store
    lock = load_lock(Path("schedules.lock"))
    assert lock is not None and lock.excluded == (gone,) and [one.kernel for one in lock.schedules] == ["layer_norm"]
    capsys.readouterr()
    assert main(["ci", "kernels", "--store", "store", "--frozen", "--junit", "result.xml"]) == 0
    out = capsys.readouterr().out
    assert "excluded kernels/gemm.py" in out and "no proof within an hour" in out
    assert "1 excluded, 1 same of 2 schedules\n" in out


def test_what_is_excluded_is_not_in_the_lock_file_as_well(repository: Path) -> None:
    assert main(["ci", "kernels", "--store", "store"]) == 0
    lock = load_lock(Path("schedules.lock"))
    assert lock is not None
    both = Excluded(file="kernels/gemm.py", spec="bf16", machine="h100", reason="r")
    Path("schedules.lock").write_text(lock.model_copy(update={"excluded": (both,)}).text(), encoding="utf-8")
    assert main(["ci", "kernels", "--store", "store"]) == 2


NASTY = "no\n::error file=a::b\n  ::set-output name=x::y\r\n\x1b[2J##[add-path]/evil"


def test_what_a_service_says_is_no_command_of_the_log(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    entry = entry_of()
    head = {"id": NASTY, "key": entry.key, "kernel": NASTY, "spec": "bf16", "machine": "h100", "created": "2026"}
    problem = JobProblem(kind=NASTY, message=NASTY, hint=NASTY, exit_code=0)
    failed = answer(Job(**head, state="failed", problem=problem).canonical())  # type: ignore[arg-type]
    for replies in ((refusal(404), failed), (refusal(403, NASTY),), (refusal(503, NASTY),)):
        with playing(*replies) as service:
            code = main(["ci", "kernels/gemm.py", "--no-store", "--server", service.address])
            words = ["solve", "kernels/gemm.py", "--machine", "h100", "--store", "other", "--server", service.address]
            alone = main(words)
        said = "".join(capsys.readouterr())
        assert "##[" not in said and "\x1b" not in said and "\r" not in said
        assert [line for line in said.splitlines() if line.lstrip().startswith("::")] == []
        if len(replies) == 2:
            assert (code, alone) != (0, 0)


def test_a_job_that_proves_nothing_at_a_service_is_solved_here(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    head = {"id": "j", "key": entry_of().key, "kernel": "gemm", "spec": "bf16", "machine": "h100", "created": "2026"}
    problem = JobProblem(kind="TimeLimit", message="too long")
    failed = answer(Job(**head, state="failed", problem=problem).canonical())  # type: ignore[arg-type]
    with playing(refusal(404), failed) as service:
        assert main(["ci", "kernels/gemm.py", "--store", "store", "--server", service.address]) == 0
    assert solver() == ["gemm h100"]


def test_files_are_named_relative_to_the_lock_file(repository: Path) -> None:
    Path("ci").mkdir()
    assert main(["ci", "kernels/gemm.py", "--lock", "ci/schedules.lock", "--no-store"]) == 0
    assert list(figures(Path("ci/schedules.lock"))) == ["../kernels/gemm.py bf16 h100"]
    assert main(["ci", "kernels/gemm.py", "--lock", "ci/schedules.lock", "--no-store"]) == 0


def test_a_service_solves_what_nobody_has(
    repository: Path, solver: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    entry = entry_of()
    job = Job(id="j", key=entry.key, state="done", kernel="gemm", spec="bf16", machine="h100", created="2026")
    done = answer(job.canonical())
    with playing(refusal(404), done, done, entry_answer(entry)) as service:
        assert main(["ci", "kernels/gemm.py", "--store", "store", "--server", service.address]) == 0
        assert [request.method for request in service.seen] == ["GET", "POST", "POST", "GET"]
    assert "(service, " in capsys.readouterr().out
    assert main(["ci", "kernels/gemm.py", "--store", "store"]) == 0
    assert solver() == []


def test_text_of_annotations_and_xml_is_escaped() -> None:
    assert in_data("50 %\r\n, :") == "50 %25%0D%0A, :"
    assert in_property("a:b,c\n") == "a%3Ab%2Cc%0A"
    change = ScheduleChange(
        ("f<.py", "k", '"s"', "m"), "failed", None, None, MissingSchedule("a < b & \x00\x1b[0m ]]>\nsecond")
    )
    (case,) = ET.fromstring(junit([change]))[0]
    assert case.attrib["classname"] == "f<.py"
    assert case[0].text == "a < b & ??[0m ]]>\nsecond"
    assert case[0].attrib["message"] == "failed: a < b & ??[0m ]]>"
