"""The page's pictures of what is alive over one initiation interval: registers, rings of buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twill.schedule.document import ScheduledBuffer, ScheduledWarpGroup
from twill.show.live import Layer, RingUse, Steps, level_at, register_layers, rings, total
from twill.show.markup import Attribute, element, line, rect, scrolling, svg, text, words_at
from twill.show.view import LoopView
from twill.show.words import cycles, label, size

WIDTH, HEIGHT, RING = 1040, 170, 34  # pixels
SMALL = 4  # registers below which a value is drawn with others like it
HUES = 10  # colours of values, in page.css
LETTER = 6.6


def registers(view: LoopView) -> str:
    """One picture for every warp group that holds tile values."""
    hues = hue_of(view)
    figures = []
    for group, _ in view.groups:
        layers = register_layers(view, group)
        if layers:
            figures.append(_Registers(view, group, layers, hues).figure())
    return "".join(figures) or element("p", "No warp group of this loop holds tile values in registers.")


def hue_of(view: LoopView) -> dict[str, int]:
    """Colour of a value by its name without the row block."""
    graph = view.loop.graph
    items = {item.op.id: item for item in view.items}
    names = [name for value in graph.values for name in (value.name, items[value.producer].name)]
    names += [storage.name for storage in graph.storages]
    names += [fixed.name for fixed in graph.invariants]
    return {name: n % HUES for n, name in enumerate(dict.fromkeys(names))}


class _Registers:
    def __init__(
        self, view: LoopView, group: ScheduledWarpGroup, layers: Sequence[Layer], hues: dict[str, int]
    ) -> None:
        self.view, self.group, self.hues = view, group, hues
        big = sorted((layer for layer in layers if layer.peak >= SMALL), key=lambda layer: len(layer.steps))
        small = [layer for layer in layers if layer.peak < SMALL]
        if small:
            big.append(Layer(", ".join(layer.name for layer in small), 0, total(small)))
        self.layers = big
        self.all = total(big)
        self.peak = max(level for _, level in self.all)
        self.top = max(self.group.registers, self.peak) * 1.06

    def figure(self) -> str:
        """Heading and drawing."""
        group = self.group
        title = (
            f"{group.role}: at most {self.peak} of {group.registers} registers a thread hold tile values; "
            f"{group.registers - self.peak} are left for addresses, counters and temporaries"
        )
        drawing = svg(WIDTH, HEIGHT + 22, self.parts(), title, "live")
        caption = element("figcaption", text(title))
        return element("figure", caption + scrolling(drawing))

    def parts(self) -> Iterator[str]:
        """Stacked areas, the budget, the scale."""
        floor: Steps = ((0, 0),)
        for layer in self.layers:
            ceiling = added(floor, layer.steps)
            yield self.area(layer, floor, ceiling)
            floor = ceiling
        y = self.y(self.group.registers)
        yield line(0, y, WIDTH, y, "budget")
        yield words_at(WIDTH - 4, y + 13, f"budget {self.group.registers}", "tick", "end")
        yield from scale(self.view.ii, HEIGHT)

    def area(self, layer: Layer, floor: Steps, ceiling: Steps) -> str:
        """One value's area, with its name where it is widest."""
        rows = sorted({row for row, _ in (*floor, *ceiling)} | {self.view.ii})
        pieces = [
            (first, last, level_at(floor, first), level_at(ceiling, first))
            for first, last in zip(rows, rows[1:], strict=False)
        ]
        hue = self.hues.get(layer.name.split(" ")[0].split(".")[0], HUES - 1) if layer.line else HUES
        shapes = "".join(self.piece(*piece, hue) for piece in pieces)
        words = f"{layer.name}: {layer.peak} registers" + (f", kernel line {layer.line}" if layer.line else "")
        return element("g", element("title", text(words)) + shapes + self.name(layer, pieces))

    def piece(self, first: int, last: int, low: int, high: int, hue: int) -> str:
        """A rectangle of an area."""
        if high == low:
            return ""
        x, y = self.x(first), self.y(high)
        return rect(x, y, self.x(last) - x + 0.4, self.y(low) - y, {"class": f"area v{hue}"})

    def name(self, layer: Layer, pieces: Sequence[tuple[int, int, int, int]]) -> str:
        """The value's name in its largest piece, if it fits."""
        merged = runs(pieces)
        first, last, low, high = max(merged, key=lambda p: ((p[3] > p[2]), p[1] - p[0]))
        fits = self.x(last) - self.x(first) > LETTER * len(layer.name) + 8 and self.y(low) - self.y(high) > 13
        if not fits:
            return ""
        return words_at(self.x(first) + 6, (self.y(low) + self.y(high)) / 2 + 4, layer.name, "label")

    def x(self, cycle: int) -> float:
        return WIDTH * cycle / self.view.ii

    def y(self, level: int) -> float:
        return HEIGHT * (1 - level / self.top)


