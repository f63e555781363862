"""What the pages say of the code: every file that they name is there, and no file has outgrown one idea."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|cuh))`|\b((?:docs|benchmarks|machines)/[\w/-]+\.md)")
MOST_LINES = 400


def files() -> tuple[str, ...]:
    """Of the repository, as it is or is about to be committed."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(found.stdout.split())


def test_every_file_that_a_page_names_is_there() -> None:
    ends = {"/".join(file.split("/")[first:]) for file in files() for first in range(file.count("/") + 1)}
    missing = []
    for page in (file for file in files() if file.endswith(".md") and not file.startswith("benchmarks/results/")):
        if page == "CHANGELOG.md":  # says what was
            continue
        for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
            named = (next(filter(None, found)) for found in NAMED.findall(line))
            missing += [f"{page}:{number}: {one}" for one in named if one not in ends]
    assert missing == []


def test_no_file_has_more_than_400_lines() -> None:
    long = {
        file: lines
        for file in files()
        if file.startswith(("twill/", "server/")) and file.endswith(".py")
        for lines in [len((ROOT / file).read_text(encoding="utf-8").splitlines())]
        if lines > MOST_LINES
    }
    assert long == {}
