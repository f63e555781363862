"""Machine files: one TOML file describes one GPU; every figure carries its source.

`docs/machine-files.md` is the grammar. `load_machine` takes the name of a described machine
("h100") or a path; both are read and validated alike. The models of `twill.machine.description` say which keys
there are and of which type; what they cannot say (ranges, names that refer to one another, sources) is looked at here.
A wrong file raises one of the errors of `twill.exc`, with the file, the line, what is wrong and what to write.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, get_args

from pydantic import ValidationError

from twill import exc
from twill.document import Document
from twill.machine.description import (
    NUMBERS,
    OPTIONAL_SECTIONS,
    Context,
    Crossing,
    Figure,
    Machine,
    MmaInstruction,
    OperationCost,
    Placement,
    RegisterFile,
    Transfer,
)
from twill.machine.names import list_machines, machine_directory
from twill.toml.lines import Key
from twill.toml.table import Table, closest, describe, dotted, read_toml

__all__ = ["TRANSFERS", "check_machine", "list_machines", "load_machine", "machine_directory"]

TRANSFERS = (
    "tma_load", "tma_store", "tma_reduce", "copy_load", "plain_load", "plain_store",
    "register_to_shared", "shared_to_register", "tmem_load", "tmem_store",
)  # fmt: skip

FIGURE = '{ value = 16, source = "document, table" }'
RATE = '{ unit = "fma", value = 128, source = "document, table" }'
EXAMPLES = {
    "name": '"h100"', "title": '"NVIDIA H100 SXM5"', "architecture": '"sm_75"', "unit": '"fma"', "row_block": "64",
    "contexts": '["compute"]', "instruction": '"mma"', "accumulator": '"register"', "single_issuer": "false",
    **dict.fromkeys(("a_spaces", "b_spaces"), '["shared"]'), "threads": "128", "max_groups": "3", "value": "16",
    **dict.fromkeys(("asynchronous", "variable_latency"), "true"), "min_registers": "24", "max_registers": "240",
    **dict.fromkeys(("rates", "also"), f"[{RATE}]"), **dict.fromkeys(("shared_read", "scale_copy"), RATE),
    "granule": "8", "pair": FIGURE, "names": '["exp2.f32"]', "interleaved": '["issue"]', "extends": '"h100"',
    "source": '"document, table"', "description": '"what it does"',
}  # fmt: skip
SECTIONS = ("sources", "units", "mma", "transfers", "memories", "contexts", "register_file", "crossing",
            *OPTIONAL_SECTIONS)  # fmt: skip
WORDS = {
    "string": "a text", "bool": "true or false", "int": "a whole number", "float": "a number",
    "tuple": "a list of texts", "model": "a table", "dict": "a table",
}  # fmt: skip
MODELS: dict[str, type[Document]] = {
    "mma": MmaInstruction, "transfers": Transfer, "contexts": Context, "register_file": RegisterFile,
    "crossing": Crossing, "operations": OperationCost, **OPTIONAL_SECTIONS,
}  # fmt: skip
WHOLE = {name for section in ("emission", "simulation") for name in OPTIONAL_SECTIONS[section].model_fields}
WHOLE = WHOLE - NUMBERS | {"sms", "l2", "bytes", "registers", "overhead"}
BY_NAME = ("units", "transfers", "memories", "contexts")
SPREAD = "two numbers, the smaller first, as in spread = [15.9, 16.1]"
FLATTENED = ("per_cycle", "bytes")  # figures of the document whose keys stand beside others in the file
CITATION = re.compile(r"\[([A-Za-z0-9_-]+)\]")


def load_machine(name_or_path: str | Path) -> Machine:
    """The described machine of that name, or the machine file at that path.

    A text is a path if it has a directory separator or ends in ".toml". Raises UnknownMachine,
    FileMissing, or what is wrong with the file. A file is read again only if it, or one that it extends, has changed.
    """
    path = machine_path(name_or_path)
    files, machine = _loaded.get(path, ((), None))
    if machine is None or any(not file.is_file() or file.read_bytes() != text for file, text in files):
        tables = tuple(read_chain(path, ()))
        machine = TomlReading(tables).machine()
        _loaded[path] = tuple((Path(table.text.file), table.text.text.encode()) for table in tables), machine
    return machine


_loaded: dict[Path, tuple[tuple[tuple[Path, bytes], ...], Machine]] = {}  # with the files that it was read from


def check_machine(path: str | Path) -> Machine:
    """Read and validate the machine file at `path`; raises the first error found."""
    return TomlReading(tuple(read_chain(Path(path), ()))).machine()


def machine_path(name_or_path: str | Path) -> Path:
    """The file of a described machine's name, or the path itself; raises UnknownMachine."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text or "\\" in text:
        return Path(text)
    path = machine_directory() / f"{text}.toml"
    if path.is_file():
        return path
    hint = f"{closest(text, list_machines())} (or give the path of a machine file)"
    raise exc.UnknownMachine(text, hint)


