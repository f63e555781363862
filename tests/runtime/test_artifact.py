"""Promises of a stored kernel: it comes back as it was, and nothing that was changed or mixed up does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.manifests import CODE, KERNEL
from twill.exc import MalformedManifest
from twill.manifest.document import sha256
from twill.runtime.artifact import RefusedVariant, artifact, from_text, read_artifact, refusal, to_text
from twill.runtime.kernel import EmittedKernel


def changed(code: bytes = CODE, **fields: Any) -> bytes:
    """A good kernel with another head; fields that are None are left out."""
    head = json.loads(artifact("k1", KERNEL.text(), b"")) | fields
    return json.dumps({name: value for name, value in head.items() if value is not None}).encode() + b"\n" + code


@pytest.mark.parametrize("code", [b"", CODE, b"\n\x00\xff\n{"])
def test_a_kernel_comes_back_with_its_code(code: bytes) -> None:
    kernel = replace(KERNEL, cubin=sha256(code))
    found = read_artifact(from_text(to_text(artifact("k1", kernel.text(), code))), "k1")
    assert isinstance(found, EmittedKernel)
    assert (replace(found.manifest, digest=""), found.cubin) == (kernel, code)


def test_a_refusal_comes_back_with_its_reason() -> None:
    assert read_artifact(refusal("k1", "gemm.py:7:\na scan"), "k1") == RefusedVariant("gemm.py:7:\na scan")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"), (b"{", "not JSON"), (b"[" * 100_000, "not JSON"), (b"\xff", "not JSON"),
        (CODE, "not JSON"), (b"[]", "of another kind"), (b"null\n", "of another kind"),
        (changed(schema="twill.artifact/1"), "of another kind"),
        (changed(key="k2"), "that of key k2"), (changed(key=None), "that of key None"),
        (refusal("k2", "why"), "that of key k2"), (changed(manifest=None), "not whole"),
        (changed(manifest={}), "not whole"), (changed(CODE[:-1]), "put together of two"),
        (changed(CODE + b"\n"), "put together of two"), (artifact("k1", KERNEL.text(), CODE)[:500], "not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_kernel_of_that_key_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(MalformedManifest, match=words):
        read_artifact(data, "k1")


def test_a_manifest_that_was_changed_is_refused() -> None:
    manifest = KERNEL.text().replace('"threads": 384', '"threads": 128')
    with pytest.raises(MalformedManifest, match="digest"):
        read_artifact(changed(manifest=manifest), "k1")


@pytest.mark.parametrize("text", ["a", "{", "é", "YQ=\n="])
def test_what_is_no_text_of_a_kernel_is_refused(text: str) -> None:
    with pytest.raises(MalformedManifest, match="not whole"):
        from_text(text)
