"""Promises of export and import: what was exported comes back, and nothing that was changed on the way."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import H100
from tests.store.test_http import mine
from tests.stores import entry_of, poisons
from twill.exc import FileMissing, MalformedArchive
from twill.store.archive import UNTRUSTED, export_lines, homeless, import_archive
from twill.store.maintenance import keys
from twill.store.rows import sha256
from twill.store.signing import SigningKeys
from twill.store.sqlite import SqliteStore

MINE = SigningKeys((b"m" * 32,))


@pytest.fixture
def exported(tmp_path: Path) -> list[str]:
    """The lines of an archive of two machines and an artifact."""
    one = SqliteStore(tmp_path / "old")
    entry, machine = mine()
    one.keep(entry_of(), H100)
    one.keep(entry, machine)
    one.put_artifact(entry_of().key, "a.cubin", bytes(range(256)))
    lines = list(export_lines(one, keys(one)))
    one.close()
    return lines


def write(tmp_path: Path, lines: list[str]) -> Path:
    """An archive of those lines as they are."""
    path = tmp_path / "archive"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def sealed(tmp_path: Path, objects: list[dict[str, Any]]) -> Path:
    """An archive of those objects with an end that fits, as somebody who means harm would write it."""
    lines = [json.dumps(one) + "\n" for one in objects]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return write(tmp_path, [*lines, json.dumps({"end": {"lines": len(lines), "digest": digest}}) + "\n"])


def test_everything_comes_back(store: SqliteStore, exported: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, exported)
    done = import_archive(store, path)
    assert (done.imported, done.known, done.artifacts, done.refused) == (2, 0, 1, ())
    entry, machine = mine()
    assert store.get(entry_of().key) == homeless(entry_of())
    assert store.get(entry.key) == homeless(entry)
    assert store.machine("mine", machine.digest()) == machine
    assert store.get_artifact(entry_of().key, "a.cubin") == bytes(range(256))
    again = import_archive(store, path)
    assert (again.imported, again.known) == (0, 2)


def test_what_is_bad_in_the_store_is_not_exported(store: SqliteStore) -> None:
    from tests.store_files import plant

    plant(store, poisons()["illegal"])
    assert len(list(export_lines(store, keys(store)))) == 2


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda lines: lines[:-1], "it ends in the middle"),
        (lambda lines: [], "it ends in the middle"),
        (lambda lines: [*lines[:-2], lines[-1]], "changed after it was written"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "changed after it was written"),
        (lambda lines: [*lines, "{}\n"], "changed after it was written"),
        (lambda lines: [lines[0], lines[1].replace("h100", "h101"), *lines[2:]], "changed after it was written"),
        (lambda lines: [*lines[:2], lines[2][:100]], "it ends in the middle"),
        (lambda lines: [*lines[:2], "garbage\n"], "not a line of JSON"),
        (lambda lines: [*lines[:2], "[" * 100_000 + "\n"], "not a line of JSON"),
        (lambda lines: [*lines[:2], "[1]\n"], "not one object a line"),
        (lambda lines: ['{"archive": "twill.archive/9"}\n', *lines[1:]], "not an archive of kind"),
        (lambda lines: ["\x00\n"], "not a line of JSON"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_before_anything_is_kept(
    spoil: Any, why: str, store: SqliteStore, exported: list[str], tmp_path: Path
) -> None:
    with pytest.raises(MalformedArchive, match=why):
        import_archive(store, write(tmp_path, spoil(exported)))
    assert keys(store) == ()


def test_no_file_is_said(store: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        import_archive(store, tmp_path / "nowhere")


@pytest.mark.parametrize("which", poisons())
def test_a_poisoned_entry_is_refused_and_the_rest_kept(which: str, store: SqliteStore, tmp_path: Path) -> None:
    objects: list[dict[str, Any]] = [{"archive": "twill.archive/1"}]
    objects += [{"entry": json.loads(entry.canonical())} for entry in (poisons()[which], entry_of(1))]
    done = import_archive(store, sealed(tmp_path, objects))
    harmless = poisons()[which] == entry_of(name="layer_norm")
    assert done.imported == 1 + harmless
    assert len(done.refused) == 1 - harmless
    assert store.get(entry_of(0).key) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"entry": {"schema": "twill.entry/9"}}, "not a document of this version"),
        ({"machine": {}}, "not a document of this version"),
        ({"artifact": {"key": "k", "name": "a", "digest": "0", "data": "AA=="}}, "do not have the hash"),
        ({"artifact": {"key": "k", "name": "a", "digest": "0", "data": "!"}}, "not base64"),
        ({"artifact": {"key": "k"}}, "not the fields"),
        ({"artifact": 3}, "not the fields"),
    ],
)
def test_a_line_that_cannot_be_kept_has_a_reason(
    line: dict[str, Any], why: str, store: SqliteStore, tmp_path: Path
) -> None:
    done = import_archive(store, sealed(tmp_path, [{"archive": "twill.archive/1"}, line]))
    assert [why in refused.reason for refused in done.refused] == [True]


def test_an_entry_for_a_machine_that_is_not_there_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    objects = [{"archive": "twill.archive/1"}, {"entry": json.loads(mine()[0].canonical())}]
    (refused,) = import_archive(store, sealed(tmp_path, objects)).refused
    assert refused.reason == "its machine mine is not in the file"


def test_a_line_of_an_unknown_kind_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(MalformedArchive, match="unknown kind"):
        import_archive(store, sealed(tmp_path, [{"archive": "twill.archive/1"}, {"later": 1}]))


# -- artifacts that run


def with_code(path: Path, data: bytes = b"genuine") -> SqliteStore:
    """A store with an entry and the emitted kernel of its key."""
    one = SqliteStore(path)
    one.keep(entry_of(), H100)
    one.put_artifact(entry_of().key, "launch", data)
    return one


def artifact_of(data: bytes, key: str = "k1", name: str = "launch", **more: Any) -> dict[str, Any]:
    """The line of an artifact with the hash that it has."""
    text = base64.b64encode(data).decode()
    return {"artifact": {"key": key, "name": name, "digest": sha256(data), "data": text, **more}}


@pytest.mark.parametrize("name", ["launch", "a.cubin", "", "Tuning.json"])
@pytest.mark.parametrize("signature", [{}, {"signature": 3}, {"signature": ""}, {"signature": "\udcff"}, "another's"])
def test_an_artifact_that_runs_is_not_kept_unless_a_trusted_key_signed_it(
    name: str, signature: Any, store: SqliteStore, tmp_path: Path
) -> None:
    if signature == "another's":
        signature = {"signature": SigningKeys((b"x" * 32,)).sign("k1", name, sha256(b"planted"))}
    objects = [{"archive": "twill.archive/1"}, artifact_of(b"planted", name=name, **signature)]
    (refused,) = import_archive(store, sealed(tmp_path, objects), MINE).refused
    assert refused.reason == UNTRUSTED and store.get_artifact("k1", name) is None


@pytest.mark.parametrize("changed", [{"key": "k2"}, {"name": "a.cubin"}, {"data": b"other"}])
def test_a_signature_is_of_one_artifact_under_one_key(
    changed: dict[str, Any], store: SqliteStore, tmp_path: Path
) -> None:
    said = MINE.sign("k1", "launch", sha256(b"code"))
    good = artifact_of(b"code", signature=said)
    other = artifact_of(**{"data": b"code", **changed}, signature=said)
    done = import_archive(store, sealed(tmp_path, [{"archive": "twill.archive/1"}, other, good]), MINE)
    assert ([one.reason for one in done.refused], done.artifacts) == ([UNTRUSTED], 1)


def test_an_artifact_that_is_there_is_never_replaced(store: SqliteStore, tmp_path: Path) -> None:
    key = entry_of().key
    path = write(tmp_path, list(export_lines(with_code(tmp_path / "other", b"older"), [key], MINE)))
    store.put_artifact(key, "launch", b"genuine")
    done = import_archive(store, path, MINE)
    assert (done.imported, done.artifacts, done.refused) == (1, 0, ())
    assert store.get_artifact(key, "launch") == b"genuine"


def test_signed_code_goes_to_every_machine_that_trusts_the_key_also_after_another_signs(
    store: SqliteStore, tmp_path: Path
) -> None:
    key = entry_of().key
    path = write(tmp_path, list(export_lines(with_code(tmp_path / "other"), [key], MINE)))
    assert import_archive(store, path, SigningKeys((b"new" * 11, *MINE.secrets))).artifacts == 1
    assert store.get_artifact(key, "launch") == b"genuine"


def test_documents_need_no_signature(store: SqliteStore, tmp_path: Path) -> None:
    objects = [{"archive": "twill.archive/1"}, artifact_of(b"{}", name="tuning.json")]
    assert import_archive(store, sealed(tmp_path, objects), SigningKeys(())).artifacts == 1


def test_an_archive_has_no_directory_of_the_machine_that_wrote_it(exported: list[str]) -> None:
    graph = entry_of().graph
    assert graph is not None and graph.file.startswith("/")
    assert str(Path(graph.file).parent) not in "".join(exported) and '"file":"gemm.py"' in "".join(exported)
