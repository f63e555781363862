"""`twill record SCRIPT.py`: the launches that a script makes, as sidecars of the kernels' files."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twill.cli import codes
from twill.cli.complaint import complain

if TYPE_CHECKING:
    from twill.kernel.launches import Launch
    from twill.kernel.recorded import RecordedVariant, Sizes
    from twill.kernel.recorded_tables import LookedUp, PointedAt

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
        if self.pretended and not self.seen and not self.left_out:
            complain("twill: there is no GPU: launches are recorded and compute nothing")
        try:
            file, variant, sizes = noted(launch)
        except Unrecordable as reason:
            self.left_out[f"{launch.kernel.__name__}: {reason}"] += 1
            return
        self.seen.setdefault((file, variant), Counter())[sizes] += 1


class Unrecordable(Exception):
    """Why a launch can't be written down."""


def record(arguments: Namespace) -> int:
    """Run the script; write the sidecars of what it launched, also if it raised in the end (the code is 1 then)."""
    from twill import exc
    from twill.cli.output import refuse_directory, write_all

    path = Path(arguments.script)
    if not path.is_file():
        raise exc.FileMissing(str(path), "there is no such file", "the path of a Python script")
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
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != str(path):  # what ran the script
            frames = frames.tb_next
        traceback.print_exception(error.with_traceback(frames or error.__traceback__))
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


def noted(launch: Launch) -> tuple[str, RecordedVariant, Sizes]:
    """The file, the variant and the sizes of a launch. Errors: Unrecordable."""
    from twill.exc import MalformedFlag
    from twill.kernel.argument_types import parse_type
    from twill.kernel.recorded import RecordedVariant as Recorded
    from twill.kernel.recorded import Sizes
    from twill.runtime.variant import Unsupported, variant

    function = launch.kernel.fn
    file = os.path.realpath(function.__code__.co_filename)
    if "<locals>" in function.__qualname__:
        raise Unrecordable("it is defined inside a function")
    if not Path(file).is_file():
        raise Unrecordable("it has no file")
    names = list(launch.arguments)
    try:
        found = variant(names, launch.specialization, list(launch.arguments.values()))
        for name, kind in found.signature:
            parse_type(name, kind)
    except (Unsupported, MalformedFlag) as error:
        raise Unrecordable(str(error).split("\n")[0]) from None
    fused = bool(launch.options.get("enable_fp_fusion", True))
    made = Recorded(function.__name__, found.signature, found.constants, found.divisible, fused)
    arguments = [(name, launch.arguments[name], kind) for name, kind in found.signature]
    scalars = [(name, value, kind) for name, value, kind in arguments if not kind.startswith(("*", "tensordesc"))]
    return file, made, Sizes(
        launch.grid,
        tuple((name, int(value)) for name, value, kind in scalars if "fp" not in kind and "bf" not in kind),
        tuple((name, float(value)) for name, value, kind in scalars if "fp" in kind or "bf" in kind),
        tuple((name, shape_of(value)) for name, value, kind in arguments if kind.startswith(("*", "tensordesc"))),
        looked_up({name: value for name, value, kind in arguments if kind in ("*i32", "*i64")}),
    )  # fmt: skip


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, or of the tensor behind a descriptor, in memory. Errors: Unrecordable."""
    from twill.kernel.recorded import memory_shape

    tensor = getattr(value, "base", value)
    if not hasattr(tensor, "stride") or not hasattr(tensor, "shape"):
        raise Unrecordable(f"an argument is a {type(value).__name__}")
    return memory_shape(tuple(tensor.shape), tuple(tensor.stride()))


MOST_NUMBERS = 256  # of a tensor whose numbers are looked at
ADDRESS = 1 << 20  # what is an address is greater


def looked_up(tensors: dict[str, Any]) -> LookedUp | None:
    """The numbers in a launch's integer tensors, if some are the addresses of tensors. None if no address is among
    them, or there are no numbers (a tensor of the meta device)."""
    from twill.kernel.recorded_tables import LookedUp as Found

    numbers = {name: numbers_of(tensor) for name, tensor in tensors.items()}
    large = {name for name, of in numbers.items() if of and min(of) > ADDRESS}
    there = tensors_at({number for name in large for number in numbers[name]}) if large else {}
    pointed = {name: pointed_at([there.get(number) for number in numbers[name]]) for name in sorted(large)}
    addresses = tuple((name, of) for name, of in pointed.items() if of is not None)
    if not addresses:
        return None
    return Found(tuple((name, of) for name, of in numbers.items() if of and not pointed.get(name)), addresses)


def numbers_of(tensor: Any) -> tuple[int, ...]:
    """The numbers in a tensor that has few; () if it has many, or none that can be read."""
    if getattr(tensor, "is_meta", True) or not 0 < tensor.numel() <= MOST_NUMBERS:
        return ()
    return tuple(int(number) for number in tensor.reshape(-1).tolist())


def tensors_at(addresses: set[int]) -> dict[int, Any]:
    """The tensors of this process that begin at these addresses."""
    import gc

    import torch

    found: dict[int, Any] = {}
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and not thing.is_meta and thing.data_ptr() in addresses:
            known = found.get(thing.data_ptr())
            if known is None or known.numel() < thing.numel():
                found[thing.data_ptr()] = thing
    return found


def pointed_at(tensors: list[Any]) -> PointedAt | None:
    """What the addresses in a tensor point to; None if one points to no tensor, or they are of different elements."""
    from twill.kernel.recorded_tables import PointedAt as Pointed

    if any(tensor is None for tensor in tensors) or len({tensor.dtype for tensor in tensors}) != 1:
        return None
    return Pointed(tensors[0].element_size(), tuple(shape_of(tensor) for tensor in tensors))


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
