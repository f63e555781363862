"""PTX text -> module.

The grammar is that of the PTX ISA, "Syntax"; what compilers print of it: one entry or several, variables, scopes of
inline assembly with registers and labels of their own, line information. Debugging sections are skipped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from twill.exc import MalformedPtx, UnsupportedPtx
from twill.ptx import program as ptx
from twill.ptx.literals import bytes_of, literal
from twill.ptx.scopes import Body, Scope, named, remembered

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([$\w]+)\s*:(?!:)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)([^\n]*)")
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r"\.file\s+(\d+)\s+\"([^\"]*)\"[^\n]*")
_HEADER = re.compile(r"\.(?:version|target|address_size)\s[^\n]*")
_SECTION = re.compile(r"\.section\s+[.\w]+\s*\{")
_LINKING = re.compile(r"\.(visible|weak|common|extern)\b\s*")
_FUNCTION = re.compile(r"\.(entry|func)\b")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*);")
_COUNTED = re.compile(r"(%?[$\w]+)<(\d+)>")
_VARIABLE = re.compile(r"\.(shared|global|const|local|param)\b([^;=]*)(?:=\s*(\{[^}]*\}|[^;]*))?;")
_DECLARED = re.compile(r"([$%\w]+)((?:\[\d*\])*)\s*$")
_TUNING = re.compile(
    r"\.(maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|noreturn|pragma|reqnctapercluster|explicitcluster|maxclusterrank)\b([^\n{;]*);?"
)
_TABLE = re.compile(r"\.branchtargets\b([^;]*);")
_TOP = re.compile(r"[\[\]{},]")


@lru_cache(maxsize=4)  # a kernel is executed in several launches
def parse(text: str) -> ptx.PtxModule:
    """The module. Errors: MalformedPtx, UnsupportedPtx, with the line."""
    return _Parser(_without_comments(text)).module()


def _without_comments(text: str) -> str:
    """Comments become nothing but their line ends; strings keep theirs out of it as compilers print none with `//`."""
    return _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.counted = 0  # characters of which line ends are counted
        self.line = 1
        self.files: dict[int, str] = {int(m.group(1)): m.group(2) for m in _FILE.finditer(text)}
        self.place = (0, 0)  # file and line of the source, of what follows
        self.outer: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # what was inlined where
        self.opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}  # names and modifiers

    def module(self) -> ptx.PtxModule:
        variables: list[ptx.Variable] = []
        functions: list[ptx.Function] = []
        while self._more():
            if any(self._take(one) for one in (_HEADER, _FILE, _LOC, _LINKING, _TUNING)):
                continue
            if self._take(_SECTION):
                self.at = self._closing(self.at)
            elif match := self._take(_FUNCTION):
                function = self._function(match.group(1))
                if function is not None:
                    functions.append(function)
            elif match := self._take(_VARIABLE):
                variables.append(self._variable(match))
            else:
                raise self._error("no declaration that is known")
        return ptx.PtxModule(tuple(variables), tuple(functions))

    # ------------------------------------------------------------ functions

    def _function(self, kind: str) -> ptx.Function | None:
        head = re.compile(r"\s*(\([^)]*\))?\s*([$\w]+)\s*").match(self.text, self.at)
        if head is None:
            raise self._error("a function without a name")
        if kind == "func":
            raise UnsupportedPtx(f"function `{head.group(2)}`: calls are not executed", line=self._line())
        self.at = head.end()
        parameters: list[ptx.Variable] = []
        if self.text.startswith("(", self.at):
            end = self.text.index(")", self.at)
            for declared in filter(None, map(str.strip, self.text[self.at + 1 : end].split(","))):
                parameters.append(self._declared("param", declared.removeprefix(".param")))
            self.at = end + 1
        limit = 0
        while self._more() and not self.text.startswith(("{", ";"), self.at):
            match = self._take(_TUNING)
            if match is None:
                raise self._error("no directive that is known")
            if match.group(1) == "maxnreg":
                limit = int(match.group(2))
        if self.text[self.at] == ";":
            self.at += 1
            return None
        body = self._body()
        return ptx.Function(
            head.group(2), tuple(parameters), tuple(body.variables), body.registers,
            tuple([_with_targets(body, one) for one in body.instructions] if body.tables else body.instructions),
            body.labels, limit,
        )  # fmt: skip

    def _body(self) -> Body:
        body = Body()
        self.at += 1
        body.scopes.append(Scope())
        self._declare_labels(body)
        while self._more():
            character = self.text[self.at]
            if character in "{}":
                self.at += 1
                body.operands.clear()
            if character == "}":
                body.naming = body.scopes.pop().outside
                if not body.scopes:
                    return body
            elif character == "{":
                body.opened += 1
                body.scopes.append(Scope(outside=body.naming))
                self._declare_labels(body)
                body.declare(f"{{ {body.opened}", " ".join(body.scopes[-1].names))
            elif character == ".":
                self._directive(body)
            elif match := self._take(_LABEL):
                body.labels[named(body, match.group(1))] = len(body.instructions)
            else:
                body.instructions.append(self._instruction(body))
        raise self._error("a function without its closing brace")

    def _declare_labels(self, body: Body) -> None:
        """Labels of the braces that begin here may be used before they stand."""
        end = self._closing(self.at) if len(body.scopes) > 1 else self.at
        for match in _LABEL.finditer(self.text, self.at, end):
            body.scopes[-1].names[match.group(1)] = f"{match.group(1)}.{body.opened}"

    def _directive(self, body: Body) -> None:
        if match := self._take(_LOC):
            self._located(match)
        elif match := self._take(_REGISTERS):
            body.declare(match.group(1), match.group(2))
            for name in map(str.strip, match.group(2).split(",")):
                self._register(body, match.group(1), name)
        elif match := self._take(_VARIABLE):
            body.variables.append(self._variable(match))
        elif match := self._take(_TABLE):
            body.tables[list(body.labels)[-1]] = ptx.Vector(tuple(map(ptx.PtxSymbol, _split(match.group(1)))))
        elif not self._take(_TUNING):
            raise self._error("no directive that is known")

    def _register(self, body: Body, type: str, name: str) -> None:
        counted = _COUNTED.fullmatch(name)
        if counted:
            body.registers.update({f"{counted.group(1)}{i}": type for i in range(int(counted.group(2)))})
            return
        own = f"{name}.{body.opened}" if len(body.scopes) > 1 else name
        body.scopes[-1].names[name] = own
        body.registers[own] = type

    def _located(self, match: re.Match[str]) -> None:
        """What is inlined belongs to the line that it is inlined at, as far out as is known."""
        file, line, column = (int(match.group(i)) for i in (1, 2, 3))
        here = (file, line, column)
        if inlined := _INLINED.search(match.group(4)):
            at = (int(inlined.group(1)), int(inlined.group(2)), int(inlined.group(3)))
            self.outer[here] = at
            here = at
            for _ in range(16):
                if here not in self.outer or self.outer[here] == here:
                    break
                here = self.outer[here]
        else:
            self.outer.pop(here, None)
        self.place = (here[0], here[1])

    # ------------------------------------------------------------ instructions

    def _instruction(self, body: Body) -> ptx.PtxInstruction:
        line = self._line()
        end = self.text.find(";", self.at)
        if end < 0:
            raise self._error("an instruction without its semicolon")
        key = (body.naming, self.text[self.at : end], line, self.files.get(self.place[0], ""), self.place[1])
        self.at = end + 1
        return remembered(key, lambda: self._new_instruction(body, *key[1:]))

    def _new_instruction(self, body: Body, written: str, line: int, file: str, source: int) -> ptx.PtxInstruction:
        text = " ".join(written.split())
        guard: ptx.Register | ptx.Negated | None = None
        rest = text
        if rest.startswith("@"):
            word, _, rest = rest[1:].partition(" ")
            predicate = ptx.Register(named(body, word.lstrip("!")))
            guard = ptx.Negated(predicate) if word.startswith("!") else predicate
        opcode, _, operands = rest.strip().partition(" ")
        if opcode not in self.opcodes:
            first, *others = opcode.split(".")
            self.opcodes[opcode] = first, tuple(others)
        name, modifiers = self.opcodes[opcode]
        try:
            parsed = tuple([self._operand(body, operand) for operand in _split(operands)])
        except ValueError as error:
            raise MalformedPtx(f"`{text[:120]}`: {error}", line=line) from None
        return ptx.PtxInstruction(name, modifiers, parsed, guard, ptx.InstructionPlace(line, file, source), text)

    def _operand(self, body: Body, text: str) -> ptx.Operand:
        known = body.operands.get(text)
        if known is None:
            known = body.operands[text] = self._new_operand(body, text)
        return known

    def _new_operand(self, body: Body, text: str) -> ptx.Operand:
        name = named(body, text)
        if name in body.registers:
            return ptx.Register(name)
        if text.startswith("{"):
            return ptx.Vector(tuple(self._operand(body, part) for part in _split(text[1:-1])))
        if text.startswith("["):
            return self._address(body, text[1:-1].strip())
        if "|" in text:
            first, _, second = text.partition("|")
            return ptx.DestinationPair(self._operand(body, first.strip()), self._operand(body, second.strip()))
        if text == "_":
            return ptx.Nothing()
        if text.startswith("!"):
            return ptx.Negated(ptx.Register(named(body, text[1:].strip())))
        if text[0].isdigit() or text[0] == "-":
            return literal(text)
        if text.startswith("%"):
            return ptx.Special(text)
        base, plus, offset = text.partition("+")
        if plus:
            return ptx.AddressOperand(ptx.PtxSymbol(base.strip()), int(offset, 0))
        return ptx.PtxSymbol(name)

    def _address(self, body: Body, text: str) -> ptx.AddressOperand:
        base, *coordinates = _split(text)
        found: tuple[ptx.Operand, ...] = ()
        for part in coordinates:
            operand = self._operand(body, part)
            found += operand.parts if isinstance(operand, ptx.Vector) else (operand,)
        name, plus, offset = base.partition("+")
        if not plus and "-" in base[1:]:
            name, _, offset = base.partition("-")
            offset = f"-{offset}"
        return ptx.AddressOperand(self._operand(body, name.strip()), int(offset.strip() or "0", 0), found)

    # ------------------------------------------------------------ variables

    def _variable(self, match: re.Match[str]) -> ptx.Variable:
        variable = self._declared(match.group(1), match.group(2))
        if match.group(3) is None:
            return variable
        element = ptx.width(variable.type)
        values = match.group(3).strip().removeprefix("{").removesuffix("}").split(",")
        try:
            initial = b"".join(bytes_of(value.strip(), variable.type, element) for value in values if value.strip())
        except ValueError:
            raise self._error(f"variable `{variable.name}` has an initial value that is no number") from None
        return ptx.Variable(variable.name, variable.space, variable.type, variable.alignment, variable.size, initial)

    def _declared(self, space: str, text: str) -> ptx.Variable:
        match = _DECLARED.search(text.strip())
        if match is None:
            raise self._error("a variable without a name")
        words = text.strip()[: match.start()].split()
        alignment, type, vector = 0, "b8", 1
        for number, word in enumerate(words):
            if word == ".align":
                alignment = int(words[number + 1])
            elif word in (".v2", ".v4"):
                vector = int(word[2:])
            elif (
                re.fullmatch(r"\.(pred|[busf]\d+|bf16|f16x2|bf16x2)", word) and "ptr" not in words[number - 1 : number]
            ):
                type = word[1:]
        count = vector
        for extent in re.findall(r"\[(\d*)\]", match.group(2)):
            count *= int(extent or 0)
        size = ptx.width(type) * count
        return ptx.Variable(match.group(1), space, type, alignment or ptx.width(type) * vector, size)

    # ------------------------------------------------------------ text

    def _more(self) -> bool:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at < len(self.text)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def _closing(self, at: int) -> int:
        """Behind the brace that closes what is open at `at`."""
        depth = 1
        for match in re.compile(r"[{}]").finditer(self.text, at):
            depth += 1 if match.group() == "{" else -1
            if not depth:
                return match.end()
        raise self._error("braces that are not closed")

    def _line(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def _error(self, what: str) -> MalformedPtx:
        shown = self.text[self.at : self.at + 60].split("\n")[0]
        return MalformedPtx(f"`{shown}`: {what}", line=self._line())


def _with_targets(body: Body, instruction: ptx.PtxInstruction) -> ptx.PtxInstruction:
    """The instruction; one that branches by a table names its labels."""
    table = instruction.operands[-1] if instruction.name == "brx" and instruction.operands else None
    if not isinstance(table, ptx.PtxSymbol) or table.name not in body.tables:
        return instruction
    return replace(instruction, operands=(instruction.operands[0], body.tables[table.name]))


def _split(text: str) -> list[str]:
    """At the commas that stand in no braces or brackets."""
    if "[" not in text and "{" not in text:
        parts = [part.strip() for part in text.split(",")]
        return parts if parts[-1] else parts[:-1]
    parts, depth, begin = [], 0, 0
    for match in _TOP.finditer(text):
        character = match.group()
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif not depth:
            parts.append(text[begin : match.start()].strip())
            begin = match.end()
    last = text[begin:].strip()
    return [*parts, last] if last else parts
