"""What Triton made of a module, read back from its PTX and held to what the warp program asks for.

A `ModuleFact` is a thing that the warp program decides: how many arrivals a barrier counts, how many bytes a slot
expects, how many products may be unfinished behind a wait, which named barrier is passed, how many registers a
partition has. The printer notes each one with the line that says it. Here they are read from the PTX, whose `.loc`
lines name the line of the module, so an edited module is read as Triton understands it; what is in a function of the
file that modules share stands for the line that calls it. Slots and parities, which are computed in registers, are read
from the expressions of the module instead (`twill.codegen.compile.gluon.read_rings`).
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from twill.codegen.compile.gluon.fences import unfenced
from twill.codegen.compile.gluon.read_rings import ring_facts
from twill.codegen.compile.gluon.renamed import under_their_names
from twill.codegen.print.gluon import blackwell, hopper, scales
from twill.codegen.print.gluon.facts import BUDGETS, ModuleFact, inits
from twill.codegen.print.gluon.fetched import COUNTED, REQUESTED
from twill.codegen.print.gluon.shared import shared_names, shared_text

_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+"
    r"(?:, function_name \S+, inlined_at (\d+) (\d+)|\s*// \S+?:\d+:\d+ @\[ (?P<file>\S+?):(?P<caller>\d+))?"
)
"""A place, and where it was inlined, which Triton 3.6 and 3.7 say in a comment. The module is file 1."""
_MODULE = re.compile(r"\.loc\s+1\s[^/]*// (\S+?):")
_INIT = re.compile(r"mbarrier\.init\.\S+ \[\S+\], (\d+)")
_READERS = (
    (re.compile(r"mbarrier\.arrive\.expect_tx\.\S+ \S+ \[\S+\], (\d+)"), "mbarrier.expect: {} bytes"),
    (hopper.PTX_WAIT, "warpgroup_mma_wait: {} products unfinished"),
    (re.compile(r"\bbar\.(sync|arrive)\s+((?:[89]|1[0-5]), \d+)"), "named barrier: {} {}"),
)
_NAMED = (
    (hopper.PTX_PROXY_FENCE, hopper.FENCED),
    (scales.PTX_COPY, scales.COPIED),
    (re.compile(r"cp\.async\.bulk\.tensor\.\S*shared::(?:cta|cluster)\.global"), "copy into shared memory"),
    (re.compile(r"cp\.async\.bulk\.tensor\.\S*global\.shared::cta"), "copy out of shared memory"),
    (re.compile(r"clusterlaunchcontrol\.try_cancel\b"), REQUESTED),
    (re.compile(r"\batom\.\S*global\S*\.add\b"), COUNTED),
)
_CONSTANT = re.compile(r"\s*mov\.b32\s+(%\w+),\s*(-?\d+);")


@dataclass(frozen=True)
class ModuleDifference:
    """Where a module says something else than its warp program. line: of the module. kernel: line of the Triton kernel
    that asks for it, or 0."""

    line: int
    expected: str
    found: str
    kernel: int

    def describe(self, file: str) -> str:
        """One line for people."""
        asked = f" (line {self.kernel} of the kernel)" if self.kernel else ""
        return f"{file}:{self.line}: expected {self.expected or 'nothing'}{asked}, found {self.found or 'nothing'}"


def differences(
    text: str, ptx: str, expected: Sequence[ModuleFact], beside: str | None = None
) -> list[ModuleDifference]:
    """All of them, in the order of the module's lines. text: the module. beside: the file that modules share, if it is
    another than is emitted. Raises SyntaxError if one of them is no Python."""
    tree, shared = ast.parse(text), ast.parse(shared_text() if beside is None else beside)
    found = sorted([*_from_ptx(ptx, _helpers(tree)), *ring_facts(tree, shared), *_budgets(tree, ptx, expected)])
    wanted = sorted(expected)
    found = sorted(under_their_names(tree, found, wanted))
    made: list[ModuleDifference] = []
    matcher = SequenceMatcher(None, [one.said for one in wanted], [one.said for one in found], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            made += _unequal(wanted[a:b], found[c:d], found[max(c - 1, 0)].line if found else 1)
    return [*made, *_unfenced(ptx, _helpers(tree), wanted)]


def _unequal(wanted: Sequence[ModuleFact], found: Sequence[ModuleFact], before: int) -> Iterator[ModuleDifference]:
    """Facts that stand in one another's place. before: line of the fact in front of them."""
    for place in range(max(len(wanted), len(found))):
        want = wanted[place] if place < len(wanted) else None
        have = found[place] if place < len(found) else None
        line = have.line if have is not None else before
        yield ModuleDifference(
            line,
            want.said if want is not None else "",
            have.said if have is not None else "",
            want.kernel if want is not None else 0,
        )


