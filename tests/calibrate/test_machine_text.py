"""Promises of the written machine file: it is read as the machine that was written, and says only what differs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.calibrate.machine_text import machine_text, number, quoted
from twill.machine.description import Figure, Machine
from twill.machine.file import check_machine, list_machines, load_machine

FIGURE = Figure(value=3.25, source='a "new" source', spread=(3, 3.5))


def changed(machine: Machine) -> Machine:
    """Something else in every section."""
    mma, operation, transfer = machine.mma, machine.operations[3], machine.transfers[0]
    assert mma is not None
    rate = operation.rates[0].model_copy(update={"per_cycle": FIGURE})
    return machine.model_copy(
        update={
            "name": "mine",
            "title": "My own \\ GPU",
            "clock_mhz": FIGURE,
            "units": (
                *(u.model_copy(update={"interleaved": not u.interleaved, "description": "x"}) for u in machine.units),
            ),
            "operations": (
                *machine.operations[:3],
                operation.model_copy(update={"rates": (rate, *operation.rates[1:]), "latency": FIGURE}),
                *machine.operations[4:],
            ),
            "mma": mma.model_copy(
                update={
                    "issue": FIGURE, "row_block": 32, "single_issuer": not mma.single_issuer, "a_spaces": ("shared",),
                    "rates": (mma.rates[0].model_copy(update={"per_cycle": FIGURE}), *mma.rates[1:]),
                }
            ),
            "transfers": (
                transfer.model_copy(
                    update={"latency": FIGURE, "asynchronous": not transfer.asynchronous, "also": (rate,)}
                ),
                *machine.transfers[1:],
            ),
            "memories": tuple(m.model_copy(update={"bytes": Figure(value=4096, source="x")}) for m in machine.memories),
            "contexts": tuple(c.model_copy(update={"max_groups": 2, "overhead": Figure(value=8, source="x")})
                              for c in machine.contexts),
            "register_file": machine.register_file.model_copy(update={"granule": 16}),
            "crossing": machine.crossing.model_copy(update={"spill_per_kb": FIGURE}),
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", list_machines())
def test_what_differs_is_written_and_read_again(name: str, tmp_path: Path) -> None:
    base = load_machine(name)
    machine = changed(base)
    path = tmp_path / "mine.toml"
    path.write_text(machine_text(machine, base, name, {"book": "A Book"}, "two\nlines"), encoding="utf-8")
    assert check_machine(path) == machine
    assert path.read_text().startswith("# two\n# lines\n\nextends = ")


def test_a_machine_that_is_its_base_says_nothing_else() -> None:
    base = load_machine("h100")
    assert machine_text(base, base, "h100", {}) == 'extends = "h100"\n'


def test_operations_of_equal_figures_stand_together() -> None:
    base = load_machine("h100")
    names = {"add.f32", "mul.f32"}
    operations = tuple(o.model_copy(update={"latency": FIGURE}) if o.name in names else o for o in base.operations)
    text = machine_text(base.model_copy(update={"operations": operations}), base, "h100", {})
    assert [table["names"] for table in tomllib.loads(text)["operations"]] == [["add.f32", "mul.f32"]]


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_quoted_as_toml_reads_it(text: str) -> None:
    assert tomllib.loads(f"x = {quoted(text)}") == {"x": text}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_is_written_as_toml_reads_it(found: float) -> None:
    assert tomllib.loads(f"x = {number(found)}")["x"] == found
