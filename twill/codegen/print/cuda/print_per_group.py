"""Numbers that differ between the warp groups of one role, as C."""

from __future__ import annotations

from collections.abc import Sequence


def per_group(values: Sequence[str], place: str, numbers: Sequence[int | float] = ()) -> str:
    """C of the value of the group at `place` (an i32 of C): steps of equal size, or a choice.

    values: C of each. numbers: what they are, if they are numbers.
    """
    if len(set(values)) == 1:
        return values[0]
    if set(values) <= {"true", "false"}:
        return "(" + " || ".join(f"{place} == {k}" for k, value in enumerate(values) if value == "true") + ")"
    step = numbers[1] - numbers[0] if numbers else 0
    if isinstance(step, int) and step and all(n == numbers[0] + k * step for k, n in enumerate(numbers)):
        moved = place if step == 1 else f"{place} * {step}"
        return f"({moved})" if values[0] == "0" else f"({values[0]} + {moved})"
    chosen = "".join(f"{place} == {k} ? {value} : " for k, value in enumerate(values[:-1]))
    return f"({chosen}{values[-1]})"
