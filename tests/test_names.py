"""One word for one thing: what the names of the code base promise (docs/glossary.md)."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("twill", "server")
# Words that once stood for cross-loop reuse, cross-tile reuse, operands in registers and memory use.
RESERVED = {"kept", "staying", "residency", "residence"}


def sources() -> dict[Path, str]:
    return {path: path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}


def test_no_public_class_name_stands_for_two_things() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in sources().items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_of_the_words_for_what_remains_somewhere_identifiers_use_one() -> None:
    found = []
    some = re.compile(rf"\b({'|'.join(RESERVED)})\b")
    for path, text in sources().items():
        if not some.search(text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string) and token.string in RESERVED:
                found.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
    assert found == []
