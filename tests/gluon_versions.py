"""What the Triton that is installed makes of the kept modules of Gluon: compiled, read back and executed on the CPU.

python -m tests.gluon_versions h100|b200 [NAME...]     # exit code 1 if anything differs
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Sequence

import triton

from tests import blackwell
from tests import blackwell_attention as attention
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, emit_gluon
from twill.exc import ExecutionDiffers, TwillError
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

Made = tuple[Extracted, GluonEmission]
HOPPER = {
    "GEMM": "gemm_bf16", "GEMM with bias and GELU": "gemm_bias_gelu_bf16", "dual GEMM": "dual_gemm_bf16",
    "attention, full": "attention_full", "attention, causal": "attention_causal",
    "linear attention": "linear_attention_bf16", "GEMM fp8 (e4m3)": "gemm_fp8_e4m3",
}  # fmt: skip
BLACKWELL = {
    "GEMM": blackwell.GEMM, "GEMM with bias and GELU": blackwell.GELU, "GEMM fp8 (e4m3)": blackwell.FP8,
    "dual GEMM": blackwell.DUAL,
}  # fmt: skip
ATTENTION = {
    "attention, full": attention.IN_GLUON[0], "attention, causal": attention.IN_GLUON[1],
    "attention, full, two row blocks": attention.IN_GLUON[2],
}  # fmt: skip
PRINTED = {
    "GEMM": "gemm", "GEMM with bias and GELU": "gelu", "GEMM fp8 (e4m3)": "fp8", "dual GEMM": "dual_gemm",
    "attention, full": "attention", "attention, causal": "causal", "attention, full, two row blocks": "two_row_blocks",
    "linear attention": "linear_attention",
}  # fmt: skip
"""The golden files of modules for the B200."""
LINEAR = {"q_desc": 128, "k_desc": 128, "v_desc": 64, "o_desc": 64}
AS_IT_IS = Allowed(conditional=False)


def _hopper(name: str) -> Made:
    example = next(one for one in examples() if one.name == HOPPER[name])
    kernel = extract(example.file, example.spec, (), (), AS_IT_IS)
    return kernel, emit_gluon(kernel, H100, lambda *_: schedule(example))


def _blackwell(name: str) -> Made:
    machine = blackwell.machine()
    if name in ATTENTION:
        found = ATTENTION[name]
        return attention.kernel(found), emit_gluon(
            attention.kernel(found), machine, lambda *_: attention.schedule(found)
        )
    if name in BLACKWELL:
        example = BLACKWELL[name]
        kernel = extract(example.file, example.spec, (), (), AS_IT_IS)
    else:
        signature = tuple(f"{one}=tensordesc<bf16[128,{columns}]>" for one, columns in LINEAR.items())
        kernel = extract("examples/linear_attention.py", "bf16", signature, ("CHUNK=128",), AS_IT_IS)
    return kernel, emit_gluon(kernel, machine, lambda graph, on: solve(graph, on, SolveOptions(fuse=False)))


MAKERS: dict[str, tuple[dict[str, str], Callable[[str], Made]]] = {
    "h100": (HOPPER, _hopper), "b200": (PRINTED, _blackwell),
}  # fmt: skip


def row(machine: str, name: str) -> tuple[str, bool]:
    """A line about a module, and whether all of it is as it should be."""
    try:
        kernel, made = MAKERS[machine][1](name)
    except TwillError as error:
        return f"{name}: {type(error).__name__}: {error.message}", False
    golden = GOLDEN / (f"gluon_b200_{PRINTED[name]}.txt" if machine == "b200" else "none")
    same = ""
    if machine == "b200":
        kept = golden.read_text(encoding="utf-8").splitlines()
        other = sum(one[:1] in "+-" for one in difflib.unified_diff(kept, made.module.text.splitlines(), n=0)) - 2
        same = ", the golden" if other <= 0 else f", {other} lines other than the golden"
    try:
        executed = checked(made, kernel.specialization)
    except ExecutionDiffers as error:
        return f"{name}: read back equal; {error.message}", False
    lines, local = made.module.text.count("\n"), made.compiled.local
    facts = f"{len(made.module.facts)} facts read back equal"
    return f"{name}: {lines} lines{same}; {facts}; {local} bytes in local memory; {executed}", True


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    os.chdir(ROOT)
    machine, *names = words
    print(f"Triton {triton.__version__}, modules for {machine}", flush=True)
    right = True
    for name in names or MAKERS[machine][0]:
        said, fine = row(machine, name)
        print(said, flush=True)
        right &= fine
    return int(not right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
