"""The promise of the service on PostgreSQL: whatever process ends, nothing accepted is lost or solved twice at once."""

from __future__ import annotations

from pathlib import Path

from tests.soak import Plan, Soak, overlap


def test_front_ends_workers_and_the_database_may_be_killed_and_every_accepted_job_is_solved_once(
    tmp_path: Path,
) -> None:
    figures = Soak(Plan(seconds=10.0, kills=3, restarts=1, fronts=2, workers=2, seed=3), tmp_path).run()
    assert figures["accepted"] > 5 and figures["starts"] >= 7


def test_two_workers_at_one_job_would_be_seen() -> None:
    assert overlap([(1.0, 3.0), (2.0, 4.0)])
    assert not overlap([(1.0, 2.0), (2.0, 4.0)])
