"""The emitted kernels that a table needs, made in many processes from the kept schedules (or solved, if there is none).

A kernel is made again when the compiler, its example or the schedules have changed since. Folders of other origin
(`twill emit`, `twill tune`) compete as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from benchmarks.kernels.tables import ROOT, Row, computing

STAMPS = "made-from.json"


def emit_missing(
    folder: Path,
    rows: Sequence[Row],
    tell: Callable[[str], None],
    jobs: int | None = None,
    clusters: Sequence[int] = (1,),
) -> None:
    """Makes what `folder` lacks. What the compiler refuses is told and left out. clusters: CTAs that load tiles
    together; each kernel is made with each of these numbers."""
    stamp = source_digest()
    stamps = _stamps(folder)
    wanted = []
    kernels = specializations({kernel for row in rows for kernel in computing(row.kernel)})
    for (file, spec), cluster in product(kernels, clusters):
        name = f"{Path(file).stem}-{spec}{f'-cluster{cluster}' if cluster > 1 else ''}"
        foreign = (folder / name / "manifest.json").is_file() and name not in stamps
        if not foreign and stamps.get(name) != stamp:
            wanted.append((file, spec, folder / name, cluster))
    if not wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(emit_one, *one): one[2].name for one in wanted}
        for done in as_completed(pending):
            name = pending[done]
            refusal = done.result()
            stamps[name] = stamp
            (folder / STAMPS).write_text(json.dumps(stamps, indent=1), encoding="utf-8")
            if refusal:
                tell(f"{name}: not emitted: {refusal}")


def emit_one(file: str, spec: str, folder: Path, cluster: int = 1) -> str:
    """One kernel into `folder`; why not, if it is refused."""
    from tests.golden_schedules import Example, machine, schedule
    from twill import exc
    from twill.cli.output import write_all
    from twill.codegen.emission import emit_solved, extract
    from twill.codegen.emit import emit
    from twill.schedule.options import SolveOptions
    from twill.solve.pipeline import solve

    os.chdir(ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    kernel = extract(file, spec)
    try:
        try:
            retained = schedule(Example(file, spec))
            emission = emit(kernel.wired, kernel.specialization, retained, machine(), cluster=cluster)
        except (exc.ScheduleMismatch, exc.MalformedSchedule, exc.FileMissing):
            options = SolveOptions(budget=60.0, fuse=False)
            emission = emit_solved(kernel, machine(), lambda graph, on: solve(graph, on, options), cluster=cluster)
    except exc.TwillError as refused:
        return str(refused).splitlines()[0]
    folder.mkdir(parents=True, exist_ok=True)
    write_all({folder / name: content for name, content in emission.files().items()})
    return ""


def specializations(kernels: set[str]) -> Iterator[tuple[str, str]]:
    """File and specialization of the examples with these kernels."""
    import tomllib

    for path in sorted((ROOT / "examples").glob("*.twill.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        if document["kernel"] in kernels:
            file = f"examples/{path.name.removesuffix('.twill.toml')}.py"
            yield from ((file, table["name"]) for table in document["specialization"])


def source_digest() -> str:
    """Of all that an emitted example depends on."""
    total = hashlib.sha256()
    for pattern in (
        "twill/**/*.py",
        "twill/**/*.cuh",
        "examples/*",
        "machines/*.toml",
        "tests/golden/schedules/*.json",
    ):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file():
                total.update(path.relative_to(ROOT).as_posix().encode())
                total.update(path.read_bytes())
    return total.hexdigest()[:16]


def _stamps(folder: Path) -> dict[str, str]:
    path = folder / STAMPS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
