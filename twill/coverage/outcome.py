"""What became of one kernel, and the ranking of many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict

from twill.exc import TwillError

Stage = Literal["import", "triton", "extraction", "solve", "emission", "execution", "extracted", "solved", "emitted"]
"""Where it ended: refused at one of the first six, or as far as was asked for."""
REACHED = ("extracted", "solved", "emitted")
REFUSED, BUG = 2, 5  # exit codes


class AttemptOutcome(BaseModel):
    """One line of the results. key: what it is an answer to. seconds: by stage. code: the exit code of the command that
    would have said so. spilled: bytes that a thread of what was emitted stores of spilled registers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    file: str
    kernel: str
    line: int
    spec: str
    stage: Stage
    code: int = 0
    message: str = ""
    reason: str = ""
    seconds: dict[str, float] = {}
    guessed: tuple[str, ...] = ()
    spilled: int = 0

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.file}::{self.kernel}" if self.kernel else self.file


def reason_of(error: BaseException) -> str:
    """What kind of refusal it is: its message without names, numbers and paths; a missing package is named."""
    if not isinstance(error, TwillError):
        return f"internal error: {type(error).__name__}"
    first = error.message.split("\n")[0]
    if missing := re.search(r"No module named '[^']*'", first):
        return missing.group()
    text = re.sub(r"`(?!(?:if|while|return|for)`)[^`]*`|\"[^\"]*\"|'[^']*'", "...", first)
    text = re.sub(r"\(/[^)]*\)|\([^()]*,[^()]*,[^()]*\)", "(...)", text)
    text = re.sub(r": [^,:]*(?:,[^,:]*){3,}$", "", text)  # a list of what it is made of
    text = re.sub(r"(?<!tl\.)\b(?:[A-Za-z]+\d\w*|\w*_\w*)\b|(?<!\w)\d[\d,.]*", "#", text)
    return " ".join(re.sub(r"# x #( x #)*", "#", text).split())


def ranked(outcomes: Iterable[AttemptOutcome], stage: Stage) -> Iterator[tuple[str, list[AttemptOutcome]]]:
    """The reasons of refusals at a stage, the most frequent first, each with its kernels."""
    reasons: dict[str, list[AttemptOutcome]] = {}
    for one in outcomes:
        if one.stage == stage:
            reasons.setdefault(one.reason, []).append(one)
    yield from sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0]))


def counted(outcomes: Iterable[AttemptOutcome]) -> dict[str, int]:
    """How many ended at each stage."""
    return dict(Counter(one.stage for one in outcomes))


def compiled(outcomes: Iterable[AttemptOutcome]) -> list[AttemptOutcome]:
    """Those that Triton compiles: of which shares are taken."""
    return [one for one in outcomes if one.stage not in ("import", "triton")]
