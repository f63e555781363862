"""Branches through a table, as branches one after the other: what `brx.idx` does, in instructions that are known."""

from __future__ import annotations

import re
from itertools import count

_TABLE = re.compile(r"\.branchtargets\s+([^;]+);")
_LABELLED = re.compile(r"([\w$%]+)\s*:\s*\.branchtargets\s+([^;]+);")
_BRANCH = re.compile(r"(?<!\S)brx\.idx(?:\.uni)?\s+(\S+)\s*,\s*([\w$%]+)\s*;")


def without_tables(text: str) -> str:
    """The PTX without `brx.idx` and its tables, line by line as long as before. An index beyond the table is undefined
    (PTX ISA, brx.idx): the thread ends here."""
    tables = {label: [one.strip() for one in targets.split(",")] for label, targets in _LABELLED.findall(text)}
    numbers = count()

    def one_by_one(match: re.Match[str]) -> str:
        index, label = match.groups()
        if label not in tables:
            return match.group(0)
        number = next(numbers)
        tests = (
            f"setp.eq.s32 %branch_table_{number}_{at}, {index}, {at}; @%branch_table_{number}_{at} bra {target};"
            for at, target in enumerate(tables[label])
        )
        names = ", ".join(f"%branch_table_{number}_{at}" for at in range(len(tables[label])))
        return f".reg .pred {names}; {' '.join(tests)} exit;"

    plain = _TABLE.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    return _BRANCH.sub(one_by_one, plain)
