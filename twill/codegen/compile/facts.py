"""What ptxas reports of each function of a build, and which builds are refused for it.

ptxas compiles with success what runs many times slower than the source says: it spills registers, waits after every
MMA, drops register budgets. It says so in its log, sometimes with a line of the PTX; line information leads from there
to the emitted text and from that to the kernel's own line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from twill import exc
from twill.codegen.compile.listing import Listing
from twill.codegen.print.cuda import compiled
from twill.codegen.print.kernel_lines import KernelLines, SourceLine


@dataclass(frozen=True)
class Remark:
    """A message of ptxas with a code such as "C7511" ("" if it has none), and the place it points to."""

    code: str
    text: str
    place: SourceLine | None = None

    @property
    def serialized(self) -> bool:
        """The compiler waits after each MMA."""
        return compiled.SERIALIZED in self.text

    @property
    def injected_wait(self) -> bool:
        """The compiler waits for an MMA where the text does not, since its registers are used there."""
        return compiled.INJECTED_WAIT in self.text

    @property
    def ignored_budget(self) -> bool:
        """The register budgets of the warp groups were dropped."""
        return compiled.IGNORED_BUDGET in self.text


@dataclass(frozen=True)
class KernelFacts:
    """One function of a build. Registers are per thread; the rest are bytes per thread or (shared) per CTA.

    registers: what ptxas reports, of kernels with budgets the count at entry. mma_loops: of each loop that multiplies,
    how often in one pass by shapes, inner loops included. most_spills: the line with the most spilling instructions;
    nested_spills: how many of them lie in a loop within a loop. Both are known only from SASS.
    """

    function: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    static_shared: int
    remarks: tuple[Remark, ...] = ()
    mma_loops: tuple[Mapping[str, int], ...] = ()
    most_spills: SourceLine | None = None
    nested_spills: int | None = None
    first_mma: SourceLine | None = None
    first_budget: SourceLine | None = None

    def spills(self, persistent: bool) -> bool:
        """Whether it spills so that it takes time. persistent: all of it is in loops over program instances. What lies
        in no other loop is done once for each of them then, and of a few registers that is less than a wait."""
        return self.spill_stores + self.spill_loads > (FEW if persistent and self.nested_spills == 0 else 0)


FEW = 16 * 4  # bytes, of 16 registers, that a thread may store and load for each program instance
_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_REMARK = re.compile(r"^ptxas (?:info|warning)\s*:\s*(?:\((C\d+)\)\s*)?(.*)$")
_IN_FUNCTION = re.compile(r"function '([^']+)'")
_AT_LINE = re.compile(r" in (?:around )?line (\d+)")  # of the PTX
_SPILL = re.compile(r"(?:STL|LDL)\b")


def read_facts(log: str, ptx: tuple[Listing, ...], sass: tuple[Listing, ...] = ()) -> tuple[KernelFacts, ...]:
    """The functions that `log` (of ptxas -v) names, in its order. Without `sass` multiplies are counted in `ptx`."""
    remarks = _remarks(log, {listing.function: listing for listing in ptx})
    sections = _COMPILING.split(log)
    return tuple(
        _function(name, text, remarks, ptx, sass) for name, text in zip(sections[1::2], sections[2::2], strict=True)
    )


def reports_functions(log: str) -> bool:
    """Whether a log has what ptxas -v reports; the front end's warnings alone say nothing of the machine code."""
    return _COMPILING.search(log) is not None


def _function(
    name: str, text: str, remarks: Mapping[str, list[Remark]], ptx: tuple[Listing, ...], sass: tuple[Listing, ...]
) -> KernelFacts:
    """The facts of one function from its part of the log and its listings."""
    stack, stores, loads = (int(n) for n in found.groups()) if (found := _STACK.search(text)) else (0, 0, 0)
    in_ptx, in_sass = _listing(ptx, name), _listing(sass, name)
    counted = in_sass or in_ptx
    return KernelFacts(
        function=name,
        registers=_number(_USED, text),
        stack=stack,
        spill_stores=stores,
        spill_loads=loads,
        static_shared=_number(_SHARED, text),
        remarks=(*remarks.get(name, ()), *remarks.get("", ())),
        mma_loops=tuple(counts for loop in counted.loops() if (counts := counted.mmas(loop))) if counted else (),
        most_spills=in_sass.most_frequent_place(_SPILL) if in_sass else None,
        nested_spills=_nested(in_sass, _SPILL) if in_sass else None,
        first_mma=in_ptx.first_place(compiled.MMA) if in_ptx else None,
        first_budget=in_ptx.first_place(compiled.BUDGET) if in_ptx else None,
    )


