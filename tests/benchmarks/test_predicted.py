"""Promises of benchmarks/predicted*.py and segments.py that need no GPU."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.predicted import LOOPS, Loop, cells, markdown, predicted
from benchmarks.predicted_pipes import PIPES, read, row
from benchmarks.segments import marked, segments
from tests.conftest import ROOT
from tests.golden_schedules import examples
from twill.kernel.sidecar import read_sidecar

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("predicted-2*.json"))


def test_every_example_has_its_loop_lengths_and_sizes_that_it_can_have() -> None:
    names = {f"{Path(example.file).stem}-{example.spec}": example for example in examples()}
    assert set(LOOPS) <= set(names)
    for name, loop in LOOPS.items():
        sidecar = read_sidecar(str(ROOT / names[name].file))
        assert sidecar is not None
        problem = next(table.problem for table in sidecar.tables if table.name == names[name].spec)
        assert problem is not None
        assert loop.iterations[0] < loop.iterations[1]
        for sizes, *grids in zip(loop.sizes, loop.alone, loop.full or loop.alone, strict=True):
            case = problem.case(sizes)
            for grid in grids:
                assert len(grid) == len(case.grid) and all(g <= most for g, most in zip(grid, case.grid, strict=True))
                assert math.prod(grid) <= 132


def test_the_prediction_is_the_main_loops_or_the_sum_of_all_that_grow() -> None:
    schedule = {"ii": 200, "cooperation": {"fuse": 1}, "loops": [{"ii": 100}, {"ii": 200}]}
    loop = Loop(({}, {}), (1, 2), ((1,), (1,)), None)
    assert predicted(schedule, loop) == 200
    assert predicted(schedule, Loop(({}, {}), (1, 2), ((1,), (1,)), None, "all")) == 300
    assert predicted({**schedule, "cooperation": {"fuse": 2}}, loop) == 100


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_page_begins_with_what_was_recorded(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert path.with_suffix(".md").read_text(encoding="utf-8").startswith(markdown(document))


def test_a_row_without_all_sms_leaves_those_cells_empty() -> None:
    alone = {"cycles": 520.0, "low": 510.0, "high": 530.0, "megahertz": 1980.0}
    found = cells({"kernel": "k", "predicted": 500, "alone": alone, "full": None})
    assert found == ["k", "500", "520", "510 to 530", "1.04", "", "", "", "1980"]


def test_counts_are_the_difference_of_two_launches_an_iteration(tmp_path: Path) -> None:
    instructions = [{"uses": [{"unit": "alu", "cycles": 30}, {"unit": "tensor", "cycles": 99}]}, {"uses": []}]
    schedule = {"ii": 90, "loops": [{"ii": 90, "graph": {"instructions": instructions}}]}
    (tmp_path / "schedule.json").write_text(json.dumps(schedule))
    head = '"ID",' + ",".join(f'"{metric}"' for metric, _ in PIPES.values())
    lines = [head, '"",' + ",".join('"inst"' for _ in PIPES)]
    lines += [f'"{n}",' + ",".join(f'"{n},000"' for _ in PIPES) for n in (1, 5)]
    short, long = read("==PROF== something\n" + "\n".join(lines))
    found = row(tmp_path, Loop(({}, {}), (10, 30), ((1,), (1,)), None), short, long)
    assert found.scheduled == {"issue": 0, "alu": 30, "fma": 0, "mufu": 0, "lsu": 0}
    assert found.executed == {unit: 4000 / 20 / rate for unit, (_, rate) in PIPES.items()}


KERNEL = """\
void helper() {
  mbar_wait(a, 0);
}
extern "C" __global__ void k(
    int n) {
  for (;;) {
    mbar_wait(full, parity);
    wgmma_fence();
    wgmma_wait<1>();
  }
}
"""


def test_readings_stand_behind_waits_and_before_products_of_the_kernel_alone() -> None:
    lines = [line.strip() for line in marked(KERNEL).splitlines()]
    marks = [lines[at - 1 : at + 2 : 2] for at, line in enumerate(lines) if line.startswith("MARK")]
    assert marks == [
        ["mbar_wait(full, parity);", "MARK(8);"],
        ["MARK(7);", "wgmma_fence();"],
        ["wgmma_wait<1>();", "}"],
    ]
    assert lines.index("u32 marked = 0;") > lines.index('extern "C" __global__ void k(')


def test_segments_are_medians_of_the_middle_by_neighbours() -> None:
    source = KERNEL.splitlines()
    clock, readings = 0, []
    for _ in range(20):
        for line, cycles in ((7, 100), (8, 10), (9, 40)):
            clock += cycles
            readings.append(clock << 12 | line)
    found = segments([readings], source, 20)
    assert [(one.line, one.text, one.cycles) for one in found] == [
        (8, "wgmma_fence();", 10), (9, "wgmma_wait<1>();", 40), (7, "mbar_wait(full, parity);", 100),
    ]  # fmt: skip
