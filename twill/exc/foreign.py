"""Text that somebody else wrote (a service, an archive, a kernel's names), made fit to be printed.

On a terminal a control character can move the cursor or rewrite what was said; in the log of a continuous integration a
line that begins with `::`, or has `##[` in it, is a command (docs.github.com, "Workflow commands for GitHub Actions").
"""

from __future__ import annotations

import unicodedata

MOST = 2000  # characters of one message
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode that are not seen: controls, marks of direction, surrogates, unassigned, other line ends."""
NO_COMMAND = "\\"  # in front of what a log would take for a command


def one_line(text: str, most: int = MOST) -> str:
    """Foreign text as part of one line: every run of white space a space, what is not seen by its number."""
    short = text if len(text) <= most else f"{text[:most]} ... ({len(text)} characters)"
    return harmless("".join(map(seen, " ".join(short.split()))))


def printable(text: str) -> str:
    """Text with foreign text in it, of several lines: its line ends stay, and no line is a command."""
    return "\n".join(harmless("".join(map(seen, line))) for line in text.split("\n"))


def seen(character: str) -> str:
    """The character, or its number if it would not be seen."""
    if character == "\t" or unicodedata.category(character) not in HIDDEN:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def harmless(line: str) -> str:
    """A line that no log takes for a command."""
    line = line.replace("##[", f"##{NO_COMMAND}[")
    body = line.lstrip()
    return f"{line[: len(line) - len(body)]}{NO_COMMAND}{body}" if body.startswith("::") else line
