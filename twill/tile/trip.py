"""The trip count of a loop."""

from __future__ import annotations

from twill.document import Document


class Trip(Document):
    """A loop's trip count: its text in kernel terms, the constant if known."""

    text: str
    constant: int | None
    varies_with_grid: bool