def _nested(listing: Listing, opcodes: re.Pattern[str]) -> int:
    """Instructions with such opcodes that lie in a loop within a loop."""
    bodies = [loop.entries for loop in listing.loops()]
    matching = (at for at, entry in enumerate(listing.entries) if opcodes.match(entry.opcode))
    return sum(sum(at in body for body in bodies) > 1 for at in matching)


def _listing(listings: tuple[Listing, ...], name: str) -> Listing | None:
    return next((listing for listing in listings if listing.function == name), None)


def _number(pattern: re.Pattern[str], text: str) -> int:
    return int(found.group(1)) if (found := pattern.search(text)) else 0


def _remarks(log: str, ptx: Mapping[str, Listing]) -> dict[str, list[Remark]]:
    """Messages about performance by function, "" for those that name none."""
    out: dict[str, list[Remark]] = {}
    for line in log.splitlines():
        found = _REMARK.match(line)
        if not found or not compiled.REMARKS.search(found.group(2)):
            continue
        code, text = found.group(1) or "", found.group(2)
        named = _IN_FUNCTION.search(text)
        function = named.group(1) if named else ""
        at = _AT_LINE.search(text)
        place = _ptx_place(ptx.get(function), int(at.group(1))) if at else None
        out.setdefault(function, []).append(Remark(code, _AT_LINE.sub("", text), place))
    return out


def _ptx_place(listing: Listing | None, line: int) -> SourceLine | None:
    """The source of the last instruction at or before a line of the PTX."""
    before = [e.place for e in listing.entries if e.text_line <= line and e.place] if listing else []
    return before[-1] if before else None


# ---------------------------------------------------------------- refusing


MOST_SPILLED = 16384  # bytes that a thread of a kernel may store of spilled registers, where nothing else is left


def refuse(
    facts: tuple[KernelFacts, ...], lines: KernelLines, persistent: bool = False, last_resort: bool = False
) -> None:
    """Raise BuildRejected for the first function that spills so that it takes time, waits more than its text says or
    lost its budget. persistent: as for `KernelFacts.spills`. last_resort: waits are taken, and spills of at most
    `MOST_SPILLED` bytes."""
    for fact in facts:
        for remark in fact.remarks:
            if remark.ignored_budget:
                hint = "a bound on threads with one CTA per SM, and one branch per role, let ptxas honour it"
                raise _rejected("budget", f"{remark.text} ({remark.code})", fact, fact.first_budget, lines, hint)
            if remark.injected_wait and not last_resort:
                hint = "a wait before the first use of the multiply's registers"
                raise _rejected("wait", f"{remark.text} ({remark.code})", fact, remark.place, lines, hint)
            if remark.serialized and not last_resort:
                place = remark.place or fact.first_mma
                hint = "a smaller tile, a larger register budget, or no change to operands while a multiply runs"
                raise _rejected("serialized", f"{remark.text} ({remark.code})", fact, place, lines, hint)
        if fact.spills(persistent) and not (last_resort and 0 < fact.spill_stores <= MOST_SPILLED):
            message = (
                f"function '{fact.function}' spills registers: {fact.spill_stores} bytes stored, "
                f"{fact.spill_loads} bytes loaded per thread, with {fact.registers} registers"
            )
            hint = "a larger register budget or a smaller tile for the warp group of this line"
            raise _rejected("spill", message, fact, fact.most_spills, lines, hint)


def _rejected(
    cause: str, message: str, fact: KernelFacts, place: SourceLine | None, lines: KernelLines, hint: str
) -> exc.BuildRejected:
    """The error at the kernel's line: the first one that was printed where the place stands in front of all, or in a
    header; at the emitted line where nothing says of which kernel it is."""
    first = lines.lines[min(lines.lines)] if lines.lines else 0
    if kernel_line := lines.at(place) or first:
        return exc.BuildRejected(cause, message, fact, file=lines.file, line=kernel_line, hint=hint)
    file, line = (place.file.rsplit("/", 1)[-1], place.line) if place else (lines.file, 0)
    return exc.BuildRejected(cause, message, fact, file=file, line=line, hint=hint)
