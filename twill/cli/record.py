"""`twill record SCRIPT.py`: the launches that a script makes, as sidecars of the kernels' files."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes
from twill.cli.complaint import complain
from twill.cli.run_script import print_error, script_of

if TYPE_CHECKING:
    from twill.kernel.launches import Launch
    from twill.kernel.recorded import RecordedVariant, Sizes

HERE = "twill-sidecars"  # where sidecars of installed packages go if nothing else is said
HEAD = "# Written by `twill record`; the grammar is in docs/sidecars.md.\n"


@dataclass
class CallRecording:
    """What was launched so far. left_out: why launches can't be written down, and how many."""

    seen: dict[tuple[str, RecordedVariant], Counter[Sizes]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    pretended: bool = False

    def see(self, launch: Launch) -> None:
        """Note one launch. Nothing raises here: the script is none the wiser."""
        from twill.runtime.recording import Unrecordable, noted

        if self.pretended and not self.seen and not self.left_out:
            complain("twill: there is no GPU: launches are recorded and compute nothing")
        try:
            file, variant, sizes = noted(launch)
        except Unrecordable as reason:
            self.left_out[f"{launch.kernel.__name__}: {reason}"] += 1
            return
        self.seen.setdefault((file, variant), Counter())[sizes] += 1


def record(arguments: Namespace) -> int:
    """Run the script; write the sidecars of what it launched, also if it raised in the end (the code is 1 then)."""
    from twill.cli.output import refuse_directory, write_all

    path = script_of(arguments)
    if arguments.out is not None:
        refuse_directory(Path(arguments.out))
    recording = CallRecording()
    raised = run(path, arguments, recording)
    texts = dict(sidecars(recording, arguments))
    for target in texts:
        target.parent.mkdir(parents=True, exist_ok=True)
    write_all({target: text for target, text in texts.items() if text})
    for line in told(recording, texts):
        complain(line)
    return codes.SCRIPT_RAISED if raised else codes.SOLVED


def run(path: Path, arguments: Namespace, recording: CallRecording) -> bool:
    """Run the script as `python SCRIPT.py words` does, its launches seen. Whether it raised (that is printed)."""
    before = sys.argv[:], sys.path[:]
    sys.argv[:] = [str(path), *arguments.words]
    sys.path[0:1] = [str(path.resolve().parent)]
    try:
        with watched(arguments.on, recording):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as left:
        return left.code not in (None, 0)
    except Exception as error:
        print_error(error, path)
        return True
    finally:
        sys.stdout.flush()
        sys.argv[:], sys.path[:] = before
    return False


@contextlib.contextmanager
def watched(place: str | None, recording: CallRecording) -> Iterator[None]:
    """Launches inside are noted; they happen only on a GPU."""
    from twill.kernel.gpu_free import gpu_free
    from twill.kernel.launches import not_launched, seen

    if place == "gpu" or (place is None and has_gpu()):
        with seen(recording.see):
            yield
        return
    recording.pretended = True
    with gpu_free("meta" if place == "meta" else "cpu"), not_launched(recording.see):
        yield


def has_gpu() -> bool:
    """Whether Triton finds one."""
    from triton.runtime.driver import driver

    try:
        return bool(driver.active.get_current_target().backend == "cuda")
    except Exception:  # each of its backends says otherwise that it finds nothing
        return False


def sidecars(recording: CallRecording, arguments: Namespace) -> Iterator[tuple[Path, str]]:
    """Each sidecar to write, whole; "" where there is nothing new. Errors: those of a sidecar that is there."""
    from twill.kernel.recorded import table_text
    from twill.kernel.sidecar import read_sidecar_at

    files: dict[str, list[RecordedVariant]] = {}
    for (file, variant), sizes in sorted(recording.seen.items(), key=lambda one: -sum(one[1].values())):
        assert sizes
        files.setdefault(file, []).append(variant)
    for file, variants in sorted(files.items()):
        target = target_of(file, arguments.out)
        there = read_sidecar_at(target) if target.is_file() and not arguments.force else None
        tables = there.tables if there is not None else ()
        chosen = {table.kernel for table in tables if table.default}
        text = HEAD if there is None else target.read_text(encoding="utf-8")
        new = [variant for variant in variants if not variant.is_in(tables)]
        for variant in new:
            default = variant.kernel not in chosen and "" not in chosen
            chosen.add(variant.kernel)
            text += "\n" + table_text(variant, recording.seen[file, variant], default=default)
        yield target, text if new else ""


def target_of(file: str, out: str | None) -> Path:
    """Where the sidecar of a file goes: into --out; else beside it, or for an installed package into a folder here."""
    from twill.kernel.modules import is_installed
    from twill.kernel.sidecar import FOLDER, SUFFIX, sidecar_name

    if out is not None:
        return Path(out) / sidecar_name(file)
    if is_installed(file):
        return Path(os.environ.get(FOLDER) or HERE) / sidecar_name(file)
    return Path(file).with_suffix(SUFFIX)


def told(recording: CallRecording, texts: dict[Path, str]) -> Iterator[str]:
    """What was done, for people."""
    from twill.kernel.sidecar import FOLDER

    launches = sum(sum(sizes.values()) for sizes in recording.seen.values())
    kernels = {(file, variant.kernel) for file, variant in recording.seen}
    yield (
        f"twill: {launches} launches of {len(kernels)} kernels in {len(recording.seen)} specializations were recorded"
        if launches
        else "twill: no launch was recorded"
    )
    for target, text in texts.items():
        yield f"  {target}" + ("" if text else ": has them already")
    folders = {str(target.parent) for target in texts if target.name.count(".") > 2}
    for folder in sorted(folders):
        yield f"  {FOLDER}={folder} lets the other commands find them"
    for reason, count in recording.left_out.most_common():
        yield f"  left out, {count} launches of {reason}"
