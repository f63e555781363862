"""An emitted kernel as one stored text: JSON with its key, its manifest and its code.

The store proves that the text is what was put there; this proves that manifest and code belong together and to the key.
A variant that cannot be emitted is kept as well, with the reason, so that it is tried once.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from twill.exc import MalformedManifest
from twill.runtime.kernel import EmittedKernel
from twill.runtime.manifest import AGAIN, parse_manifest

SCHEMA = "twill.artifact/1"
NAME = "launch"  # of the artifact in the store


@dataclass(frozen=True)
class Refused:
    """Why a variant cannot be emitted."""

    reason: str


def artifact(key: str, manifest: str, cubin: bytes) -> str:
    """The text of an emitted kernel."""
    document = {"schema": SCHEMA, "key": key, "manifest": manifest, "cubin": base64.b64encode(cubin).decode()}
    return json.dumps(document)


def refusal(key: str, reason: str) -> str:
    """The text of a variant that cannot be emitted."""
    return json.dumps({"schema": SCHEMA, "key": key, "refused": reason})


def read_artifact(text: str | bytes, key: str) -> EmittedKernel | Refused:
    """The kernel of a text that was stored under `key`. Errors: MalformedManifest."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _malformed("of another kind or version")
    if document.get("key") != key:
        raise _malformed(f"that of key {str(document.get('key'))[:12]}")
    if "refused" in document:
        return Refused(str(document["refused"]))
    try:
        cubin = base64.b64decode(document["cubin"], validate=True)
        manifest = parse_manifest(document["manifest"])
    except (KeyError, TypeError, binascii.Error) as error:
        raise _malformed(f"not whole: {error}") from None
    if not manifest.belongs_to(cubin):
        raise _malformed("put together of two")
    return EmittedKernel(manifest, cubin)


def _malformed(what: str) -> MalformedManifest:
    return MalformedManifest(f"the stored kernel is {what}", hint=AGAIN)
