"""A headless Chromium, spoken to by the DevTools protocol over a pair of pipes; nothing to install but itself."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 120.0
# Chromium reads commands from descriptor 3 and writes answers to 4.
LAUNCH = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(reads, 3), os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. trouble: what the browser complained of. hosts: whom the page asked for anything."""

    def __init__(self, answers: FileIO, commands: FileIO) -> None:
        self.answers = answers
        self.commands = commands
        self.number = 0
        self.session = ""
        self.waiting = b""
        self.events: list[dict[str, Any]] = []
        self.trouble: list[str] = []
        self.hosts: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.size(1280, 900)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and its result."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        self.commands.write(json.dumps(command).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                assert "error" not in message, message
                found: dict[str, Any] = message["result"]
                return found

    def receive(self) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self.waiting:
            part = self.answers.read(1 << 16)
            assert part, "the browser ended"
            self.waiting += part
        text, _, self.waiting = self.waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def note(self, method: str, parameters: dict[str, Any]) -> None:
        """Remember what a test may want to know."""
        self.events.append({"method": method, **parameters})
        if method == "Runtime.exceptionThrown":
            self.trouble.append(json.dumps(parameters["exceptionDetails"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.trouble.append(parameters["entry"]["text"])
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith("data:"):
                self.hosts.add(url.split("/")[2])

    def size(self, width: int, height: int) -> None:
        """The window's size, in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scripts(self, run: bool) -> None:
        """Whether pages may run scripts."""
        self.call("Emulation.setScriptExecutionDisabled", value=not run)

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true, also over a change of page."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(AssertionError):  # the page is just being changed
                if self.run(f"!!({condition})"):
                    return
            time.sleep(0.05)
        raise AssertionError(f"{condition} did not come true on {self.run('location.href')}: {self.text()}")

    def text(self) -> str:
        """What a reader sees."""
        return str(self.run("document.body.innerText"))

    def choose_file(self, selector: str, path: Path) -> None:
        """What a person does in the file dialog."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def click(self, selector: str) -> None:
        """Click on the first element of a selector."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self, path: Path) -> None:
        """The whole page as a picture."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def browsing(directory: Path) -> Iterator[Browser]:
    """A browser with a new profile in a directory."""
    program = chromium()
    assert program is not None
    options = [
        "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", f"--user-data-dir={directory}",
    ]  # fmt: skip
    their_reads, our_writes = os.pipe()
    our_reads, their_writes = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(their_reads), str(their_writes), program, *options],
        pass_fds=(their_reads, their_writes),
        stderr=subprocess.DEVNULL,
    )
    os.close(their_reads)
    os.close(their_writes)
    try:
        with os.fdopen(our_reads, "rb", buffering=0) as answers, os.fdopen(our_writes, "wb", buffering=0) as commands:
            browser = Browser(answers, commands)
            yield browser
            browser.session = ""
            browser.call("Browser.close")
            process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
