"""What Triton made of a module, read back from its PTX and held to what the warp program asks for.

A `ModuleFact` is a thing that the warp program decides: how many arrivals a barrier counts, how many bytes a slot
expects, how many products may be unfinished behind a wait, which named barrier is passed, how many registers a
partition has. The printer notes each one with the line that says it. Here they are read from the PTX, whose `.loc`
lines name the line of the module, so an edited module is read as Triton understands it. Slots and parities, which are
computed in registers, are read from the expressions of the module instead, for the first 16 values of their counter.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from twill.codegen.compile.gluon.fences import unfenced
from twill.codegen.print.gluon import barriers, blackwell, hopper
from twill.codegen.print.gluon.facts import BUDGETS, COUNTS, ModuleFact, barrier_use, inits

_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+"
    r"(?:, function_name \S+, inlined_at (\d+) (\d+)|\s*// (?P<file>\S+?):\d+:\d+ @\[ (?P=file):(?P<caller>\d+))?"
)
"""A place, and where it was inlined, which Triton 3.6 and 3.7 say in a comment."""
_INIT = re.compile(r"mbarrier\.init\.\S+ \[\S+\], (\d+)")
_READERS = (
    (re.compile(r"mbarrier\.arrive\.expect_tx\.\S+ \S+ \[\S+\], (\d+)"), "mbarrier.expect: {} bytes"),
    (hopper.PTX_WAIT, "warpgroup_mma_wait: {} products unfinished"),
    (re.compile(r"\bbar\.(sync|arrive)\s+((?:[89]|1[0-5]), \d+)"), "named barrier: {} {}"),
)
_COPIES = (
    (re.compile(r"cp\.async\.bulk\.tensor\.\S*shared::(?:cta|cluster)\.global"), "copy into shared memory"),
    (re.compile(r"cp\.async\.bulk\.tensor\.\S*global\.shared::cta"), "copy out of shared memory"),
)
_USES = ("wait", "arrive", "expect")
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


def differences(text: str, ptx: str, expected: Sequence[ModuleFact]) -> list[ModuleDifference]:
    """All of them, in the order of the module's lines. text: the module. Raises SyntaxError if it is no Python."""
    tree = ast.parse(text)
    found = sorted([*_from_ptx(ptx, _helpers(tree)), *_from_text(tree), *_budgets(tree, ptx, expected)])
    wanted = sorted(expected)
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
    for number, text in enumerate(ptx.splitlines()):
        if "inline asm" in text:
            inside = "begin" in text
        elif not inside and (at := _LOC.match(text)):
            line = _line_of(at, helpers) or line
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


def _line_of(at: re.Match[str], helpers: dict[int, int]) -> int:
    """The line of the module that an instruction stands for: of the call, if it is in a helper. 0: none is known."""
    file, line, outer_file, outer, _, caller = at.groups()
    if caller is not None:
        outer_file, outer = file, caller
    if file == "1" and not (outer_file == "1" and int(line) in helpers):
        return int(line)
    return int(outer) if outer_file == "1" else 0


def _helpers(tree: ast.Module) -> dict[int, int]:
    """Lines of the functions that say one instruction in PTX."""
    made: dict[int, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (
            node.name.startswith("named_barrier_") or node.name == barriers.HELPER
        ):
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
    return next((name for pattern, name in _COPIES if pattern.search(text)), "")


def _tensor(text: str, numbers: dict[str, int]) -> str:
    """What an instruction of tensor memory says, or nothing. numbers: registers that are constants."""
    if product := blackwell.PTX_MMA.search(text):
        kind, a, descriptor = product.groups()
        number = numbers.get(descriptor, int(descriptor) if descriptor.isdigit() else 0)
        return blackwell.product_fact(blackwell.described(number), kind, a.startswith("["))
    if blackwell.PTX_COMMIT.search(text):
        return blackwell.COMMIT
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


# ---------------------------------------------------------------- expressions
def _from_text(tree: ast.Module) -> Iterator[ModuleFact]:
    """Which slots, at which parity, barriers are waited for, arrived at and told of bytes."""
    constants = _constants(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="mbarrier"), attr=use), args=[_, *_]) if use in _USES:
                yield ModuleFact(node.lineno, _use(use, node, constants))
            case ast.Call(func=ast.Name(id=blackwell.COMMIT), args=[_, *_]):
                yield ModuleFact(node.lineno, _use("commit", node, constants))


def _use(use: str, call: ast.Call, constants: dict[str, int]) -> str:
    barrier = call.args[0]
    if not (isinstance(barrier, ast.Call) and isinstance(barrier.func, ast.Attribute) and barrier.func.attr == "index"):
        return f"mbarrier.{use}: a barrier that can't be read"
    slots = _values(barrier.args[0], constants)
    parity = _values(call.args[1], constants) if use == "wait" and len(call.args) > 1 else None
    if slots is None or (use == "wait" and parity is None):
        return f"mbarrier.{use}: a slot or parity that can't be read"
    return barrier_use(use, ast.unparse(barrier.func.value), slots, parity or ())


def _constants(tree: ast.Module) -> dict[str, int]:
    """Numbers that the module gives names to."""
    made: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            given = node.value.args
            if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
                made[node.targets[0].id] = given[0].value
    return made


def _values(node: ast.expr, constants: dict[str, int]) -> tuple[int, ...] | None:
    """An expression of one counter, for its first values; None for any other."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - constants.keys()
    if len(names) > 1:
        return None
    try:
        return tuple(_value(node, constants | dict.fromkeys(names, count)) for count in range(COUNTS))
    except (KeyError, ZeroDivisionError):
        return None


_OPERATORS = {
    ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__, ast.Mod: int.__mod__,
    ast.FloorDiv: int.__floordiv__, ast.BitAnd: int.__and__, ast.BitXor: int.__xor__, ast.BitOr: int.__or__,
}  # fmt: skip


def _value(node: ast.expr, names: dict[str, int]) -> int:
    """Raises KeyError for what is no arithmetic of integers."""
    match node:
        case ast.Constant(value=int() as value):
            return int(value)
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
    raise KeyError(ast.unparse(node))
