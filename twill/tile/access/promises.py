"""What a signature could promise so that a tile goes by TMA, and does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from twill.tile.program import Op, TileProgram

MISSING = re.compile(
    r"is not known to be (aligned to|a multiple of) \d+ bytes"
)  # as twill.tile.access.transport says it


def missing_promises(program: TileProgram) -> Iterator[tuple[int, str]]:
    """(line, what is missing), once each, for tiles that threads copy because nothing says that an address or a stride
    is a multiple of 16 bytes."""
    for op, reason in unpromised(program):
        assert op.access is not None
        yield op.line, f"a tile of {op.access.base} does not go by TMA: {reason}"


def unpromised(program: TileProgram) -> Iterator[tuple[Op, str]]:
    """The same as accesses: the first operation of each line and tensor, and what is not known. A line in a loop that
    was written out has many."""
    listed: set[tuple[str, str | int]] = set()
    for op in program.ops():
        access = op.access
        reason = "" if access is None else access.transport_reason.split(";")[0]
        if access is None or not MISSING.search(reason):
            continue
        told: set[tuple[str, str | int]] = {(access.base, reason), (access.base, op.line)}
        if not told & listed:
            yield op, reason
        listed |= told
