"""Promises of the sweep of attention problems: 40 of them, members for each, tables that count right."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.attention_sweep_launches import chunks_of
from benchmarks.attention_sweep_members import FILE, MOST, computing, members, ordered_machine
from benchmarks.attention_sweep_problems import Problem, pairs, problems
from benchmarks.attention_sweep_table import against, tables
from twill.kernel.sidecar import read_sidecar
from twill.machine.file import load_machine

PROBLEMS = problems()


def test_there_are_forty_problems_with_names_of_their_own() -> None:
    assert len(PROBLEMS) == len({one.name for one in PROBLEMS}) == 40


def test_every_kind_of_problem_is_there() -> None:
    lengths = {one.keys for one in PROBLEMS}
    assert {1, 17, 512, 1000, 1024, 2048, 4096, 8191, 8192, 16384, 65536} <= lengths
    assert {one.group for one in PROBLEMS} == {"full", "causal", "decode", "variable"}
    for group in ("full", "causal", "decode"):
        chosen = [one for one in PROBLEMS if one.group == group]
        assert {one.shared for one in chosen} == {1, 4, 8}
        assert {64, 128, 256} <= {one.width for one in chosen}
    assert {one.width for one in PROBLEMS} == {64, 96, 128, 256}
    assert {one.causal for one in PROBLEMS if one.kind == "variable"} == {True, False}
    assert any(one.queries != one.keys for one in PROBLEMS if one.kind == "dense")


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: one.name)
def test_every_problem_has_whole_groups_of_heads_no_more_queries_than_keys_and_members(problem: Problem) -> None:
    assert problem.heads % problem.shared == 0
    assert all(0 < queries <= keys for queries, keys in problem.sequences)
    assert len(computing(problem)) > 1


def test_every_member_has_a_folder_of_its_own_and_a_specialization() -> None:
    names = [one.name for one in members()]
    assert len(set(names)) == len(names)
    sidecar = read_sidecar(FILE)
    assert sidecar is not None
    known = {(table.name, table.kernel) for table in sidecar.tables}
    assert {(one.spec, one.kernel) for one in members()} == known


def test_what_causal_attention_leaves_out_is_no_work() -> None:
    assert pairs(3, 3, False) == 9
    assert pairs(3, 3, True) == 1 + 2 + 3
    assert pairs(2, 5, True) == 4 + 5  # the last query sees the last key


@pytest.mark.parametrize("problem", [one for one in PROBLEMS if one.kind == "decode"], ids=lambda one: one.name)
@pytest.mark.parametrize("block", [32, 64, 128])
def test_chunks_of_keys_are_whole_blocks_and_few_enough_to_be_added_up(problem: Problem, block: int) -> None:
    found = chunks_of(problem, block, 132)
    assert found and all(chunk % block == 0 and -(-problem.keys // chunk) <= MOST[-1] for chunk in found)


def row(group: str, emitted: float, **others: float) -> dict[str, object]:
    us = {"full-d128-192x80": emitted, **{name.replace("_", " "): time for name, time in others.items()}}
    return {"gpu": "G", "problem": "p", "group": group, "shared": 4, "width": 128, "operations": 1e9, "bytes": 1e6,
            "us": us}  # fmt: skip


def test_a_row_is_beside_the_fastest_way_of_each_peer_and_the_fastest_library() -> None:
    one = row("decode", 10.0, FlashAttention_3=30.0, FlashAttention_3_with_cache=20.0, cuDNN=15.0, Triton_a=5.0)
    assert against(one) == {"FlashAttention 3": 2.0, "cuDNN": 1.5, "Triton": 0.5, "fastest library": 1.5}


def test_a_table_has_geometric_means_and_the_least_row_of_each_group() -> None:
    rows = [row("full", 20.0, cuDNN=40.0, Triton_a=30.0), row("full", 20.0, cuDNN=10.0), row("decode", 10.0)]
    summary, table = tables([rows]).split("\n\n| problem |")
    assert "| full | 2 | 1.000 (0.500) |  |  | 1.000 (0.500) |  | 1.500 (1.500), of 1 |" in summary
    assert "| decode | 1 |  |  |  |  |  |  |" in summary
    assert "| all | 3 | 1.000 (0.500), of 2 |" in summary
    assert "| p | full-d128-192x80 | 20.0 | 50 | 0.05 | 2.000 |" in table


def test_members_with_ordering_barriers_are_emitted_for_a_machine_that_differs_in_that_alone(tmp_path: Path) -> None:
    known, made = load_machine("h200"), load_machine(ordered_machine(tmp_path, "h200"))
    assert 0 < made.emitting.ordered.value < known.emitting.ordered.value
    named = {"name": known.name, "title": known.title}
    emitting = made.emitting.model_copy(update={"ordered": known.emitting.ordered})
    assert made.model_copy(update={**named, "emission": emitting}) == known
