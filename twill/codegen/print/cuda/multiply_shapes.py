"""The `wgmma.mma_async` wrappers of the shapes that one kernel uses, as CUDA text.

PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": D (64 × n, in registers) = A·B + D, with A (64 × k) in
shared memory or in registers and B (k × n) in shared memory; k is 32 bytes of operand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Operand = Literal["f16", "bf16", "tf32", "e4m3", "e5m2"]
_DEPTH: dict[str, int] = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}  # k of one instruction
_TRANSPOSABLE = ("f16", "bf16")  # the others are read along K only
_PER_LINE = 8  # registers in a line of the printed text
_STEP, _LARGEST = 8, 256  # n: multiples of 8 up to 256


@dataclass(frozen=True, order=True)
class MultiplyShape:
    """One form of the instruction. a, b: operand types. n: columns of D. a_in: where A is.

    Errors: ValueError for what the instruction set does not have.
    """

    a: Operand
    b: Operand
    n: int
    a_in: Literal["shared", "register"] = "shared"

    def __post_init__(self) -> None:
        if self.a not in _DEPTH or self.b not in _DEPTH:
            raise ValueError(f"wgmma has no operand types {self.a} × {self.b}; it has {', '.join(_DEPTH)}")
        if self.a != self.b and not (_DEPTH[self.a] == _DEPTH[self.b] == _DEPTH["e4m3"]):
            raise ValueError(f"wgmma cannot multiply {self.a} by {self.b}: only 8-bit types mix")
        if self.n % _STEP or not _STEP <= self.n <= _LARGEST:
            raise ValueError(f"wgmma has no {self.n} columns: multiples of {_STEP} up to {_LARGEST}")

    @property
    def k(self) -> int:
        """Elements of the contracted dimension that one instruction takes."""
        return _DEPTH[self.a]

    @property
    def registers(self) -> int:
        """Accumulator registers per thread: 64·n values over 128 threads."""
        return self.n // 2

    @property
    def transposable(self) -> bool:
        """Whether operands in shared memory may also be M-major or N-major."""
        return self.a in _TRANSPOSABLE

    @property
    def name(self) -> str:
        """Of the wrapper: `wgmma_m64n128k16_bf16_ss`, or `_rs` with A in registers; mixed types are both named."""
        types = self.a if self.a == self.b else f"{self.a}_{self.b}"
        return f"wgmma_m64n{self.n}k{self.k}_{types}_{'rs' if self.a_in == 'register' else 'ss'}"


def wgmma_source(shapes: Iterable[MultiplyShape]) -> str:
    """The wrappers of `shapes`, each once, in a fixed order; the empty text for none.

    A wrapper is `NAME<A_MAJOR, B_MAJOR>(d, a, b, accumulate)`: d the accumulator `float (&)[n/2]`; a a descriptor or
    a pointer to four packed registers; b a descriptor; accumulate false overwrites D. The template arguments
    are 1 for an M- or N-major operand in shared memory and 0 (the default) for a K-major one; types of 8 and 32 bits
    have none, and A in registers has no A_MAJOR.
    """
    return "\n".join(_wrapper(shape) for shape in sorted(set(shapes)))


def _wrapper(shape: MultiplyShape) -> str:
    count, in_registers = shape.registers, shape.a_in == "register"
    b_at = count + (4 if in_registers else 1)  # operand numbers: D, then A, then B, accumulate, majors
    majors = ([] if in_registers else ["A_MAJOR"]) + ["B_MAJOR"] if shape.transposable else []
    immediates = ", ".join(["p", "1", "1", *(f"%{b_at + 2 + i}" for i in range(len(majors)))])
    a_operand = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if in_registers else f"%{count}"
    a_input = ", ".join(f'"r"(a[{i}])' for i in range(4)) if in_registers else '"l"(a)'
    template = "template <" + ", ".join(f"int {major} = 0" for major in majors) + "> " if majors else ""
    registers = [f'    "{row}"' for row in _rows([f"%{i}" for i in range(count)])]
    outputs = [f"      {row}" for row in _rows([f'"+f"(d[{i}])' for i in range(count)])]
    lines = [
        f'// "wgmma.mma_async": D[64 x {shape.n}] (+)= A[64 x {shape.k}] B[{shape.k} x {shape.n}], A: {shape.a_in}.',
        f"{template}DEV void {shape.name}(float (&d)[{count}], {'const u32*' if in_registers else 'u64'} a, u64 b, "
        "bool accumulate) {",
        f'  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{b_at + 1}, 0;\\n"',
        f'    "wgmma.mma_async.sync.aligned.m64n{shape.n}k{shape.k}.f32.{shape.a}.{shape.b} {{"',
        *registers,
        f'    "}}, {a_operand}, %{b_at}, {immediates};\\n}}"',
        "    :",
        *outputs,
        f'    : {a_input}, "l"(b), "r"((u32)accumulate)' + "".join(f', "n"({major})' for major in majors) + ");",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _rows(items: list[str]) -> list[str]:
    """`items` with commas between them, a few a line."""
    rows = [", ".join(items[i : i + _PER_LINE]) for i in range(0, len(items), _PER_LINE)]
    return [row + "," for row in rows[:-1]] + rows[-1:]
