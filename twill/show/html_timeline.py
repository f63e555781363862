"""The page's timeline: several iterations of a loop on every unit and in every warp group."""

from __future__ import annotations

from collections.abc import Iterator

from twill.show.markup import Attribute, element, line, rect, scrolling, svg, text, words_at
from twill.show.view import Bar, LoopView, TimelineRow
from twill.show.words import cycles

MOST_ITERATIONS = 10
PIXELS_PER_II = 340
TOP, BAR, GAP, FLIGHT = 44, 26, 8, 7  # pixels
LETTER = 6.6  # width of a letter of a bar's label
HUES = 6  # colours of iterations, in page.css


def iterations(view: LoopView) -> int:
    """How many iterations are drawn: those in flight together in the steady state, and one more."""
    return min(view.loop.copies + 1, MOST_ITERATIONS)


def timeline(view: LoopView) -> str:
    """Row names beside a drawing that scrolls."""
    return TimelineDrawing(view).figure()


class TimelineDrawing:
    """The geometry and the parts of one loop's drawing."""

    def __init__(self, view: LoopView) -> None:
        self.view = view
        self.count = iterations(view)
        self.focus = min(view.loop.copies, self.count - 1)  # iteration whose bars the tab key visits
        self.scale = PIXELS_PER_II / view.ii
        self.end = view.loop.length + (self.count - 1) * view.ii
        self.width = round(self.end * self.scale) + 2
        self.heights = [BAR + GAP] * len(view.units) + [BAR + FLIGHT + GAP] * len(view.groups)
        self.height = TOP + sum(self.heights) + 22

    def figure(self) -> str:
        """The whole figure."""
        name = f"Timeline of {self.count} iterations, {self.view.title}"
        drawing = svg(self.width, self.height, self.parts(), name, "timeline")
        names = element("div", "".join(self.names()), {"class": "names"})
        return element("div", names + scrolling(drawing), {"class": "figure"})

    def names(self) -> Iterator[str]:
        """Names of the rows, with how busy one iteration keeps them."""
        yield element("div", "", {"style": f"height:{TOP}px"})
        rows = [*self.view.units, *(row for _, row in self.view.groups)]
        for row, height in zip(rows, self.heights, strict=True):
            share = element("small", f"{100 * row.busy / self.view.ii:.0f}%")
            name = element("span", text(row.name))
            yield element("div", name + share, {"style": f"height:{height}px", "class": "name"})

    def parts(self) -> Iterator[str]:
        """Background, then units, then warp groups, then the place of arrows."""
        yield from self.background()
        y = TOP
        for row, height in zip(self.view.units, self.heights, strict=False):
            yield from self.bars(row, y, "u")
            y += height
        yield line(0, y - GAP / 2, self.width, y - GAP / 2, "rule")
        for (_, row), height in zip(self.view.groups, self.heights[len(self.view.units) :], strict=True):
            yield from self.flights(row, y)
            yield from self.bars(row, y, "g")
            y += height
        yield element("g", "", {"class": "arrows"})

    def background(self) -> Iterator[str]:
        """The steady state and the beginnings of iterations."""
        ii, last = self.view.ii, self.height - 20
        first = (self.view.loop.copies - 1) * ii * self.scale
        if self.view.loop.copies <= self.count:
            yield rect(first, 0, ii * self.scale, last, {"class": "steady"})
            yield words_at(first + 8, 15, f"steady state: every {cycles(ii)} cycles", "steady-name")
        for k in range(self.end // ii + 1):
            x = k * ii * self.scale
            yield line(x, 22, x, last, "grid")
            yield words_at(x + 3, self.height - 6, cycles(k * ii), "tick")
        for k in range(self.count):
            x = k * ii * self.scale
            yield rect(x, 26, 10, 10, {"class": f"bar i{k % HUES}"})
            yield words_at(x + 15, 35, f"iteration {k} begins", "tick")

    def bars(self, row: TimelineRow, y: float, kind: str) -> Iterator[str]:
        """One bar an op and iteration."""
        for k in range(self.count):
            for bar in row.bars:
                yield self.bar(bar, k, y, kind)

    def bar(self, bar: Bar, k: int, y: float, kind: str) -> str:
        """A rectangle with the op's label, if it fits; the page's script knows it by its data."""
        op = bar.item.op
        x = (bar.start + k * self.view.ii) * self.scale
        width = max(1.5, (bar.end - bar.start) * self.scale - 0.6)
        shade = f" b{op.block % 2}" if op.block >= 0 else ""
        data: dict[str, Attribute] = {
            "class": f"op{shade}", "data-l": self.view.loop.loop, "data-o": op.id, "data-k": k, "data-r": kind,
        }  # fmt: skip
        if kind == "g" and k == self.focus:
            data |= {"tabindex": 0, "role": "img", "aria-label": self.spoken(bar)}
        content = rect(x, y, width, BAR, {"class": f"bar i{k % HUES}", "rx": 2})
        label = bar.item.label
        if width > LETTER * len(label) + 8:
            content += words_at(x + 5, y + BAR / 2 + 4, label, "label")
        return element("g", content, data)

    def spoken(self, bar: Bar) -> str:
        """The op in a sentence."""
        op = bar.item.op
        return (
            f"{bar.item.label}, kernel line {op.line}, {op.op}, on {op.unit}, starts at cycle {op.start}, "
            f"stage {op.stage}, row {op.row}, {op.cycles} cycles until its result"
        )

    def flights(self, row: TimelineRow, y: float) -> Iterator[str]:
        """Under the bars of a warp group, what it issued and does not wait for."""
        for k in range(self.count):
            for bar in row.bars:
                item = bar.item
                if item.instruction.asynchronous and item.op.cycles > item.op.hold:
                    x = (bar.end + k * self.view.ii) * self.scale
                    width = (item.op.cycles - item.op.hold) * self.scale
                    yield rect(x, y + BAR + 1.5, width, 4, {"class": f"flight i{k % HUES}", "rx": 2})
