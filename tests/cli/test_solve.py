"""Promises of `twill solve`, `extract` and `explain`, with a solver that is played by the test."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.schedules import attention_schedule
from tests.show.test_text import unproven
from twill.cli import main
from twill.codegen.lowerable import refuse_unlowerable
from twill.exc import BudgetExhausted, Infeasible
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.solve import pipeline
from twill.solve.explain import ExplainLimits
from twill.solve.pipeline import SolveOptions

GEMM = str(ROOT / "examples" / "gemm.py")

Solver = Callable[..., Schedule]


class Played:
    """A solver that gives or raises what it was told to, and remembers what it was asked."""

    def __init__(self, answer: Schedule | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[DependenceGraph, Machine, SolveOptions]] = []

    def __call__(self, graph: DependenceGraph, machine: Machine, options: SolveOptions, *_: object) -> Schedule:
        self.asked.append((graph, machine, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Schedule | Exception], Played]:
    """Puts a played solver in the place of the real one, but for what lowering asks of it."""

    def put(answer: Schedule | Exception) -> Played:
        played = Played(answer)
        assert refuse_unlowerable.__module__ in sys.modules  # it has the real one by a name of its own
        monkeypatch.setattr(pipeline, "solve", played)
        return played

    return put


def test_json_is_the_document_and_nothing_else(play: Callable[..., Played], capsys: pytest.CaptureFixture[str]) -> None:
    play(attention_schedule())
    assert main(["solve", GEMM, "--machine", "h100", "--json"]) == 0
    out, err = capsys.readouterr()
    assert out == attention_schedule().canonical() + "\n"
    assert err == ""


def test_without_json_people_get_tables_and_the_picture(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str]
) -> None:
    play(attention_schedule())
    assert main(["solve", GEMM, "--machine", "h100"]) == 0
    out = capsys.readouterr().out
    assert "proven optimal" in out and "▌" in out and "certificate" in out


def test_options_reach_the_solver(play: Callable[..., Played]) -> None:
    played = play(attention_schedule())
    words = ["solve", f"{GEMM}::gemm", "--machine", "b200", "--normalize", "300", "--budget", "2.5", "--seed", "7"]
    words += ["--pin", "acc.0=g1", "--pin", "a<b", "--blocks", "2", "--ii", "512", "--resource-limit", "9", "--json"]
    assert main(words) == 0
    ((graph, machine, options),) = played.asked
    assert (graph.kernel, machine.name) == ("gemm", "b200")
    assert options == SolveOptions(
        normalize=300, budget=2.5, resource_limit=9, seed=7, pins=("acc.0=g1", "a<b"), blocks=2, ii=512
    )


ANY_LENGTH = str(ROOT / "examples" / "attention_any_length.py")


@pytest.mark.parametrize(("machine", "rows", "columns"), [("h100", 192, 80), ("b200", 128, 128)])
def test_what_is_solved_are_tiles_that_are_emitted(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str], machine: str, rows: int, columns: int
) -> None:
    played = play(attention_schedule())
    assert main(["solve", ANY_LENGTH, "--machine", machine, "--json"]) == 0
    ((graph, _, _),) = played.asked
    products = [node.mma for region in graph.regions for node in region.nodes if node.mma is not None]
    assert (products[0].m, products[0].n) == (rows, columns)
    said = "Blackwell has 128 or 64 rows, columns in 16s up to 256: BLOCK_M=128 BLOCK_N=128 instead of"
    assert (said in capsys.readouterr().err) == (machine == "b200")


def test_infeasible_exits_with_3_and_its_explanation(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    play(Infeasible("the unit tensor is busy 2048 cycles", file="gemm.py", line=36))
    page = tmp_path / "page.html"
    assert main(["solve", GEMM, "--machine", "h100", "--html", str(page), "--json"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "gemm.py:36: the unit tensor is busy 2048 cycles" in err
    assert list(tmp_path.iterdir()) == []


def test_a_budget_that_ran_out_still_publishes_the_best_schedule(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    play(BudgetExhausted("the budget of 1 s ended", schedule=unproven(), lower_bound=1990))
    assert main(["solve", GEMM, "--machine", "h100", "--json", "--out", str(tmp_path)]) == 4
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["certificate"]["optimal"] is False and document["certificate"]["lower_bound"] == 1990
    assert "the budget of 1 s ended" in err
    text = (tmp_path / "schedule.txt").read_text() + (tmp_path / "schedule.html").read_text()
    assert "not proven optimal" in text and ": proven optimal" not in text


def test_a_budget_that_ran_out_with_nothing_writes_nothing(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    play(BudgetExhausted("the budget ended with no schedule", lower_bound=512))
    assert main(["solve", GEMM, "--machine", "h100", "--json", "--out", str(tmp_path / "new")]) == 4
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_refused_before_the_solve(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    played = play(attention_schedule())
    assert main(["solve", GEMM, "--machine", "h100", "--html", str(tmp_path / "no" / "page.html")]) == 2
    assert played.asked == [] and "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.py", "--machine", "h100"), "nowhere.py"),
        ((GEMM, "--machine", "h101"), "did you mean `h100`"),
        ((f"{GEMM}::nothing", "--machine", "h100"), "nothing"),
        ((GEMM, "--machine", "h100", "--spec", "nothing"), "nothing"),
        ((GEMM, "--machine", "h100", "--const", "NOTHING=3"), "NOTHING"),
        ((GEMM, "--machine", "h100", "--const", "BLOCK_M"), "BLOCK_M"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_instead(
    play: Callable[..., Played], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    played = play(attention_schedule())
    assert main(["solve", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and "instead: " in err and played.asked == []


def test_extract_prints_the_graph_as_text_or_as_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", GEMM]) == 0
    assert capsys.readouterr().out.startswith("kernel gemm spec bf16 ")
    assert main(["extract", GEMM, "--json"]) == 0
    out = capsys.readouterr().out
    assert DependenceGraph.parse(out).kernel == "gemm" and out.count("\n") == 1


def test_explain_prints_what_the_solver_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(graph: DependenceGraph, machine: Machine, options: SolveOptions, asked: ExplainLimits) -> str:
        return f"{graph.kernel} on {machine.name}: {options.ii} {options.pins} {asked.copies} {asked.groups}"

    monkeypatch.setattr("twill.solve.explain.explain", listed)
    words = ["--ii", "500", "--pin", "acc=g0", "--copies", "2", "--groups", "3"]
    assert main(["explain", GEMM, "--machine", "h100", *words]) == 0
    assert capsys.readouterr().out == "gemm on h100: 500 ('acc=g0',) 2 3\n"


def test_top_writes_every_schedule_to_a_place_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[int] = []

    def played(graph: DependenceGraph, machine: Machine, count: int, *_: object) -> pipeline.Top:
        asked.append(count)
        return pipeline.Top((attention_schedule(), attention_schedule()), True)

    monkeypatch.setattr(pipeline, "solve_top", played)
    trace = tmp_path / "t.json"
    words = ["solve", GEMM, "--machine", "h100", "--top", "3", "--out", str(tmp_path / "out"), "--trace", str(trace)]
    assert main(words) == 0
    assert asked == [3]
    assert "2 schedules are as good as each other; there are no others" in capsys.readouterr().out
    for number in ("1", "2"):
        assert (tmp_path / "out" / number / "schedule.json").exists()
    assert trace.exists() and (tmp_path / "t-2.json").exists()
    assert main([*words[:6], "--json"]) == 0
    assert capsys.readouterr().out == 2 * (attention_schedule().canonical() + "\n")


def test_the_solver_asked_for_is_the_one_that_answers(play: Callable[..., Played]) -> None:
    played = play(attention_schedule())
    assert main(["solve", GEMM, "--machine", "h100", "--no-store", "--solver", "yices"]) == 0
    assert played.asked[0][2].solver == "yices"


SUMS = """
@triton.jit
def sums(x, s, y, n, stride, B: tl.constexpr):
    o = tl.arange(0, B)
    acc = tl.zeros([B], tl.float32)
    for i in range(n):
        acc += tl.load(x + i * stride + o) * tl.load(s + i)
    tl.store(y + o, acc)
