"""What the executor finds wrong beside the numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.ptx.program import InstructionPlace

RULES: dict[str, str] = {
    "bounds": "an access outside of every buffer, or of shared memory that the launch has not",
    "alignment": "an address that is no multiple of what the access needs",
    "order": "two accesses of one place in shared memory, one of them a write, that no barrier orders",
    "proxy-fence": "an asynchronous read of what threads wrote, or a copy over what they read, without a proxy fence",
    "in-flight": "shared memory is written while a multiply or a bulk store may still read it",
    "wgmma-wait": "a register of a multiply is touched before a wait_group that covers it",
    "wgmma-fence": "a register that threads wrote is used by a multiply without a wgmma.fence in between",
    "tcgen05-wait": "tensor memory is touched before the tcgen05.wait of a load or store that has it",
    "tcgen05-fence": "tensor memory is used behind what others did there, without the tcgen05.fence on both sides",
    "partial-sums": "partial sums are counted, or read by who counted last, without a barrier and a fence",
    "elected": "what one thread releases or acquires for all, without a barrier between it and their accesses",
    "atomic-order": "an atomic operation without the memory order, or the scope, that the kernel asks for",
    "tcgen05-registers": "a register of a tcgen05.ld is used before its wait::ld; the ISA does not promise its value",
    "tensor-memory": "tensor memory that is not allocated, allocated against the rules, or never given back",
    "bulk-wait": "a thread ends before bulk stores have read their shared memory",
    "mbarrier": "an mbarrier that is not initialized, counts below zero, or is used as memory",
    "barrier": "a named barrier whose participants contradict one another",
    "registers": "setmaxnreg in the wrong direction, out of range, or beyond the register file",
    "exit": "a CTA of a cluster that may have ended when another uses its memory or arrives at its mbarriers",
    "exit-wait": "a commit or a copy of another CTA that arrives at an mbarrier in a phase that nobody waits for",
    "cluster-launch": "a request to cancel a cluster, or its answer, that the ISA leaves undefined",
    "deadlock": "threads that wait for each other for ever",
    "endless": "more is executed than a launch of this size should need",
    "tensor-map": "a tensor map that is written under a copy, or used before it is released and acquired",
    "trap": "a trap that threads come to",
    "leftover": "copies or multiplies that nobody waits for at the end",
    "early": "global memory is touched before grids in front of the launch, which may begin early, have ended",
    "form": "operands that an instruction cannot have",
}


@dataclass(frozen=True)
class PtxFinding:
    """One broken rule. threads: who did it, in words."""

    rule: str
    message: str
    place: InstructionPlace
    threads: str = ""

    def describe(self) -> str:
        """One line for people."""
        who = f" by {self.threads}" if self.threads else ""
        return f"{self.place}: [{self.rule}] {self.message}{who}"


@dataclass
class PtxFindings:
    """Collects them, each rule once for each instruction."""

    found: dict[tuple[str, int], PtxFinding] = field(default_factory=dict)

    def add(self, rule: str, message: str, place: InstructionPlace, threads: str = "") -> None:
        """Note one."""
        assert rule in RULES, rule
        self.found.setdefault((rule, place.line), PtxFinding(rule, message, place, threads))

    def all(self) -> tuple[PtxFinding, ...]:
        """In the order in which they were found."""
        return tuple(self.found.values())


class Stopped(Exception):
    """The program cannot be run further: the finding says why."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
