"""An option of a solve is the same wherever it is named: in the solver, the HTTP API, the arguments and the pages."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from twill.cli.arguments import parser
from twill.cli.solve import options_of
from twill.cli.store_lookup import request_of
from twill.schedule.key import KeyOptions
from twill.schedule.options import SolveOptions
from twill.store.api import SolveRequest

DEFAULTS = {name: field.default for name, field in SolveOptions.model_fields.items()}
HERE_ALONE = {"solver"}  # a service has the solver that it has
NOT_ASKED = {"fuse"}  # commands that emit turn it off
SPELLED = {"pins": "pin", "margin": "no_margin"}
ALL = {
    "normalize": 7, "budget": 5.0, "resource_limit": 9, "seed": 3, "pins": ("qk.0=g1",), "blocks": 2, "ii": 512,
    "strategy": "paper", "fuse": False, "solver": "cvc5", "margin": False,
    "whole_exponentials": True, "cluster": 2,
}  # fmt: skip


def test_a_service_has_the_options_of_the_solver_with_the_same_defaults() -> None:
    sent = {name: field.default for name, field in SolveRequest.model_fields.items()}
    assert sent == {name: default for name, default in DEFAULTS.items() if name not in HERE_ALONE}
    assert not any(field.is_required() for field in SolveOptions.model_fields.values())


def test_every_option_is_sent_as_it_was_asked_and_has_its_part_in_the_key() -> None:
    assert ALL.keys() == DEFAULTS.keys() and all(ALL[name] != default for name, default in DEFAULTS.items())
    options = SolveOptions(**ALL)  # type: ignore[arg-type]
    request = request_of(options)
    assert request.model_dump() == {name: value for name, value in ALL.items() if name not in HERE_ALONE}
    assert request.asked == options.asked
    assert options.asked.model_dump(exclude={"units"}).items() <= ALL.items() and options.asked.units == 7
    assert SolveOptions().asked == SolveRequest().asked == KeyOptions()


def test_every_option_has_an_argument_that_sets_it_and_a_row_in_the_pages() -> None:
    words = ["solve", "k.py", "--machine", "h100", "--normalize", "7", "--budget", "5", "--resource-limit", "9"]
    words += ["--seed", "3", "--pin", "qk.0=g1", "--blocks", "2", "--ii", "512", "--strategy", "paper"]
    words += ["--solver", "cvc5", "--no-margin", "--whole-exponentials", "--cluster", "2"]
    made = options_of(parser().parse_args(words))
    assert {name: getattr(made, name) for name in ALL.keys() - NOT_ASKED} == {
        name: ALL[name] for name in ALL.keys() - NOT_ASKED
    }
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `--([a-z-]+)", page, re.MULTILINE))
    flags = {SPELLED.get(name, name).replace("_", "-") for name in DEFAULTS.keys() - NOT_ASKED}
    assert flags <= rows