"""


CHAIN = """
@triton.jit
def chain(x, s, y, n, stride, B: tl.constexpr):
    o = tl.arange(0, B)
    acc, at = tl.zeros([B], tl.float32), 0
    for i in range(n):
        acc += tl.load(x + at * stride + o)
        at = tl.load(s + at)
    tl.store(y + o, acc)
"""


def test_a_promise_that_costs_the_tma_is_missed_aloud(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--sig={one}" for one in ("x=*fp32:16", "s=*fp32:16", "y=*fp32", "n=i32")]
    file = kernel_file(SUMS)
    assert main(["extract", file, *words, "--sig", "stride=i32", "--const", "B=64"]) == 0
    said = capsys.readouterr().err
    assert f"note: {file}:8: a tile of x does not go by TMA: its stride" not in said  # it is no stride of the tile
    assert f"note: {file}:8: a tile of x does not go by TMA: its start" in said and "stride" in said
    assert f'note: {file}:9: a tile of y does not go by TMA: y is not known to be aligned to 16 bytes (":16" in' in said
    assert main(["extract", file, *words, "--sig", "stride=i32:16", "--sig", "y=*fp32:16", "--const", "B=64"]) == 0
    assert "does not go by TMA" not in capsys.readouterr().err


def test_what_can_be_solved_but_not_emitted_is_told_at_its_line_before_the_solve(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--sig={one}" for one in ("x=*fp32:16", "s=*i32:16", "y=*fp32:16", "n=i32", "stride=i32:16")]
    file = kernel_file(CHAIN)
    assert main(["extract", file, *words, "--const", "B=64"]) == 0
    said = capsys.readouterr().err
    assert f"note: it can be solved but not emitted: {file}:9: `at` changes from iteration to iteration" in said


def test_an_initiation_interval_that_was_asked_for_is_not_answered_with_advice_about_tiles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["solve", str(ROOT / "examples" / "gemm.py"), "--machine", "h100", "--ii", "1", "--no-store"]) == 3
    said = capsys.readouterr().err
    assert "with I = 1" in said and "no --ii, which finds the smallest I that there is" in said and "tiles" not in said
