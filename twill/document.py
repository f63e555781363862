"""The base of every document that is stored, sent or cached.

A document is frozen, refuses unknown fields, and has one canonical JSON form: keys in
declaration order, no insignificant white space, so that equal documents are equal bytes.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Document(BaseModel):
    """A frozen, strictly typed record. Subclasses declare fields only."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, serialize_by_alias=True, validate_by_name=True, validate_by_alias=True
    )

    def canonical(self) -> str:
        """The document as canonical JSON text (one line)."""
        return self.model_dump_json()

    def digest(self) -> str:
        """SHA-256 of the canonical JSON, as hexadecimal text."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read canonical (or any equivalent) JSON; raises `pydantic.ValidationError`."""
        return cls.model_validate_json(text)


class SparseDocument(Document):
    """One of which some fields, `sparse`, are no part of the text where they are as by default: documents and digests
    from before them stay as they were."""

    sparse: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _told(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = handler(self)
        usual = {name: type(self).model_fields[name].default for name in self.sparse}
        return {name: value for name, value in found.items() if name not in usual or value != usual[name]}
