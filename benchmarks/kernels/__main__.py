"""Times emitted kernels on this GPU beside what people would use instead (docs/benchmarks.md).

    python -m benchmarks.kernels --table gemm|fp8|attention|backward|examples|all [--only WORD] [--seconds S]
    python -m benchmarks.kernels --build [--table NAME] [--emitted DIR]
    python -m benchmarks.kernels --report [--table NAME]

The first measures what the recorded document lacks and writes it, its table and its picture into benchmarks/results;
it ends with 0 if every row is there and every timed kernel is right, with 1 if one is wrong or missing, with 3 if the
time was over before the rows were (run it again: it goes on). The others need no GPU: the second emits
the kernels and no more, to be carried to a GPU (--emitted DIR --no-build there); the third draws what is recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kernels.measure import Effort
from benchmarks.kernels.plot import picture
from benchmarks.kernels.record import Document, Entry, read, write
from benchmarks.kernels.report import entry_line, markdown, summary
from benchmarks.kernels.supervise import Supervisor
from benchmarks.kernels.tables import ROOT, TABLES, Row, rows
from twill.exc import TwillError

RESULTS = ROOT / "benchmarks" / "results"
BAD_INPUT, UNFINISHED = 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    given = parser().parse_args(arguments)
    tables = list(TABLES) if given.table in ("all", None) else [given.table]
    if given.report:
        for table in tables:
            _draw(_path(given.out, table))
        return 0
    if given.build:
        _build([row for table in tables for row in rows(table)], given)
        return 0
    if given.table is None:
        parser().error("--table NAME, --build or --report")
    until = time.monotonic() + given.seconds
    try:
        return max(_table(table, given, until) for table in tables)
    except TwillError as error:  # a folder of kernels that this version cannot read, say
        print(f"{error}", file=sys.stderr)
        return BAD_INPUT


def parser() -> argparse.ArgumentParser:
    """The words."""
    one = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    one.add_argument("--table", choices=(*TABLES, "all"))
    one.add_argument("--report", action="store_true", help="draw what is recorded; needs no GPU")
    one.add_argument("--emitted", type=Path, default=ROOT / "build" / "kernels", help="folder of emitted kernels")
    one.add_argument("--build", action="store_true", help="emit the kernels that are missing, and no more")
    one.add_argument("--clusters", action="store_true", help="kernels in clusters of two CTAs compete, too")
    one.add_argument("--jobs", type=int, help="processes that emit (default: one for each processor)")
    one.add_argument("--no-build", action="store_true", help="what --emitted has, and nothing else")
    one.add_argument("--out", type=Path, default=RESULTS, help="folder of the documents")
    one.add_argument("--only", default="", help="rows whose key contains this word")
    one.add_argument("--again", action="store_true", help="measure rows that are recorded, too")
    one.add_argument("--seconds", type=float, default=float("inf"), help="no row begins after so many seconds")
    one.add_argument("--limit", type=float, default=90.0, help="seconds of one step, after which its kernel is ended")
    one.add_argument("--rounds", type=int, default=Effort.rounds, help="windows of each contestant in a row")
    one.add_argument("--window", type=float, default=Effort.window, help="seconds of a window")
    one.add_argument("--seed", type=int, default=0, help="of the random orders")
    return one


def _table(table: str, given: argparse.Namespace, until: float) -> int:
    """Measures one table; the exit code."""
    wanted = [row for row in rows(table) if given.only in row.key]
    path = _path(given.out, table)
    document = read(path) or Document(table, {})
    if not given.no_build:
        _build(wanted, given)
    left = [row for row in wanted if given.again or not _recorded(document, row, given.emitted)]
    supervisor = Supervisor(
        str(given.emitted), Effort(given.rounds, window=given.window), given.limit, until, given.seed, tell=_say
    )
    order = [row.key for row in rows(table)]
    for entry in supervisor.entries(left):
        document = Document(table, supervisor.environment, document.entries).with_entry(entry, order)
        write(path, document)
        _say(entry_line(entry))
    if document.entries:
        _draw(path)
        _say(summary(document))
    done = {e.key: e for e in document.entries}
    if any(row.key not in done for row in wanted):
        return UNFINISHED if time.monotonic() > until else 1
    return 0 if all(_right(done[row.key]) for row in wanted) else 1


def _build(wanted: Sequence[Row], given: argparse.Namespace) -> None:
    from benchmarks.kernels.emitting import emit_missing

    emit_missing(given.emitted, wanted, _say, given.jobs, (1, 2) if given.clusters else (1,))


def _recorded(document: Document, row: Row, emitted: Path) -> bool:
    """Whether the row is there, of the emitted kernels that are there now."""
    from benchmarks.kernels.variants import identities, variants

    known = {entry.key: entry.emitted for entry in document.entries}
    return known.get(row.key) == identities(variants(emitted, row))


def _right(entry: Entry) -> bool:
    """Whether an emitted kernel was timed, and each that was is right."""
    ours = [timed for timed in entry.timed if timed.group == "twill"]
    return bool(ours) and all(timed.ok for timed in ours)


def _path(folder: Path, table: str) -> Path:
    return folder / f"kernels-{table}.json"


def _draw(path: Path) -> None:
    """The table and the picture beside a document."""
    document = read(path)
    if document is None:
        return
    path.with_suffix(".md").write_text(markdown(document), encoding="utf-8")
    path.with_suffix(".svg").write_text(picture(document), encoding="utf-8")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
