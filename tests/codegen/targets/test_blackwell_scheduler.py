"""Promises of a dynamic order on Blackwell: CTAs take over the places of others that have not started."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import cast

import pytest

from tests import blackwell
from tests.blackwell import GEMM
from tests.codegen.targets.test_blackwell import other
from tests.golden_schedules import kernel
from tests.run_cache import once
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import LARGE, launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import FetchInstance
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.runtime.device import Device
from twill.runtime.plan import launch_shape
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")


@cache
def compiled() -> Emission:
    schedule, machine = blackwell.schedule(GEMM), blackwell.machine()
    made = lower(kernel(GEMM).program, schedule, machine, order="dynamic")
    spec = kernel(GEMM).specialization
    return once("b200-dynamic-gemm", lambda: build_kernel(made, spec, schedule, machine))


def said(answers: tuple[int, ...], change: Callable[[str], str] = str) -> list[str]:
    """Of four tiles."""
    made, problem = compiled(), problem_of(kernel(GEMM).specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case({"M": 144, "N": 144, "K": 136}), scale=LARGE, data="normal")
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given, answers=answers).said()


@pytest.mark.parametrize("answers", [(), (1, -1), (2, 0, -1), (-1,)], ids=str)
def test_tiles_are_right_whatever_the_hardware_answers(answers: tuple[int, ...]) -> None:
    assert said(answers) == []


def test_a_launch_has_a_cta_for_each_instance_and_no_counter() -> None:
    made = compiled()
    assert made.program.cancels and made.manifest.cancels and not made.manifest.workspace
    assert [one for group in made.program.groups for one in group.stmts if isinstance(one, FetchInstance)] != []
    assert parse(text(made.program), made.program.program) == made.program
    gpu = cast(Device, SimpleNamespace(sms=2))
    assert launch_shape(made.manifest, (5, 7, 1), gpu).grid == (35, 1, 1)
    assert launch_shape(replace(made.manifest, cancels=False), (5, 7, 1), gpu).grid == (2, 1, 1)
    assert "atom.global" not in made.build.ptx


def test_the_abstract_machine_gives_the_places_in_any_order() -> None:
    assert verify(compiled().program, problem_of(kernel(GEMM).specialization)) == ()


def unfenced(ptx: str) -> str:
    made, count = re.subn(r"(get_first_ctaid::x.*?)fence\.proxy\.async[^;]*;", r"\1", ptx, flags=re.S)
    assert count
    return made


FAULTS: dict[str, Callable[[str], str]] = {
    "the answer is overwritten before it is read": unfenced,
    "a place is read of an answer that none is left": other(r"@is clusterlaunchcontrol", "clusterlaunchcontrol"),
    "fewer bytes are expected than an answer has": other(r"(mov\.b32 \s*%r\d+), 16;", r"\1, 8;"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_printer_is_found_by_the_executor(name: str) -> None:
    assert said((1, -1), FAULTS[name])
