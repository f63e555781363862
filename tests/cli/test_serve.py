"""Promises of `twill serve`: one command, safe by default, and nothing lost when it is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from server.pool import began
from tests.conftest import ROOT
from tests.kernels import H100, example
from tests.served import Served
from tests.service import body, ended, graph
from twill.cli import serve
from twill.cli.entry import main
from twill.exc import ServerNotInstalled
from twill.schedule.checker.check import check
from twill.store.interface import Entry


def test_a_killed_service_goes_on_where_it_was_and_loses_nothing(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        done = served.client.post("/v1/jobs", json=body(graph(64))).json()
        assert ended(served.client, done["id"])["state"] == "done"
        running = served.client.post("/v1/jobs", json=body(example("sliding_window_attention", None), blocks=1)).json()
        waiting = [served.client.post("/v1/jobs", json=body(graph(size))).json() for size in (128, 256)]
        while served.client.get(f"/v1/jobs/{running['id']}").json()["bounds"] is None:
            time.sleep(0.02)
        orphans = served.children()
        assert orphans
        served.kill()
        served.start()
        served.client.delete(f"/v1/jobs/{running['id']}")
        for job in waiting:
            assert ended(served.client, job["id"])["state"] == "done"
        again = ended(served.client, running["id"])
        assert again["state"] == "cancelled"
        for job in (done, *waiting):
            entry = Entry.parse(served.client.get(f"/v1/schedules/{job['key']}").content)
            assert entry.key == job["key"] and check(entry.schedule, H100) == ()
        assert not any(began(process) for process in orphans)  # no solve outlives its service


def test_sigterm_ends_it_in_order_and_gives_the_running_job_back(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        job = served.client.post("/v1/jobs", json=body(example("sliding_window_attention", None))).json()["id"]
        with served.client.stream("GET", f"/v1/jobs/{job}/events") as events:
            for line in events.iter_lines():
                if '"state":"running"' in line:
                    break
            assert served.end(signal.SIGTERM) == 143
        said = [json.loads(line) for line in served.log.read_text(encoding="utf-8").splitlines() if line[:1] == "{"]
        assert {"solve begins", "solve interrupted"} <= {line["message"] for line in said}
        requests = [line for line in said if line["message"] == "request"]
        assert requests and all(line["request"] and line["status"] for line in requests)
        served.start()
        assert served.client.get(f"/v1/jobs/{job}").json()["state"] in ("queued", "running")
        served.client.delete(f"/v1/jobs/{job}")


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that ends."""
    code = main(["serve", *words])
    out, err = capfd.readouterr()
    return code, out, err


def test_without_tokens_it_does_not_listen_to_others(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "--host", "0.0.0.0", "--store", str(tmp_path))
    assert code == 2 and "without tokens" in err and "--token-file" in err


def test_a_token_is_added_and_printed_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "tokens")
    code, out, _ = run(capfd, "--token-file", file, "--add-token", "ci:read,solve")
    assert code == 0 and out.startswith("twill_") and out.strip() not in Path(file).read_text(encoding="utf-8")
    for words in (["--add-token", "ci:read"], ["--token-file", file, "--add-token", "ci"],
                  ["--token-file", file, "--add-token", "ci:write"]):  # fmt: skip
        code, _, err = run(capfd, *words)
        assert code == 2 and "instead" in err


def test_a_taken_port_and_a_bad_token_file_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serve.listen("127.0.0.1", 0) as taken:
        code, _, err = run(capfd, "--port", str(taken.getsockname()[1]), "--store", str(tmp_path))
    assert code == 2 and "cannot listen" in err and "--port" in err
    code, _, err = run(capfd, "--port", "0", "--store", str(tmp_path), "--token-file", str(tmp_path / "none"))
    assert code == 2 and "none" in err
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = run(capfd, "--port", "0", "--store", str(tmp_path / "file"))
    assert code != 0 and "file" in err


@pytest.mark.parametrize("library", ["fastapi", "uvicorn", "prometheus_client"])
def test_without_the_servers_libraries_the_command_says_what_to_install(library: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules['{library}'] = None\nfrom twill.cli import main\nsys.exit(main({['serve']}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and library in done.stderr and 'pip install "twill-gpu[server]"' in done.stderr


def test_no_other_command_needs_them(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(['fastapi', 'uvicorn', 'starlette', 'prometheus_client']))"
    code = f"{blocked}\nfrom twill.cli import main\nsys.exit(main(['machines', 'list']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "h100" in done.stdout, done.stderr


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "PLACES", ("twill.not_there",))
    with pytest.raises(ServerNotInstalled, match="twill.server"):
        serve.part("run")
