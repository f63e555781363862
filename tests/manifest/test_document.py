"""Promises of manifests: one text for one manifest, and no other text is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.manifests import CODE, KERNEL
from twill.exc import FileMissing, MalformedManifest
from twill.manifest.document import parse_manifest, read_manifest, sha256


def test_a_text_is_read_back_and_written_the_same() -> None:
    read = parse_manifest(KERNEL.text())
    assert replace(read, digest="") == KERNEL
    assert read.text() == KERNEL.text()
    assert read.belongs_to(CODE) and not read.belongs_to(CODE + b"0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-20], "not JSON"),
        (lambda text: "[]", "schema is None"),
        (lambda text: text.replace("twill.manifest/13", "twill.manifest/6"), "which has the list of what"),
        (lambda text: text.replace("twill.manifest/13", "twill.manifest/14"), "reads 'twill.manifest/13'"),
        (lambda text: text.replace('"threads": 384', '"threads": "384"'), "threads: '384' where it is a int"),
        (lambda text: text.replace('"threads": 384', '"threads": 256'), "its digest is not that of its content"),
    ],
)
def test_any_other_text_is_refused(change: object, words: str, tmp_path: Path) -> None:
    assert callable(change)
    path = tmp_path / "manifest.json"
    path.write_text(change(KERNEL.text()))
    with pytest.raises(MalformedManifest) as caught:
        read_manifest(path)
    assert words in str(caught.value) and caught.value.file == str(path)


NEW = ("numbers", "cancels", "early")  # in editions 10 and 13


@pytest.mark.parametrize(
    ("edition", "lacks"), [(7, ("split", "unproven", *NEW)), (8, ("unproven", *NEW)), (9, NEW), (12, ("early",))]
)
def test_what_an_older_edition_lacks_is_as_it_was_then(edition: int, lacks: tuple[str, ...]) -> None:
    older = {name: value for name, value in json.loads(KERNEL.text()).items() if name not in lacks}
    body = json.dumps({**older, "schema": f"twill.manifest/{edition}", "digest": ""}, indent=1) + "\n"
    text = body.replace('"digest": ""', f'"digest": "{sha256(body.encode())}"')
    assert replace(parse_manifest(text), digest="") == KERNEL


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="twill emit"):
        read_manifest(tmp_path / "manifest.json")
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(MalformedManifest, match="UTF-8"):
        read_manifest(tmp_path / "manifest.json")


def test_the_manifest_is_plain_json() -> None:
    assert json.loads(KERNEL.text())["maps"][1]["strides"][0]["kind"] == "mul"
