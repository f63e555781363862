"""Promises of the page: well formed, self-contained, complete, and safe for any name in a document."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import combinations

import pytest

from tests.schedules import attention_schedule
from tests.show.test_text import unproven
from twill.schedule.document import Schedule
from twill.show.html import page
from twill.show.html_graph import HEIGHT, WIDTH, places
from twill.show.picture import picture
from twill.show.view import views

VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Collects elements and texts, and insists that every element is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(schedule: Schedule) -> Reader:
    """The page, parsed."""
    reader = Reader()
    reader.feed(page(schedule))
    reader.close()
    assert reader.open == []
    return reader


def bars(reader: Reader) -> list[dict[str, str]]:
    """Attributes of every op drawn in the timeline."""
    return [a for tag, a in reader.elements if tag == "g" and a.get("class", "").split(" ")[0] == "op"]


def test_the_page_loads_nothing() -> None:
    for tag, attributes in read(attention_schedule()).elements:
        for name in ("src", "href", "action", "data"):
            assert attributes.get(name, "data:,").startswith("data:"), (tag, attributes)
    text = page(attention_schedule())
    assert "@import" not in text and "url(" not in text and "fetch(" not in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in text


def test_every_op_is_drawn_in_its_warp_group_in_every_iteration() -> None:
    schedule = attention_schedule()
    drawn = {(int(a["data-o"]), int(a["data-k"])) for a in bars(read(schedule)) if a["data-r"] == "g"}
    assert drawn == {(op.id, k) for op in schedule.ops for k in range(schedule.copies + 1)}


def test_bars_of_the_tensor_cores_touch_in_the_steady_state() -> None:
    reader = read(attention_schedule())
    tensor = {2, 10, 11, 19}
    found = []
    for (_, op), (_, bar) in zip(reader.elements, reader.elements[1:], strict=False):
        if op.get("data-r") == "u" and int(op["data-o"]) in tensor:
            found.append((float(bar["x"]), float(bar["width"])))
    found.sort()
    gaps = [later[0] - (x + width) for (x, width), later in zip(found, found[1:], strict=False)]
    assert len(found) == 16
    assert all(0 <= gap < 1 for gap in gaps[2:-2])


def test_one_iteration_can_be_walked_with_the_keyboard() -> None:
    schedule = attention_schedule()
    reachable = [a for a in bars(read(schedule)) if a.get("tabindex") == "0"]
    assert len(reachable) == len(schedule.ops)
    assert any("qk.0, kernel line 22, wgmma, on tensor" in a["aria-label"] for a in reachable)


def test_the_script_gets_every_op_and_edge() -> None:
    schedule = attention_schedule()
    text = page(schedule)
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert match is not None
    data = json.loads(match[1])["1"]
    assert len(data["ops"]) == len(schedule.ops)
    assert len(data["edges"]) == len(schedule.loops[0].graph.edges)
    assert data["ops"]["4"]["line"] == 30 and data["ops"]["4"]["group"] == "consumer 0"


def test_liveness_and_certificate_are_on_the_page() -> None:
    text = "".join(read(attention_schedule()).texts)
    assert "consumer 0: at most 163 of 192 registers a thread" in text
    assert "shared memory: 160 KiB in 4 buffers" in text
    assert "1 to 2,047" in text and "length <= 4110" in text and "infeasible" in text
    assert "Witness of the largest bound: tensor: qk 0" in text


def test_the_badge_claims_what_is_proven() -> None:
    assert "proven optimal" in read(attention_schedule()).texts
    texts = read(unproven()).texts
    assert "proven optimal" not in texts
    assert "not proven optimal: I = 2048, proven lower bound 1990" in texts


@pytest.mark.parametrize("nasty", ['<script>alert("x")</script>', "</script><b>", "&amp;", "a\"b'c", "]]>"])
def test_names_cannot_become_markup(nasty: str) -> None:
    schedule = attention_schedule()
    loop = schedule.loops[0]
    instructions = (loop.graph.instructions[0].model_copy(update={"name": nasty}), *loop.graph.instructions[1:])
    graph = loop.graph.model_copy(update={"instructions": instructions})
    changed = schedule.model_copy(
        update={
            "kernel": nasty,
            "ops": (schedule.ops[0].model_copy(update={"name": nasty}), *schedule.ops[1:]),
            "loops": (loop.model_copy(update={"graph": graph, "trip": nasty}),),
        }
    )
    reader = read(changed)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert nasty in reader.texts


def test_every_loop_has_its_sections() -> None:
    schedule = attention_schedule()
    second = schedule.loops[0].model_copy(update={"loop": 2, "line": 77})
    ops = (*schedule.ops, *(op.model_copy(update={"loop": 2}) for op in schedule.ops))
    texts = read(schedule.model_copy(update={"loops": (schedule.loops[0], second), "ops": ops})).texts
    assert texts.count("Timeline") == 2
    assert "Loop at line 77, trip cdiv(N_CTX, 128)" in texts


def test_the_picture_is_one_svg_with_every_row() -> None:
    reader = Reader()
    reader.feed(picture(attention_schedule()))
    assert reader.elements[0][0] == "svg" and reader.open == []
    assert {"tensor", "consumer 0", "consumer 1", "load"} <= set(reader.texts)


def test_dependences_are_drawn_with_every_instruction_and_edge() -> None:
    schedule = attention_schedule()
    reader = read(schedule)
    boxes = [a for tag, a in reader.elements if tag == "g" and a.get("class") == "node"]
    lines = [a for tag, a in reader.elements if tag == "path" and a.get("class", "").startswith("arrow ")]
    assert len(boxes) == sum(len(loop.graph.instructions) for loop in schedule.loops)
    assert len(lines) == sum(len(loop.graph.edges) for loop in schedule.loops)
    later = [line for line in lines if line["class"].endswith(" later")]
    assert len(later) == sum(edge.distance > 0 for loop in schedule.loops for edge in loop.graph.edges)


def test_boxes_of_dependences_lie_apart_and_below_what_they_wait_for() -> None:
    for view in views(attention_schedule()):
        at = places(view)
        for one, other in combinations(at.values(), 2):
            assert abs(one[0] - other[0]) >= WIDTH or abs(one[1] - other[1]) >= HEIGHT
        for edge in view.loop.graph.edges:
            assert edge.distance or at[edge.src][1] < at[edge.dst][1]
