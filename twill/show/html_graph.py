"""The page's drawing of a loop's dependences: each instruction below all that it waits for in its iteration."""

from __future__ import annotations

from collections.abc import Mapping

from twill.graph.costed import CostedEdge
from twill.show.html_liveness import hue_of
from twill.show.markup import element, rect, scrolling, svg, text, words_at
from twill.show.view import LoopView, ShownOp

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 130, 36, 22, 40, 60  # pixels: a box, the room between boxes, and around all
LETTERS = 19  # that fit into a box

Places = Mapping[int, tuple[float, float]]
"""Left upper corner of each instruction's box."""

HINT = (
    "Solid lines are dependences within an iteration, dashed ones of a later iteration, with how many later. "
    "Colours are those of the values below."
)


def dependences(view: LoopView) -> str:
    """The drawing, with a hint."""
    items = {item.op.id: item for item in view.items}
    at, hues = places(view), hue_of(view)
    right = max(x for x, _ in at.values()) + WIDTH + MARGIN
    below = max(y for _, y in at.values()) + HEIGHT + MARGIN / 2
    lines = [line_of(edge, at) for edge in view.loop.graph.edges]
    boxes = [box(items[number], *where, hues.get(items[number].name, 0)) for number, where in at.items()]
    words = f"dependences of the {view.title}: {len(items)} instructions"
    return element("p", text(HINT)) + scrolling(svg(right, below, lines + boxes, words, "net"))


def places(view: LoopView) -> Places:
    """Rank by rank from the top, in each rank near what an instruction waits for, else by start."""
    from twill.graph.networks import ranks

    at: dict[int, tuple[float, float]] = {}
    start = {item.op.id: item.op.start for item in view.items}
    before: dict[int, list[int]] = {}
    for edge in view.loop.graph.edges:
        if not edge.distance:
            before.setdefault(edge.dst, []).append(edge.src)

    def wanted(v: int) -> tuple[float, int, int]:
        above = [at[u][0] for u in before.get(v, ()) if u in at]
        return (sum(above) / len(above) if above else -1.0, start[v], v)

    drawn = ranks(view.loop.graph)
    widest = max(map(len, drawn))
    for row, rank in enumerate(drawn):
        left = MARGIN + (widest - len(rank)) / 2 * (WIDTH + ACROSS)
        order = sorted(rank, key=wanted)
        at |= {v: (left + n * (WIDTH + ACROSS), MARGIN / 2 + row * (HEIGHT + DOWN)) for n, v in enumerate(order)}
    return at


def box(item: ShownOp, x: float, y: float, hue: int) -> str:
    """An instruction: its name, and below what it does on which line."""
    does = f"{item.op.op}, line {item.op.line}"
    words = words_at(x + WIDTH / 2, y + 15, short(item.label), "label", "middle")
    words += words_at(x + WIDTH / 2, y + 29, short(does), "label", "middle")
    shape = rect(x, y, WIDTH, HEIGHT, {"class": f"v{hue}", "rx": 5})
    return element("g", element("title", text(f"{item.label}: {does}")) + shape + words, {"class": "node"})


def line_of(edge: CostedEdge, at: Places) -> str:
    """A line from below the box of `src` to above that of `dst`."""
    (x, y), (u, v) = at[edge.src], at[edge.dst]
    x, y, u = x + WIDTH / 2, y + HEIGHT, u + WIDTH / 2
    # Down from rank to rank; back up, beside both boxes.
    side, bend = (max(x, u) + WIDTH / 2 + ACROSS / 2, DOWN) if v <= y else (0, (v - y) / 2)
    path = f"M{x:.1f} {y:.1f}C{side or x:.1f} {y + bend:.1f} {side or u:.1f} {v - bend:.1f} {u:.1f} {v:.1f}"
    later = " later" if edge.distance else ""
    drawn = element("path", "", {"d": path, "class": f"arrow {edge.kind}{later}"})
    words = words_at((side or (x + u) / 2) - 12, (y + v) / 2, f"+{edge.distance}", "tick", "end")
    return drawn + (words if edge.distance else "")


def short(words: str) -> str:
    """At most as many letters as fit."""
    return words if len(words) <= LETTERS else words[: LETTERS - 1] + "\u2026"
