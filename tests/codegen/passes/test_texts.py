"""What every pass makes of small warp programs, both as text, and what it leaves alone."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from tests.codegen.warp.test_text import TILE_PROGRAM
from tests.conftest import GOLDEN
from tests.pass_texts import PassCase, pass_cases
from twill.codegen.passes.pipeline import PIPELINE
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.codegen.warp.verifier import refuse_ill_formed
from twill.tile.parse import parse as parse_tile

# What the kernel of the cases of these passes accesses: a tile of x, and one element of it.
STORED_TWICE = """kernel k spec flags file k.py
argument %0 x: ptr:f32, multiple of 16
%4 = constant value=5.0: f32  # line 13
%5:v = tile_load: 512 f32 at x [512 from 0 by 1] pad 0.0 plain  # line 11
tile_store %5:v at x [512 from 0 by 1] pad 0.0 plain  # line 12
tile_store %4 at x [] pad 0.0 plain  # line 13
"""
LOADED_LATE = """kernel k spec flags file k.py
argument %0 x: ptr:f32, multiple of 16
argument %1 w: ptr:bf16, multiple of 16
argument %2 b: ptr:f32, multiple of 16
argument %3 s: ptr:f32, multiple of 16
argument %4 y: ptr:f32, multiple of 16
"""
STORED_OVER = """kernel k spec flags file k.py
argument %0 x: ptr:f32, multiple of 16
%4 = constant value=5.0: f32  # line 12
%5:v = tile_load: 64x32 f32 at x [64 from 0 by 32, 32 from 0 by 1] pad 0.0 tma  # line 11
tile_store %4 at x [] pad 0.0 plain  # line 12
"""
ACCESSED = {
    "load-order": parse_tile(STORED_OVER),
    "memory-order": parse_tile(STORED_TWICE),
    "group-order": parse_tile(STORED_TWICE),
    "late-loads": parse_tile(LOADED_LATE),
}
CASES = pass_cases(GOLDEN / "passes")
PLAIN = Choices(partial_sums=True, ping_pong=False, dynamic=False, capacity=1 << 20)


def choices(case: PassCase) -> Choices:
    """What lowering decided: the options of a case are its names that are true, or a number each."""
    given: dict[str, str] = dict(option.partition("=")[::2] for option in case.options)
    assert given.keys() <= {field.name for field in fields(Choices)}
    made: dict[str, Any] = {name: int(number) if number else True for name, number in given.items()}
    return replace(PLAIN, **made)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_pass_makes_one_text_of_another(case: PassCase, request: pytest.FixtureRequest) -> None:
    (step,) = (step for step in PIPELINE if step.name == case.name)

    def run(before: str) -> str:
        program = parse(before, ACCESSED.get(case.name, TILE_PROGRAM))
        refuse_ill_formed(program, "the case")
        made = step.run(program, choices(case))
        refuse_ill_formed(made, f"the pass {step.name}")
        return text(made)

    case.check(run, request.config.getoption("--update-golden"))


@pytest.mark.parametrize("name", [step.name for step in PIPELINE])
def test_every_pass_has_a_program_that_it_changes_and_one_that_it_leaves_alone(name: str) -> None:
    assert {case.changes for case in CASES if case.name == name} == {True, False}