def read_chain(path: Path, seen: tuple[Path, ...]) -> Iterator[Table]:
    """The file's top table, then that of the machine that it extends, which must be valid alone, and so on."""
    top = read_toml(path)
    yield top
    if "extends" not in top.data:
        return
    name = top.string("extends", 'extends = "h100"')
    found = machine_path(name)
    named = "/" not in name and not name.endswith(".toml")
    target = found if found.is_absolute() or named else path.parent / found
    chain = (*seen, path.resolve())
    if target.resolve() in chain:
        raise exc.CircularExtends(name, file=top.text.file, line=top.line("extends"))
    base = tuple(read_chain(target, chain))
    TomlReading(base).machine()
    yield from base


def over(new: Any, old: Any) -> Any:
    """What a file says over what the file says that it extends: table by table, figures and lists as a whole."""
    if not isinstance(new, dict) or not isinstance(old, dict) or "value" in new or "value" in old:
        return new
    return {**old, **{key: over(value, old[key]) if key in old else value for key, value in new.items()}}


@dataclass(frozen=True)
class TomlReading:
    """Files over one another, the one that extends the others first."""

    tables: tuple[Table, ...]

    def machine(self) -> Machine:
        """The machine that they describe."""
        said: dict[str, Any] = {}
        for table in reversed(self.tables):
            said = over(table.data, said)
        for name in SECTIONS:
            if said.get(name) is not None and not isinstance(said[name], dict):
                self.wrong((name,), f"a table, as in {example(name)}", describe(said[name]))
        entries = self.operations()
        for key in own_names(said):
            self.refuse("extra_forbidden", key)
        owner = next((table for table in self.tables if "interleaved" in table.data), None)
        said["interleaved"] = owner.strings("interleaved", example("interleaved")) if owner else ()
        said.setdefault("mma", None)
        sources = said.get("sources", {})
        cited = self.cited(said, (), sources)
        found = [{**self.cited(one.data, one.key, sources), "name": name} for name, one in entries.items()]
        document = shaped(cited, found)
        where = Places(document, [entry.key for entry in entries.values()])
        try:
            machine = Machine.model_validate_json(json.dumps(document, default=lambda _: []))
        except ValidationError as error:
            rank = {"missing": 0, "extra_forbidden": 2}
            first = min(error.errors(include_url=False), key=lambda e: rank.get(e["type"], 1))
            self.refuse(first["type"], where.key(first["loc"]))
        self.check(machine, where, said["interleaved"])
        return machine

    def operations(self) -> dict[str, Table]:
        """The entry of every operation, by name; entries of a file replace those of the file that it extends."""
        found: dict[str, Table] = {}
        for level in reversed(self.tables):
            keys: dict[str, Key] = {}
            there = "operations" in level.data or len(self.tables) == 1
            for entry in level.tables("operations", "[[operations]] with names, rates, latency") if there else ():
                for index, name in enumerate(entry.strings("names", f"names = {EXAMPLES['names']}")):
                    key = (*entry.key, "names", index)
                    if name in keys:
                        first, again = entry.text.line(keys[name]), entry.text.line(key)
                        raise exc.DuplicateName(name, first, file=entry.text.file, line=again)
                    found[name], keys[name] = entry, key
        return found

    def cited(self, said: Any, key: Key, sources: dict[str, str]) -> Any:
        """The same with the entry of [sources] that a `[key]` in a source stands for. Raises MissingSource."""
        if isinstance(said, list):
            return [self.cited(item, (*key, index), sources) for index, item in enumerate(said)]
        if not isinstance(said, dict) or key == ("sources",):
            return said
        made = {name: self.cited(item, (*key, name), sources) for name, item in said.items()}
        section = key in (("mma",), ("register_file",)) or (key[:1] == ("contexts",) and len(key) == 2)
        figure = "value" in made and (len(key) > 1 or key in (("sms",), ("clock_mhz",), ("l2",))) and key[0] != "units"
        if (figure or section) and not str(made.get("source", "")).strip():
            table, line = self.place(key)
            raise exc.MissingSource(dotted(key), file=table.text.file, line=line)

        def entry(match: re.Match[str]) -> str:
            name = match.group(1)
            self.known("citation", name, sources, (*key, "source"), " (a source in [brackets] is a key of [sources])")
            if not isinstance(sources[name], str):
                self.wrong(("sources", name), f'a text, as in {name} = "document"', describe(sources[name]))
            return f"{sources[name]}:" if match.start() == 0 and match.end() < len(match.string) else sources[name]

        if isinstance(made.get("source"), str) and "names" not in made:
            made["source"] = CITATION.sub(entry, made["source"])
        return made

    # -- what the models cannot say

    def check(self, machine: Machine, where: Places, interleaved: Sequence[str]) -> None:
        """Ranges, and names that refer to one another."""
        known = {"unit": [unit.name for unit in machine.units], "context": [one.name for one in machine.contexts]}
        for name in interleaved:
            self.known("unit", name, known["unit"], ("interleaved",))
        for transfer in machine.transfers:
            self.known("transfer", transfer.name, TRANSFERS, ("transfers", transfer.name))
        for loc, value in values(machine, ()):
            key, name = where.key(loc), str(loc[-1])
            if value == () and name != "also" or isinstance(value, str) and not value.strip() and name != "source":
                self.wrong(key, example(name), "empty")
            for one in (value,) if name == "unit" else value if name == "contexts" else ():
                self.known(name.removesuffix("s"), one, known[name.removesuffix("s")], key)
            if isinstance(value, Figure):
                self.check_figure(name, key, value)
            elif type(value) is int and value <= 0:
                self.bad(key, value, "positive")
        for context in machine.contexts:
            if context.min_registers > context.max_registers:
                least = f"at least min_registers, {context.min_registers}"
                self.bad(("contexts", context.name, "max_registers"), context.max_registers, least)

    def check_figure(self, name: str, key: Key, figure: Figure) -> None:
        """That a figure is in range, and its spread one."""
        zero, whole, value = key[0] == "crossing" or name == "overhead", name in WHOLE, figure.value
        right = math.isfinite(value) and (value > 0 or zero and value == 0) and not (whole and value != int(value))
        if not right:
            must = "zero or positive" if zero else "positive"
            self.bad((*key, "value"), value, f"a whole number, {must}" if whole else must)
        if figure.spread and not (math.isfinite(sum(figure.spread)) and figure.spread[0] <= figure.spread[1]):
            self.bad((*key, "spread"), list(figure.spread), SPREAD)

    # -- what is said of a mistake

    def place(self, key: Key) -> tuple[Table, int]:
        """The file that says `key`, and the line; if none does, those of the closest table around it."""
        for length in range(len(key), 0, -1):
            for table in self.tables:
                if at(table.data, key[:length]) is not None:
                    return table, table.text.line(key[:length])
        return self.tables[0], 0

    def refuse(self, kind: str, key: Key) -> NoReturn:
        """A mistake that the models found. kind: as pydantic names it."""
        table, line = self.place(key)
        name, said = str(key[-1] if isinstance(key[-1], str) else key[-2]), at(table.data, key[:-1])
        names = list(said) if isinstance(said, dict) else []
        allowed = known_keys(key[:-1], names)
        if "spread" in key:
            key = key[: key.index("spread") + 1]
            self.bad(key, at(table.data, key), SPREAD)
        if kind == "missing" and name == "source":
            raise exc.MissingSource(dotted(key[:-1]), file=table.text.file, line=line)
        if kind == "missing":
            close = difflib.get_close_matches(name, [other for other in names if other not in allowed], n=1)
            hint = f"{example(name)} (is `{close[0]}` meant to be it?)" if close else example(name)
            raise exc.TomlMissingKey(dotted(key), hint, file=table.text.file, line=line)
        if kind == "extra_forbidden":
            raise exc.TomlUnknownKey(dotted(key), closest(name, allowed), file=table.text.file, line=line)
        found = at(table.data, key)
        if kind == "literal_error":
            self.known("memory space", name if key[0] == "memories" else str(found), get_args(Placement), key)
        self.wrong(key, f"{WORDS.get(kind.partition('_')[0], 'a value')}, as in {example(name)}", describe(found))

    def wrong(self, key: Key, hint: str, found: str) -> NoReturn:
        """A value of another type than its meaning needs."""
        table, line = self.place(key)
        raise exc.TomlWrongType(dotted(key), found, hint, file=table.text.file, line=line)

    def bad(self, key: Key, value: object, must: str) -> NoReturn:
        """A value out of its range."""
        table, line = self.place(key)
        raise exc.BadFigure(dotted(key), value, must, file=table.text.file, line=line)

    def known(self, what: str, name: str, names: Collection[str], key: Key, more: str = "") -> None:
        """Raise UnknownReference unless `name` is one of `names`."""
        if name not in names:
            table, line = self.place(key)
            hint = closest(name, names) + more
            raise exc.UnknownReference(what, name, dotted(key), hint, file=table.text.file, line=line)


