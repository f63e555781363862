"""What the abstract machine finds wrong."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Violation:
    """One broken rule. rule: a word, see `RULES`. line: of the kernel (0: of none). group: role of the warp group that
    did it, other: of the one that it collides with ("" if none)."""

    rule: str
    message: str
    line: int = 0
    group: str = ""
    other: str = ""

    def describe(self, file: str = "") -> str:
        """One line for people."""
        where = f"{file}:{self.line}: " if file and self.line else (f"line {self.line}: " if self.line else "")
        return f"{where}[{self.rule}] {self.message}"


RULES: dict[str, str] = {
    "order": "two accesses of one place, one of them a write, are ordered by nothing",
    "proxy-fence": "an asynchronous access of what threads wrote, without a proxy fence of the writers in between",
    "tensor-fence": "tensor memory is used behind what others did there, without its fences around a barrier",
    "mma-wait": "what a group of MMAs still uses is touched or given back before a WaitGroups that covers it",
    "mma-fence": "a fragment is written by threads and used by a Multiply without a Fence in between",
    "bytes": "a full barrier is told of other bytes than land on it",
    "phase": "a wait or an arrival that is not in the phase that its cursor says",
    "deadlock": "warp groups wait for each other for ever",
    "side": "a ring is used by a warp group or in a way that it is not made for",
    "counts": "a barrier counts other arrivals than its warp groups make",
    "slots": "a buffer has fewer slots than its ring",
    "barrier": "a named barrier is used by others than it counts, or twice in one phase",
    "leftover": "arrivals, multiplies, stores or tiles of rings are left over at the end of the kernel",
    "cluster": "a CTA touches another one of its cluster that may not have begun or may have ended",
    "bulk": "a bulk store's source is written, given back or lost before it was read",
    "undefined": "a fragment is read before anything is written to it",
    "bounds": "an access outside of a tensor or a tile",
    "aligned": "a copy of the TMA begins at an innermost index that is no multiple of 16 bytes",
    "map": "a tensor map that is made anew while copies go through it, is not made where it is used, or cannot be made",
    "walk": "program instances: claimed and not told, told twice, learnt wrongly, or a counter that is not left at 0",
    "cta-order": "two CTAs touch one element of memory, one of them writes, and no atomic operations order the two",
    "parts": "partial sums of program instances: one that comes twice, or never",
    "values": "other results than the sequential program has",
    "shared": "shared memory: size, overlap, alignment, swizzle",
    "registers": "register budgets, or fragments beyond them",
    "layout": "a statement whose operands do not fit together",
    "failed": "the program could not be run further",
}


@dataclass
class Findings:
    """Collects violations, each once."""

    found: dict[tuple[str, str, int], Violation] = field(default_factory=dict)

    def add(self, rule: str, message: str, line: int = 0, group: str = "", other: str = "") -> None:
        """Note a violation."""
        assert rule in RULES, rule
        self.found.setdefault((rule, message, line), Violation(rule, message, line, group, other))

    def all(self) -> tuple[Violation, ...]:
        """In the order in which they were found."""
        return tuple(self.found.values())
