"""`twill store ls | show | rm | export | import | keys | gc | verify`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes
from twill.cli.columns import columns
from twill.exc.foreign import printable

if TYPE_CHECKING:
    from twill.store.archive import RefusedEntry
    from twill.store.interface import Summary
    from twill.store.sql import SqlStore

SHORT = 12  # characters of a key that lists have


def opened(arguments: Namespace, *, make: bool = False) -> AbstractContextManager[SqlStore]:
    """The store, a file or a database, closed at the end. make: a file that was named and is not there is made."""
    from twill.exc import FileMissing, StoreUnavailable
    from twill.store.location import STORE, store_path
    from twill.store.sqlite import SqliteStore

    if arguments.store and "://" in arguments.store:
        return in_database(arguments.store)
    path = Path(arguments.store) if arguments.store else store_path()
    if path is None:
        raise StoreUnavailable("(none)", f"there is none: {STORE} says so", "--store PATH")
    if arguments.store and not make and not path.exists():
        raise FileMissing(str(path), "no such file", "the path of a store, or no --store for the default one")
    return closing(SqliteStore(path))


def in_database(url: str) -> AbstractContextManager[SqlStore]:
    """The store of a service, in PostgreSQL. TWILL_OBJECTS: where its large artifacts are."""
    from twill.exc import ServerNotInstalled

    try:
        from twill.store.objects import Objects
        from twill.store.postgres import PostgresStore
    except ModuleNotFoundError as missing:
        raise ServerNotInstalled(missing.name or "psycopg") from None
    objects = os.environ.get("TWILL_OBJECTS", "")
    return closing(PostgresStore(url, Objects(objects) if objects else None))


def ls(arguments: Namespace) -> int:
    """One line an entry, newest first; or what is in quarantine, with the reasons."""
    from twill.store.api import ScheduleList
    from twill.store.maintenance import quarantined, size

    with opened(arguments) as store:
        if arguments.quarantine:
            for bad in quarantined(store):
                print(printable(f"{bad.found[:19]}Z  {bad.key[:SHORT]}  {bad.what}: {bad.reason}"))
            return codes.SOLVED
        found = store.find(arguments.kernel, arguments.machine, arguments.limit)
        if arguments.json:
            print(ScheduleList(schedules=found).canonical())
            return codes.SOLVED
        for line in table(found):
            print(printable(line))
        total = size(store)
        things = f"{total.schedules} schedules, {total.artifacts} artifacts, {total.quarantined} in quarantine"
        print(f"{store.place}: {things}, {mib(total.bytes)}", file=sys.stderr)
    return codes.SOLVED


def table(found: tuple[Summary, ...]) -> Iterator[str]:
    """Lines of equal columns, under a heading."""
    heading = ("key", "kernel", "spec", "machine", "I", "L", "copies", "registers", "created")
    rows = [
        (s.key[:SHORT], s.kernel, s.spec, s.machine, *map(str, (s.ii, s.length, s.copies, s.registers)), s.created[:19])
        for s in found
    ]
    return columns([heading, *rows] if found else ())


def show(arguments: Namespace) -> int:
    """An entry: as a document, or where it comes from and the schedule drawn."""
    from twill.exc import NoSuchEntry
    from twill.show.text import print_schedule
    from twill.store.maintenance import artifact_names

    with opened(arguments) as store:
        key = key_of(store, arguments.key)
        entry = store.get(key)
        if entry is None:
            raise NoSuchEntry(
                f"the entry {key[:SHORT]} is bad, and was put into quarantine", hint="twill store ls --quarantine"
            )
        if arguments.json:
            print(entry.canonical())
            return codes.SOLVED
        print(f"key       {entry.key}")
        print(printable(f"stored    {entry.created[:19]}Z"))
        print(printable(f"machine   {entry.machine} (digest {entry.machine_digest[:SHORT]})"))
        names = artifact_names(store, key)
        print(printable(f"artifacts {', '.join(names) or 'none'}"))
        sys.stdout.flush()
        print_schedule(entry.schedule)
    return codes.SOLVED


def export(arguments: Namespace) -> int:
    """Write entries into one file."""
    from twill.cli.output import refuse_file, write_all
    from twill.store.archive import export_lines
    from twill.store.maintenance import keys

    refuse_file(Path(arguments.file))
    with opened(arguments) as store:
        every = keys(store, kernel=arguments.kernel, machine=arguments.machine)
        chosen = tuple(key_of(store, key) for key in arguments.keys) or every
        lines = list(export_lines(store, chosen))
        entries = sum(line.startswith('{"entry"') for line in lines)
        write_all({Path(arguments.file): "".join(lines)})
        print(f"{arguments.file}: {entries} schedules")
        if entries < len(chosen):
            print(f"twill: {len(chosen) - entries} were bad, and were put into quarantine", file=sys.stderr)
            return codes.NOT_GOOD
    return codes.SOLVED


def import_archive(arguments: Namespace) -> int:
    """Keep what is good in a file of exported entries; say what is not."""
    from twill.store.archive import import_archive

    with opened(arguments, make=True) as store:
        done = import_archive(store, arguments.file)
        said = f"{done.imported} schedules kept, {done.known} known already, {done.artifacts} artifacts kept"
        print(f"{store.place}: {said}")
    for line in unkept(done.refused):
        print(f"{arguments.file}: {line}", file=sys.stderr)
    return codes.NOT_GOOD if done.refused else codes.SOLVED


def unkept(refused: Sequence[RefusedEntry]) -> Iterator[str]:
    """A line for each reason why something of an archive was not kept, with what it was first said of."""
    reasons: dict[str, list[RefusedEntry]] = {}
    for one in refused:
        reasons.setdefault(one.reason, []).append(one)
    for reason, (first, *others) in reasons.items():
        what, more = f"{first.what} {first.key[:SHORT]}".strip(), f", nor are {len(others)} more" if others else ""
        yield printable(f"{what} is not kept{more}: {reason}")


def remove(arguments: Namespace) -> int:
    """Remove entries, with their artifacts."""
    with opened(arguments) as store:
        chosen = [key_of(store, key) for key in arguments.keys]
        gone = sum(store.delete(key) for key in chosen)
        print(f"{store.place}: {gone} schedules removed")
    return codes.SOLVED


def keys(arguments: Namespace) -> int:
    """The keys that sign, and are trusted to have signed, artifacts that run; --new: with another in front."""
    from twill.store.signing import key_name, keys_path, new_key, read_keys

    path = keys_path()
    found = new_key(path) if arguments.new else read_keys(path)
    for number, secret in enumerate(found.secrets):
        print(f"{key_name(secret)}  {'signs, trusted' if number == 0 else 'trusted'}")
    print(f"{path}: {len(found.secrets)} keys", file=sys.stderr)
    return codes.SOLVED


def gc(arguments: Namespace) -> int:
    """Make the file smaller."""
    from twill.store.maintenance import collect, size

    with opened(arguments) as store:
        removed = collect(store, arguments.max_bytes, arguments.older_than)
        left = size(store)
        retained = f"{left.schedules} schedules and {mib(left.file)} on the disk are left"
        print(f"{store.place}: {mib(removed)} removed, {retained}")
    return codes.SOLVED


def verify(arguments: Namespace) -> int:
    """Examine everything, whatever was examined before."""
    from twill.store.maintenance import verify as examine_all

    good = bad = 0
    with opened(arguments) as store:
        for finding in examine_all(store):
            good += not finding.reason
            bad += bool(finding.reason)
            if finding.reason:
                print(printable(f"{finding.what} {finding.key[:SHORT]}: {finding.reason}"))
        print(f"{store.place}: {good} good, {bad} bad" + (" (twill store ls --quarantine)" if bad else ""))
    return codes.NOT_GOOD if bad else codes.SOLVED


def key_of(store: SqlStore, prefix: str) -> str:
    """The key that begins so; raises NoSuchEntry."""
    from twill.exc import NoSuchEntry
    from twill.store.maintenance import keys

    found = keys(store, prefix)
    if len(found) != 1:
        what = f"{len(found)} keys begin with" if found else "no key begins with"
        raise NoSuchEntry(
            f"{what} `{prefix}`", hint="a key of `twill store ls`, or as much of it as tells it from others"
        )
    return found[0]


def mib(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**20:.1f} MiB"
