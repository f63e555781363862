"""Which member of a family was found to be the fastest, as the store keeps it: by kind of GPU and sizes of a launch."""

from __future__ import annotations

import json
from collections.abc import Mapping

Chosen = dict[str, dict[str, str]]
"""By name of a GPU, then by a launch's sizes as text: the name of a member."""


def read_chosen(data: bytes | None, schema: str) -> Chosen:
    """What a stored document says; nothing if there is none, or it is of another schema. ValueError: it is damaged."""
    try:
        document = json.loads(data) if data is not None else {}
        found = document["gpus"] if document.get("schema") == schema else {}
        return {str(gpu): {str(key): str(name) for key, name in one.items()} for gpu, one in found.items()}
    except (KeyError, AttributeError) as error:
        raise ValueError(f"no document of choices: {error}") from None


def chosen_document(chosen: Mapping[str, Mapping[str, str]], schema: str) -> bytes:
    """The document."""
    return json.dumps({"schema": schema, "gpus": chosen}).encode()
