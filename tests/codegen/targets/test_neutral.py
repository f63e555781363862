"""Promise of the rooms of `twill`: what only one target has is said in that target's folder and in the printer of CUDA.

The files named here still have its numbers. The list may only shrink: a file that no longer has them leaves it.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

TWILL = ROOT / "twill"
TARGETS = (
    "codegen/targets/hopper/",
    "codegen/targets/blackwell/",
    "codegen/print/cuda/",
    "codegen/print/gluon/blackwell.py",
    "codegen/print/gluon/hopper.py",
    "codegen/verify/ptx/",
    "ptx/",
)
WORDS = re.compile(r"wgmma|setmaxnreg|sm_90|\b64 rows|\b128 threads", re.IGNORECASE)
NUMBERS = frozenset({"64", "128"})  # rows of its products, threads of its warp groups; bytes of its widest swizzle

NUMBERS_TO_MOVE = frozenset(
    {
        "codegen/lower/memory.py",
        "codegen/verify/abstract/coverage.py",
        "codegen/verify/abstract/liveness.py",
        "codegen/verify/abstract/mma_operands.py",
        "codegen/verify/abstract/results.py",
        "codegen/verify/abstract/static.py",
        "codegen/warp/layout.py",
    }
)


def sources(under: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of each source that no target owns."""
    for path in sorted((TWILL / under).rglob("*.py")):
        name = path.relative_to(TWILL).as_posix()
        if not name.startswith((*TARGETS, "machines/", "server/")):
            yield name, path.read_text(encoding="utf-8")


def says(text: str) -> bool:
    """Whether a text names what only one target has."""
    return WORDS.search(text) is not None


def counts(text: str) -> bool:
    """Whether a text has one of its numbers as a literal; in comments and strings they do no harm."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return any(token.type == tokenize.NUMBER and token.string in NUMBERS for token in tokens)


def test_no_other_file_names_what_only_one_target_has() -> None:
    assert not {name for name, text in sources() if says(text)}


def test_no_other_file_of_the_code_generator_has_its_numbers() -> None:
    assert {name for name, text in sources("codegen") if counts(text)} == NUMBERS_TO_MOVE


@pytest.mark.parametrize("text", ["wgmma", "the 128 threads of a group", "SM_90a", "setmaxnreg.inc", "64 rows"])
def test_words_of_a_target_are_found(text: str) -> None:
    assert says(text)


def test_numbers_are_found_in_code_and_not_in_words() -> None:
    assert counts("rows % 64\n") and counts("f(128)\n")
    assert not counts('"""64 rows"""\nx = 640  # of 128\n')


def test_lowering_knows_no_word_of_a_target() -> None:
    """Of `codegen/lower`, which a second target builds on, nothing may come back."""
    assert {Path(name).name for name in NUMBERS_TO_MOVE if name.startswith("codegen/lower/")} == {"memory.py"}
