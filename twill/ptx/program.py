"""PTX as data: a module, its functions, their instructions and operands. What the text says and nothing more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Register:
    """A register of a function. Those that a block of braces declares have a name of their own (`p.3`)."""

    name: str


@dataclass(frozen=True)
class Special:
    """A read-only register: %tid.x."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """An integer."""

    value: int


@dataclass(frozen=True)
class FloatImmediate:
    """A float; bits: 32 (0f...) or 64 (0d..., decimal)."""

    value: float
    bits: int


@dataclass(frozen=True)
class PtxSymbol:
    """The name of a variable, parameter or label."""

    name: str


@dataclass(frozen=True)
class Nothing:
    """The operand `_`."""


@dataclass(frozen=True)
class Negated:
    """A predicate operand with `!`."""

    of: Register


@dataclass(frozen=True)
class DestinationPair:
    """Two destinations: `a|p`."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Vector:
    """`{a, b}`."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class AddressOperand:
    """`[base + offset]`, for a tensor with its coordinates."""

    base: Operand
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


Operand = (
    Register
    | Special
    | Immediate
    | FloatImmediate
    | PtxSymbol
    | Nothing
    | Negated
    | DestinationPair
    | Vector
    | AddressOperand
)


@dataclass(frozen=True)
class InstructionPlace:
    """Where an instruction comes from. line: of the PTX. file, source: of the text that was compiled ("" and 0 if
    unknown), through all that was inlined."""

    line: int
    file: str = ""
    source: int = 0

    def __str__(self) -> str:
        where = f", {self.file}:{self.source}" if self.source else ""
        return f"PTX line {self.line}{where}"


@dataclass(frozen=True)
class PtxInstruction:
    """`@guard name.modifiers operands;`. guard: a predicate, negated or not."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    place: InstructionPlace
    text: str

    @property
    def opcode(self) -> str:
        """With its modifiers."""
        return ".".join((self.name, *self.modifiers))


@dataclass(frozen=True)
class Variable:
    """A variable. space: shared, global, const, local, param. size: bytes, 0 if the launch decides. initial: its bytes,
    () for zeros."""

    name: str
    space: str
    type: str
    alignment: int
    size: int
    initial: bytes = b""


@dataclass(frozen=True)
class Function:
    """An entry. registers: their types by name. labels: of the instruction that they stand before. limit: registers of
    a thread at its launch, 0 if it does not say."""

    name: str
    parameters: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    registers: dict[str, str]
    instructions: tuple[PtxInstruction, ...]
    labels: dict[str, int]
    limit: int = 0


@dataclass(frozen=True)
class PtxModule:
    """A PTX text."""

    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]

    def function(self, name: str) -> Function:
        """The entry of that name. Errors: KeyError."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)


def width(type: str) -> int:
    """Bytes of a fundamental type: 4 for f32. A predicate has 1."""
    if type == "pred":
        return 1
    digits = type.lstrip("busf")
    if type.startswith(("bf16", "f16x2")) or type in ("b16x2",):
        return 4 if type.endswith("x2") else 2
    return int(digits) // 8