def _unfenced(ptx: str, helpers: dict[int, int], wanted: Sequence[ModuleFact]) -> Iterator[ModuleDifference]:
    """Products whose registers the compiler writes too late; Triton, not the module, places fences."""
    bare = unfenced(ptx)
    lines: dict[int, int] = {}
    for number, line, _ in _placed(ptx, helpers):
        if number in bare:
            lines[line] = max(bare[number], lines.get(line, 0))
    for line, count in sorted(lines.items()):
        kernel = next((one.kernel for one in wanted if one.line == line), 0)
        registers = f"{count} of its registers {'are' if count > 1 else 'is'} written behind it"
        asked = f"a product whose registers are written in front of {hopper.PTX_FENCE}"
        yield ModuleDifference(line, asked, registers, kernel)


# ---------------------------------------------------------------- PTX
def _placed(ptx: str, helpers: dict[int, int]) -> Iterator[tuple[int, int, str]]:
    """Lines of the PTX that say something: their numbers, from 0, and the lines of the module that they are of."""
    line, inside = 0, False
    module = next(iter(_MODULE.findall(ptx)), "")
    for number, text in enumerate(ptx.splitlines()):
        if "inline asm" in text:
            inside = "begin" in text
        elif not inside and (at := _LOC.match(text)):
            line = _line_of(at, helpers, module) or line
        else:
            yield number, line, text


def _from_ptx(ptx: str, helpers: dict[int, int]) -> Iterator[ModuleFact]:
    """What instructions say, once for each line of the module."""
    said: dict[int, set[str]] = defaultdict(set)
    counts: dict[int, list[int]] = defaultdict(list)
    numbers = {name: int(value) for name, value in _CONSTANT.findall(ptx)}
    for _, line, text in _placed(ptx, helpers):
        if init := _INIT.search(text):
            counts[line].append(int(init[1]))
        elif one := _read(text) or _tensor(text, numbers):
            said[line].add(one)
    for line, found in said.items():
        for one in sorted(found):
            yield ModuleFact(line, one)
    for line, arrivals in counts.items():
        yield ModuleFact(line, inits(arrivals))


def _line_of(at: re.Match[str], helpers: dict[int, int], module: str) -> int:
    """The line of the module that an instruction stands for: of the call, if it is in a helper. 0: none is known.
    module: its file."""
    file, line, outer_file, outer, caller_file, caller = at.groups()
    if caller is not None:
        outer_file, outer = "1" if caller_file == module else "", caller
    if file == "1" and not (outer_file == "1" and int(line) in helpers):
        return int(line)
    return int(outer) if outer_file == "1" else 0


def _helpers(tree: ast.Module) -> dict[int, int]:
    """Lines of functions that modules share, as far as somebody has brought them into this one."""
    made: dict[int, int] = {}
    own = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    for node in own:
        if node.name in shared_names():
            made |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.lineno)
    return made


def _read(text: str) -> str:
    """What an instruction says, or nothing."""
    if product := hopper.PTX_MMA.search(text):
        shape, element, a = product.groups()
        return f"warpgroup_mma: {shape} of {element}, A from {'registers' if a == '{' else 'shared memory'}"
    for pattern, form in _READERS:
        if found := pattern.search(text):
            return form.format(*found.groups())
    if atomic := hopper.PTX_ATOMIC.search(text):
        return hopper.atomic_fact(atomic[1])
    return next((name for pattern, name in _NAMED if pattern.search(text)), "")


def _tensor(text: str, numbers: dict[str, int]) -> str:
    """What an instruction of tensor memory says, or nothing. numbers: registers that are constants."""
    if product := blackwell.PTX_MMA.search(text):
        ctas, kind, scaled, a, descriptor = product.groups()
        number = numbers.get(descriptor, int(descriptor) if descriptor.isdigit() else 0)
        return blackwell.product_fact(
            blackwell.described(number, scaled is not None), kind, a.startswith("["), ctas == "2"
        )
    if commit := blackwell.PTX_COMMIT.search(text):
        return blackwell.commit_fact("multicast" in commit[1])
    access = blackwell.PTX_ACCESS.search(text)
    return blackwell.ACCESSES[access[1]] if access else ""


def _budgets(tree: ast.Module, ptx: str, expected: Sequence[ModuleFact]) -> Iterator[ModuleFact]:
    """The registers of partitions: each budget that is asked for, if some partition has it; else those that are set."""
    started = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("warp_specialize"))
    line = next((call.args[-1].lineno for call in started if call.args), 1)
    has = set(hopper.PTX_BUDGET.findall(ptx))
    asked = next((one.said for one in expected if one.said.startswith(BUDGETS)), "")
    wanted = asked.removeprefix(BUDGETS).split(", ")
    if asked:
        ordered = wanted if has >= set(wanted) else sorted(has, key=int)
        yield ModuleFact(line, BUDGETS + ", ".join(ordered))
