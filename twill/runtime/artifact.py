"""An emitted kernel as it is stored: a line of JSON with its key and its manifest, and behind it the cubin as it is.

The store proves that the bytes are what was put there; this proves that manifest and code belong together and to the
key. A variant that cannot be emitted is kept as well, with the reason, so that it is tried once.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass

from twill.exc import MalformedManifest
from twill.manifest.document import AGAIN, parse_manifest
from twill.manifest.family import MemberCost
from twill.manifest.prediction import Prediction
from twill.manifest.record import Misfit, from_json, to_json
from twill.runtime.kernel import EmittedKernel

SCHEMA = "twill.artifact/2"
NAME = "launch"  # of the artifact in the store


@dataclass(frozen=True)
class RefusedVariant:
    """Why a variant cannot be emitted."""

    reason: str


def artifact(
    key: str, manifest: str, cubin: bytes, predicted: Prediction | None = None, cost: MemberCost | None = None
) -> bytes:
    """An emitted kernel. cost: of its program instances, where it may be one of a family."""
    more: dict[str, object] = {} if predicted is None else {"predicted": asdict(predicted)}
    more |= {} if cost is None else {"cost": to_json(cost)}
    return json.dumps({"schema": SCHEMA, "key": key, "manifest": manifest, **more}).encode() + b"\n" + cubin


def refusal(key: str, reason: str) -> bytes:
    """A variant that cannot be emitted."""
    return json.dumps({"schema": SCHEMA, "key": key, "refused": reason}).encode() + b"\n"


def read_artifact(data: bytes, key: str) -> EmittedKernel | RefusedVariant:
    """The kernel that was stored under `key`. Errors: MalformedManifest."""
    head, _, cubin = data.partition(b"\n")
    try:
        document = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _malformed("of another kind or version")
    if document.get("key") != key:
        raise _malformed(f"that of key {str(document.get('key'))[:12]}")
    if "refused" in document:
        return RefusedVariant(str(document["refused"]))
    text = document.get("manifest")
    if not isinstance(text, str):
        raise _malformed("not whole")
    manifest = parse_manifest(text)
    if not manifest.belongs_to(cubin):
        raise _malformed("put together of two")
    try:
        predicted = from_json(Prediction, document["predicted"]) if "predicted" in document else None
        cost = from_json(MemberCost, document["cost"]) if "cost" in document else None
    except Misfit as misfit:
        raise _malformed(str(misfit)) from None
    return EmittedKernel(manifest, cubin, predicted, cost)


def to_text(data: bytes) -> str:
    """As it is sent in a document."""
    return base64.b64encode(data).decode()


def from_text(text: str) -> bytes:
    """What `to_text` was given. Errors: MalformedManifest."""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise _malformed(f"not whole: {error}") from None


def _malformed(what: str) -> MalformedManifest:
    return MalformedManifest(f"the stored kernel is {what}", hint=AGAIN)
