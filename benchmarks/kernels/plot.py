"""A recorded table as one SVG: the speed of every contestant over that of the fastest peer of its row."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from benchmarks.kernels.record import Document, Entry, Spread, Timed
from benchmarks.kernels.tables import TITLES, words

NAMES, WIDE, TALL, HEAD, MARGIN, FOOT = 330, 560, 22, 74, 16, 34  # pixels
LEAST, MOST = 0.4, 1.3  # of the fastest peer: what is outside stands at the edge
COLORS = ("#d1495b", "#00798c", "#edae49", "#30638e", "#6a994e", "#8d6a9f", "#777777")
STYLE = """
svg { font: 12px system-ui, sans-serif; }
.paper { fill: #ffffff; } .ink { fill: #1c1c1c; } .faint { fill: #666666; }
.grid { stroke: #dddddd; } .one { stroke: #555555; } .spread { stroke-width: 2; opacity: 0.5; }
@media (prefers-color-scheme: dark) {
.paper { fill: #16181d; } .ink { fill: #e8e8e8; } .faint { fill: #a0a0a0; }
.grid { stroke: #3a3d45; } .one { stroke: #b0b0b0; } }
"""


def picture(document: Document, how: str = "sustained") -> str:
    """The file. Rows that have no peer are left out."""
    entries = [entry for entry in document.entries if entry.best("peers", how) and entry.best("twill", how)]
    colors = {name: COLORS[min(i, len(COLORS) - 1)] for i, name in enumerate(_families(entries))}
    width, height = NAMES + WIDE + 2 * MARGIN, HEAD + TALL * len(entries) + FOOT
    title = f"{TITLES.get(document.table, document.table)}: speed over the fastest peer, {how}"
    body = [
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        _words(MARGIN, 24, title, "ink", "font-size: 15px; font-weight: 600"),
        _words(MARGIN, 42, document.environment.get("device", ""), "faint"),
        *_legend(colors),
        *_grid(len(entries)),
    ]
    for index, entry in enumerate(entries):
        body += _row(entry, HEAD + TALL * index + TALL // 2, colors, how)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label={quoteattr(title)}>'
    )
    return opening + "\n".join(body) + "</svg>\n"


def _families(entries: list[Entry]) -> list[str]:
    """Ours first, then peers as they come."""
    return [
        "twill",
        *dict.fromkeys(_family(t) for e in entries for t in e.timed if t.group not in ("twill", "partial")),
    ]


def _family(timed: Timed) -> str:
    """What a contestant is drawn as: `cuBLAS, GELU` as cuBLAS."""
    return timed.name.partition(",")[0]


def _legend(colors: dict[str, str]) -> Iterator[str]:
    x = MARGIN + 5
    for name, color in colors.items():
        yield f'<circle cx="{x}" cy="56" r="5" fill="{color}"/>'
        yield _words(x + 9, 60, name, "ink")
        x += 30 + 7 * len(name)


def _grid(count: int) -> Iterator[str]:
    bottom = HEAD + TALL * count
    steps = round((MOST - LEAST) * 10)
    for step in range(steps + 1):
        value = LEAST + step / 10
        kind = "one" if abs(value - 1) < 1e-9 else "grid"
        yield f'<line class="{kind}" x1="{_x(value):.1f}" x2="{_x(value):.1f}" y1="{HEAD - 4}" y2="{bottom + 4}"/>'
        yield _words(_x(value), bottom + 20, f"{value:.1f}", "faint", "text-anchor: middle")


def _row(entry: Entry, y: int, colors: dict[str, str], how: str) -> Iterator[str]:
    """Best emitted kernel and every peer; a line from the 5th to the 95th percentile."""
    base = entry.best("peers", how)
    assert base is not None
    yield _words(NAMES, y + 4, _label(entry), "ink", "text-anchor: end")
    shown = [(_family(t), t) for t in entry.timed if t.group not in ("twill", "partial") and t.ok]
    ours = entry.best("twill", how)
    if ours is not None:
        shown.append(("twill", ours))
    against = getattr(base, how).ms
    for name, timed in shown:
        spread: Spread | None = getattr(timed, how)
        if spread is None:
            continue
        color, at = colors[name], _x(against / spread.ms)
        low, high = _x(against / spread.high), _x(against / spread.low)
        yield f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{color}"/>'
        listed = f"{timed.name}: {entry.work / spread.ms:.4g} {entry.unit}, {against / spread.ms:.3f} of {base.name}"
        yield f'<circle cx="{at:.1f}" cy="{y}" r="5" fill="{color}"><title>{escape(listed)}</title></circle>'


def _label(entry: Entry) -> str:
    """The part, or the kernel, and the sizes that matter."""
    sizes = {name: size for name, size in entry.sizes.items() if name not in ("Z", "H")}
    return f"{entry.part}  {words(sizes)}"


def _x(ratio: float) -> float:
    within = min(max(ratio, LEAST), MOST)
    return NAMES + MARGIN + WIDE * (within - LEAST) / (MOST - LEAST) - MARGIN / 2


def _words(x: float, y: float, text: str, kind: str, style: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}" style="{style}">{escape(text)}</text>'
