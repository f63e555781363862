"""Promises of the pages: complete without scripts, nothing from elsewhere, nothing of a kernel's names as markup."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from server.tokens import add_token, scopes_of
from tests.service import Client, body, ended, graph, running
from twill.show.html import page as whole_page

EVIL = '<script>alert("x")</script>'
NONE = "0" * 32


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture(scope="module")
def key(client: Client) -> str:
    """Of a schedule that is there."""
    job = client.post("/v1/jobs", json=body(graph(512, kernel=EVIL))).json()
    assert ended(client, job["id"])["state"] == "done"
    return str(job["key"])


def upload(content: bytes, **fields: str) -> dict[str, object]:
    """A form as a browser sends it."""
    return {"files": {"graph": ("graph.json", content, "application/json")}, "data": {"machine": "h100", **fields}}


class Reader(HTMLParser):
    """What a page would run, load and send to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.places: list[str] = []
        self.open: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places += [str(given[name]) for name in ("href", "src", "action") if name in given]
        self.open = given if tag == "script" else None
        assert not any(name.startswith("on") for name in given)

    def handle_data(self, data: str) -> None:
        if self.open is not None and self.open.get("type") != "application/json":
            self.scripts.append(data)
        self.open = None


def all_pages(client: Client, key: str) -> Iterator[httpx.Response]:
    job = client.service.queue.recent(1)[0].id
    for path in ("/", "/submit", "/schedules", f"/schedules/{key}", f"/jobs/{job}", f"/jobs/{NONE}", "/login"):
        yield client.get(path)


def test_pages_run_only_what_their_policy_names_and_reach_nobody_else(client: Client, key: str) -> None:
    for answer in all_pages(client, key):
        policy = answer.headers["content-security-policy"]
        reader = Reader(answer.text)
        for script in reader.scripts:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
        assert all(place.startswith(("/", "data:,")) and not place.startswith("//") for place in reader.places)
        assert "script-src 'unsafe-inline'" not in policy and "default-src 'none'" in policy
        assert "http://" not in re.sub(r"http://www\.w3\.org/[^\"']*", "", answer.text)


def test_names_of_kernels_are_words_and_not_markup(client: Client, key: str) -> None:
    for answer in all_pages(client, key):
        assert EVIL not in answer.text
    assert "alert" in client.get("/").text


def test_the_page_of_a_schedule_is_the_one_that_the_command_line_writes(client: Client, key: str) -> None:
    found = client.get(f"/schedules/{key}").text
    entry = client.service.store.get(key)
    assert entry is not None
    sections = re.search(r"<main>(.*)</main>", whole_page(entry.schedule), re.DOTALL)
    assert sections is not None and sections[1] in found
    assert f"/v1/schedules/{key}" in found


def test_a_graph_is_submitted_by_a_form_and_its_job_shown(client: Client) -> None:
    answer = client.post("/submit", **upload(graph(2048).canonical().encode(), strategy="heuristic", budget="20"))  # type: ignore[arg-type]
    assert answer.status_code == 303
    job = answer.headers["location"].removeprefix("/jobs/")
    assert ended(client, job)["state"] == "done"
    found = client.get(answer.headers["location"]).text
    assert "Open the schedule" in found and "EventSource" not in found


def test_a_job_that_is_not_done_is_refreshed_without_scripts_and_followed_with_them(tmp_path: Path) -> None:
    with running(tmp_path, workers=0) as client:
        job = client.post("/v1/jobs", json=body()).json()["id"]
        found = client.get(f"/jobs/{job}").text
        assert "EventSource" in found and '<noscript><meta http-equiv="refresh"' in found
        assert client.post(f"/jobs/{job}/cancel").status_code == 303
        assert "EventSource" not in client.get(f"/jobs/{job}").text


@pytest.mark.parametrize(
    ("content", "fields", "status", "words"),
    [
        (b"import triton", {}, 400, "not JSON"),
        (b"{}", {}, 422, "graph.kernel"),
        (b'{}, "machine": "b200"', {}, 400, "not JSON"),
        (graph().canonical().encode(), {"machine": "h9"}, 422, "h9"),
        (graph().canonical().encode(), {"budget": "long"}, 422, "long"),
        (graph().canonical().encode(), {"blocks": "-1"}, 422, "options.blocks"),
        (graph().canonical().encode(), {"strategy": "magic"}, 422, "options.strategy"),
        (b" " * 5_000_000, {}, 413, "longer than"),
    ],
)
def test_a_form_that_cannot_be_taken_is_shown_again_with_the_reason(
    client: Client, content: bytes, fields: dict[str, str], status: int, words: str
) -> None:
    answer = client.post("/submit", **upload(content, **fields))  # type: ignore[arg-type]
    assert answer.status_code == status
    assert words in answer.text and 'type="file"' in answer.text and 'role="alert"' in answer.text


