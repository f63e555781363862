"""The net under a restructuring: what every kept kernel is emitted as, compared with another revision, byte for byte.

    python -m tests.emitted record DIR [--only NAME]       # CUDA, warp program and manifest of each into DIR
    python -m tests.emitted compare [REVISION] [--only NAME]

`compare` checks out REVISION (HEAD unless said otherwise) beside this tree, records both with the code of each, and
lists every file that differs, with its first differing line; exit code 1 if one does. Nothing is solved (schedules are
kept, `tests/golden_schedules.py`) and nothing is compiled: the compiler sees the CUDA text alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def emitted(name: str) -> dict[str, str]:
    """The files of one kept kernel that the compiler or a launch reads."""
    from tests.golden_schedules import examples, kernel, machine, schedule
    from twill.codegen.lowering import lower
    from twill.codegen.manifest import make_manifest
    from twill.codegen.print.cuda.printer import print_cuda
    from twill.codegen.warp.text import text

    example = next(one for one in examples() if one.name == name)
    read, found, target = kernel(example), schedule(example), machine()
    program = lower(read.program, found, target, order=read.order)
    printed = print_cuda(program, target)
    manifest = make_manifest(
        program,
        read.specialization,
        architecture=target.architecture,
        entry=printed.function,
        threads=printed.threads,
        cubin=b"",
        schedule=found.key,
    )
    return {"kernel.cu": printed.text, "program.txt": text(program), "manifest.json": manifest.text()}


def _written(name: str, folder: Path) -> str:
    """One kernel's files, in a folder of its own; its name, for progress."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for file, content in emitted(name).items():
        (folder / name / file).write_text(content, encoding="utf-8")
    return name


def record(folder: Path, only: str) -> int:
    """Everything into `folder`."""
    from tests.golden_schedules import examples

    names = [example.name for example in examples() if only in example.name]
    with ProcessPoolExecutor() as pool:
        for done in pool.map(_written, names, [folder] * len(names)):
            print(done, flush=True)
    return 0


def differences(before: Path, after: Path) -> Iterator[str]:
    """A line for each file that is not the same in both folders."""
    files = sorted({path.relative_to(root) for root in (before, after) for path in root.rglob("*") if path.is_file()})
    for file in files:
        old, new = before / file, after / file
        if not old.exists() or not new.exists():
            yield f"{file}: only {'after' if new.exists() else 'before'}"
            continue
        if old.read_bytes() == new.read_bytes():
            continue
        lines = zip_longest(old.read_text().splitlines(), new.read_text().splitlines(), fillvalue="(ends)")
        number, (was, now) = next(
            ((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1]), (0, ("", "(bytes)"))
        )
        yield f"{file}:{number}:\n  - {was.strip()}\n  + {now.strip()}"


def compare(revision: str, only: str) -> int:
    """This tree beside `revision`; 1 if anything differs."""
    with tempfile.TemporaryDirectory() as scratch:
        tree, before, after = (Path(scratch) / name for name in ("tree", "before", "after"))
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", tree, revision], cwd=ROOT, check=True)
        try:
            _recorded(tree, before, only)
            _recorded(ROOT, after, only)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
        found = list(differences(before, after))
        kernels = len(list(after.iterdir()))
    print("\n".join((*found, f"{kernels} kernels, {len(found)} files differ from {revision}")))
    return 1 if found else 0


def _recorded(tree: Path, folder: Path, only: str) -> None:
    """`record` with the code of `tree`, where the two rooms that setup.py installs inside the package are put there."""
    for room in ("machines", "server"):
        if tree != ROOT:
            (tree / "twill" / room).symlink_to(tree / room)
    words = [sys.executable, "-m", "tests.emitted", "record", str(folder), "--only", only]
    subprocess.run(words, cwd=tree, check=True, stdout=subprocess.DEVNULL)


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("revision", nargs="?", default="HEAD")
    for command in (recording, comparing):
        command.add_argument("--only", default="", help="kernels whose name contains this")
    arguments = parser.parse_args(words)
    if arguments.command == "record":
        return record(arguments.folder, arguments.only)
    return compare(arguments.revision, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
