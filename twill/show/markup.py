"""Elements of a page and of its drawings as text, escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

Attribute = str | int | float


def element(tag: str, content: str = "", attributes: dict[str, Attribute] | None = None) -> str:
    """`<tag attributes>content</tag>`; `content` is markup already."""
    words = "".join(f' {name}="{attribute(value)}"' for name, value in (attributes or {}).items())
    return f"<{tag}{words}>{content}</{tag}>"


def attribute(value: Attribute) -> str:
    """A value as it stands in quotes; coordinates with at most two decimals."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value), quote=True)


def text(words: object) -> str:
    """Words as markup."""
    return escape(str(words), quote=False)


def rect(x: float, y: float, width: float, height: float, more: dict[str, Attribute], content: str = "") -> str:
    """An SVG rectangle."""
    return element("rect", content, {"x": x, "y": y, "width": width, "height": height, **more})


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """An SVG line of a class."""
    return element("line", "", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})


def words_at(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """An SVG text of a class."""
    return element("text", text(words), {"x": x, "y": y, "class": kind, "text-anchor": anchor})


def svg(width: float, height: float, content: Iterable[str], label: str, kind: str) -> str:
    """A drawing of fixed size and of a class, with a name for those who do not see it."""
    size: dict[str, Attribute] = {"width": width, "height": height, "viewBox": f"0 0 {width:g} {height:g}"}
    return element("svg", "".join(content), {**size, "role": "group", "aria-label": label, "class": kind})


def row(cells: Iterable[str], tag: str = "td", numbers: frozenset[int] = frozenset()) -> str:
    """A table row of cells that are markup; `numbers`: indices of those aligned to the right."""
    return element(
        "tr", "".join(element(tag, cell, {"class": "n"} if n in numbers else {}) for n, cell in enumerate(cells))
    )


def table(head: Iterable[str], rows: Iterable[Iterable[object]], numbers: Iterable[int] = ()) -> str:
    """A table of words."""
    right = frozenset(numbers)
    body = "".join(row((text(cell) for cell in cells), numbers=right) for cells in rows)
    top = row((text(name) for name in head), "th", right)
    return scrolling(element("table", element("thead", top) + element("tbody", body)))


def scrolling(content: str) -> str:
    """What may be wider than the page, and scrolls by itself; by the keyboard too, so it takes the focus."""
    return element("div", content, {"class": "scroll", "tabindex": 0})
