"""Where text is printed: the terminal as it is, or a plain text of a given width."""

from __future__ import annotations

import sys
from io import StringIO, TextIOWrapper

from rich.console import Console


def standard_output() -> Console:
    """Standard output; colours only on a terminal. Unprintable characters become `?`, not errors."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return Output(highlight=False, markup=False)


class Output(Console):
    """A console that lets the command line handle a broken pipe."""

    def on_broken_pipe(self) -> None:
        """Called while the BrokenPipeError is handled; goes on with it."""
        raise


def plain(width: int) -> Console:
    """A console that collects uncoloured text; read it with `text_of`."""
    return Console(
        file=StringIO(),
        width=width,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        highlight=False,
        markup=False,
        _environ={},
    )


def text_of(console: Console) -> str:
    """What a plain console has collected, without blanks at line ends."""
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"
