"""Promises of infinities of 8 bits: moved, they stay; converted, they saturate, but not where digits are cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.emit import emit
from twill.codegen.verify.abstract.data import tells_floats_apart, with_awkward_floats
from twill.graph.build import wire
from twill.kernel.specialization import resolve
from twill.trial import execute

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def chosen(x, z, y, w, v, u, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i)
    tl.store(y + i, tl.where(i % 2 == 0, a, tl.load(z + i)))
    tl.store(w + i, a.to(tl.float32).to(tl.float8e5))
    tl.store(u + i, tl.load(v + i).to(tl.float8e5, fp_downcast_rounding="rtz"))
"""
SIG = ("x=*fp8e5:16", "z=*fp8e5:16", "y=*fp8e5:16", "w=*fp8e5:16", "v=*fp32:16", "u=*fp8e5:16")
CUT = {1.2: 1.0, -1.99: -1.75, 65504.0: 57344.0, 1e30: 57344.0, np.inf: np.inf, -np.inf: -np.inf, 2.0**-16: 2.0**-16,
       1e-7: 0.0}  # fmt: skip
CONST = ("BLOCK=1024",)


def test_an_infinity_of_e5m2_that_is_only_moved_stays_one_and_a_converted_one_saturates(tmp_path: Path) -> None:
    (tmp_path / "chosen.py").write_text(KERNEL)
    file = str(tmp_path / "chosen.py")
    kernel = extract(file, sig=SIG, const=CONST)
    assert tells_floats_apart(kernel.program)
    made = emit(wire(kernel.program), resolve(file, sig=SIG, const=CONST), scheduled(kernel.program), H100)
    launch = execute.smallest(made.program)
    arrays = {name: array.copy() for name, array in launch.arrays.items()}
    for name in ("x", "z"):
        arrays[name][:8] = [np.inf, -np.inf, np.inf, 1.0, -np.inf, 57344.0, 0.0, np.inf]
    arrays["v"][: len(CUT)] = list(CUT)
    found = execute.verified(made.build.ptx, made.manifest, made.program, replace(launch, arrays=arrays))
    assert not found.said()
    assert found.arrays["y"][:3].tolist() == [np.inf, -np.inf, np.inf]
    assert found.arrays["w"][:3].tolist() == [57344.0, -57344.0, 57344.0]
    assert found.arrays["u"][: len(CUT)].tolist() == list(CUT.values())


def test_awkward_data_of_e5m2_has_infinities() -> None:
    made = with_awkward_floats(np.random.default_rng(1), np.zeros(4096, np.float32), "f8e5m2")
    assert np.isinf(made).any()
