"""What a schedule claims of one loop: questions whose answer must be no."""

from __future__ import annotations

from collections.abc import Iterator

from twill.certify.question import Question
from twill.schedule.document import LoopSchedule


def smaller(loop: LoopSchedule) -> range:
    """The initiation intervals that the schedule claims to be impossible."""
    return range(1, loop.certificate.lower_bound)


def behind(loop: LoopSchedule, granule: int) -> Iterator[tuple[str, Question]]:
    """The objectives behind I that are claimed to be minimal, given those before them, and what a better one asks."""
    said = loop.objective
    if "copies" in said.proven and said.copies > 1:
        yield "copies", Question(ii=said.ii, ii_to=said.ii, length=(said.copies - 1) * said.ii)
    if "crossing" in said.proven and said.crossing > 0:
        most = said.copies * said.ii
        yield "crossing", Question(ii=said.ii, ii_to=said.ii, length=most, crossing=said.crossing - 1)
    if "length" in said.proven:
        yield "length", Question(ii=said.ii, ii_to=said.ii, length=said.length - 1, crossing=said.crossing)
    if "registers" in said.proven:
        yield (
            "registers",
            Question(
                ii=said.ii,
                ii_to=said.ii,
                length=said.length,
                crossing=said.crossing,
                registers=said.registers - granule,
            ),
        )