def runs(pieces: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Neighbouring pieces of one height together."""
    merged: list[tuple[int, int, int, int]] = []
    for first, last, low, high in pieces:
        if merged and merged[-1][2:] == (low, high):
            merged[-1] = (merged[-1][0], last, low, high)
        else:
            merged.append((first, last, low, high))
    return merged


def added(one: Steps, other: Steps) -> Steps:
    """The sum of two levels."""
    rows = sorted({row for row, _ in (*one, *other)})
    return tuple((row, level_at(one, row) + level_at(other, row)) for row in rows)


def scale(ii: int, y: float) -> Iterator[str]:
    """Cycles below a picture."""
    yield line(0, y, WIDTH, y, "rule")
    for part in range(5):
        x = WIDTH * part / 4
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        yield words_at(x, y + 15, cycles(ii * part // 4), "tick", anchor)


def memories(view: LoopView, buffers: Iterable[ScheduledBuffer]) -> str:
    """Every ring: how many of its slots hold data over one initiation interval."""
    found = rings(view, buffers)
    if not found:
        return element("p", "This loop keeps nothing in shared memory.")
    hues = hue_of(view)
    spaces = dict.fromkeys(ring.buffer.space for ring in found)
    return "".join(space_figure(space, [r for r in found if r.buffer.space == space], view, hues) for space in spaces)


def space_figure(space: str, found: Sequence[RingUse], view: LoopView, hues: dict[str, int]) -> str:
    """The rings of one memory."""
    together = sum(ring.buffer.bytes * ring.buffer.depth for ring in found)
    caption = element("figcaption", text(f"{space} memory: {size(together)} in {len(found)} buffers"))
    names = "".join(ring_name(ring) for ring in found)
    height = len(found) * (RING + GAP_BETWEEN) + 20
    title = f"slots in use, {space} memory"
    drawing = svg(WIDTH, height, ring_parts(found, view, hues, height - 20), title, "live")
    body = element("div", names, {"class": "names"}) + scrolling(drawing)
    return element("figure", caption + element("div", body, {"class": "figure"}))


GAP_BETWEEN = 8


def ring_name(ring: RingUse) -> str:
    """Name and size beside the picture."""
    b = ring.buffer
    what = "resident" if ring.resident else f"{b.depth} slot{'s' if b.depth > 1 else ''}"
    words = element("span", text(label(b.name, b.block))) + element("small", text(f"{what} of {size(b.bytes)}"))
    return element("div", words, {"class": "name", "style": f"height:{RING + GAP_BETWEEN}px"})


def ring_parts(found: Sequence[RingUse], view: LoopView, hues: dict[str, int], bottom: float) -> Iterator[str]:
    """An area of slots in use for each ring, in a frame of all its slots."""
    y = 0.0
    for ring in found:
        yield rect(0, y, WIDTH, RING, {"class": "frame"})
        depth = max(ring.buffer.depth, *(level for _, level in ring.steps))
        rows = [*(row for row, _ in ring.steps), view.ii]
        hue = hues.get(ring.buffer.name, HUES)
        for (first, level), last in zip(ring.steps, rows[1:], strict=True):
            x, height = WIDTH * first / view.ii, RING * level / depth
            more: dict[str, Attribute] = {"class": f"area v{hue}"}
            width = WIDTH * (last - first) / view.ii
            words = f"{ring.buffer.name}: {level} of {ring.buffer.depth} in use, cycles {first} to {last}"
            yield rect(x, y + RING - height, width, height, more, element("title", text(words)))
        y += RING + GAP_BETWEEN
    yield from scale(view.ii, bottom)
