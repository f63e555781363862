"""Functions of several tiles compute what they do in Triton's interpreter, and so does their machine code."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.generated.kernels import held
from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

FILE = ROOT / "tests" / "fold_kernels.py"
ROWS = {"R": 8, "C": 16}
KERNELS = {"welford": ROWS, "whole": ROWS, "columns": ROWS, "recurrence": ROWS, "backwards": ROWS,
           "products": {"G": 4, "N": 16}}  # fmt: skip
KINDS = {"welford": ("fp32",), "products": ("fp16", "bf16")}
FAR = 64  # epsilons of the largest number: functions of floats in another order


def signature(kernel: str, kind: str) -> list[str]:
    kinds = (kind, kind, "fp32" if kernel == "products" else kind)
    return [f"{name}=*{one}:16" for name, one in zip("xyz", kinds, strict=True)]


CASES = [(kernel, kind) for kernel in KERNELS for kind in KINDS.get(kernel, ("i32", "i64", "fp32"))]


@pytest.mark.parametrize(("kernel", "kind"), [case for case in CASES if case[1] != "bf16"])
def test_they_compute_what_triton_does(kernel: str, kind: str) -> None:
    const = [f"{name}={value}" for name, value in KERNELS[kernel].items()]
    spec = resolve(f"{FILE}::{kernel}", sig=signature(kernel, kind), const=const)
    for one in held(spec, Case({}, (1,), dict.fromkeys("xyz", (1024,)), {})):
        assert one.furthest <= (0 if kind.startswith("i") else FAR), one


@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_their_machine_code_computes_what_they_do(kernel: str, kind: str) -> None:
    const = [f"{name}={value}" for name, value in KERNELS[kernel].items()]
    found = extract(f"{FILE}::{kernel}", sig=signature(kernel, kind), const=const)
    checked(emit_scheduled(found, H100, solve(found.graph, H100, SolveOptions(strategy="heuristic"))))
