"""A recorded table as Markdown, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.kernels.record import Document, Entry, Spread, Timed, geometric_mean
from benchmarks.kernels.tables import TITLES

MANNERS = {
    "sustained": "Sustained: launches back to back, limited by power where the kernel draws enough",
    "burst": "Burst: one launch after a pause",
}
OURS = "twill"


def markdown(document: Document) -> str:
    """The page of one table."""
    environment = ", ".join(f"{name} {value}" for name, value in document.environment.items())
    dates = sorted(entry.at for entry in document.entries)
    measured = f"Measured {dates[0]} to {dates[-1]}" if dates else "Not measured"
    lines = [
        f"# {TITLES.get(document.table, document.table)}",
        "",
        f"{measured}; {environment}. Written by `python -m benchmarks.kernels --table {document.table}`;"
        " what the columns mean is in [docs/benchmarks.md](../../docs/benchmarks.md).",
        "",
        f"![speed over the fastest peer](kernels-{document.table}.svg)",
        "",
        *_means(document),
    ]
    for how, title in MANNERS.items():
        lines += ["", f"## {title}", "", *_rates(document, how)]
    lines += ["", "## Every contestant", "", *_contestants(document)]
    absent = sorted(
        {f"{name}: {why} ({entry.key})" for entry in document.entries for name, why in entry.absent.items()}
    )
    if absent:
        lines += ["", "## Who was absent", "", *(f"- {text}" for text in _joined(absent))]
    return "\n".join(lines) + "\n"


def summary(document: Document) -> str:
    """Geometric means, for a terminal."""
    return "\n".join(line for line in _means(document) if not line.startswith("| ---"))


def entry_line(entry: Entry) -> str:
    """`gemm M=8192 ...: twill bf16-wide 693 | cuBLAS 661 | Triton, tuned 640  TFLOP/s  x1.05`."""
    parts = [f"{timed.name} {_rate(entry, timed, 'sustained')}" for timed in entry.timed if timed.ok]
    wrong = [f"{timed.name}: {timed.note} {_errors(timed)}" for timed in entry.timed if not timed.ok]
    ratio = entry.ratio("peers")
    beside = "" if ratio is None else f"  x{ratio:.2f}"
    missing = f"  without {', '.join(entry.absent)}" if entry.absent else ""
    return f"{entry.key}: {' | '.join(parts)} {entry.unit}{beside}{missing}" + "".join(f"\n  {text}" for text in wrong)


def _means(document: Document) -> Iterator[str]:
    """The ratios of each part."""
    yield line(
        ("rows", "over the fastest peer", "least", "over Triton, tuned", "the same in bursts", "host, of Triton's")
    )
    yield line(("---",) * 6)
    for part in dict.fromkeys(entry.part for entry in document.entries):
        entries = [entry for entry in document.entries if entry.part == part]
        peers = [ratio for entry in entries if (ratio := entry.ratio("peers")) is not None]
        triton = [ratio for entry in entries if (ratio := entry.ratio("triton")) is not None]
        bursts = [ratio for entry in entries if (ratio := entry.ratio("peers", "burst")) is not None]
        hosts = [ratio for entry in entries if (ratio := _host(entry)) is not None]
        yield line(
            (
                f"{part} ({len(peers)} of {len(entries)})",
                _number(geometric_mean(peers)),
                _number(min(peers, default=None)),
                _number(geometric_mean(triton)),
                _number(geometric_mean(bursts)),
                _number(geometric_mean(hosts)),
            )
        )


def _host(entry: Entry) -> float | None:
    ours, theirs = entry.best("twill"), entry.best("triton")
    if ours is None or theirs is None or not ours.host_us or not theirs.host_us:
        return None
    return ours.host_us / theirs.host_us


def _rates(document: Document, how: str) -> Iterator[str]:
    """One row a line: the best emitted kernel, every peer, the ratios."""
    peers = list(dict.fromkeys(t.name for e in document.entries for t in e.timed if t.group != "twill"))
    yield line(("row", "unit", OURS, "which", *peers, "over the fastest peer", "over Triton"))
    yield line(("---",) * (len(peers) + 6))
    for entry in document.entries:
        best = entry.best("twill", how)
        named = {timed.name: timed for timed in entry.timed}
        rates = [_rate(entry, named[peer], how) if peer in named else "" for peer in peers]
        yield line(
            (
                entry.key,
                entry.unit,
                _rate(entry, best, how) if best else "",
                best.name.removeprefix("twill ") if best else "",
                *rates,
                _number(entry.ratio("peers", how)),
                _number(entry.ratio("triton", how)),
            )
        )


def _contestants(document: Document) -> Iterator[str]:
    """Everything that was timed, with spreads."""
    yield line(("row", "contestant", "ms (5 %, 95 %)", "MHz", "W", "burst ms (5 %, 95 %)", "host us", "error", "how"))
    yield line(("---",) * 9)
    for entry in document.entries:
        for timed in entry.timed:
            steady = timed.sustained
            clock = f"{steady.clock:.0f}" if steady and steady.clock else ""
            power = f"{steady.power:.0f}" if steady and steady.power else ""
            host = f"{timed.host_us:.0f}" if timed.host_us else ""
            said = timed.detail if timed.ok else f"{timed.note}: not timed"
            figures = (_times(steady), clock, power, _times(timed.burst), host, _errors(timed))
            yield line((entry.key, timed.name, *figures, said))


def _times(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.ms:.4f} ({spread.low:.4f}, {spread.high:.4f})"


def _errors(timed: Timed) -> str:
    return " ".join(f"{name} {error:.1e}" for name, error in timed.errors.items())


def _rate(entry: Entry, timed: Timed, how: str) -> str:
    rate = entry.rate(timed, how)
    if rate is None:
        return "wrong" if not timed.ok else ""
    return f"{rate:.0f}" if entry.unit == "TFLOP/s" else f"{rate:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _joined(absent: Iterable[str]) -> list[str]:
    """Reasons that many rows share, once."""
    rows: dict[str, int] = {}
    first: dict[str, str] = {}
    for text in absent:
        reason, _, row = text.rpartition(" (")
        rows[reason] = rows.get(reason, 0) + 1
        first.setdefault(reason, row.removesuffix(")"))
    return [f"{reason} ({first[reason]}{f' and {n - 1} more' if n > 1 else ''})" for reason, n in rows.items()]


def line(values: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(values) + " |"