@dataclass(frozen=True)
class Places:
    """Where the file says what is at a place of the document. entries: keys of the entries of [[operations]]."""

    document: Mapping[str, Any]
    entries: Sequence[Key]

    def key(self, loc: tuple[int | str, ...]) -> Key:
        """The key of the file."""
        key: Key = ()
        for index, part in enumerate(loc):
            if isinstance(part, int) and key == ("operations",):
                key = self.entries[part]
            elif isinstance(part, int) and key in (*((name,) for name in BY_NAME), ("mma", "rates")):
                one = at(self.document, loc[: index + 1])
                key = (*key, one.get("name", one.get("dtype")))
            elif part not in FLATTENED:
                key = (*key, part)
        return key[:2] if key[:1] in (("units",), ("memories",)) and key[2:] in (("description",), ("name",)) else key


def own_names(said: Mapping[str, Any]) -> Iterator[Key]:
    """Keys that only the document has: what a section calls a table is its name, an operation has `names`."""
    yield from ((name,) for name in ("schema", "schema_version") if name in said)
    entries = said.get("operations", ())
    yield from (("operations", index, "name") for index, one in enumerate(entries) if "name" in one)
    for section in ("transfers", "contexts"):
        for key, value in said.get(section, {}).items():
            yield from ((section, key, "name"),) if isinstance(value, dict) and "name" in value else ()


