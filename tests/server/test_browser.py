"""In a real browser, where there is one (tests/conftest.py): the whole way, with and without scripts."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tokens import add_token, scopes_of
from tests.browser import Browser, browsing
from tests.kernels import example
from tests.service import Client, body, ended, graph, running

FINDINGS = """axe.run().then(found => found.violations.map(
    one => `${one.impact} ${one.id}, ${one.help}: ${one.nodes.map(node => node.html).join(" ")}`))"""
PICTURES = os.environ.get("TWILL_SCREENSHOTS")  # a directory, for people who want to look


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    browser.trouble.clear()
    browser.hosts.clear()
    yield browser
    assert browser.trouble == []
    assert all(host.startswith("127.0.0.1:") for host in browser.hosts)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(graph(4096).canonical(), encoding="utf-8")
    return path


def complaints(page: Browser, address: str) -> list[str]:
    """What axe-core finds on a page, in both colour schemes."""
    script = (importlib.resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    found = []
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.open(address)
        page.run(f"{script};0")
        said = page.call("Runtime.evaluate", expression=FINDINGS, awaitPromise=True, returnByValue=True)
        found += [f"{address}, {scheme}: {one}" for one in said["result"]["value"]]
    return found


def picture(page: Browser, name: str) -> None:
    if PICTURES:
        page.screenshot(Path(PICTURES) / f"{name}.png")


def test_submit_watch_open_and_find_again(page: Browser, client: Client, tmp_path: Path) -> None:
    home = str(client.base_url)
    path = tmp_path / "graph.json"
    path.write_text(example("gemm", None).canonical(), encoding="utf-8")
    page.open(home)
    picture(page, "queue-empty")
    page.click("nav a[href='/submit']")
    page.until("document.querySelector('input[type=file]')")
    picture(page, "submit")
    page.choose_file("input[type=file]", path)
    page.click("form button")
    page.until("location.pathname.startsWith('/jobs/')")
    picture(page, "job-running")
    page.until("document.getElementById('state').textContent === 'done'")
    picture(page, "job-done")
    page.click("a[href^='/schedules/']")
    page.until("document.querySelector('#data')")
    assert "gemm" in page.text() and "proven optimal" in page.text()
    page.run("document.querySelector('.op').focus()")
    page.until("!document.getElementById('tip').hidden")
    picture(page, "schedule")
    page.click("nav a[href='/schedules']")
    page.until("document.querySelector('input[name=kernel]')")
    page.run("document.querySelector('input[name=kernel]').value = 'gemm_kernel'")
    name = page.run("document.querySelector('tbody td:nth-child(2)').textContent")
    page.run(f"document.querySelector('input[name=kernel]').value = '{name}'")
    page.click("form button")
    page.until("location.search.includes('kernel=') && document.querySelector('tbody a')")
    picture(page, "search")
    page.click("tbody a")
    page.until("document.querySelector('#data')")
    page.open(home)
    assert "done" in page.text()
    picture(page, "queue")


def test_bounds_are_shown_while_the_solve_is_at_work_without_loading_the_page_again(
    page: Browser, client: Client
) -> None:
    job = client.post("/v1/jobs", json=body(example("sliding_window_attention", None))).json()["id"]
    page.open(f"{client.base_url}/jobs/{job}")
    page.run("window.mark = 1")
    page.until("document.getElementById('bounds').textContent.includes('I')")
    assert page.run("window.mark") == 1
    picture(page, "job-progress")
    page.click("form button")
    page.until("document.getElementById('state').textContent === 'cancelled'")
    picture(page, "job-cancelled")


def test_everything_works_without_scripts(page: Browser, client: Client, graph_file: Path) -> None:
    page.scripts(run=False)
    try:
        page.open(f"{client.base_url}/submit")
        page.choose_file("input[type=file]", graph_file)
        page.click("form button")
        page.until("location.pathname.startsWith('/jobs/')")
        page.until("document.querySelector('.links a')")
        page.click(".links a")
        page.until("document.querySelector('svg')")
        assert "proven optimal" in page.text()
    finally:
        page.scripts(run=True)


def test_a_wrong_file_is_told_in_the_form(page: Browser, client: Client, tmp_path: Path) -> None:
    wrong = tmp_path / "kernel.py"
    wrong.write_text("import triton\n", encoding="utf-8")
    page.open(f"{client.base_url}/submit")
    page.choose_file("input[type=file]", wrong)
    page.click("form button")
    page.until("document.querySelector('.trouble')")
    assert "not JSON" in page.text() and "twill extract" in page.text()
    picture(page, "submit-refused")
    page.trouble[:] = [words for words in page.trouble if "status of 400" not in words]


def test_a_failed_job_says_why(page: Browser, client: Client) -> None:
    job = client.post("/v1/jobs", json=body(ii=1)).json()["id"]
    ended(client, job)
    page.open(f"{client.base_url}/jobs/{job}")
    assert "no schedule" in page.text()
    picture(page, "job-failed")


def test_a_token_is_asked_for_and_remembered(page: Browser, tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens", "me", scopes_of(["solve"]))
    with running(tmp_path, workers=0, tokens=tmp_path / "tokens") as client:
        page.open(str(client.base_url))
        page.until("location.pathname === '/login'")
        picture(page, "login")
        page.run(f"document.querySelector('input[name=token]').value = '{token}'")
        page.click("form button")
        page.until("location.pathname === '/'")
        assert "Recent jobs" in page.text()
        job = client.post("/v1/jobs", json=body(), headers={"Authorization": f"Bearer {token}"}).json()["id"]
        page.open(f"{client.base_url}/jobs/{job}")
        page.click("form button")
        page.until("document.getElementById('state').textContent === 'cancelled'")


def test_no_page_is_closed_to_anybody(page: Browser, client: Client) -> None:
    """For who works with the keyboard, or listens: axe-core has no complaint, however small."""
    keys = []
    for strategy in ("joint", "heuristic"):
        job = client.post("/v1/jobs", json=body(example("layer_norm", None), strategy=strategy)).json()
        assert ended(client, job["id"])["state"] == "done"
        keys.append(job["key"])
    bad = client.post("/v1/jobs", json=body(graph(96), ii=1)).json()["id"]
    assert ended(client, bad)["state"] == "failed"
    long = client.post("/v1/jobs", json=body(example("sliding_window_attention", None), seed=7)).json()["id"]
    client.delete(f"/v1/jobs/{long}")
    assert ended(client, long)["state"] == "cancelled"
    paths = [
        "/", "/submit", "/schedules", "/login", f"/schedules/{keys[0]}", f"/jobs/{job['id']}", f"/jobs/{bad}",
        f"/compare?first={keys[0]}&second={keys[1]}", f"/schedules/{'0' * 64}", "/nowhere",
    ]  # fmt: skip
    found = [one for path in paths for one in complaints(page, f"{client.base_url}{path}")]
    page.call("Emulation.setEmulatedMedia", features=[])
    page.trouble[:] = [one for one in page.trouble if "404" not in one]  # two of them are not there
    assert found == []


def test_two_schedules_are_compared_from_the_page_of_one(page: Browser, client: Client) -> None:
    keys = []
    for strategy in ("joint", "heuristic"):
        job = client.post("/v1/jobs", json=body(graph(768), strategy=strategy)).json()
        assert ended(client, job["id"])["state"] == "done"
        keys.append(job["key"])
    page.open(f"{client.base_url}/schedules/{keys[0]}")
    page.run(f"document.querySelector('select[name=second]').value = '{keys[1]}'")
    page.click("form[action='/compare'] button")
    page.until("location.pathname === '/compare'")
    picture(page, "compare")
    assert page.run("document.querySelectorAll('.beside svg').length") == 2
    assert "What differs is in bold" in page.text()