def test_a_form_without_a_file_or_of_another_type_is_refused(client: Client) -> None:
    assert "no file" in client.post("/submit", data={"machine": "h100"}).text
    assert client.post("/submit", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.post("/submit", content=b"--y\r\n", headers=broken).status_code in (400, 422)
    assert client.post("/submit", content=b"", headers={"Content-Type": "multipart/form-data"}).status_code == 400


def test_search_finds_by_kernel_and_machine(client: Client, key: str) -> None:
    assert key in client.get("/schedules", params={"kernel": EVIL}).text
    assert key in client.get("/schedules", params={"kernel": EVIL, "machine": "h100"}).text
    assert key not in client.get("/schedules", params={"kernel": "other"}).text
    assert key not in client.get("/schedules", params={"machine": "b200"}).text


def test_what_is_not_there_is_a_page_that_says_so(client: Client) -> None:
    for path in (f"/jobs/{NONE}", "/jobs/x", f"/schedules/{'0' * 64}", "/schedules/x"):
        answer = client.get(path)
        assert answer.status_code == 404 and "Sorry" in answer.text


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_forms_of_other_sites_are_refused(client: Client, headers: dict[str, str]) -> None:
    answer = client.post("/submit", headers=headers, **upload(graph(32).canonical().encode()))  # type: ignore[arg-type]
    assert answer.status_code == 403
    assert client.post(f"/jobs/{NONE}/cancel", headers=headers).status_code == 403


def test_forms_of_this_site_are_taken(client: Client) -> None:
    own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    answer = client.post("/submit", headers=own, **upload(graph(32).canonical().encode()))  # type: ignore[arg-type]
    assert answer.status_code == 303


def test_with_tokens_a_browser_signs_in_and_keeps_a_cookie_no_script_can_read(tmp_path: Path) -> None:
    reader = add_token(tmp_path / "tokens", "reader", scopes_of(["read"]))
    with running(tmp_path, workers=0, tokens=tmp_path / "tokens") as client:
        answer = client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert client.post("/login", data={"token": "nonsense"}).status_code == 403
        answer = client.post("/login", data={"token": reader})
        cookie = answer.headers["set-cookie"].lower()
        assert answer.status_code == 303 and "httponly" in cookie and "samesite=strict" in cookie
        assert client.get("/").status_code == 200
        assert client.get("/submit").status_code == 403
        assert client.post(f"/jobs/{NONE}/cancel").status_code == 403


def test_a_path_that_is_none_is_a_page_for_a_browser_and_a_document_for_a_program(client: Client) -> None:
    answer = client.get("/nowhere/<i>", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 404 and "Sorry" in answer.text and "<i>" not in answer.text
    assert 'href="/schedules"' in answer.text
    assert client.get("/nowhere").json()["kind"] == "NotFound"
    assert client.get("/v1/nowhere", headers={"Accept": "text/html"}).json()["kind"] == "NotFound"


def test_two_schedules_of_a_kernel_are_compared_side_by_side(client: Client, key: str) -> None:
    job = client.post("/v1/jobs", json=body(graph(1024, kernel=EVIL))).json()
    assert ended(client, job["id"])["state"] == "done"
    form = client.get(f"/schedules/{key}").text
    assert 'action="/compare"' in form and f'value="{job["key"]}"' in form
    found = client.get("/compare", params={"first": key, "second": job["key"]})
    assert found.status_code == 200 and found.text.count("<svg") >= 2 and EVIL not in found.text
    rows = dict(re.findall(r"<tr><td[^>]*>(?:<b>)?([^<]+)(?:</b>)?</td>(.*?)</tr>", found.text))
    assert "<b>" in rows["initiation interval I, cycles"] and "<b>" not in rows["machine"]
    same = client.get("/compare", params={"first": key, "second": key}).text
    assert "<td><b>" not in same
    assert client.get("/compare", params={"first": key, "second": "x"}).status_code == 404
