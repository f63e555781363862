"""`twill run script.py`: a script that nobody edited, its Triton kernels under `twill.jit`."""

from __future__ import annotations

import logging
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes

if TYPE_CHECKING:
    from twill.runtime.jit import TwillKernel

VALUED = ("--policy", "--launch-budget", "--machine", "--store", "--server")


def is_script(words: Sequence[str]) -> bool:
    """Whether the words after `twill run` name a script to run, and not a kernel to try.

    The first word that is no option of a script's run decides: `--script` means a script; FILE::KERNEL, or a file with
    a sidecar beside it, a kernel; any other file a script; any other option a kernel.
    """
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if word == "--script":
            return True
        if name in VALUED:
            del left[: 0 if equals else 1]
        elif word.startswith("-"):
            return False
        else:
            return "::" not in word and not Path(word).with_suffix(".twill.toml").exists()
    return False


def script_of(arguments: Namespace) -> Path:
    """The script that is named. Errors: FileMissing."""
    from twill import exc

    path = Path(arguments.script)
    if not path.is_file():
        raise exc.FileMissing(str(path), "there is no such file", "the path of a Python script")
    return path


def print_error(error: Exception, path: Path) -> None:
    """What a script raised, as Python prints it, without what ran the script."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    traceback.print_exception(error.with_traceback(frames or error.__traceback__))


def run(arguments: Namespace) -> int:
    """Run the script; its exit code, 1 if it raised. What became of its kernels goes to the error stream."""
    from twill.runtime.policy import settings
    from twill.runtime.script import run_script, summary

    path = script_of(arguments)
    chosen = settings(arguments.policy, arguments.launch_budget, arguments.machine, arguments.store, arguments.server)
    logging.getLogger("twill").addHandler(logging.NullHandler())  # reasons are told at the end, once
    made: list[TwillKernel] = []
    try:
        run_script(path, arguments.words, chosen, made)
    except Exception as error:
        print_error(error, path)
        return codes.SCRIPT_RAISED
    finally:
        sys.stdout.flush()
        print(f"twill: {summary(made)}", file=sys.stderr, flush=True)
    return codes.SOLVED
