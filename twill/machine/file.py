"""Machine files: one TOML file describes one GPU; every figure carries its source.

`docs/machine-files.md` is the grammar. `load_machine` takes the name of a described machine
("h100") or a path; both are read and validated alike. A wrong file raises one of the errors of
`twill.exc`, with the file, the line, what is wrong and what to write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, get_args

from twill.exc import (
    BadFigure,
    CircularExtends,
    DuplicateName,
    MissingSource,
    TomlWrongType,
    UnknownMachine,
    UnknownReference,
)
from twill.machine.description import (
    Context,
    Crossing,
    Emission,
    Figure,
    Machine,
    Memory,
    Mma,
    MmaRate,
    Operation,
    Placement,
    Rate,
    RegisterFile,
    Transfer,
    Unit,
)
from twill.machine.names import list_machines, machine_directory
from twill.toml.table import Table, closest, describe, read_toml

__all__ = ["TRANSFERS", "check_machine", "list_machines", "load_machine", "machine_directory"]

TRANSFERS = (
    "tma_load", "tma_store", "tma_reduce", "copy_load", "plain_load", "plain_store",
    "register_to_shared", "shared_to_register", "tmem_load", "tmem_store",
)  # fmt: skip

FIGURE = '{ value = 16, source = "document, table" }'
RATE = '{ unit = "fma", value = 128, source = "document, table" }'
CITATION = re.compile(r"\[([A-Za-z0-9_-]+)\]")
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)

T = TypeVar("T")


def load_machine(name_or_path: str | Path) -> Machine:
    """The described machine of that name, or the machine file at that path.

    A text is a path if it has a directory separator or ends in ".toml". Raises UnknownMachine,
    FileMissing, or what is wrong with the file.
    """
    return read_machine(machine_path(name_or_path))


def check_machine(path: str | Path) -> Machine:
    """Read and validate the machine file at `path`; raises the first error found."""
    return read_machine(Path(path))


def machine_path(name_or_path: str | Path) -> Path:
    """The file of a described machine's name, or the path itself; raises UnknownMachine."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        return Path(text)
    path = machine_directory() / f"{text}.toml"
    if path.is_file():
        return path
    hint = f"{closest(text, list_machines())} (or give the path of a machine file)"
    raise UnknownMachine(text, hint)


def read_machine(path: Path) -> Machine:
    """The machine of one file, validated."""
    return machine_of(read_chain(path, ()))


def read_chain(path: Path, seen: tuple[Path, ...]) -> Table:
    """The file's top table over the table of the machine that it extends, which must be valid alone."""
    top = read_toml(path)
    if "extends" not in top.data:
        return top
    name = top.string("extends", 'extends = "h100"')
    target = extended_path(name, path)
    chain = (*seen, path.resolve())
    if target.resolve() in chain:
        raise CircularExtends(name, file=top.text.file, line=top.line("extends"))
    base = read_chain(target, chain)
    machine_of(base)
    return Table(top.data, top.text, (), base)


def extended_path(name: str, path: Path) -> Path:
    """What `extends` names: a described machine, or a file relative to the extending one."""
    found = machine_path(name)
    return found if found.is_absolute() or "/" not in name and not name.endswith(".toml") else path.parent / found


def machine_of(top: Table) -> Machine:
    """Read every section; the order is that of the documentation."""
    reader = _Reader(top)
    top.allow(("extends",))
    machine = Machine(
        name=top.string("name", 'name = "h100"'),
        title=top.string("title", 'title = "NVIDIA H100 SXM5"'),
        architecture=top.string("architecture", 'architecture = "sm_90a"'),
        sms=reader.figure(top, "sms", whole=True),
        clock_mhz=reader.figure(top, "clock_mhz"),
        l2=reader.figure(top, "l2", whole=True) if top.has("l2") else None,
        units=reader.units,
        contexts=tuple(reader.each("contexts", reader.context)),
        operations=reader.operations(),
        mma=reader.mma(top.table("mma", "[mma]")) if top.has("mma") else None,
        transfers=tuple(reader.each("transfers", reader.transfer)),
        memories=tuple(reader.each_name("memories", reader.memory)),
        register_file=reader.register_file(),
        crossing=reader.crossing(),
        emission=reader.emission(top.table("emission", "[emission]")) if top.has("emission") else None,
    )
    top.finish()
    return machine


