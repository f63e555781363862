"""Whether two runs stored the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from twill.codegen.verify.abstract.inputs import Launch
from twill.codegen.verify.abstract.violation import Violation
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.widen import NARROW
from twill.tile.program import Loop, TileProgram

# Relative to the number itself, and to the largest one of the tensor: sums are added up in another order, and what is
# rounded to 16 or 8 bits in between may then fall on the other side.
TOLERANCES: dict[str, tuple[float, float]] = {
    "f64": (1e-9, 1e-9), "f32": (1e-3, 2**-10), "f16": (2**-9, 2**-11), "bf16": (2**-6, 2**-8),
    "f8e4m3": (2**-2, 2**-4), "f8e5m2": (2**-1, 2**-3),
}  # fmt: skip
UNROUNDED = (2e-5, 2**-17)  # of f32 where nothing is rounded in between
VIEWS = ("broadcast", "expand_dims", "reshape", "transpose", "splat", "slice", "join", "tile_load")


def compare(
    program: TileProgram, launch: Launch, found: Mapping[str, Array], expected: Mapping[str, Array]
) -> Iterator[Violation]:
    """A violation for each tensor that differs, at the line of the statement that stores to it."""
    rounded = rounded_before(program)
    for argument in program.arguments:
        if argument.name not in expected:
            continue
        element = argument.type.element.partition(":")[2]
        ours, theirs = found[argument.name], expected[argument.name]
        wrong = different(ours, theirs, element, argument.name in rounded)
        if not wrong.any():
            continue
        first = int(np.argmax(wrong))
        line = next((op.line for op in program.ops() if op.access and op.access.base == argument.name
                     and op.kind != "tile_load"), 0)  # fmt: skip
        yield Violation(
            "values",
            f"{int(wrong.sum())} of {wrong.size} elements of {argument.name} differ from the sequential program, first "
            f"element {first}: {ours[first]} instead of {theirs[first]} ({launch.text})",
            line,
        )


def rounded_before(program: TileProgram) -> set[str]:
    """Tensors to which something goes that was rounded to a narrow float on its way, or that is added up in memory."""
    seen: set[int] = set()
    carries = [carry for item in program.body if isinstance(item, Loop) for carry in item.carried]
    known = -1
    while known < len(seen):
        known = len(seen)
        for op in program.ops():
            narrow = any(program.type_of(value).element in NARROW for value in op.results)
            if (narrow and op.kind not in VIEWS) or seen.intersection(op.operands):
                seen.update(op.results)
        for carry in carries:
            if seen.intersection((carry.init, carry.yielded)):
                seen.update((carry.argument, carry.result))
    stores = [op for op in program.ops() if op.access is not None and op.kind != "tile_load"]
    return {
        op.access.base
        for op in stores
        if op.access is not None and (op.kind == "tile_reduce" or seen.intersection(op.operands))
    }


def different(ours: Array, theirs: Array, element: str, rounded: bool = True) -> Array:
    """Where two tensors differ by more than the order of additions explains. rounded: to narrow floats, before."""
    if element not in TOLERANCES:
        return ours != theirs
    relative, absolute = TOLERANCES[element] if rounded or element != "f32" else UNROUNDED
    finite = np.abs(theirs[np.isfinite(theirs)])
    largest = float(finite.max()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        near = np.abs(ours - theirs) <= relative * np.abs(theirs) + absolute * largest
    return ~(near | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
