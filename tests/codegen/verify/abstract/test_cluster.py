"""Promises of the abstract machine for clusters: both CTAs run together, and what one does to the other is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.codegen.verify.test_abstract_machine import changed
from tests.effects import effects
from tests.golden_schedules import Example, kernel, machine, schedule
from tests.mutations import Mutant, mutants
from tests.warp_programs import clustered_gemm, counting
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.wanted import wanted
from twill.codegen.verify.abstract_machine import Trial, run, trials, verify
from twill.codegen.warp.program import Acquire, Cluster, Consumed, Expect, TmaLoad, WarpProgram
from twill.kernel.specialization import problem_of

LOAD = 2  # a warp group


@cache
def pair() -> WarpProgram:
    return clustered_gemm()


@cache
def launched() -> tuple[Trial, ...]:
    return trials(pair())


def test_a_right_program_passes_on_any_number_of_clusters() -> None:
    assert verify(pair(), given=launched()) == ()
    trial = max(launched(), key=lambda trial: trial.launch.grid)
    for clusters in (1, 2, 5):
        trace = run(pair(), trial.launch, clusters)
        assert not trace.violations
        wanted = trial.references[0].expected["c_desc"]
        np.testing.assert_allclose(trace.arrays["c_desc"], wanted, rtol=2**-7, atol=2**-8)


def test_launches_have_whole_pairs_and_one_that_lacks_its_second() -> None:
    rows = [trial.launch.grid[0] for trial in launched()]
    assert {size % 2 for size in rows} == {0, 1} and max(rows) > 4


@pytest.mark.usefixtures("at_root")
def test_launches_have_pairs_that_agree_on_a_tile_and_others() -> None:
    read = kernel(Example("examples/gemm.py", "bf16"))
    program = lower(read.program, schedule(Example("examples/gemm.py", "bf16")), machine(), cluster=2)
    assert len(wanted(program).same) == 1
    unlike = []
    for trial in trials(program, problem_of(read.specialization)):
        size = trial.launch.scalars
        tiles = -(-int(size["M"]) // 128)
        unlike += [first // tiles != (first + 1) // tiles for first in range(0, trial.launch.grid[0] - 1, 2)]
    assert {True, False} <= set(unlike)


FAULTS: list[tuple[str, str, Callable[[WarpProgram], WarpProgram], str]] = [
    ("a slot not given back to the other CTA", "deadlock",
     lambda p: changed(p, Consumed, lambda s: (replace(s, everywhere=False),)), "arrivals"),
    ("the bytes that the CTA sends, not those that land", "bytes",
     lambda p: changed(p, Expect, lambda s: (replace(s, bytes=s.bytes - 8192),), LOAD), "24576 bytes, 32768 land"),
    ("more bytes than land", "deadlock",
     lambda p: changed(p, Expect, lambda s: (replace(s, bytes=s.bytes + 8192),), LOAD), "of 40960 bytes"),
    ("no half of the other one's", "deadlock",
     lambda p: changed(p, TmaLoad, lambda s: (), LOAD, 2), "24576 of 32768 bytes"),
    ("no Acquire: the other CTA still reads", "order",
     lambda p: changed(p, Acquire, lambda s: (), LOAD), "CTA 1"),
    ("an empty barrier that does not wait for the other CTA", "counts",
     lambda p: replace(p, arefs=(replace(p.arefs[0], empty_count=8),)), "make 16 a phase"),
    ("no meeting at the start", "cluster",
     lambda p: replace(p, cluster=Cluster(0, meets_first=False)), "has made its barriers"),
    ("no meeting at the end", "cluster",
     lambda p: replace(p, cluster=Cluster(0, meets_last=False)), "may come after CTA"),
    ("tiles that differ", "values",
     lambda p: counting(replace(p, cluster=Cluster(1))), "c_desc differ"),
    ("a shared ring and no cluster", "side",
     lambda p: replace(p, cluster=None), "no cluster fills it"),
    ("a ring of one CTA filled for all", "side",
     lambda p: replace(p, arefs=(replace(p.arefs[0], shared=False),)), "by CTA 1 for all"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "fault", "said"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_each_mistake_is_found(rule: str, fault: Callable[[WarpProgram], WarpProgram], said: str) -> None:
    found = [violation for violation in verify(fault(pair()), given=launched()) if violation.rule == rule]
    assert any(said in violation.message for violation in found), found


def test_seeded_faults_of_clusters_are_found() -> None:
    """One of each class that only clusters have; `python -m tests.survey` makes all of them."""
    classes: dict[str, Mutant] = {}
    for mutant in mutants(pair()):
        classes.setdefault(mutant.kind, mutant)
    kinds = {"dropped remote Consumed", "Expect half the bytes", "half loaded twice", "half sent by both",
             "half sent to oneself, too", "missing cluster sync", "cluster along another axis"}  # fmt: skip
    assert kinds <= set(classes)
    for kind in kinds:
        wrong = classes[kind].program
        assert verify(wrong, given=launched(), enough=1) or all(
            effects(wrong, trial) == effects(pair(), trial) for trial in launched()
        ), kind


def test_the_second_of_half_a_pair_reads_and_waits_but_does_not_store() -> None:
    trial = next(trial for trial in launched() if trial.launch.grid[0] == 1 and trial.launch.scalars["K"])
    did: list[tuple[int, str]] = []
    run(pair(), trial.launch, watch=lambda actor, stmt: did.append((actor.machine.cta.rank, type(stmt).__name__)))
    assert (1, "TmaLoad") in did and (1, "Multiply") in did
    assert (0, "TmaStore") in did and (1, "TmaStore") not in did
