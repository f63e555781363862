"""Calls of a kernel that are recognized, with what was prepared for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twill.runtime.matcher import Match
from twill.runtime.plans import Call, Plans, PreparedLaunch, RefusedLaunch
from twill.runtime.quick_match import QuickMatch

INT32 = 1 << 31


@dataclass(frozen=True)
class Hot:
    """How calls like an earlier one are found: `match` looks into `plans`. all: whether it tells calls apart as Triton
    does, so that launches that stay with Triton can be remembered. reaches: as of `twill.runtime.matcher`.
    quick: the same as `match`, quicker."""

    match: Match
    plans: Plans
    all: bool = False
    reaches: Mapping[str, int] = field(default_factory=dict)
    quick: QuickMatch = field(default_factory=QuickMatch)


def remember(hot: Hot | None, call: object, plan: PreparedLaunch) -> None:
    """For the next call like this one."""
    if hot is not None and isinstance(call, Call):
        hot.plans.add(call, plan)


def remember_refusal(hot: Hot | None, call: object, bound: Mapping[str, Any]) -> None:
    """The same for a call whose variant is Triton's. A wide number is not told from others, but makes it one."""
    wide = any(isinstance(value, int) and not -INT32 <= value < INT32 for value in bound.values())
    if hot is not None and isinstance(call, Call) and not wide:
        hot.plans.add(call, RefusedLaunch())
