"""What is known of every kernel for the B200, in one table: none of them was run on one.

    python -m tests.blackwell_table measure RECORD [ROW ...] [--sentry SECONDS]
    python -m tests.blackwell_table ask RECORD [ROW ...] --sentry SECONDS
    python -m tests.blackwell_table table RECORD

`measure` solves or reads schedules, emits, asks the abstract machine, executes the PTX and predicts; a line of JSON for
each row is written to RECORD. --sentry: SentryWard is asked, for that long at most; without it an earlier answer about
the same PTX is kept. `ask` does that alone, and keeps what was measured before. `table` is that of docs/blackwell.md.
Seconds are of CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests import sentry
from tests.blackwell import machine
from tests.blackwell_rows import ROWS, Row, Sizes
from tests.narrow import Narrow
from twill import exc
from twill.codegen.emit import Emission
from twill.codegen.verify.abstract.data import Data
from twill.codegen.verify.abstract.inputs import LARGE, CheckedLaunch, launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx import run as ptx_run
from twill.codegen.warp.program import WarpProgram
from twill.kernel.problem import ProblemTable
from twill.kernel.specialization import problem_of
from twill.tile.program import TileProgram
from twill.trial import execute
from twill.tune.predict import predicted_cycles

SAID = {"verified": "race free, verified equal", "timeout": "no answer"}


@dataclass(frozen=True)
class Known:
    """Of one row. columns: of tensor memory. shared: bytes. digest: of the PTX. emission, machine, execution: seconds
    of CPU.
    consents: of the abstract machine, or what it says; executed: "equal", or what differs. predicted: TFLOP/s."""

    name: str
    tile: str
    registers: int
    spills: int
    shared: int
    columns: int
    ii: int
    proven: bool
    digest: str
    emission: float
    consents: str
    machine: float
    executed: str
    execution: float
    sizes: Sizes
    predicted: float
    large: Sizes
    published: str
    sentry: str = "not asked"


def cpu() -> float:
    """Seconds of this process and those that it has waited for: other work beside it does not count."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def problem(row: Row) -> ProblemTable:
    """Which tensors sizes mean."""
    found = problem_of(row.kernel().specialization)
    assert found is not None
    return found


def given(row: Row, sizes: Sizes) -> CheckedLaunch:
    """Random numbers at these sizes."""
    program = row.kernel().program
    return launch(program, problem(row).case(dict(sizes)), scale=LARGE, data=telling(program))


def telling(program: TileProgram) -> Data:
    """Numbers that tell types of operands apart: of integers those of all bits, where a product multiplies some."""
    products = (op for op in program.ops() if op.kind == "dot")
    return "awkward" if any(program.type_of(op.operands[0]).element == "i8" for op in products) else "normal"


def executed(row: Row) -> list[str]:
    """What is wrong with its PTX on the executor: findings, and differences from the tile program."""
    made = row.compiled()
    return execute.verified(made.build.ptx, made.manifest, made.program, given(row, row.executed), row.ctas).said()


def tflops(row: Row) -> float:
    """At its large size, by the schedule's own account, with filling and draining of every program instance; 0 for
    what has no products."""
    if not row.flops:
        return 0.0
    on = machine()
    cycles = predicted_cycles(row.kernel(), row.schedule(), on, problem(row).case(dict(row.large)))
    return row.flops * on.clock_mhz.value / cycles / 1e6


class Asked(Exception):
    """What the executor would have run."""

    def __init__(self, entry: str, one: ptx_run.PtxLaunch) -> None:
        super().__init__(entry)
        self.entry, self.one = entry, one


def asked(row: Row, sizes: Sizes, ctas: int = 1) -> tuple[str, str, ptx_run.PtxLaunch]:
    """The text that SentryWard takes, the entry and the launch."""
    return question(row.compiled(), given(row, sizes), ctas)


