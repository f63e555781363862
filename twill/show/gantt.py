"""The Gantt picture of the steady state: one line a unit and one a warp group, modulo I.

    tensor     |qk.0 i--------|acc.0 i-1-----|qk.1 i--------|acc.1 i-1-----   100%
    consumer 0 ...|m_ij.0|p.0 i------------------|acc_scaled.0...............    56%

A bar begins with a mark, then the op's name, row block and iteration (`i-1`: of the iteration
before), as much of it as fits; a bar without a mark continues from the right edge. Short bars
carry a letter of the legend. A cell shows the op that takes most of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_letters, digits

from rich.style import Style
from rich.text import Text

from twill.show.palette import colour, colours
from twill.show.view import LoopView, ShownOp, TimelineRow

LETTERS = ascii_letters + digits
LEAST_CELLS = 20


@dataclass(frozen=True)
class Glyphs:
    """Characters of the picture."""

    begin: str
    fill: str
    idle: str


UNICODE = Glyphs(begin="▌", fill="━", idle="·")
ASCII = Glyphs(begin="|", fill="-", idle=".")


@dataclass(frozen=True)
class Span:
    """Cells [first, end) of a line that one bar has; `begins` unless it continues from the right edge."""

    item: ShownOp | None
    first: int
    end: int
    begins: bool


def gantt(view: LoopView, width: int, *, glyphs: Glyphs = UNICODE) -> list[Text]:
    """The picture in lines of at most `width` columns, legend included."""
    return list(_Picture(view, width, glyphs).lines())


class _Picture:
    def __init__(self, view: LoopView, width: int, glyphs: Glyphs) -> None:
        self.view, self.glyphs, self.width = view, glyphs, width
        rows = (*view.units, *(row for _, row in view.groups))
        self.margin = min(max((len(row.name) for row in rows), default=0), 16) + 1
        self.cells = max(LEAST_CELLS, min(width - self.margin - len(" 100%"), view.ii))
        self.colours = colours(view.items)
        self.letters = {item.op.id: LETTERS[n % len(LETTERS)] for n, item in enumerate(view.items)}
        self.lettered: dict[int, ShownOp] = {}
        self.drawn: set[int] = set()

    def lines(self) -> Iterator[Text]:
        """Scale, units, warp groups, legend."""
        yield self.scale()
        yield from (self.line(row) for row in self.view.units)
        yield Text()
        yield from (self.line(row) for _, row in self.view.groups)
        yield from self.legend()

    def scale(self) -> Text:
        """Cycle numbers above the cells where they are."""
        parts = 4 if self.cells >= 40 else 2
        marks = [" "] * (self.cells + len(str(self.view.ii)))
        for part in range(parts + 1):
            number = str(self.view.ii * part // parts)
            at = min(self.cells * part // parts, self.cells - len(number))
            marks[at : at + len(number)] = number
        return Text(" " * self.margin + "".join(marks).rstrip(), style="dim")

    def line(self, row: TimelineRow) -> Text:
        """One row."""
        line = Text(f"{row.name[: self.margin - 1]:<{self.margin}}")
        for span in self.spans(row):
            line.append_text(self.bar(span))
        line.append(f"{100 * row.busy / self.view.ii:4.0f}%", style="dim")
        return line

    def spans(self, row: TimelineRow) -> Iterator[Span]:
        """Runs of cells of one bar, or of none."""
        owners = self.owners(row)
        first = 0
        for cell in range(1, self.cells + 1):
            if cell < self.cells and owners[cell] == owners[first]:
                continue
            item, starts = owners[first]
            yield Span(item, first, cell, begins=starts)
            first = cell

    def owners(self, row: TimelineRow) -> list[tuple[ShownOp | None, bool]]:
        """For each cell the item that takes most of it, and whether it began in [0, I) rather than before."""
        taken: list[tuple[float, ShownOp | None, bool]] = [(0.0, None, False)] * self.cells
        scale = self.cells / self.view.ii
        for bar in row.bars:
            for start, end, begins in bar.wrapped(self.view.ii):
                left, right = start * scale, end * scale
                for cell in range(int(left), min(self.cells, int(right) + 1)):
                    share = min(right, cell + 1) - max(left, cell)
                    # Half a cell of work outweighs idleness, so that nothing looks busier than it is.
                    if share > max(taken[cell][0], 0.5 - 1e-9 if taken[cell][1] is None else 0.0):
                        taken[cell] = (share, bar.item, begins)
        return [(item, begins) for _, item, begins in taken]

    def bar(self, span: Span) -> Text:
        """The cells of a span."""
        length = span.end - span.first
        if span.item is None:
            return Text(self.glyphs.idle * length, style="dim")
        self.drawn.add(span.item.op.id)
        style = Style(color="black", bgcolor=None) + Style.parse(f"on {colour(span.item, self.colours)}")
        return Text(self.words(span, length), style=style)

    def words(self, span: Span, length: int) -> str:
        """Mark, as much of the name as fits, and filling."""
        item = span.item
        assert item is not None
        mark = self.glyphs.begin if span.begins and length > 1 else ""
        # What comes in from the right edge began one initiation interval earlier.
        full = f"{item.label} {iteration(item.op.stage + (not span.begins))}"
        name = next((name for name in (full, item.label) if len(mark) + len(name) <= length), "")
        if not name:
            self.lettered[item.op.id] = item
            name = self.letters[item.op.id]
        gap = " " if name != self.letters[item.op.id] and len(mark) + len(name) + 1 < length else ""
        return (mark + name + gap).ljust(length, self.glyphs.fill)[:length]

    def legend(self) -> Iterator[Text]:
        """Letters that were used, and ops too short for the scale."""
        named = [f"{self.letters[i.op.id]}={i.label}" for i in self.view.items if i.op.id in self.lettered]
        hidden = [f"{i.label} ({i.op.hold})" for i in self.view.items if i.op.id not in self.drawn]
        per_cell = self.view.ii / self.cells
        for head, words in (("", named), (f"not drawn, under half a cell of {per_cell:.0f} cycles: ", hidden)):
            if words:
                text = Text(head, style="dim")
                text.append(", ".join(words))
                yield from wrap(text, self.width)


def wrap(text: Text, width: int) -> list[Text]:
    """Lines of at most `width` columns, broken at blanks."""
    lines: list[Text] = []
    line = Text()
    for part in text.split(" "):
        if line and len(line) + 1 + len(part) > width:
            lines.append(line)
            line = Text()
        if line:
            line.append(" ")
        line.append_text(part)
    return [*lines, line]


def iteration(stage: int) -> str:
    """Which iteration an op of this stage works on while iteration i begins."""
    return f"i-{stage}" if stage else "i"
