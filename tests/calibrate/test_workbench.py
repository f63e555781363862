"""Promises of the workbench: the GPU is the one that the machine is, launches end, and every kernel is in its text."""

from __future__ import annotations

import re

import pytest

from tests.calibrating import FakeGpu, fake_gpu
from twill import exc
from twill.calibrate import workbench
from twill.calibrate.workbench import SOURCES, cubin, opened, parameters, source, source_digest, usable
from twill.codegen.targets.hopper.probes import CLOCK, PROBES
from twill.runtime import device, driver


def build(name: str, arch: str) -> bytes:
    return b""


def test_without_a_driver_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise exc.DriverMissing("no driver")

    for user in (workbench, driver, device):
        monkeypatch.setattr(user, "bindings", missing)
    device.device.cache_clear()
    with pytest.raises(exc.DriverMissing, match="cannot run a kernel here"), opened("sm_90a", "h200", build):
        pass


def test_another_gpu_than_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, capability=(8, 0))
    with pytest.raises(exc.WrongDevice, match="h200 is sm_90a, this GPU is NVIDIA H200 of compute capability 8.0"):
        usable("sm_90a", "h200")


def test_a_machine_without_microbenchmarks_is_refused_before_the_gpu_is_looked_at() -> None:
    with pytest.raises(exc.WrongDevice, match="for sm_90a alone, and machine b200 is sm_100a"):
        usable("sm_100a", "b200")


def test_a_launch_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, busy=True)
    monkeypatch.setattr(workbench, "SECONDS", 0.01)
    with opened("sm_90a", "h200", build) as bench, pytest.raises(exc.MicrobenchmarkHung, match="exp2"):
        bench.run(PROBES["exp2.f32.latency"], 4)


def test_a_failed_launch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failed(int):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"

    class Broken(FakeGpu):
        def cuStreamQuery(self, stream: int) -> tuple[Failed]:  # type: ignore[override]
            return (Failed(700),)

    from tests.fake_driver import install

    fake = Broken()
    install(monkeypatch, fake)
    namespace = fake.namespace()
    monkeypatch.setattr(workbench, "bindings", lambda: namespace)
    with opened("sm_90a", "h200", build) as bench, pytest.raises(exc.DriverFailed, match="exp2.*ILLEGAL_ADDRESS"):
        bench.run(PROBES["exp2.f32.latency"], 4)
    assert not fake.memory


def test_a_probe_of_all_sms_has_a_cta_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_gpu(monkeypatch)
    with opened("sm_90a", "h200", build) as bench:
        bench.run(PROBES["global.load.all"], 4)
        bench.run(PROBES["global.load.one"], 4)
        bench.run(PROBES["tma.load.all.4"], 4)
    assert [launch.grid[0] for launch in fake.launches] == [132, 1, 132]
    assert fake.loaded == 2, "a source is built once"
    assert fake.encoded[-1]["box"] == [64, 128]


@pytest.mark.parametrize("name", SOURCES)
def test_every_kernel_is_in_its_source(name: str) -> None:
    text = re.sub(r"//.*", "", source(name))
    kernels = {probe.kernel for probe in (*PROBES.values(), CLOCK) if probe.file == name}
    assert kernels
    for kernel in kernels:
        made = [kernel, *(kernel[:at] for at in (kernel.rfind("_"), kernel.find("_")) if at > 0)]  # by a macro
        assert any(re.search(rf"\b{part}_?\b", text) for part in made), kernel


def test_what_is_shared_comes_first_and_counts_for_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source("shared.cu").index("clock64") < source("shared.cu").index("shared_chase")
    before = source_digest()
    monkeypatch.setattr(workbench, "source", lambda name: source(name) + " ")
    assert source_digest() != before


@pytest.mark.parametrize("name", ["global.cu", "tensors.cu"])
def test_sources_compile_and_take_the_parameters_of_their_probes(name: str) -> None:
    text = source(name)
    assert cubin(name, "sm_90a").startswith(b"\x7fELF")
    for probe in PROBES.values():
        if probe.file == name:
            (taken,) = re.findall(rf"\b{probe.kernel}\(([^{{]*)\) {{", text)
            assert len(taken.split(",")) == len(parameters(probe)), probe.name
