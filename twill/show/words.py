"""Words and numbers for people, the same in the terminal and on the page."""

from __future__ import annotations

from twill.graph.costed import Cooperation, Normalization
from twill.schedule.document import Objective, Schedule

_OBJECTIVES = {"ii": "I", "copies": "copies", "crossing": "crossings", "length": "L", "registers": "registers"}


def cooperation_words(cooperation: Cooperation) -> str:
    """`2 row blocks along m`, `4 row blocks along m (2 instances fused)`, `one row block`."""
    place = "" if cooperation.operand_a == "register" else f", operand A in {cooperation.operand_a} memory"
    if cooperation.pair:
        place += ", two CTAs a product"
    if cooperation.polynomial:
        place += f", {cooperation.polynomial} of 16 exponentials by a polynomial"
    if cooperation.columns:
        place += ", each with a share of what joins them"
    if not cooperation.dim or cooperation.blocks == 1:
        return f"one row block{place}"
    fused = f" ({cooperation.fuse} instances fused)" if cooperation.fuse > 1 else ""
    return f"{cooperation.blocks} row blocks along {cooperation.dim}{fused}{place}"


def label(name: str, block: int) -> str:
    """`qk.0`: an instruction or value with its row block; the name alone if all blocks share it."""
    return name if block < 0 else f"{name}.{block}"


def size(nbytes: int) -> str:
    """`32 KiB`, `48.5 KiB`, `96 B`."""
    if nbytes < 1024:
        return f"{nbytes} B"
    kib = nbytes / 1024
    return f"{kib:.0f} KiB" if kib == int(kib) else f"{kib:.1f} KiB"


def cycles(number: int) -> str:
    """`12,345`."""
    return f"{number:,}"


def objectives_words(objective: Objective) -> str:
    """`I, copies and crossings`: the objectives that are proven minimal, each given those before it; "" if all are."""
    names = [_OBJECTIVES[name] for name in objective.proven]
    if len(names) == len(_OBJECTIVES):
        return ""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def verdict(schedule: Schedule) -> str:
    """What may be claimed of the schedule, and no more."""
    if schedule.strategy != "joint":
        bound = schedule.certificate.lower_bound
        return f"not proven (strategy {schedule.strategy}): I = {schedule.ii}, proven lower bound {bound}"
    if not schedule.certificate.optimal:
        return f"not proven optimal: I = {schedule.ii}, proven lower bound {schedule.certificate.lower_bound}"
    open_loops = [str(loop.line) for loop in schedule.loops if not loop.certificate.optimal]
    if open_loops:
        return f"not proven optimal: the loop at line {', '.join(open_loops)}"
    pinned = " for these pins" if schedule.pins else ""
    scaled = " for the normalized costs" if schedule.normalization else ""
    proven = min((loop.objective for loop in schedule.loops), key=lambda o: len(o.proven), default=schedule.objective)
    some = objectives_words(proven)
    return f"proven optimal{f' in {some}' if some else ''}{pinned}{scaled}"


def normalization_words(normalization: Normalization) -> str:
    """How to read the numbers of a normalized schedule."""
    return (
        f"costs normalized with U = {normalization.bound}: 1 unit = {normalization.cycles_per_unit:g} cycles, "
        f"worst error of a cost {normalization.worst_error:.1%}"
    )
