"""From the command line's words to an exit code: every exception ends here, none as a traceback."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from twill.cli import codes, run_script
from twill.cli.arguments import parser, script
from twill.cli.complaint import complain
from twill.exc import TwillError
from twill.forked import processors

DEBUG = "TWILL_DEBUG"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # the place that is written to has no room, or is broken


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Bad usage exits with 2 through argparse."""
    given = sys.argv[1:] if words is None else list(words)
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        arguments = parsed(given)
        if given[:1] not in (["run"], ["record"], ["bench"]):  # those run code of the user's
            one_thread_for_products()
            collect_seldom()
            arguments.processes = processors()  # copies of this one: of a program of the user's none are made
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except TwillError as error:
        complain(f"{'error' if error.exit_code == codes.BAD_INPUT else 'twill'}: {error.describe()}")
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted")
        return codes.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output went away; without this, Python complains once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return codes.BROKEN_PIPE
    except OSError as error:
        if error.errno not in FULL:
            complain(internal(error))
            return codes.INTERNAL_ERROR
        where = f"{error.filename} " if error.filename else "what was asked for "
        complain(f"error: {where}cannot be written: {error.strerror}\n  instead: a place with room")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return codes.BAD_INPUT
    except Exception as error:
        complain(internal(error))
        return codes.INTERNAL_ERROR
    finally:
        signal.signal(signal.SIGTERM, previous)


def parsed(given: list[str]) -> Namespace:
    """The arguments of a command. Bad usage, help and lists end here, once they are told."""
    is_script = given[:1] == ["run"] and run_script.is_script(given[1:])
    try:
        return script().parse_args(given[1:]) if is_script else parser().parse_args(given)
    except SystemExit:
        sys.stdout.flush()
        raise


def one_thread_for_products() -> None:
    """Let NumPy multiply matrices in one thread, here and in every process that is started from here.

    Tiles are small: where another process has a core, the threads of one product of 128 x 64 x 128 wait for one another
    16 ms instead of 0.05. Must be called before NumPy is imported; a number that the environment names stays.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by OpenBLAS and MKL


def collect_seldom() -> None:
    """Let Python look for cycles of garbage seldom.

    Nearly all that a command makes, modules and frozen documents, stays until it ends; looking through it over and over
    takes a tenth of the time of its imports.
    """
    gc.set_threshold(50_000, 20, 20)


def terminate(number: int, frame: FrameType | None) -> None:
    """On SIGTERM leave through every `finally`, so that temporary files go."""
    raise SystemExit(codes.TERMINATED)


def internal(error: Exception) -> str:
    """What to say of a mistake of Twill's own."""
    if os.environ.get(DEBUG):
        return "".join(traceback.format_exception(error)).rstrip()
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"internal error{where}: {what} (please report it with the kernel file; {DEBUG}=1 shows the traceback)"
