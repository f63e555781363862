"""Figures put into a machine. A path names one figure:

("sms",), ("clock_mhz",), ("l2",), ("operations", CLASS, UNIT or "latency"), ("mma", "rates", DTYPE), ("mma", "latency",
"issue" or "shared_read"), ("transfers", NAME, FIELD), ("crossing", FIELD).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from twill.machine.description import Figure, Machine, MmaInstruction, OperationCost, Rate, Transfer

Path = tuple[str, ...]
Figures = Mapping[Path, Figure]

T = TypeVar("T", OperationCost, Transfer)


def applied(machine: Machine, figures: Figures) -> Machine:
    """The machine with these figures in place of its own; paths that it does not have are left out."""
    top = {path[0]: figure for path, figure in figures.items() if len(path) == 1}
    crossing = {path[1]: figure for path, figure in figures.items() if path[0] == "crossing"}
    return machine.model_copy(
        update={
            **top,
            "operations": tuple(_operation(o, _under(figures, "operations", o.name)) for o in machine.operations),
            "mma": _mma(machine.mma, figures) if machine.mma else None,
            "transfers": tuple(t.model_copy(update=_under(figures, "transfers", t.name)) for t in machine.transfers),
            "crossing": machine.crossing.model_copy(update=crossing),
        }
    )


def current(machine: Machine, path: Path) -> Figure | None:
    """The figure at a path; None if the machine has none there."""
    if path[0] in ("sms", "clock_mhz", "l2", "crossing"):
        found = getattr(machine if len(path) == 1 else machine.crossing, path[-1])
        return found if isinstance(found, Figure) else None
    if path[0] == "mma":
        rates = {rate.dtype: rate.per_cycle for rate in machine.mma.rates} if machine.mma else {}
        found = rates.get(path[2]) if len(path) == 3 else getattr(machine.mma, path[1], None)
        return found.per_cycle if isinstance(found, Rate) else found
    owner = _named(machine.operations if path[0] == "operations" else machine.transfers, path[1])
    if isinstance(owner, OperationCost) and path[2] != "latency":
        return next((rate.per_cycle for rate in owner.rates if rate.unit == path[2]), None)
    return getattr(owner, path[2], None)


def _named(items: Sequence[OperationCost] | Sequence[Transfer], name: str) -> OperationCost | Transfer | None:
    return next((item for item in items if item.name == name), None)


def _under(figures: Figures, *head: str) -> dict[str, Figure]:
    """Figures whose path begins so, by its last part."""
    return {path[-1]: figure for path, figure in figures.items() if path[:-1] == head}


def _operation(operation: OperationCost, figures: Mapping[str, Figure]) -> OperationCost:
    rates = tuple(
        rate.model_copy(update={"per_cycle": figures.get(rate.unit, rate.per_cycle)}) for rate in operation.rates
    )
    latency = figures.get("latency", operation.latency)
    return operation.model_copy(update={"rates": rates, "latency": latency})


def _mma(mma: MmaInstruction, figures: Figures) -> MmaInstruction:
    own = {path[1]: figure for path, figure in figures.items() if path[0] == "mma" and len(path) == 2}
    dtypes = _under(figures, "mma", "rates")
    rates = tuple(rate.model_copy(update={"per_cycle": dtypes.get(rate.dtype, rate.per_cycle)}) for rate in mma.rates)
    reads = own.pop("shared_read", None)
    shared = mma.shared_read.model_copy(update={"per_cycle": reads}) if mma.shared_read and reads else mma.shared_read
    return mma.model_copy(update={**own, "rates": rates, "shared_read": shared})
