"""Promises of the reference: the kernel's meaning without rounding to 16 bits, of the same inputs."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.fake_torch import fake_torch
from tests.golden_schedules import Example, kernel
from tests.manifests import KERNEL
from twill.codegen.manifest import call_arguments
from twill.kernel.sidecar import read_sidecar
from twill.trial.data import make_data
from twill.trial.reference import reference


@pytest.mark.usefixtures("at_root")
def test_layer_norm_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = fake_torch()
    torch.bfloat16 = torch.float16  # NumPy has no bfloat16; here only the inputs are of it
    monkeypatch.setitem(sys.modules, "torch", torch)
    read = kernel(Example("examples/layer_norm.py", "bf16"))
    sidecar = read_sidecar("examples/layer_norm.py")
    assert sidecar is not None and sidecar.tables[0].problem is not None
    case = sidecar.tables[0].problem.case({"M": 2, "N": 1040})
    arguments = call_arguments(read.specialization)
    manifest = replace(
        KERNEL, arguments=arguments, loads=("X", "weight", "bias"), stores=("Y", "mean_ptr", "rstd_ptr"), reduces=()
    )
    data = make_data(manifest, case, device="cpu")
    found = reference(read.program, data)
    x, weight, bias = (data.tensor(name).array.astype(np.float64) for name in ("X", "weight", "bias"))
    rstd = 1 / np.sqrt(x.var(1) + 1e-5)
    assert np.allclose(found["rstd_ptr"].array, rstd, rtol=1e-5)
    wanted = (x - x.mean(1, keepdims=True)) * rstd[:, None] * weight + bias
    assert np.abs(found["Y"].array - wanted).max() < 1e-5  # bf16 would be wrong by 1e-2
    assert found["Y"].array.dtype == np.float32
