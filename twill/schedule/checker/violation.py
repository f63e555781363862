"""A broken rule, as the checker reports it, and the order of its reports."""

from __future__ import annotations

from collections.abc import Iterable

from twill.document import Document
from twill.graph.costed import Instruction

# The rules of docs/model.md in its order, which is the order of reports.
RULES = (
    "machine",
    "graph",
    "operations",
    "warp groups",
    "uniqueness",
    "completion",
    "dependence",
    "capacity",
    "warp uniqueness",
    "single issuer",
    "variable latency",
    "concurrency",
    "cross-warp spill",
    "buffers",
    "depth",
    "memory capacity",
    "register limit",
    "register file",
    "figures",
    "objective",
    "certificate",
)


class BrokenRule(Document):
    """One broken rule of docs/model.md.

    rule: its name there. loop: `Region.id`, or None if it is no one loop's. nodes, lines: names
    and kernel lines of the instructions (or values) at fault; instructions: their ids in the
    loop's costed graph. cycle: when, in the graph's cycles from the first iteration's start, or
    None if it is not a matter of time. message: one sentence.
    """

    rule: str
    loop: int | None
    nodes: tuple[str, ...]
    instructions: tuple[int, ...]
    lines: tuple[int, ...]
    cycle: int | None
    message: str

    def describe(self) -> str:
        """`line 97 (qk, p), loop 1, cycle 2048: capacity: ...`, as much of it as is known."""
        where = []
        if self.lines:
            plural = "s" if len(self.lines) > 1 else ""
            where.append(f"line{plural} {', '.join(map(str, self.lines))} ({', '.join(self.nodes)})")
        if self.loop is not None:
            where.append(f"loop {self.loop}")
        if self.cycle is not None:
            where.append(f"cycle {self.cycle}")
        return f"{', '.join(where) or 'schedule'}: {self.rule}: {self.message}"


def violation(
    rule: str,
    message: str,
    *,
    loop: int | None = None,
    at: Iterable[Instruction] = (),
    cycle: int | None = None,
) -> BrokenRule:
    """A violation about some instructions (each named once, in the order given)."""
    instructions = tuple(dict.fromkeys(at))
    return BrokenRule(
        rule=rule,
        loop=loop,
        nodes=tuple(dict.fromkeys(i.name for i in instructions)),
        instructions=tuple(i.id for i in instructions),
        lines=tuple(dict.fromkeys(i.line for i in instructions)),
        cycle=cycle,
        message=message,
    )


def in_order(found: Iterable[BrokenRule], loops: tuple[int, ...]) -> tuple[BrokenRule, ...]:
    """Without repetitions, by loop (program order, whole-schedule ones first), rule, cycle, instruction."""

    def key(item: BrokenRule) -> tuple[int, int, int, tuple[int, ...], str]:
        place = loops.index(item.loop) if item.loop in loops else -1
        cycle = -1 if item.cycle is None else item.cycle
        return (place, RULES.index(item.rule), cycle, item.instructions, item.message)

    return tuple(sorted(dict.fromkeys(found), key=key))