class _Reader:
    """Reads sections of one file; knows the names that other sections may refer to."""

    def __init__(self, top: Table) -> None:
        self.top = top
        self.citations = top.table("sources", "[sources]") if top.has("sources") else None
        units = top.table("units", '[units] with tensor = "what it does"')
        shared = top.strings("interleaved", 'interleaved = ["issue"]') if top.has("interleaved") else ()
        self.units = tuple(
            Unit(name=n, description=units.string(n, f'{n} = "what it does"'), interleaved=n in shared)
            for n in units.names()
        )
        for name in shared:
            self.known("unit", name, units.names(), top, "interleaved")
        self.context_names = top.table("contexts", "[contexts.compute]").names()

    def each(self, section: str, read: Callable[[str, Table], T]) -> list[T]:
        """One document for each table of a section."""
        table = self.top.table(section, f"[{section}.NAME]")
        return [read(name, table.table(name, f"[{section}.{name}]")) for name in table.names()]

    def each_name(self, section: str, read: Callable[[str, Table], T]) -> list[T]:
        """One document for each key of a section."""
        table = self.top.table(section, f"[{section}]")
        return [read(name, table) for name in table.names()]

    def figure(self, table: Table, name: str, *, zero: bool = False, whole: bool = False) -> Figure:
        """A `{ value, source }` under `name`: positive, or not negative if `zero`; a whole number if `whole`."""
        example = f"{name} = {FIGURE}"
        return self.read_figure(table.whole_table(name, example), example, zero=zero, whole=whole)

    def read_figure(self, figure: Table, example: str, *, zero: bool = False, whole: bool = False) -> Figure:
        """The figure that a table itself is, after `figure` other keys were read."""
        value = self.number(figure, example, zero=zero, whole=whole)
        spread = self.spread(figure) if figure.has("spread") else None
        result = Figure(value=value, source=self.source(figure), spread=spread)
        figure.finish()
        return result

    def spread(self, figure: Table) -> tuple[float, float]:
        """The `spread` of a figure: two finite numbers, the smaller first."""
        found = figure.data["spread"]
        ends = (
            [end for end in found if type(end) in (int, float)] if isinstance(found, list) and len(found) == 2 else []
        )
        if len(ends) != 2 or not math.isfinite(ends[1] - ends[0]) or ends[0] > ends[1]:
            raise BadFigure(
                figure.title("spread"), str(found), "two numbers, the smaller first, as in spread = [15.9, 16.1]",
                file=figure.text.file, line=figure.line("spread"),
            )  # fmt: skip
        return float(ends[0]), float(ends[1])

    def number(self, figure: Table, example: str, *, zero: bool, whole: bool) -> float:
        """The `value` of a figure, in range."""
        where = figure.text.file, figure.line("value")
        if not figure.has("value"):
            figure.whole("value", example)
        value = figure.data["value"]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TomlWrongType(
                figure.title("value"), describe(value), f"a number, as in {example}", file=where[0], line=where[1]
            )
        must = "zero or positive" if zero else "positive"
        must = f"a whole number, {must}" if whole else must
        right = math.isfinite(value) and (value > 0 or (zero and value == 0)) and not (whole and value != int(value))
        if not right:
            raise BadFigure(figure.title("value"), value, must, file=where[0], line=where[1])
        return float(value)

    def source(self, table: Table) -> str:
        """The `source` of a figure or section; `[key]` in it stands for an entry of `[sources]`."""
        if not table.has("source") or not str(table.data["source"]).strip():
            raise MissingSource(table.title(), file=table.text.file, line=table.line())
        text = table.string("source", 'source = "document, table"')
        return CITATION.sub(lambda match: self.cited(match, table), text)

    def cited(self, match: re.Match[str], table: Table) -> str:
        """The entry of `[sources]` that `[key]` stands for, with a colon if it begins the text."""
        known = self.citations.names() if self.citations else ()
        name = match.group(1)
        if self.citations is None or name not in known:
            hint = f"{closest(name, known)} (a source in [brackets] is a key of [sources])"
            raise UnknownReference(
                "citation", name, table.title("source"), hint, file=table.text.file, line=table.line("source")
            )
        text = self.citations.string(name, f'{name} = "document"')
        return f"{text}:" if match.start() == 0 and match.end() < len(match.string) else text

    def known(self, what: str, name: str, known: tuple[str, ...], table: Table, key: str) -> str:
        """`name`, if it is among `known`; else UnknownReference at `key` of `table`."""
        if name not in known:
            raise UnknownReference(
                what, name, table.title(key), closest(name, known), file=table.text.file, line=table.line(key)
            )
        return name

    def unit(self, table: Table) -> str:
        """The `unit` of a section, which must be one of `[units]`."""
        name = table.string("unit", 'unit = "fma"')
        owner = table.owner("unit") or table
        return self.known("unit", name, tuple(unit.name for unit in self.units), owner, "unit")

    def rate(self, table: Table, *, example: str = RATE) -> Rate:
        """A `{ unit, value, source }`."""
        unit = self.unit(table)
        return Rate(unit=unit, per_cycle=self.read_figure(table, example))

    def chosen_contexts(self, table: Table) -> tuple[str, ...]:
        """The `contexts` list of a section, each one of `[contexts]`."""
        names = table.strings("contexts", 'contexts = ["compute"]')
        owner = table.owner("contexts") or table
        return tuple(self.known("context", name, self.context_names, owner, "contexts") for name in names)

    def spaces(self, table: Table, name: str) -> tuple[Placement, ...]:
        """A list of "register", "shared", "tmem", preferred first."""
        return tuple(self.placement(table, name, text) for text in table.strings(name, f'{name} = ["shared"]'))

    def placement(self, table: Table, key: str, name: str) -> Placement:
        """`name` as a memory space."""
        self.known("memory space", name, PLACEMENTS, table.owner(key) or table, key)
        return next(place for place in PLACEMENTS if place == name)

    def operations(self) -> tuple[Operation, ...]:
        """Every [[operations]] entry, one Operation a name; entries of this file replace the base's."""
        found: dict[str, Operation] = {}
        chain: list[Table] = []
        table: Table | None = self.top
        while table is not None:
            chain.insert(0, table)
            table = table.base
        for level in chain:
            if level is not self.top and "operations" not in level.data:
                continue
            found.update(self.operations_in(level))
        return tuple(found.values())

    def operations_in(self, level: Table) -> dict[str, Operation]:
        """The operations that one file defines itself."""
        if "operations" not in level.data and level.base is not None:
            return {}
        found: dict[str, Operation] = {}
        lines: dict[str, int] = {}
        level.allow(("operations",))
        for entry in level.tables("operations", "[[operations]] with names, rates, latency"):
            rates = tuple(self.rate(rate) for rate in entry.tables("rates", f"rates = [{RATE}]"))
            if not rates:
                raise TomlWrongType(
                    entry.title("rates"), "empty", f"[{RATE}]", file=entry.text.file, line=entry.line("rates")
                )
            latency = self.figure(entry, "latency")
            for index, name in enumerate(entry.strings("names", 'names = ["exp2.f32"]')):
                line = entry.text.line((*entry.key, "names", index))
                if name in found:
                    raise DuplicateName("operation", name, lines[name], file=entry.text.file, line=line)
                found[name] = Operation(name=name, rates=rates, latency=latency)
                lines[name] = line
            entry.finish()
        return found

    def mma(self, table: Table) -> Mma:
        """[mma] with its [mma.rates]."""
        rates = table.table("rates", f"[mma.rates] with f16 = {FIGURE}")
        accumulator = table.string("accumulator", 'accumulator = "register"')
        row_block = table.whole("row_block", "row_block = 64")
        self.positive(table, "row_block", row_block)
        result = Mma(
            instruction=table.string("instruction", 'instruction = "wgmma"'),
            unit=self.unit(table),
            rates=tuple(MmaRate(dtype=name, per_cycle=self.figure(rates, name)) for name in rates.names()),
            latency=self.figure(table, "latency"),
            issue=self.figure(table, "issue"),
            contexts=self.chosen_contexts(table),
            row_block=row_block,
            accumulator=self.placement(table, "accumulator", accumulator),
            a_spaces=self.spaces(table, "a_spaces"),
            b_spaces=self.spaces(table, "b_spaces"),
            single_issuer=table.flag("single_issuer", "single_issuer = false"),
            shared_read=self.rate(table.whole_table("shared_read", RATE)) if table.has("shared_read") else None,
            source=self.section_source(table),
        )
        table.finish()
        return result

    def transfer(self, name: str, table: Table) -> Transfer:
        """One [transfers.NAME]."""
        self.known("transfer", name, TRANSFERS, table, "")
        also = table.owner("also")
        result = Transfer(
            name=name,
            unit=self.unit(table),
            bytes_per_cycle=self.figure(table, "bytes_per_cycle"),
            latency=self.figure(table, "latency"),
            issue=self.figure(table, "issue"),
            contexts=self.chosen_contexts(table),
            asynchronous=table.flag("asynchronous", "asynchronous = true"),
            variable_latency=table.flag("variable_latency", "variable_latency = true"),
            also=tuple(self.rate(rate) for rate in also.tables("also", f"also = [{RATE}]")) if also else (),
        )
        table.finish()
        return result

    def memory(self, name: str, table: Table) -> Memory:
        """One capacity under [memories]."""
        place = self.placement(table, name, name)
        return Memory(name=place, bytes=self.figure(table, name, whole=True))

    def context(self, name: str, table: Table) -> Context:
        """One [contexts.NAME]."""
        numbers = {
            key: table.whole(key, f"{key} = {example}")
            for key, example in (("threads", 128), ("max_groups", 3), ("min_registers", 24), ("max_registers", 240))
        }
        for key, value in numbers.items():
            self.positive(table, key, value)
        if numbers["min_registers"] > numbers["max_registers"]:
            must = f"at least min_registers, {numbers['min_registers']}"
            owner = table.owner("max_registers") or table
            raise BadFigure(
                owner.title("max_registers"), numbers["max_registers"], must,
                file=owner.text.file, line=owner.line("max_registers"),
            )  # fmt: skip
        overhead = self.figure(table, "overhead", zero=True, whole=True)
        result = Context(name=name, **numbers, overhead=overhead, source=self.section_source(table))
        table.finish()
        return result

    def register_file(self) -> RegisterFile:
        """[register_file]."""
        table = self.top.table("register_file", "[register_file]")
        granule = table.whole("granule", "granule = 8")
        self.positive(table, "granule", granule)
        registers = self.figure(table, "registers", whole=True)
        result = RegisterFile(registers=registers, granule=granule, source=self.section_source(table))
        table.finish()
        return result

    def crossing(self) -> Crossing:
        """[crossing]."""
        table = self.top.table("crossing", "[crossing]")
        names = ("barrier", "named_barrier", "spill_base", "spill_per_kb")
        result = Crossing(**{name: self.figure(table, name, zero=True) for name in names})
        table.finish()
        return result

    def emission(self, table: Table) -> Emission:
        """[emission]."""
        parts = ("under_load", "ordered", "cached")  # the others count something
        result = Emission(**{n: self.figure(table, n, whole=n not in parts) for n in Emission.model_fields})
        table.finish()
        return result

    def section_source(self, table: Table) -> str:
        """The `source` of a section's plain numbers, inherited if a base has it."""
        return self.source(table.owner("source") or table)

    def positive(self, table: Table, key: str, value: int) -> None:
        """Refuse a plain number that is not positive."""
        if value <= 0:
            owner = table.owner(key) or table
            raise BadFigure(owner.title(key), value, "positive", file=owner.text.file, line=owner.line(key))
