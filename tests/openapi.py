"""Requests that Schemathesis makes of the API's description, against a service at work: all checks, stateful included.

`python -m tests.openapi --examples 200 --seconds 600` is the long form. Every answer has to be one that the description
names, with a body of its schema; none may be a 5xx, take what the schema excludes, or refuse without need.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.service import body, ended, graph, running

CONFIGURATION = Path(__file__).parent / "server" / "schemathesis.toml"
ALL = "coverage,fuzzing,stateful"
CASES = re.compile(r"Test cases:\s+([\d,]+) generated")


@dataclass(frozen=True)
class Attack:
    """cases: requests that were made. failed: whether one of them broke a promise. said: the whole report."""

    cases: int
    failed: bool
    said: str


def attack(directory: Path, examples: int, seconds: int, seed: int, phases: str = ALL) -> Attack:
    """Make about `examples` requests of each operation, for `seconds` at most, against a service that solves."""
    with running(directory, workers=1, waiting=100_000) as client:
        for size in (1024, 512):
            ended(client, client.post("/v1/jobs", json=body(graph(size))).json()["id"])
        return requests(str(client.base_url), examples, seconds, seed, phases)


def requests(address: str, examples: int, seconds: int, seed: int, phases: str = ALL) -> Attack:
    """Make the requests of a service that is there."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run", f"{address}/openapi.json",
        f"--phases={phases}", f"--max-examples={examples}", f"--max-time={seconds}", f"--seed={seed}", "--no-color",
        "--continue-on-failure", "--generation-database=none", "--suppress-health-check=all", "--request-timeout=60",
        "--warnings=off",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as here:  # it leaves notes where it runs
        done = subprocess.run(command, capture_output=True, text=True, cwd=here)
    counted = CASES.search(done.stdout)
    cases = int(counted[1].replace(",", "")) if counted else 0
    return Attack(cases, done.returncode != 0, done.stdout + done.stderr)


def main() -> int:
    """The long form; the exit code says whether all promises were kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = attack(Path(directory), chosen.examples, chosen.seconds, chosen.seed)
    print(found.said)
    return int(found.failed)


if __name__ == "__main__":
    sys.exit(main())
