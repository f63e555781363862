"""Promises of `twill.store.examine`: a good entry passes, and none that is not what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kernels import H100, example
from tests.stores import coarse_scale, entry_of, poisons, with_schedule
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.schedule.key import KeyOptions, schedule_key
from twill.solve.pipeline import SolveOptions, solve
from twill.store.examine import RUNS, checker, examine, mark
from twill.store.rescaled import same_graph
from twill.store.validation import file
from twill.zlp.normalize import normalize

POISONS = tuple(poisons())


def test_a_good_entry_has_nothing_wrong() -> None:
    assert examine(entry_of(), H100, proof=True) == ""


@pytest.mark.parametrize("options", [SolveOptions(normalize=100), SolveOptions(strategy="heuristic")])
def test_entries_of_every_way_to_solve_pass(options: SolveOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse_scale(monkeypatch)
    entry, _ = file(solve(example("gemm"), H100, options), example("gemm"), options.asked, H100)
    assert examine(entry, H100, proof=True) == ""


@pytest.mark.parametrize("which", POISONS)
def test_an_entry_that_is_not_what_it_says_is_found_out(which: str) -> None:
    harmless = which == "another kernel's, as it is"  # its own key is right; who asks for another one sees that
    assert bool(examine(poisons()[which], H100, proof=True)) != harmless


def test_a_graph_and_options_are_needed_as_proof() -> None:
    bare = entry_of().model_copy(update={"graph": None})
    assert examine(bare, H100) == ""
    assert "does not bring the graph" in examine(bare, H100, proof=True)


def test_an_entry_far_larger_than_any_kernel_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = entry_of().schedule
    huge = with_schedule(entry_of(), schedule.model_copy(update={"ops": schedule.ops * 20_000}))
    monkeypatch.setattr("twill.store.examine.check", None)
    monkeypatch.setattr("twill.store.examine.schedule_key", None)
    assert examine(huge, H100, proof=True).endswith("nodes, edges and ops, more than any kernel")


def test_the_reason_names_rule_and_line() -> None:
    assert "its schedule breaks the rules: line " in examine(poisons()["illegal"], H100)


def test_the_mark_depends_on_key_and_contents() -> None:
    assert len({mark("a", "b", "c"), mark("a", "c", "b"), mark("b", "b", "c"), mark("a", "b")}) == 4
    assert len(checker()) == 64


def test_the_checker_that_a_mark_names_is_everything_that_examine_runs() -> None:
    code = (
        "import sys, twill.store.examine\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('twill.') and m.__file__), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {str(Path(path).relative_to(ROOT / "twill")) for path in done.stdout.split()}
    covered = {str(p.relative_to(ROOT / "twill")) for pattern in RUNS for p in (ROOT / "twill").glob(pattern)}
    beside = {"store/__init__.py", "tile/__init__.py"}  # decide nothing, nor do errors
    assert {path for path in loaded - covered if not path.startswith("exc/")} <= beside


def test_the_key_is_that_of_the_solve() -> None:
    schedule = entry_of().schedule
    assert schedule_key(example("gemm"), H100.digest()) == schedule.key
    assert schedule_key(example("gemm"), H100.digest(), KeyOptions(ii=7)) != schedule.key


def test_a_normalized_graph_that_is_not_the_exact_one_in_units_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse_scale(monkeypatch)
    graph = example("gemm")
    (region,) = (region for region in graph.regions if region.kind == "loop")
    exact = cost(graph, region, H100, cooperations(graph, region, H100)[0])
    given = normalize(exact, 100)
    assert given.normalization is not None
    assert given.normalization.cycles_per_unit > 1
    assert same_graph(exact, given)
    first, *rest = given.instructions
    use = first.uses[0]
    edge = given.edges[0]
    changes: list[dict[str, Any]] = [
        {"instructions": (first.model_copy(update={"latency": first.latency + 1}), *rest)},
        {"instructions": (first.model_copy(update={"latency": 0}), *rest)},
        {"instructions": (first.model_copy(update={"uses": (use.model_copy(update={"cycles": 1}),)}), *rest)},
        {"instructions": (first.model_copy(update={"uses": ()}), *rest)},
        {"instructions": tuple(rest)},
        {"edges": (edge.model_copy(update={"delay": -edge.delay}), *given.edges[1:])},
        {"edges": (edge.model_copy(update={"distance": 5}), *given.edges[1:])},
        {"normalization": given.normalization.model_copy(update={"cycles_per_unit": 1.0})},
        {"normalization": None},
        {"interleaved": ("tensor",)},
    ]
    for update in changes:
        assert not same_graph(exact, given.model_copy(update=update)), update


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\n::error::b", "a\u202eb", "a\u2028b", "a\u0085b"])
def test_an_entry_from_elsewhere_has_no_characters_that_cannot_be_seen(name: str) -> None:
    entry = entry_of()
    assert entry.graph is not None
    graph = entry.graph.model_copy(update={"file": name})
    assert (
        examine(entry.model_copy(update={"graph": graph}), H100, proof=True) == "it has characters that cannot be seen"
    )
    plain = entry.graph.model_copy(update={"file": 'a "b" \\ \u00e9 \\n'})
    assert examine(entry.model_copy(update={"graph": plain}), H100, proof=True) == ""