def shaped(said: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """What a file says in the shape of the document: named tables as lists, figures apart from what is beside them."""
    made = {key: value for key, value in said.items() if key not in ("extends", "sources", "interleaved")}
    for name in BY_NAME:
        if isinstance(made.get(name), dict):
            made[name] = [named(name, key, value, said["interleaved"]) for key, value in made[name].items()]
    if isinstance(made.get("mma"), dict) and isinstance(made["mma"].get("rates"), dict):
        rates = [{"dtype": key, "per_cycle": value} for key, value in made["mma"]["rates"].items()]
        made["mma"] = {"rates": rates, **{key: rated(value) for key, value in made["mma"].items() if key != "rates"}}
    made["operations"] = [
        {key: rated(value) if key == "rates" else value for key, value in one.items() if key != "names"}
        for one in operations
    ]
    return made


def named(section: str, name: str, value: Any, interleaved: Sequence[str]) -> dict[str, Any]:
    """One of a section's tables, which knows its name."""
    if section == "units":
        return {"name": name, "description": value, "interleaved": name in interleaved}
    if section == "memories":
        return {"name": name, "bytes": value}
    more = (
        {key: rated(item) if key == "also" else item for key, item in value.items()} if isinstance(value, dict) else {}
    )
    return {"name": name, **more}


def rated(value: Any) -> Any:
    """A rate, or a list of them, whose figure is a table of its own; anything else as it is."""
    if isinstance(value, list):
        return [rated(item) for item in value]
    if not isinstance(value, dict) or "unit" not in value:
        return value
    return {"unit": value["unit"], "per_cycle": {key: item for key, item in value.items() if key != "unit"}}


def values(found: Document, loc: tuple[int | str, ...]) -> Iterator[tuple[tuple[int | str, ...], Any]]:
    """Every figure, text, number and list of names in a document, with its place."""
    for name in type(found).model_fields:
        value = getattr(found, name)
        parts = enumerate(value) if isinstance(value, tuple) and value and isinstance(value[0], Document) else ()
        for index, one in parts:
            yield from values(one, (*loc, name, index))
        if isinstance(value, Document) and not isinstance(value, Figure):
            yield from values(value, (*loc, name))
        elif not parts and value is not None and not (loc == () and value == ()):
            yield (*loc, name), value


def at(said: Any, key: Key) -> Any:
    """What a file says at a key; None if it says nothing there."""
    for part in key:
        if isinstance(said, dict):
            said = said.get(part)
        else:
            said = said[part] if isinstance(said, list) and isinstance(part, int) and part < len(said) else None
    return said


def known_keys(key: Key, names: Collection[str]) -> list[str]:
    """The keys that a table may have."""
    if not key:
        return [*Machine.model_fields, "extends", "sources", "interleaved"]
    if "value" in names:
        return ["value", "source", "spread", *(["unit"] if "unit" in names else [])]
    fields = list(MODELS[str(key[0])].model_fields) if key[0] in MODELS else []
    return ["names" if name == "name" and key[0] == "operations" else name for name in fields]


def example(name: str) -> str:
    """What to write for a key."""
    if name in (*SECTIONS, "operations"):
        return f"[{name}]" if name != "operations" else "[[operations]] with names, rates, latency"
    return f"{name} = {EXAMPLES.get(name, FIGURE)}"
