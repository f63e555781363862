"""What one step costs: its operation class and number of elements, and the unit class it runs on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from twill.graph.dependence import Count
from twill.ptx.inline import InlineAsm, assembled, of_attributes
from twill.tile import vocabulary
from twill.tile.flat import Flat, Step

COMBINES = {"add": "add", "mul": "add", "max": "max", "min": "max", "and": "logic", "or": "logic", "xor": "logic"}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f8e4m3": 8, "f8e5m2": 8, "f16": 16, "bf16": 16,
        "f32": 32, "f64": 64, "e2m1": 8}  # fmt: skip
"""Of an element in registers or shared memory. e2m1: of those that have a place of 8 bits there; two of them are in a
byte of global memory (`twill.tile.rewrite.unpacked_operands`)."""
EXTRA = {"exp": "mul", "log": "mul"}  # exp(x) = exp2(x·log2 e), log(x) = log2(x)·ln 2
INSTRUCTIONS = {
    **dict.fromkeys(("add", "sub"), "add"), "mul": "mul", **dict.fromkeys(("fma", "mad"), "fma"), "neg": "mul",
    **dict.fromkeys(("div", "rem", "rcp"), "div"), "ex2": "exp2", "lg2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt",
    **dict.fromkeys(("sin", "cos"), "sin"), "tanh": "exp2", **dict.fromkeys(("min", "max"), "max"), "cvt": "cast",
    **dict.fromkeys(("setp", "set"), "compare"), **dict.fromkeys(("selp", "slct"), "select"), "mov": "",
}  # fmt: skip
"""Instructions of PTX -> operation class; the others are logic. The fast `tanh` is one instruction, as `ex2` is."""
KNOWN = frozenset(vocabulary.OPERATION_CLASSES)


def is_free(step: Step) -> bool:
    """Whether the step only shows elements that exist, or that any instruction can make up, or runs under a guard that
    the steady state does not enter."""
    return (
        step.guarded
        or step.modifier
        or step.op.kind in vocabulary.SOURCES
        or step.op.kind in vocabulary.VIEWS
        or vocabulary.ELEMENTWISE.get(step.op.kind) == ""
    )


def tile_bytes(shape: tuple[int, ...], element: str) -> int:
    """Size of a tile in shared memory, and but for e2m1 in global memory (an i1 takes a byte)."""
    return prod(shape) * max(8, BITS[element]) // 8


def moved_bytes(shape: tuple[int, ...], element: str) -> int:
    """Bytes of global memory that a tile has, which is what a copy counts."""
    return tile_bytes(shape, element) // (2 if element == vocabulary.UNPACKED else 1)


def elements(step: Step, flat: Flat) -> int:
    """How many elements the step works on: those of its input for reductions, else of its result."""
    kind = step.op.kind
    cell = (
        step.operands[0] if kind in ("reduce", "scan", *vocabulary.HISTOGRAM) or not step.results else step.results[0]
    )
    return prod(flat.cells[cell].type.shape)


def operation_classes(step: Step, flat: Flat) -> tuple[str, ...]:
    """Operation classes that each element goes through; () for free steps, products and accesses."""
    kind = step.op.kind
    if is_free(step):
        return ()
    if kind in ("reduce", "scan"):
        combine = COMBINES[str(step.op.attribute("combine"))]
        return (f"{kind}_{combine}.{work_element(f'{kind}_{combine}', _type(step.results[0], flat))}",)
    if kind in vocabulary.REARRANGE:  # to shared memory and back, with addresses
        return ("cast.i32",) * 4
    if kind in vocabulary.HISTOGRAM:  # compared, and added to a word of shared memory by one thread after another
        return ("compare.i32", *("cast.i32",) * 8)
    if kind not in vocabulary.ELEMENTWISE:
        return ()
    if kind == "inline_asm":
        return assembly_classes(of_attributes(dict(step.op.attributes)))
    if kind == "cast":
        return cast_classes(_type(step.operands[0], flat), _type(step.results[0], flat))
    source = next(iter(step.cells()), step.results[0]) if kind == "compare" else step.results[0]
    names = [vocabulary.ELEMENTWISE[kind], *([EXTRA[kind]] if kind in EXTRA else [])]
    return tuple(f"{name}.{work_element(name, _type(source, flat))}" for name in names)


def assembly_classes(asm: InlineAsm) -> tuple[str, ...]:
    """What an element of inline assembly goes through: a class for each of its instructions, moves left out; shared by
    the elements of a pack, rounded up."""
    counts: dict[str, int] = {}
    for instruction in assembled(asm).instructions:
        name = INSTRUCTIONS.get(instruction.name, "logic")
        if name:
            wide = any(modifier in ("f64", "s64", "u64", "b64") for modifier in instruction.modifiers)
            floats = any(modifier.startswith(("f", "bf")) for modifier in instruction.modifiers)
            halves = any(modifier.startswith(("f16", "bf16")) for modifier in instruction.modifiers)
            element = ("f64" if wide else "f16" if halves else "f32") if floats else ("i64" if wide else "i32")
            known = f"{name}.{work_element(name, element)}"
            counts[known] = counts.get(known, 0) + 1
    return tuple(name for name, count in counts.items() for _ in range(-(-count // asm.pack)))


def _type(cell: int, flat: Flat) -> str:
    return flat.cells[cell].type.element if cell >= 0 else "f32"


def work_element(name: str, element: str) -> str:
    """The element type that class `name` is priced for when it works on `element`.

    See `OPERATION_CLASSES`: narrow types take the next wider one that the class knows.
    """
    bits = BITS[element]
    if name in ("logic", "reduce_logic", "scan_logic"):
        return "i64" if bits == 64 else "i32"
    integer = "i64" if bits == 64 else "i32"
    wanted = integer if element.startswith("i") else f"f{max(bits, 16)}"
    if f"{name}.{wanted}" in KNOWN:
        return wanted
    return "f64" if bits == 64 else "f32"


def cast_classes(source: str, target: str) -> tuple[str, ...]:
    """Of a conversion. Bytes and 16-bit integers become floats by the way of their bits, two bytes at once where the
    result has 16 bits: `bytes.cuh` of the printer."""
    if source in ("i8", "i16") and target in ("f16", "bf16", "f32"):
        packed = source == "i8" and target != "f32"
        return ("cast.i32", "cast.f16") if packed else ("cast.i32", "add.f32")
    return (f"cast.{cast_element(source, target)}",)


def cast_element(source: str, target: str) -> str:
    """Of a conversion: see `OPERATION_CLASSES`."""
    both = {source, target}
    if "f64" in both or "i64" in both:
        return "f64" if "f64" in both else "i64"
    integers = [element for element in (source, target) if element.startswith("i")]
    if len(integers) == 2:
        return "i32"
    return "f32" if integers or "f32" in both else "f16"


def is_transcendental(step: Step, flat: Flat) -> bool:
    """Whether the step needs the transcendental units."""
    return any(name.split(".")[0] in vocabulary.TRANSCENDENTAL for name in operation_classes(step, flat))


def chain_counts(steps: Iterable[Step], flat: Flat, uses: Mapping[int, int]) -> tuple[Count, ...]:
    """The counts of one chain, classes in order of first appearance. uses: readers of each cell.

    A floating-point multiplication whose only use is an addition of the chain, of the same
    shape, is one fused multiply-add with it.
    """
    chain = tuple(steps)
    mmas = {step.results[0]: step for step in chain if step.op.kind == "mul" and uses[step.results[0]] == 1}
    absorbed: set[int] = set()
    totals: dict[str, int] = {}
    fused: set[int] = set()
    for step in chain:
        if step.op.kind not in ("add", "sub") or _type(step.results[0], flat).startswith("i"):
            continue
        mma = next((operand for operand in step.operands if operand in mmas), None)
        if mma is not None:
            absorbed.add(mma)
            fused.add(step.results[0])
    for step in chain:
        if step.results[0] in absorbed:
            continue
        names = operation_classes(step, flat)
        if step.results[0] in fused:
            names = (f"fma.{work_element('fma', _type(step.results[0], flat))}",)
        for name in names:
            totals[name] = totals.get(name, 0) + elements(step, flat)
    return tuple(Count(operation=name, elements=total) for name, total in totals.items())
