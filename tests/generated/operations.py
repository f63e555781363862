"""`docs/operations.md`: which operation on which type is held against what.

    python -m tests.generated.operations

writes it, from the counts of a run of the nightly form (`tests/generated/counts.json`), the list of differences
(`tests.triton_differences`) and the table of refusals.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.generated.programs import LIBRARY, LIBRARY_OF_TWO
from tests.generated.recorded import names, table
from tests.generated.values import DTYPES
from tests.triton_differences import DIFFERENCES
from twill.tile.translate.refusals import REFUSALS

ROOT = Path(__file__).resolve().parent.parent.parent
COUNTS = ROOT / "tests" / "generated" / "counts.json"
PAGE = ROOT / "docs" / "operations.md"

ULPS = frozenset({"sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "erf", *LIBRARY, *LIBRARY_OF_TWO}) - {
    "rint",
    "round",
    "trunc",
}
"""Functions that are compared within 2 ulps; everything else but sums of numbers that are no integers is exact."""

HEAD = """# Operations

Extraction and the interpreter of tile programs are held against Triton's interpreter: kernels written at random, on
NaN, infinities, signed zeros, subnormal numbers, the largest and smallest integers, shifts by the width and more
(`tests/generated/`). A thousand of them are a test, `python -m tests.generated --count 20000 --progress FILE` is the
nightly form, which goes on where it was interrupted. Run to its end (2026-11-23, Triton 3.9, 69 ms of CPU time a
program), none of its {programs} programs differed; before functions of CUDA's library were among them two did. One was
the generator's fault: halves that are divided are f32 for Triton, so that joining them to halves does not compile; such
quotients are converted back now. The other was the interpreter's: a `where` between infinities of fp8 made them the
largest number; it gives what it is given now.
Where Triton's interpreter does something else than the code that it compiles for sm_90, the compiled code counts; those
cases are listed below. What compiled code gives for the same values was recorded on a GPU (`tests/gpu/awkward.py`,
`tests/gpu/awkward.json`: {device}, Triton {triton}, {results} operations and types), and a test holds the interpreter
of tile programs against it.

The columns are types of results (of comparisons: of operands; `fp8e4nv` is Triton's name of e4m3). `=`: every bit, NaN
for NaN and the sign of zero included; `2 ulp`: within two units in the last place; the number behind it is how many of
the {programs} programs of that run have it; none of them differed by more. `Σ` of floats: exact for integers,
for other numbers within 64 epsilons.

"""


def page() -> str:
    """The whole page."""
    recorded = json.loads(COUNTS.read_text(encoding="utf-8"))
    assert not recorded["differ"], "a run whose programs differ is none to write down"
    lines = [f"| operation | {' | '.join(DTYPES)} |", f"| --- |{' --- |' * len(DTYPES)}"]
    for operation, made in sorted(recorded["made"].items()):
        cells = [f"{_how(operation, dtype)} {made[dtype]}" if dtype in made else "" for dtype in DTYPES]
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    different = [
        "", "## Where Triton's interpreter and its compiled code differ", "",
        "| operations | interpreter | compiled | PTX | Twill |", "| --- | --- | --- | --- | --- |",
        *(_row(d.operations, d.interpreter, d.compiled, d.ptx, d.twill) for d in DIFFERENCES),
    ]  # fmt: skip
    refused = [
        "", "## What extraction refuses", "", "With the kernel's file and line, and what to write instead.", "",
        "| operation | instead |", "| --- | --- |",
        *(_row(what, instead) for what, instead in sorted(set(REFUSALS.values()))),
    ]  # fmt: skip
    compiled = table()
    head = HEAD.format(
        programs=recorded["programs"], device=compiled["device"], triton=compiled["triton"], results=len(names())
    )
    return head + "\n".join([*lines, *different, *refused]) + "\n"


def _how(operation: str, dtype: str) -> str:
    floating = dtype.startswith(("fp", "bf"))
    if operation in ULPS:
        return "2 ulp"
    return "Σ" if floating and (operation.startswith("dot") or operation == "reduce sum") else "="


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
