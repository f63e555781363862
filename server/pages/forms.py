"""What a browser's form sends, read within the same limits as everything else."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

from fastapi import Request
from pydantic_core import from_json
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from ..admission import InputLimits, read_body
from ..refusals import RefusedRequest

MULTIPART = "multipart/form-data"
ENCODED = "application/x-www-form-urlencoded"
MOST_FIELDS = 20
NUMBERS: dict[str, type[int] | type[float]] = {
    "budget": float,
    "normalize": int,
    "blocks": int,
}  # options of a submission, by their form's names


def refuse_other_sites(request: Request) -> None:
    """Raise Refused if another site's page sends the form with this browser's cookie."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    ours = site in ("same-origin", "none") if site is not None else True
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        ours = False
    if not ours:
        raise RefusedRequest(403, "Forbidden", "the form was sent from another site", "open this service's own page")


async def read_form(request: Request, limits: InputLimits) -> FormData:
    """The fields of a form; raises Refused."""
    body = await read_body(request.stream(), request.headers.get("content-length"), limits)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == MULTIPART:
            size = limits.body_bytes
            parser = MultiPartParser(
                request.headers, once(body), max_files=1, max_fields=MOST_FIELDS, max_part_size=size
            )
            return await parser.parse()
        if kind == ENCODED:
            return await FormParser(request.headers, once(body)).parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise RefusedRequest(400, "BadForm", f"the form cannot be read: {error}") from None
    raise RefusedRequest(415, "BadForm", f"a form is sent as {MULTIPART}")


async def once(body: bytes) -> AsyncGenerator[bytes, None]:
    """The body as a stream."""
    yield body


async def submission_of(form: Mapping[str, UploadFile | str]) -> bytes:
    """The JSON body that says what the form says; raises Refused."""
    upload = form.get("graph")
    if not isinstance(upload, UploadFile):
        raise RefusedRequest(
            422, "BadSubmission", "no file was chosen", "the file that `twill extract FILE --json` writes"
        )
    graph = await upload.read()
    try:
        from_json(graph)  # so that what stands around it below cannot become part of it
    except ValueError as error:
        hint = "the file that `twill extract FILE --json` writes"
        raise RefusedRequest(400, "NotJson", f"the file is not JSON: {error}", hint) from None
    options: dict[str, object] = {"strategy": words(form, "strategy") or "joint"}
    for name, kind in NUMBERS.items():
        text = words(form, name)
        if text:
            options[name] = number(name, text, kind)
    rest = json.dumps({"machine": words(form, "machine"), "options": options})
    return b'{"graph":' + graph + b"," + rest[1:].encode()


def number(name: str, text: str, kind: type[int] | type[float]) -> int | float:
    """A field's number; raises Refused."""
    try:
        return kind(text)
    except ValueError:
        raise RefusedRequest(
            422, "BadSubmission", f"{name}: {text!r} is not a number", "a number, or nothing"
        ) from None


def words(form: Mapping[str, UploadFile | str], name: str) -> str:
    """A field's text."""
    found = form.get(name)
    return found.strip() if isinstance(found, str) else ""
