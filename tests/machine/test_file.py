"""Machine files: the described ones are complete, a user's own works alike, each mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill import exc
from twill.graph.exponentials import POLYNOMIAL
from twill.machine.description import Machine
from twill.machine.file import TRANSFERS, check_machine, list_machines, load_machine, machine_directory
from twill.tile.vocabulary import OPERATION_CLASSES

TINY = """\
name = "tiny"
title = "A toy"
architecture = "sm_90a"
sms = { value = 2, source = "made up" }
clock_mhz = { value = 1000, source = "[book] page 3" }

[sources]
book = "The Book of Toys"

[units]
fma = "adds"
bus = "moves"

[[operations]]
names = ["add.f32", "mul.f32"]
rates = [
  { unit = "fma", value = 128, source = "[book]" },
]
latency = { value = 4, source = "made up" }

[transfers.plain_load]
unit = "bus"
bytes_per_cycle = { value = 32, source = "made up" }
latency = { value = 100, source = "made up" }
issue = { value = 4, source = "made up" }
contexts = ["compute"]
asynchronous = false
variable_latency = true

[memories]
shared = { value = 4096, source = "made up" }

[contexts.compute]
threads = 128
max_groups = 2
min_registers = 24
max_registers = 240
overhead = { value = 0, source = "made up" }
source = "made up"

[register_file]
registers = { value = 65536, source = "made up" }
granule = 8
source = "made up"

[crossing]
barrier = { value = 0, source = "made up" }
named_barrier = { value = 10, source = "made up" }
spill_base = { value = 10, source = "made up" }
spill_per_kb = { value = 1.5, source = "made up" }
"""


def written(tmp_path: Path, text: str, name: str = "tiny.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", list_machines())
def test_described_machines_price_every_operation_class(name: str) -> None:
    machine = load_machine(name)
    assert {operation.name for operation in machine.operations} - {POLYNOMIAL} == {*OPERATION_CLASSES}
    assert machine.name == name
    assert {transfer.name for transfer in machine.transfers} <= set(TRANSFERS)
    assert machine.capacity("shared") == 231424


def test_h100_h200_and_b200_are_described() -> None:
    assert {"h100", "h200", "b200"} <= set(list_machines())
    h100, h200, b200 = load_machine("h100"), load_machine("h200"), load_machine("b200")
    assert h200.title != h100.title and h200.contexts == h100.contexts and h200.units == h100.units
    for one, other in zip(h100.operations, h200.operations, strict=True):
        assert (one.name, [rate.unit for rate in one.rates]) == (other.name, [rate.unit for rate in other.rates])
    assert h100.mma is not None and h100.mma.accumulator == "register" and not h100.mma.single_issuer
    assert b200.mma is not None and b200.mma.accumulator == "tmem" and b200.mma.single_issuer
    assert b200.capacity("tmem") == 262144 and h100.capacity("tmem") == 0


def test_interleaved_units_are_marked(tmp_path: Path) -> None:
    machine = load_machine(written(tmp_path, 'interleaved = ["bus"]\n' + TINY))
    assert [unit.name for unit in machine.units if unit.interleaved] == ["bus"]
    assert all(any(unit.interleaved for unit in load_machine(name).units) for name in list_machines())


def test_a_users_file_reads_like_a_described_one(tmp_path: Path) -> None:
    path = written(tmp_path, TINY)
    machine = load_machine(str(path))
    assert machine == load_machine(path) == check_machine(path)
    assert machine.operation("mul.f32").rates[0].per_cycle.source == "The Book of Toys"
    assert machine.clock_mhz.source == "The Book of Toys: page 3"
    assert machine.spill_cycles(2048) == 13
    assert Machine.parse(machine.canonical()) == machine


def test_a_spread_is_read_and_changes_no_machine_that_has_none(tmp_path: Path) -> None:
    plain = load_machine(written(tmp_path, TINY))
    assert "spread" not in plain.canonical()
    machine = load_machine(written(tmp_path, TINY.replace("value = 100,", "value = 100, spread = [99, 101.5],")))
    assert machine.transfer("plain_load").latency.spread == (99.0, 101.5)
    assert Machine.parse(machine.canonical()) == machine and machine.digest() != plain.digest()


def test_the_l2_cache_is_optional_and_no_part_of_what_schedules_depend_on(tmp_path: Path) -> None:
    plain = load_machine(written(tmp_path, TINY))
    assert plain.l2 is None and '"l2"' not in plain.canonical()
    machine = load_machine(written(tmp_path, 'l2 = { value = 1048576, source = "made up" }\n' + TINY))
    assert machine.l2 is not None and machine.l2.value == 1 << 20
    assert Machine.parse(machine.canonical()) == machine != plain and machine.digest() == plain.digest()
    assert all(load_machine(name).l2 for name in list_machines())


def test_extending_replaces_key_by_key(tmp_path: Path) -> None:
    written(tmp_path, TINY)
    text = """\
