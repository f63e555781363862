"""The page of operations says what was recorded."""

from __future__ import annotations

from tests.generated.operations import PAGE, page


def test_the_page_of_operations_is_what_was_recorded() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.generated.operations"
