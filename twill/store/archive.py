"""Many entries in one file, to be carried to another machine: `twill store export` and `import`.

One JSON object a line::

    {"archive": "twill.archive/1"}
    {"machine": Machine}          before the first entry that names it
    {"entry": Entry}
    {"artifact": {"key", "name", "digest", "data" (base64), "signature"}}
    {"end": {"lines": N, "digest": SHA-256 of all lines before}}

The last line shows that nothing is cut. Every entry is examined before it is kept, as one from a service. An artifact
that runs cannot be examined: it is kept if a key that this machine trusts has signed it (`twill.store.signing`), and
never in the place of one that is there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from twill.exc import FileMissing, MalformedArchive
from twill.machine.description import Machine
from twill.store.examine import examine
from twill.store.interface import Entry
from twill.store.maintenance import artifact_names
from twill.store.rows import sha256
from twill.store.signing import SigningKeys, keys_path, own_keys, read_keys, runs
from twill.store.sql import SqlStore
from twill.store.validation import described

ARCHIVE = "twill.archive/1"
LINE = 256 * 2**20  # bytes of a line that are read
AGAIN = "write the file again with `twill store export`"


@dataclass(frozen=True)
class RefusedEntry:
    """Something of an archive that was not kept."""

    key: str
    what: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """What became of an archive. known: schedules that were there already."""

    imported: int
    known: int
    artifacts: int
    refused: tuple[RefusedEntry, ...]


def export_lines(store: SqlStore, keys: Iterable[str], signing: SigningKeys | None = None) -> Iterator[str]:
    """The lines of an archive of these keys; what is bad is left out (and put into quarantine).

    signing: what artifacts that run are signed with (None: this user's). Raises BadSigningKeys.
    """
    digest = hashlib.sha256()
    count = 0
    for line in contents(store, keys, signing):
        text = json.dumps(line, separators=(",", ":")) + "\n"
        digest.update(text.encode())
        count += 1
        yield text
    yield json.dumps({"end": {"lines": count, "digest": digest.hexdigest()}}, separators=(",", ":")) + "\n"


def contents(store: SqlStore, keys: Iterable[str], signing: SigningKeys | None) -> Iterator[dict[str, Any]]:
    """Every line but the last."""
    yield {"archive": ARCHIVE}
    machines: set[str] = set()
    for key in keys:
        entry = store.get(key)
        machine = store.machine(entry.machine, entry.machine_digest) if entry else None
        if entry is None or machine is None:
            continue
        if entry.machine_digest not in machines:
            machines.add(entry.machine_digest)
            yield {"machine": json.loads(machine.canonical())}
        yield {"entry": json.loads(homeless(entry).canonical())}
        for name in artifact_names(store, key):
            data = store.get_artifact(key, name)
            if data is None:
                continue
            digest, text = sha256(data), base64.b64encode(data).decode()
            artifact = {"key": key, "name": name, "digest": digest, "data": text}
            if runs(name):
                signing = signing or own_keys()
                artifact["signature"] = signing.sign(key, name, digest)
            yield {"artifact": artifact}


def homeless(entry: Entry) -> Entry:
    """The entry without the directory of its kernel's file, which is nobody else's business."""
    return entry if entry.graph is None else entry.model_copy(update={"graph": entry.graph.homeless()})


def import_archive(store: SqlStore, path: str | Path, trusted: SigningKeys | None = None) -> Imported:
    """Keep everything in an archive that is good.

    Raises FileMissing, MalformedArchive, StoreUnavailable, BadSigningKeys.

    The whole file is read once to see that it is whole before anything of it is kept. trusted: whose signatures count
    (None: this user's keys').
    """
    trusted = read_keys(keys_path()) if trusted is None else trusted
    for _ in checked_lines(path):
        pass
    machines: dict[str, Machine] = {}
    retained = known = artifacts = 0
    refused: list[RefusedEntry] = []
    for number, line in checked_lines(path):
        try:
            if "machine" in line:
                machine = Machine.parse(json.dumps(line["machine"]))
                machines[machine.digest()] = machine
            elif "entry" in line:
                entry = Entry.parse(json.dumps(line["entry"]))
                reason = import_entry(store, entry, machines)
                retained += reason == ""
                known += reason == KNOWN
                if reason not in ("", KNOWN):
                    refused.append(RefusedEntry(entry.key, "schedule", reason))
            elif "artifact" in line:
                key, name, reason = import_artifact(store, line["artifact"], trusted)
                artifacts += not reason
                if reason not in ("", KNOWN):
                    refused.append(RefusedEntry(key, f"artifact {name}", reason))
            else:
                raise MalformedArchive("a line of an unknown kind", file=str(path), line=number, hint=AGAIN)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            refused.append(
                RefusedEntry("", f"line {number}", f"not a document of this version: {where}: {first['msg']}")
            )
    return Imported(retained, known, artifacts, tuple(refused))


KNOWN = "it is there already"
UNTRUSTED = 'it is code that runs, and no key that this machine trusts has signed it (docs/store.md, "Signatures")'


def import_entry(store: SqlStore, entry: Entry, machines: dict[str, Machine]) -> str:
    """Keep an entry; why it was not kept, or ""."""
    machine = machines.get(entry.machine_digest) or described(entry.machine, entry.machine_digest)
    if machine is None:
        return f"its machine {entry.machine} is not in the file"
    reason = examine(entry, machine, proof=True)
    if reason:
        return reason
    there = store.get(entry.key)
    if there is not None and (there.graph is not None or entry.graph is None):
        return KNOWN
    store.keep(entry, machine)
    return ""


def import_artifact(store: SqlStore, artifact: Any, trusted: SigningKeys) -> tuple[str, str, str]:
    """Keep an artifact that has the hash it says and, if it runs, a signature; its key, its name, why not or ""."""
    fields = ("key", "name", "digest", "data")
    if not isinstance(artifact, dict) or not all(isinstance(artifact.get(field), str) for field in fields):
        return "", "", "it has not the fields of an artifact"
    key, name, digest, text = (artifact[field] for field in fields)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return key, name, "its data is not base64"
    if sha256(data) != digest:
        return key, name, "its bytes do not have the hash they were exported with"
    said = artifact.get("signature")
    if runs(name) and not (isinstance(said, str) and trusted.trusts(said, key, name, digest)):
        return key, name, UNTRUSTED
    if store.get_artifact(key, name) is not None:
        return key, name, KNOWN
    store.put_artifact(key, name, data)
    return key, name, ""


def checked_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines between first and last, numbered; raises if the file is cut, changed or no archive."""
    file = str(path)
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            number = 0
            while raw := stream.readline(LINE):
                number += 1
                line = parse_line(raw, file, number)
                if number == 1 and line.get("archive") != ARCHIVE:
                    raise MalformedArchive(f"not an archive of kind {ARCHIVE!r}", file=file, line=1, hint=AGAIN)
                if "end" in line:
                    if line["end"] != {"lines": number - 1, "digest": digest.hexdigest()} or stream.read(1):
                        raise MalformedArchive(
                            "it was changed after it was written", file=file, line=number, hint=AGAIN
                        )
                    return
                digest.update(raw)
                if number > 1:
                    yield number, line
    except OSError as error:
        raise FileMissing(file, error.strerror or str(error), "the file that `twill store export` wrote") from None
    raise MalformedArchive("it ends in the middle", file=file, line=max(number, 1), hint=AGAIN)


def parse_line(raw: bytes, file: str, number: int) -> dict[str, Any]:
    """A line's object."""
    try:
        line = json.loads(raw) if raw.endswith(b"\n") else None
    except (ValueError, RecursionError):
        raise MalformedArchive("not a line of JSON", file=file, line=number, hint=AGAIN) from None
    if not isinstance(line, dict) or len(line) != 1:
        raise MalformedArchive(
            "it ends in the middle" if line is None else "not one object a line", file=file, line=number, hint=AGAIN
        )
    return line
