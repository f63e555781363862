"""What the model says of an emitted kernel beside Triton's way to run the same program, kept with the emitted kernel.

Both in cycles of one SM for an iteration of the main loop, or for a program instance where there is no loop.
"""

from __future__ import annotations

from dataclasses import dataclass

CLEARLY = 1.5  # times Triton's, from which on an emitted kernel is not even tried
USUAL = 128  # threads of the warp groups that costs are for


@dataclass(frozen=True)
class Prediction:
    """emitted: the emitted kernel's, with all CTAs that share an SM. resource: what the units are busy for, whoever
    runs it. waits: for asynchronous instructions, one after the other, their operands loaded ahead. work: that a
    warp group does itself."""

    emitted: float
    resource: float
    waits: float
    work: float

    def triton(self, threads: int, ctas: int) -> float:
        """Triton's way: all warps of a CTA of `threads` do everything and wait for every product; `ctas` CTAs share an
        SM and fill each other's waits."""
        return max(self.resource, (self.waits + self.work * USUAL / threads) / ctas)

    def slower(self, threads: int, ctas: int) -> bool:
        """Whether the emitted kernel is clearly slower."""
        return self.emitted > CLEARLY * self.triton(threads, ctas)

    def text(self, threads: int, ctas: int) -> str:
        """For people."""
        theirs = self.triton(threads, ctas)
        who = f"{theirs:.0f} as Triton's ({ctas} CTAs of {threads} threads)"
        return f"predicted {self.emitted:.0f} cycles emitted, {who}"