def question(made: Emission, launched: CheckedLaunch, ctas: int) -> tuple[str, str, ptx_run.PtxLaunch]:
    """The same of any emitted kernel."""

    def instead(module: Any, entry: str, one: ptx_run.PtxLaunch) -> Any:
        raise Asked(entry, one)

    with patch.object(ptx_run, "execute", instead):
        try:
            execute.verified(made.build.ptx, made.manifest, made.program, launched, ctas)
        except Asked as caught:
            text, one = made.build.ptx, caught.one
            reduced = {op.access.base for op in made.program.program.ops() if op.kind == "tile_reduce" and op.access}
            if reduced and one.cluster > 1:
                text, one = sentry.apart(text, one, reduced)
            return sentry.taken(text), caught.entry, one
    raise AssertionError("nothing was run")


def integers(row: Row) -> dict[str, int]:
    """Constants of its kernel."""
    return {name: value for name, value in row.kernel().specialization.constexprs if isinstance(value, int)}


def deepest(program: WarpProgram) -> int:
    """Slots of the deepest ring that a loop fills."""
    return max(ring.depth for ring in program.arefs)


def twice(row: Row) -> Sizes:
    """One tile of a product, of so many steps of K that every ring comes round twice; as many rows for LayerNorm."""
    constants, steps = integers(row), 2 * deepest(row.lowered()) + 1
    for m, n, k in (("BLOCK_M", "BLOCK_N", "BLOCK_K"), ("BM", "BN", "BK")):
        if k in constants:
            return {"M": row.cluster * constants[m], "N": constants[n], "K": steps * constants[k]}
    return {"M": 1, "N": steps * constants["BLOCK"]}


