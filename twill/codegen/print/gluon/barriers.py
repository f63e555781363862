"""The barriers of rings in the kernel: one by one, or those of a ring in one line."""

from __future__ import annotations

from twill.codegen.print.gluon.facts import inits
from twill.codegen.print.gluon.writer import PythonWriter

HELPER = "ring_barriers"
_TEXT = f'''

@gluon.jit
def {HELPER}(slots: gl.constexpr, full: gl.constexpr, empty: gl.constexpr):
    """Barriers that say of each slot of a ring that it is full, and empty, by how many arrivals they count."""
    of_full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    of_empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(of_full.index(slot), count=full)
        mbarrier.init(of_empty.index(slot), count=empty)
    return of_full, of_empty
'''


def helper() -> str:
    """The function that makes the barriers of a ring, behind two empty lines."""
    return _TEXT


def print_pair(name: str, depth: int, slots: str, full: int, empty: int, out: PythonWriter) -> None:
    """The barriers of a ring in one line. depth: its slots; slots: as the text has them."""
    out.fact(inits([full, empty] * depth))
    out.call(f"{name}_full, {name}_empty = {HELPER}", [slots, f"full={full}", f"empty={empty}"])


def print_single(name: str, depth: int, slots: str, full: int, empty: int, out: PythonWriter) -> None:
    """The arrivals that each barrier of a ring counts, a line for each of the two."""
    slot = "0" if depth == 1 else "slot"
    lines = [(count, f"mbarrier.init({name}_{kind}.index({slot}), count={count})")
             for kind, count in (("full", full), ("empty", empty))]  # fmt: skip
    if depth == 1:
        _print_counts(lines, 1, out)
        return
    with out.block(f"for slot in gl.static_range({slots})"):
        _print_counts(lines, depth, out)


def _print_counts(lines: list[tuple[int, str]], slots: int, out: PythonWriter) -> None:
    for count, line in lines:
        out.fact(inits([count] * slots))
        out.line(line)
