"""Promises of the settings: arguments, else the environment, else the usual ones; off in the environment wins."""

from __future__ import annotations

import pytest

from twill import exc
from twill.runtime.policy import JitSettings, settings


def test_arguments_come_before_the_environment() -> None:
    said = {
        "TWILL_JIT": "solve",
        "TWILL_JIT_BUDGET": "0.2",
        "TWILL_MACHINE": "h100",
        "TWILL_STORE": "s",
        "TWILL_SERVER": "u",
    }
    assert settings(environment={}) == JitSettings()
    assert settings(environment=said) == JitSettings("solve", 0.2, "h100", "s", "u")
    assert settings("require", 0.0, "b200", "t", "", environment=said) == JitSettings("require", 0.0, "b200", "t", "")


def test_off_in_the_environment_wins() -> None:
    assert settings("require", environment={"TWILL_JIT": "off"}).policy == "off"
    assert settings("off", environment={"TWILL_JIT": "solve"}).policy == "off"


@pytest.mark.parametrize("environment", [{"TWILL_JIT": "no"}, {"TWILL_JIT_BUDGET": "nan"}, {"TWILL_JIT_BUDGET": "-1"}])
def test_what_is_no_setting_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(exc.WrongPolicy):
        settings(environment=environment)


def test_strict_math_is_asked_for_by_argument_or_environment() -> None:
    assert settings(environment={"TWILL_STRICT_MATH": "1"}).strict_math
    assert not settings(environment={"TWILL_STRICT_MATH": "0"}).strict_math
    assert not settings(strict_math=False, environment={"TWILL_STRICT_MATH": "1"}).strict_math
    assert settings(strict_math=True, environment={}).strict_math


def test_kernels_are_emitted_as_gluon_where_that_is_asked_for() -> None:
    assert settings(environment={}).emit == "cuda"
    assert settings(environment={"TWILL_JIT_EMIT": "gluon"}).emit == "gluon"
    assert settings(emit="cuda", environment={"TWILL_JIT_EMIT": "gluon"}).emit == "cuda"
    with pytest.raises(exc.WrongPolicy, match="'ptx' is nothing that twill.jit emits"):
        settings(emit="ptx", environment={})
