"""Promises of twill.show.words and twill.show.markup: numbers and names as people read them."""

from __future__ import annotations

import pytest

from twill.graph.costed import Cooperation
from twill.show.markup import attribute, element, text
from twill.show.words import cooperation_words, label, size


@pytest.mark.parametrize(
    ("dim", "split", "fuse", "words"),
    [
        ("", 1, 1, "one row block"),
        ("m", 2, 1, "2 row blocks along m"),
        ("m", 2, 2, "4 row blocks along m (2 instances fused)"),
        ("m", 1, 1, "one row block"),
    ],
)
def test_cooperations(dim: str, split: int, fuse: int, words: str) -> None:
    assert cooperation_words(Cooperation(dim=dim, split=split, fuse=fuse)) == words


def test_operand_a_is_told_when_it_goes_through_memory() -> None:
    shared = Cooperation(dim="m", split=2, fuse=1, operand_a="shared")
    assert cooperation_words(shared) == "2 row blocks along m, operand A in shared memory"


def test_sizes_and_labels() -> None:
    assert [size(n) for n in (0, 96, 1024, 1536, 32768)] == ["0 B", "96 B", "1 KiB", "1.5 KiB", "32 KiB"]
    assert label("k", -1) == "k" and label("qk", 1) == "qk.1"


def test_markup_is_escaped() -> None:
    assert text('<a & "b">') == '&lt;a &amp; "b"&gt;'
    assert element("i", "", {"title": '"<'}) == '<i title="&quot;&lt;"></i>'
    assert [attribute(x) for x in (1.0, 2.5, 1 / 3, 0.0, 7)] == ["1", "2.5", "0.33", "0", "7"]
