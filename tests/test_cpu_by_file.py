"""CPU seconds of files of tests: what is told of them."""

from __future__ import annotations

from tests.cpu_by_file import LEAST, cpu, lines


def test_the_longest_files_are_told_first_and_short_ones_only_in_the_sum() -> None:
    told = lines({"tests/test_short.py": LEAST / 2, "tests/test_long.py": 9.0, "tests/test_longer.py": 12.0})
    assert told == ["    12.0 s  tests/test_longer.py", "     9.0 s  tests/test_long.py", "    22.5 s  of 3 files"]


def test_what_a_process_spends_is_counted() -> None:
    begin = cpu()
    while cpu() == begin:
        sum(range(10_000))
    assert cpu() > begin
