"""Kernels of public packages through `twill coverage`: python -m benchmarks.wild [--emit S --sample N] [--write]

Each package is downloaded by name and version from the package index into a folder of its own, with what it imports and
without anything else; nothing of it is kept in this repository. The outcomes are kept beside it, and a run that was
interrupted goes on from them. `--write` replaces the table of docs/coverage.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from twill.coverage.outcome import BUG, AttemptOutcome, compiled, counted, ranked

PAGE = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "twill" / "wild"
MOST_REASONS = 15


@dataclass(frozen=True)
class Corpus:
    """A package. name, version: in the package index. module: what is imported. needs: what it imports besides Triton
    and PyTorch."""

    name: str
    version: str
    module: str
    needs: tuple[str, ...] = ()


CORPORA = (
    Corpus("fla-core", "0.6.0", "fla", ("einops",)),
    Corpus("liger-kernel", "0.8.5", "liger_kernel"),
)


def download(corpus: Corpus, cache: Path) -> Path:
    """The folder that the package is importable from; downloaded unless it is there whole."""
    folder = cache / f"{corpus.name}-{corpus.version}" / "site-packages"  # as installed: imported once for all files
    whole = folder / ".whole"
    if not whole.exists():
        wanted = [f"{corpus.name}=={corpus.version}", *corpus.needs]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([*command, *wanted], check=True)
        whole.touch()
    return folder


def cover(corpus: Corpus, folder: Path, words: Sequence[str]) -> tuple[AttemptOutcome, ...]:
    """`twill coverage` of a package; its outcomes."""
    from pydantic import TypeAdapter

    paths = (str(folder), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    results = folder / "results.jsonl"
    command = [sys.executable, "-m", "twill", "coverage", corpus.module, "--json", "--results", str(results), *words]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return TypeAdapter(tuple[AttemptOutcome, ...]).validate_json(answer.stdout)


def tables(measured: Sequence[tuple[Corpus, Sequence[AttemptOutcome]]]) -> Iterator[str]:
    """The tables of docs/coverage.md: a row for each corpus, and the reasons of all, ranked."""
    yield "| package | kernels | compiled by Triton | extracted | emitted | exit code 5 or no answer |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for corpus, outcomes in measured:
        tried, counts = compiled(outcomes), counted(outcomes)
        past = sum(
            counts.get(stage, 0) for stage in ("extracted", "solve", "emission", "execution", "solved", "emitted")
        )
        emitting = sum(counts.get(stage, 0) for stage in ("solve", "emission", "execution", "solved", "emitted"))
        emitted = _of(counts.get("emitted", 0), tried) if emitting else "not asked for"
        bugs = sum(one.code == BUG for one in outcomes)
        kernels = sum(bool(one.kernel) for one in outcomes)
        shown = f"{kernels} | {len(tried)} | {_of(past, tried)} | {emitted} | {bugs}"
        yield f"| {corpus.name} {corpus.version} | {shown} |"
    everything = [one for _, outcomes in measured for one in outcomes]
    for stage, title in (
        ("extraction", "refused at extraction"),
        ("solve", "no schedule"),
        ("emission", "refused later"),
    ):
        reasons = list(ranked(everything, stage))  # type: ignore[arg-type]
        if not reasons:
            continue
        yield ""
        yield f"| {title} | kernels |"
        yield "| --- | --- |"
        for reason, those in reasons[:MOST_REASONS]:
            yield f"| {reason.replace('|', '/')} | {len(those)} |"
        rest = sum(len(those) for _, those in reasons[MOST_REASONS:])
        if rest:
            yield f"| others | {rest} |"


def _of(count: int, tried: Sequence[AttemptOutcome]) -> str:
    """A count with its share of the kernels that Triton compiles."""
    return f"{count} ({100 * count / len(tried):.0f} %)" if tried else str(count)


def written(page: str, text: str) -> str:
    """The page with the text between its marks."""
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + text + END, page, flags=re.DOTALL)


def main() -> None:
    """Download, cover, print; see the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("--package", action="append", default=[], help="only this one; repeatable")
    one.add_argument("--cache", type=Path, default=CACHE, help=f"where packages are kept (default: {CACHE})")
    one.add_argument("--emit", metavar="S", help="also solve, for S seconds each, and emit")
    one.add_argument("--sample", metavar="N", help="only N kernels of each package, drawn at random")
    one.add_argument("--seed", metavar="N", help="of that drawing (default: 0)")
    one.add_argument("--jobs", metavar="N", help="processes (default: one for each core)")
    one.add_argument("--write", action="store_true", help="put the tables into docs/coverage.md")
    given = one.parse_args()
    options = (("--emit", given.emit), ("--sample", given.sample), ("--seed", given.seed), ("--jobs", given.jobs))
    words = [word for name, value in options if value is not None for word in (name, value)]
    corpora = [corpus for corpus in CORPORA if not given.package or corpus.name in given.package]
    measured = [(corpus, cover(corpus, download(corpus, given.cache), words)) for corpus in corpora]
    import triton

    day = datetime.datetime.now(datetime.UTC).date()
    command = " ".join(("python -m benchmarks.wild", *words))
    head = f"Measured {day}, Triton {triton.__version__}: `{command}`.\n\n"
    text = head + "\n".join(tables(measured)) + "\n"
    print(text, end="")
    if given.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