extends = "tiny.toml"
name = "larger"
[memories]
shared = { value = 8192, source = "more" }
[[operations]]
names = ["mul.f32"]
rates = [{ unit = "fma", value = 64, source = "slower" }]
latency = { value = 5, source = "deeper" }
[contexts.compute]
max_groups = 3
"""
    machine = load_machine(written(tmp_path, text, "larger.toml"))
    assert machine.title == "A toy" and machine.name == "larger"
    assert machine.capacity("shared") == 8192
    assert machine.operation("mul.f32").latency.value == 5
    assert machine.operation("add.f32").latency.value == 4
    assert machine.context("compute").max_groups == 3 and machine.context("compute").threads == 128


def test_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    written(tmp_path, 'extends = "b.toml"\n', "a.toml")
    written(tmp_path, 'name = "b"\nextends = "a.toml"\n', "b.toml")
    with pytest.raises(exc.CircularExtends) as caught:
        load_machine(tmp_path / "a.toml")
    assert caught.value.line == 2


# (what to replace, by what, the error, its line, a part of its message or hint)
MISTAKES = [
    ('latency = { value = 4,', 'latency = { value = "4",', exc.TomlWrongType, 19, "a text ('4')"),
    ("granule = 8", "granule = 8.5", exc.TomlWrongType, 43, "a number (8.5)"),
    ("asynchronous = false", "asynchronous = 0", exc.TomlWrongType, 27, "true or false"),
    ("threads = 128", "threads = true", exc.TomlWrongType, 34, "a truth value"),
    ('contexts = ["compute"]', 'contexts = "compute"', exc.TomlWrongType, 26, "list of texts"),
    ('contexts = ["compute"]', "contexts = []", exc.TomlWrongType, 26, "empty"),
    ("clock_mhz = {", 'clock_mhz = 1000 # {', exc.TomlWrongType, 5, "a whole number (1000)"),
    ('unit = "fma", value', 'unit = "fna", value', exc.UnknownReference, 17, "did you mean `fma`?"),
    ('unit = "bus"', 'unit = "buss"', exc.UnknownReference, 22, "did you mean `bus`?"),
    ('contexts = ["compute"]', 'contexts = ["computer"]', exc.UnknownReference, 26, "did you mean `compute`?"),
    ("plain_load]", "plane_load]", exc.UnknownReference, 21, "did you mean `plain_load`?"),
    ("shared = {", "chared = {", exc.UnknownReference, 31, "did you mean `shared`?"),
    ("[book] page", "[bock] page", exc.UnknownReference, 5, "did you mean `book`?"),
    ("value = 100,", "value = -100,", exc.BadFigure, 24, "positive"),
    ("value = 32", "value = 0", exc.BadFigure, 23, "positive"),
    ("value = 32", "value = nan", exc.BadFigure, 23, "positive"),
    ("value = 4096", "value = 4096.5", exc.BadFigure, 31, "a whole number"),
    ("max_groups = 2", "max_groups = 0", exc.BadFigure, 35, "positive"),
    ("max_registers = 240", "max_registers = 16", exc.BadFigure, 37, "at least min_registers"),
    ('barrier = { value = 0, source = "made up" }', "barrier = { value = 0 }", exc.MissingSource, 47, "estimate"),
    ('value = 2, source = "made up"', 'value = 2, source = " "', exc.MissingSource, 4, "estimate"),
    ("max_registers", "max_register", exc.TomlMissingKey, 33, "is `max_register` meant to be it?"),
    ('title = "A toy"', 'titel = "A toy"', exc.TomlMissingKey, 0, "is `titel` meant to be it?"),
    ("[register_file]", "[registers]", exc.TomlMissingKey, 0, "register_file"),
    ("overhead =", "overheads = 3\noverhead =", exc.TomlUnknownKey, 38, "did you mean `overhead`?"),
    ('"mul.f32"', '"add.f32"', exc.DuplicateName, 15, "defined twice"),
    ('title = "A toy"', 'title = "A toy"\ninterleaved = ["bsu"]', exc.UnknownReference, 3, "did you mean `bus`?"),
    ("clock_mhz =", 'l2 = { value = 0.5, source = "made up" }\nclock_mhz =', exc.BadFigure, 5, "a whole number"),
    ("value = 100,", "value = 100, spread = 3,", exc.BadFigure, 24, "two numbers"),
    ("value = 100,", "value = 100, spread = [99],", exc.BadFigure, 24, "two numbers"),
    ("value = 100,", "value = 100, spread = [101, 99],", exc.BadFigure, 24, "the smaller first"),
    ("value = 100,", "value = 100, spread = [99, true],", exc.BadFigure, 24, "two numbers"),
    ("value = 100,", "value = 100, spread = [99, inf],", exc.BadFigure, 24, "two numbers"),
    ("value = 100,", "value = 100, spreed = [99, 101],", exc.TomlUnknownKey, 24, "did you mean `spread`?"),
    ('title = "A toy"', 'title = "A toy"\ninterleaved = "bus"', exc.TomlWrongType, 3, "a list of texts"),
    ('title = "A toy"', 'title = "A toy"\nschema = "twill.machine/1"', exc.TomlUnknownKey, 3, "`schema`"),
    ('unit = "bus"', 'unit = "bus"\nname = "load"', exc.TomlUnknownKey, 23, "`transfers.plain_load.name`"),
    ("names = [", 'name = "add"\nnames = [', exc.TomlUnknownKey, 15, "did you mean `names`?"),
    ('contexts = ["compute"]', "contexts = [0]", exc.TomlWrongType, 26, "a whole number (0)"),
    ('unit = "fma", value', "unit = 3, value", exc.TomlWrongType, 17, "a text, as in unit"),
    ('bus = "moves"', "bus = 3", exc.TomlWrongType, 12, "a whole number (3)"),
    ('bus = "moves"', "bus = ", exc.TomlSyntax, 12, "not valid TOML"),
    ('bus = "moves"', 'bus = "moves"\nfma = "again"', exc.TomlSyntax, 13, "not valid TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "error", "line", "part"), MISTAKES)
def test_each_mistake_names_its_line_and_what_to_write(
    tmp_path: Path, old: str, new: str, error: type[exc.TwillError], line: int, part: str
) -> None:
    assert old in TINY
    path = written(tmp_path, TINY.replace(old, new, 1))
    with pytest.raises(exc.TwillError) as caught:
        check_machine(path)
    assert type(caught.value) is error, caught.value
    assert caught.value.exit_code == 2
    assert caught.value.line == line, caught.value
    assert caught.value.file == str(path)
    assert part in str(caught.value)


def test_unknown_machine_offers_the_closest() -> None:
    with pytest.raises(exc.UnknownMachine, match="did you mean `h100`"):
        load_machine("h10")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(exc.FileMissing, match=r"nowhere\.toml"):
        load_machine(str(tmp_path / "nowhere.toml"))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(exc.TomlSyntax, match="UTF-8"):
        load_machine(path)


def test_every_figure_of_the_described_machines_has_a_source() -> None:
    for path in machine_directory().glob("*.toml"):
        text = load_machine(path).canonical()
        assert '"source":""' not in text


def test_a_file_is_read_again_where_it_or_one_that_it_extends_has_changed(tmp_path: Path) -> None:
    base = written(tmp_path, TINY, "base.toml")
    own = written(tmp_path, 'name = "own"\nextends = "base.toml"\n', "own.toml")
    first = load_machine(own)
    assert load_machine(own) is first and first.sms.value == 2
    base.write_text(TINY.replace("sms = { value = 2", "sms = { value = 3"), encoding="utf-8")
    assert load_machine(own).sms.value == 3
    base.unlink()
    with pytest.raises(exc.FileMissing):
        load_machine(own)
