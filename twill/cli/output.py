"""Files that a command writes: refused before the work if they cannot be written, and whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twill.exc import OutputNotWritable

if TYPE_CHECKING:
    from twill.certify.certify import Certified
    from twill.schedule.document import Schedule

TEXT_WIDTH = 120  # columns of schedule.txt


@dataclass(frozen=True)
class Outputs:
    """What `--html FILE`, `--trace FILE`, `--out DIR` and `--certify DIR` ask for (None: not asked for)."""

    html: str | None = None
    trace: str | None = None
    out: str | None = None
    certificate: str | None = None

    def refuse_unwritable(self) -> None:
        """Raise OutputNotWritable now rather than after a long solve."""
        for file in (self.html, self.trace):
            if file is not None:
                refuse_file(Path(file))
        for directory in (self.out, self.certificate):
            if directory is not None:
                refuse_directory(Path(directory))

    def write(self, schedule: Schedule) -> None:
        """Write every file that was asked for."""
        with contextlib.ExitStack() as made:
            if self.out is not None:
                made.enter_context(folder(Path(self.out)))
            write_all(dict(self.texts(schedule)))

    def write_certificate(self, schedule: Schedule, certified: Certified) -> None:
        """Write the schedule, its certificate and the proofs."""
        from twill.certify.document import FILE

        assert self.certificate is not None
        directory = Path(self.certificate)
        files: dict[Path, str | bytes] = {directory / name: proof for name, proof in certified.proofs.items()}
        files[directory / "schedule.json"] = schedule.canonical() + "\n"
        files[directory / FILE] = certified.document.canonical() + "\n"
        with folder(directory):
            write_all(files)

    def numbered(self, number: int) -> Outputs:
        """The places of one of several schedules: a folder of its own in DIR, `-2` and so on after a file's stem."""

        def place(file: str | None) -> str | None:
            if file is None or number == 1:
                return file
            path = Path(file)
            return str(path.with_name(f"{path.stem}-{number}{path.suffix}"))

        out = None if self.out is None else str(Path(self.out) / str(number))
        return Outputs(html=place(self.html), trace=place(self.trace), out=out)

    def texts(self, schedule: Schedule) -> Iterator[tuple[Path, str]]:
        """Each file and its content."""
        if self.html is not None:
            yield Path(self.html), page_of(schedule)
        if self.trace is not None:
            yield Path(self.trace), trace_of(schedule)
        if self.out is not None:
            directory = Path(self.out)
            yield directory / "schedule.json", schedule.canonical() + "\n"
            yield directory / "schedule.html", page_of(schedule)
            yield directory / "schedule.trace.json", trace_of(schedule)
            yield directory / "schedule.txt", text_of(schedule)


def page_of(schedule: Schedule) -> str:
    """The schedule as a page."""
    from twill.show.html import page

    return page(schedule)


def trace_of(schedule: Schedule) -> str:
    """The schedule as a trace."""
    from twill.show.trace import trace

    return trace(schedule)


def text_of(schedule: Schedule) -> str:
    """The schedule as text."""
    from twill.show.text import schedule_text

    return schedule_text(schedule, TEXT_WIDTH)


def refuse_file(path: Path) -> None:
    """Raise if `path` cannot become a file."""
    if path.is_dir():
        raise OutputNotWritable("is a directory", file=str(path), hint="the name of a file in it")
    if not path.parent.is_dir():
        raise OutputNotWritable(f"the directory {path.parent} does not exist", file=str(path), hint="make it first")
    if not os.access(path.parent, os.W_OK):
        raise OutputNotWritable(f"the directory {path.parent} is not writable", file=str(path), hint="another place")


def refuse_directory(path: Path) -> None:
    """Raise if `path` is neither a writable directory nor can become one."""
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise OutputNotWritable(f"{there} is a file, not a directory", file=str(path), hint="another directory")
    if not os.access(there, os.W_OK):
        raise OutputNotWritable(f"the directory {there} is not writable", file=str(path), hint="another place")


def write_all(texts: Mapping[Path, str | bytes]) -> None:
    """Write complete temporary files first, then rename them all: nothing is ever half-written."""
    finished: list[tuple[str, Path]] = []
    try:
        for path, text in texts.items():
            with reporting(path):
                finished.append((write_temporary(path, text), path))
        while finished:
            name, path = finished[0]
            with reporting(path):
                os.replace(name, path)
            finished.pop(0)
    finally:
        for name, _ in finished:
            with contextlib.suppress(OSError):
                os.unlink(name)


def write_temporary(path: Path, text: str | bytes) -> str:
    """A complete file beside `path`, readable by whom the umask lets."""
    content = text.encode() if isinstance(text, str) else text
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~current_umask())
    except BaseException:
        os.unlink(name)
        raise
    return name


def current_umask() -> int:
    """The umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def folder(directory: Path) -> Iterator[None]:
    """The directory is there inside; directories that were made for it go again if nothing could be put into them."""
    missing = [path for path in (directory, *directory.absolute().parents) if not path.exists()]
    with reporting(directory):
        directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in missing:
            with contextlib.suppress(OSError):
                path.rmdir()  # only an empty one
        raise


@contextlib.contextmanager
def reporting(path: Path) -> Iterator[None]:
    """An operating system's refusal becomes the user's error."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputNotWritable(f"cannot be written: {reason}", file=str(path), hint="another place") from error
