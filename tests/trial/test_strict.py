"""Under `--strict-math` the machine code, run on the CPU, gives the bits of the sequential tile program.

Sums of rows, inside products and of atomic additions have an order of their own in both; here they are exact, for data
are small integers. Behind some tensors there is nothing that the hardware approximates (`tests.exactness`): every bit
must be equal. Functions that the hardware approximates may be a unit off where nothing rounds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.exactness import functions_behind, inexact, integers, whole
from tests.golden_schedules import machine
from twill.codegen.emission import extract
from twill.codegen.emit import build_kernel
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import execute, smallest

UNIT = 2.0**-23  # of f32
ROWS = CheckedLaunch((3,), {name: np.zeros(3 * 208, np.float32) for name in "xy"}, {"N": 208})


@dataclass(frozen=True)
class Difference:
    """How many elements have other bits, and how far they are off, relative to the largest."""

    elements: int
    most: float


def differences(
    target: str, spec: str | None, sig: tuple[str, ...] = (), const: tuple[str, ...] = (), whole_exponents: bool = False
) -> tuple[dict[str, Difference], dict[str, frozenset[str]]]:
    """Of each tensor that a kernel writes, and what is approximate behind it at the launch. Without a specialization in
    a sidecar: of `ROWS`."""
    kernel = extract(target, spec, sig, const, strict=True)
    schedule = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic", fuse=False))
    program = lower(kernel.program, schedule, machine())
    made = build_kernel(program, kernel.specialization, schedule, machine(), accept_slow=True)
    assert made.manifest.strict
    assert made.manifest.changes == ()
    launch = smallest(program, problem_of(kernel.specialization)) if spec else ROWS
    written, random = program.program.original or program.program, np.random.default_rng(3)
    launch = whole(written, launch, random) if whole_exponents else integers(launch, random)
    expected, kinds = inexact(written, launch)
    elements = {a.name: a.type.element.partition(":")[2] for a in written.arguments if a.name in launch.arrays}
    done = execute(made.build.ptx, made.manifest, launch, elements)
    assert not done.said()
    found = {}
    for name, wanted in expected.items():
        if (wanted != launch.arrays[name]).any():
            off = np.abs(done.arrays[name].astype(np.float64) - wanted)
            found[name] = Difference(int((done.arrays[name] != wanted).sum()), float(off.max() / np.abs(wanted).max()))
    return found, {name: functions & kinds for name, functions in functions_behind(written).items()}


STRANGERS = "tests/stranger_kernels.py"


@pytest.mark.parametrize(
    ("target", "spec", "sig", "const", "rounded"),
    [
        ("examples/gemm_pointers.py", "bf16", (), (), {"c_ptr"}),
        ("examples/layer_norm.py", "bf16", (), (), {"Y", "mean_ptr"}),
        ("examples/attention.py", "causal-d64", (), (), {"o_desc"}),
        (f"{STRANGERS}::softmax", None, ("x=*fp32:16", "y=*fp32:16", "N=i32:16"), ("BLOCK=256",), set()),
    ],
)
def test_a_strict_kernel_gives_the_bits_of_its_tile_program(
    target: str, spec: str | None, sig: tuple[str, ...], const: tuple[str, ...], rounded: set[str]
) -> None:
    """rounded: tensors in which approximations, if there are any, are rounded away: of these every bit is the same."""
    found, behind = differences(target, spec, sig, const)
    assert found
    assert {name for name, functions in behind.items() if not functions} <= rounded
    assert rounded <= found.keys()
    assert {name: found[name] for name in rounded} == dict.fromkeys(rounded, Difference(0, 0.0))
    assert all(one.most <= 2 * UNIT for one in found.values())


def test_with_whole_exponents_every_gradient_of_attention_has_the_bits_of_its_tile_program() -> None:
    """dQ is added up atomically, in float32, which hides nothing: what differs of it otherwise are its exponentials."""
    found, behind = differences("examples/attention_backward.py", "causal", whole_exponents=True)
    assert behind == dict.fromkeys(("dk_desc", "dq_desc", "dv_desc"), frozenset())
    assert found == dict.fromkeys(("dk_desc", "dq_desc", "dv_desc"), Difference(0, 0.0))