def asked_narrow(made: Narrow) -> tuple[tuple[str, str, ptx_run.PtxLaunch], str]:
    """A question about a narrow kernel, one program instance for each CTA of a cluster, whose loop brings every ring
    round twice, and at which sizes. Where a loop ends at the diagonal, there are as many program instances as that
    takes."""
    steps = 2 * deepest(made.program) + 1
    specialization = made.kernel.specialization
    constants = {name: value for name, value in specialization.constexprs if isinstance(value, int)}
    backward = "dq_desc" in dict(specialization.signature)
    table = problem_of(specialization)
    assert table is not None
    if "CHUNK" in constants:
        length, unit, name, other = steps * constants["CHUNK"], 1, "T", {"HEAD_V": constants["BLOCK_V"]}
    else:
        streamed = constants["BLOCK_M" if backward else "BLOCK_N"]
        length, unit, name, other = steps * streamed, max(constants["BLOCK_M"], constants["BLOCK_N"]), "N_CTX", {}
    diagonal = not backward and bool(constants.get("CAUSAL", "WINDOW" in constants))
    if diagonal:
        length -= streamed  # two times round, no step more
    whole = unit * max(made.cluster, -(-length // unit))
    sizes = {"Z": 1, "H": 1, name: whole, **other}
    launched = launch(made.kernel.program, table.case(sizes), scale=LARGE, data="normal")
    text, entry, one = question(made.compiled(), launched, made.cluster)
    if not diagonal and length < whole:
        one = shortened(one, whole, length)
    at = f"{whole if diagonal else length}, {', '.join(f'{key} = {constants[key]}' for key in made.cut)}"
    return (text, entry, one), at


def shortened(one: ptx_run.PtxLaunch, whole: int, length: int) -> ptx_run.PtxLaunch:
    """The first program instance of each CTA of a cluster alone, whose loop is so long instead of `whole`."""
    *given, x, y, z = one.arguments
    changed = [length if argument == whole and isinstance(argument, int) else argument for argument in given]
    assert changed != given and isinstance(x, int)
    return replace(one, arguments=(*changed, one.cluster, y, z), grid=(one.cluster, 1, 1))


def answer(row: Row, seconds: int) -> str:
    """Of SentryWard."""
    begin, reference = cpu(), row.reference
    if row.narrow is not None:
        asked_about, at = asked_narrow(row.narrow())
        found = sentry.checked(*asked_about, seconds)
    else:
        sizes = twice(row)
        asked_about, at = asked(row, sizes, row.cluster), ", ".join(map(str, sizes.values()))
        found = (
            sentry.checked(*asked_about, seconds)
            if reference is None
            else sentry.equal(*asked_about, reference.text, reference.inputs, reference.output, seconds)
        )
    said = SAID.get(str(found["result"]), str(found["result"]).replace("_", " "))
    if found["result"] == "unsupported" and found["checks"]["memory"] == "passed":
        said = "race free, not verified"
    if row.narrow is not None:
        said = f"narrow: {said}"
    codes = sorted({str(one.get("code")) for one in found.get("diagnostics", ())})
    why = f"; {', '.join(codes)}" if codes else ""
    return f"{said} ({at}; {cpu() - begin:.0f} s{why})"


def digest_of(ptx: str) -> str:
    """Of a text without the lines of the source that its instructions come from: where a header has its functions says
    nothing about a kernel."""
    return hashlib.sha256(re.sub(r"\n\t\.loc\t[^\n]*", "", ptx).encode()).hexdigest()[:16]


def measured(row: Row, before: Mapping[str, Known], seconds: int) -> Known:
    """Everything about a row. seconds: for SentryWard; 0: it is not asked."""
    found = row.schedule()
    begin = cpu()
    made = row.compiled()
    emitted = cpu()
    broken = verify(made.program, problem(row))
    checked = cpu()
    differs = executed(row)
    ran = cpu()
    digest = digest_of(made.build.ptx)
    last = before.get(row.name)
    said = answer(row, seconds) if seconds else last.sentry if last and last.digest == digest else "not asked"
    return Known(
        row.name, row.tile, made.facts.registers, made.facts.spill_stores + made.facts.spill_loads,
        made.manifest.shared, made.program.tensor_columns, found.ii, "ii" in found.objective.proven, digest,
        round(emitted - begin, 1), broken[0].describe() if broken else "consents", round(checked - emitted, 1),
        differs[0] if differs else "equal", round(ran - checked, 1), dict(row.executed), round(tflops(row)),
        dict(row.large), row.published, said,
    )  # fmt: skip


def read(record: Path) -> dict[str, Known]:
    """The last line of each row."""
    lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    return {known.name: known for known in (Known(**json.loads(line)) for line in lines)}


def table(known: Sequence[Known]) -> str:
    """Markdown."""
    rows = [
        "| example | tile | registers a thread (spills) | bytes of shared memory, columns | abstract machine | PTX "
        "executed = tile program | SentryWard | I | TFLOP/s predicted | published |",
        "| --- | --- | --- | --- | --- | --- | --- | ---: | --- | --- |",
    ]
    for one in known:
        sizes = ", ".join(map(str, one.sizes.values()))
        at = f"{one.predicted:,.0f} ({', '.join(map(str, one.large.values()))})" if one.predicted else ""
        rows.append(
            f"| `{one.name.replace(' ', '` ', 1)} | {one.tile} | {one.registers} ({one.spills}) | {one.shared:,}, "
            f"{one.columns} | {one.consents} | {one.executed} ({sizes}; {one.execution:.0f} s) | {one.sentry} | "
            f"{one.ii}{'' if one.proven else ', not proven'} | {at} | {one.published} |"
        )
    return "\n".join(rows)


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m tests.blackwell_table", description=__doc__)
    parser.add_argument("action", choices=("measure", "ask", "table"))
    parser.add_argument("record", type=Path)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--sentry", type=int, default=0)
    words_given = parser.parse_args(words)
    known = read(words_given.record)
    if words_given.action == "table":
        print(table([known[row.name] for row in ROWS if row.name in known]))
        return 0
    failed = 0
    for row in ROWS:
        if words_given.rows and row.name not in words_given.rows:
            continue
        try:
            if words_given.action == "ask":
                digest = digest_of(row.compiled().build.ptx)
                found = replace(known[row.name], digest=digest, sentry=answer(row, words_given.sentry))
            else:
                found = measured(row, known, words_given.sentry)
        except exc.TwillError as error:
            failed += 1
            print(f"{row.name}: {error.message}", flush=True)
            continue
        with words_given.record.open("a", encoding="utf-8") as record:
            record.write(json.dumps(asdict(found)) + "\n")
        failed += found.executed != "equal" or found.consents != "consents"
        print(
            f"{row.name}: {found.consents}, {found.executed}, {found.predicted:.0f} TFLOP/s, {found.sentry}", flush=True
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
