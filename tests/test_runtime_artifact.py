"""Promises of a stored kernel's text: it comes back as it was, and nothing that was changed or mixed up does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.manifests import CODE, KERNEL
from twill.exc import MalformedManifest
from twill.runtime.artifact import Refused, artifact, read_artifact, refusal
from twill.runtime.kernel import EmittedKernel


def changed(**fields: Any) -> str:
    """The text of a good kernel with other fields; those that are None are left out."""
    document = json.loads(artifact("k1", KERNEL.text(), CODE)) | fields
    return json.dumps({name: value for name, value in document.items() if value is not None})


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_kernel_comes_back_with_its_code(as_bytes: bool) -> None:
    text = artifact("k1", KERNEL.text(), CODE)
    found = read_artifact(text.encode() if as_bytes else text, "k1")
    assert isinstance(found, EmittedKernel)
    assert (replace(found.manifest, digest=""), found.cubin) == (KERNEL, CODE)


def test_a_refusal_comes_back_with_its_reason() -> None:
    assert read_artifact(refusal("k1", "gemm.py:7: a scan"), "k1") == Refused("gemm.py:7: a scan")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"), ("{", "not JSON"), ("[" * 100_000, "not JSON"), (b"\xff", "not JSON"),
        ("[]", "of another kind"), ("null", "of another kind"), (changed(schema="twill.artifact/2"), "of another kind"),
        (changed(key="k2"), "that of key k2"), (refusal("k2", "why"), "that of key k2"),
        (changed(cubin=None), "not whole"), (changed(manifest=None), "not whole"), (changed(cubin="a"), "not whole"),
        (changed(cubin="Y29kZQ=="), "put together of two"), (changed(cubin=7), "not whole"),
    ],
)  # fmt: skip
def test_what_is_no_kernel_of_that_key_is_refused(text: str | bytes, words: str) -> None:
    with pytest.raises(MalformedManifest, match=words):
        read_artifact(text, "k1")


def test_a_manifest_that_was_changed_is_refused() -> None:
    manifest = KERNEL.text().replace('"threads": 384', '"threads": 128')
    with pytest.raises(MalformedManifest, match="digest"):
        read_artifact(changed(manifest=manifest), "k1")
