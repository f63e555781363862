"""Modules of Gluon of tensors that have more axes than tiles, and of such that the kernel does not bound."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conftest import GOLDEN
from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import MOST_LOCAL, GluonEmission, emit_gluon
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

pytestmark = pytest.mark.usefixtures("at_root")

NAMES = ("attention_pointers_full", "attention_descending_causal")


@cache
def emitted(name: str) -> tuple[Extracted, GluonEmission]:
    example = next(one for one in examples() if one.name == name)
    kernel = extract(example.file, example.spec, (), (), Allowed(conditional=False))
    return kernel, emit_gluon(kernel, H100, lambda *_: schedule(example))


@pytest.mark.parametrize("name", NAMES)
def test_tiles_are_slices_of_tensors_of_three_axes(name: str, request: pytest.FixtureRequest) -> None:
    kernel, made = emitted(name)
    assert made.compiled.local <= MOST_LOCAL and ".load_slice(" in made.module.text
    assert "equal to the tile program, nothing found" in checked(made, kernel.specialization)
    path = GOLDEN / f"gluon_{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(made.module.text, encoding="utf-8")
    assert made.module.text == path.read_text(encoding="utf-8")


def test_what_a_kernel_does_not_bound_is_bounded_by_the_tensor() -> None:
    text = emitted("attention_pointers_full")[1].module.text
    assert "[steps_within(K, N_CTX * stride), N_CTX, steps_within(K, 1)], [N_CTX * stride, stride, 1]" in text
