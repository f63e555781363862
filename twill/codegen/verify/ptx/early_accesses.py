"""Whether a kernel whose launch begins early touches global memory before earlier grids have ended.

A launch with programmatic dependence (PTX ISA, "griddepcontrol") has CTAs at work while the grids in front of it may
still write what it reads, and read what it writes. Every way to an access of global memory must come past
`griddepcontrol.wait`. Only the PTX shows it: a compiler may move loads that nothing holds in place.
"""

from __future__ import annotations

from twill.codegen.verify.ptx.findings import PtxFinding
from twill.codegen.verify.ptx.thread_orders import ControlFlow
from twill.ptx.program import Function, PtxInstruction

WAIT = "griddepcontrol.wait"
RULE = "early"
ACCESSES = ("ld", "ldu", "st", "atom", "red", "cp", "multimem", "tensormap")
"""Names of instructions that may touch global memory."""
ELSEWHERE = ("shared", "shared::cta", "local", "param", "param::entry", "const")
"""Modifiers of those that touch another memory alone. (A copy that names global memory, too, is none of them.)"""
BOOKKEEPING = ("commit_group", "wait_group", "wait_all", "mbarrier")
"""Modifiers of `cp` that only count copies."""


def early_accesses(function: Function) -> list[PtxFinding]:
    """Accesses to which a way leads without a wait, of a function whose launch begins early."""
    flow = ControlFlow.of(function)
    seen, ahead = {0}, [0]
    found: list[PtxFinding] = []
    while ahead:
        at = ahead.pop()
        one = function.instructions[at]
        if one.opcode == WAIT and one.guard is None:
            continue
        if touches_global(one):
            found.append(PtxFinding(RULE, f"`{one.opcode}` before earlier grids have ended", one.place))
        labels = function.labels.values() if one.name == "brx" else ()  # its own are in a table
        after = {*flow.after(at), *labels} - seen
        seen |= after
        ahead += after
    return sorted(found, key=lambda one: one.place.line)


def touches_global(one: PtxInstruction) -> bool:
    """Whether an instruction may touch global memory."""
    if one.name not in ACCESSES or any(modifier in BOOKKEEPING for modifier in one.modifiers):
        return False
    return "global" in one.modifiers or not any(modifier in ELSEWHERE for modifier in one.modifiers)
