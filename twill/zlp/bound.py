"""A lower bound on the initiation interval with its witness, and how witnesses are worded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twill.graph.costed import CostedGraph, Instruction

_MOST_NAMED = 4


@dataclass(frozen=True)
class LowerBound:
    """No valid schedule has I < value (cycles); `witness` says why, naming kernel lines."""

    value: int
    witness: str


NO_BOUND = LowerBound(0, "")


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ for b > 0."""
    return -(-a // b)


def spelled(instructions: Iterable[tuple[Instruction, int]]) -> str:
    """Instructions with their cycles, the largest first: `qk (line 112) 2 x 512, acc (line 131) 1024`.

    Row blocks of one instruction are one entry; after four entries the rest is summed up.
    """
    entries: dict[tuple[str, int], list[int]] = {}
    for instruction, cycles in instructions:
        entries.setdefault((instruction.name or instruction.op, instruction.line), []).append(cycles)
    order = sorted(entries.items(), key=lambda entry: -sum(entry[1]))
    words = [f"{name} (line {line}) {_times(cycles)}" for (name, line), cycles in order[:_MOST_NAMED]]
    rest = sum(sum(cycles) for _, cycles in order[_MOST_NAMED:])
    if rest:
        words.append(f"{len(order) - _MOST_NAMED} more {rest}")
    return ", ".join(words)


def _times(cycles: list[int]) -> str:
    same = len(cycles) > 1 and len(set(cycles)) == 1
    return f"{len(cycles)} x {cycles[0]}" if same else " + ".join(map(str, cycles))


def resident_bytes(graph: CostedGraph, space: str) -> int:
    """Bytes of `space` that storages and invariants take all the time."""
    return sum(held.bytes for held in (*graph.storages, *graph.invariants) if held.space == space)


def by_id(graph: CostedGraph) -> dict[int, Instruction]:
    """Instructions by their id."""
    return {instruction.id: instruction for instruction in graph.instructions}


def must_cross(one: Instruction, other: Instruction) -> bool:
    """Whether no warp group can hold both: no context issues both, or just one has variable latency.

    A warp group is of one context, and one with a variable-latency instruction holds no other kind.
    """
    if one.id == other.id or (one.single_issuer and one.single_issuer == other.single_issuer):
        return False
    return not set(one.contexts) & set(other.contexts) or one.variable_latency != other.variable_latency
