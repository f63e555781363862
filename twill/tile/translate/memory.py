"""What each pointer and descriptor operation of Triton's IR becomes: a raw access."""

from __future__ import annotations

from dataclasses import replace

from twill.exc import AtomicResultUsed
from twill.tile.access.transport import BYTES
from twill.tile.mlir import Dense, RawOp
from twill.tile.program import Attribute, TileType
from twill.tile.translate import elected
from twill.tile.translate.builder import Literal, Made, ProgramBuilder
from twill.tile.translate.elementwise import Rule
from twill.tile.translate.refusals import refuse_order

# Triton's enumerations, by their value in the IR.
EXCHANGE = 10
DESCRIPTOR_REDUCTIONS = {1: "add", 2: "min", 3: "max", 6: "and", 7: "or", 8: "xor"}
ADDRESS, TRUTH = TileType((), "i64"), TileType((), "i1")
PADDINGS = {1: "zero", 2: "nan"}

# What touches memory, which a branch that is not taken must not.
GUARDED = frozenset({"load", "store", "atomic_add", "descriptor_load", "descriptor_store", "descriptor_reduce"})


def load(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.load pointer [mask [other]]`; in a loop over scalars, a number that is looked up, or read by the one thread
    that runs it. None: a volatile one anywhere else."""
    if emitter.in_elected:
        return elected.load(op, emitter)
    if op.attributes.get("isVolatile"):
        return None
    return look_up(op, emitter) if emitter.in_scalar_loop else _raw(op, emitter, "load")


def look_up(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """A number from a tensor, by its index. None: of a pointer that is no argument's."""
    pointer, *masks = (emitter.value(operand) for operand in op.operands)
    kind = op.results[0].type
    found = None if kind.shape else emitter.base(pointer)
    if found is None:
        return None
    index = emitter.constant(Literal(0, ADDRESS))
    for offset in found[1]:
        index = emitter.emit(op, "add", (index, emitter.widened(op, offset)), (ADDRESS,))[0]
    guard, given = emitter.guard(op), masks[:1]
    if guard is not None:
        both = [emitter.emit(op, "and", (masks[0], guard), (TRUTH,))[0]] if masks else [guard]
        given = both
    attributes = (("base", found[0]), ("element", kind.element), ("pad", 0))
    made = emitter.emit(op, "look_up", (index, *given), (kind,), attributes)
    if len(masks) < 2:
        return made
    return emitter.emit(op, "select", (masks[0], made[0], masks[1]), (kind,))


def atomic(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.atomic_rmw pointer value [mask]`, `tt.atomic_cas pointer compared value`. combine: add, if nothing is said.

    On one number whose old value or order counts: `twill.tile.translate.elected`. An exchange whose old value nobody
    reads is a store otherwise: of two programs that exchange one element either may be the last, as of two that store.

    One on a tile has its old values if anything reads them. Any other one is emitted as a relaxed reduction in the
    scope of the GPU, which includes the CTA's. "acq_rel" is what every atomic operation says that says nothing; it
    orders nothing here, for nobody reads what the operation gives. Raises `AtomicResultUsed`: compare and swap of a
    tile; `UnsupportedOperation`: an order that the kernel asks for by name for a tile that is not read, or the scope of
    the system (PTX ISA, "red": .release, .sys), which would be lost.
    """
    if emitter.in_scalar_loop:
        return elected.in_region(op, emitter)
    if elected.counts(op, emitter):
        return elected.once(op, emitter)
    if op.name == "tt.atomic_cas":
        raise AtomicResultUsed("tl.atomic_cas of a tile", file=emitter.file, line=op.line)
    said = elected.COMBINES.get(op.attributes["atomic_rmw_op"])
    if said is None:
        return None
    if op.attributes.get("scope", elected.IN_SCOPE[0]) not in elected.IN_SCOPE:
        refuse_order(emitter.file, op, "an atomic operation in the scope of the system", 'scope="gpu"')
    if op.results[0].id in emitter.read:
        return elected.tile(op, emitter, said)
    if elected.ORDERS[op.attributes.get("sem", 4)] not in ("relaxed", "acq_rel"):
        refuse_order(emitter.file, op, "an atomic operation on a tile with acquire or release order", 'sem="relaxed"')
    if op.attributes["atomic_rmw_op"] != EXCHANGE:
        return _raw(op, emitter, "atomic_add", **{k: v for k, v in said.items() if (k, v) != ("combine", "add")})
    _raw(replace(op, results=()), emitter, "store")
    return (Literal(0, op.results[0].type),)


def store(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.store pointer value [mask]`."""
    return elected.store(op, emitter) if emitter.in_scalar_loop else _raw(op, emitter, "store")


def pointer_of(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.int_to_ptr number`: an address that is looked up in a tensor of addresses, or passed as a number. It becomes
    an offset in what these addresses point to (`twill.tile.program.Argument.is_pointee`). None: a tile of addresses, or
    a number that is made of anything else.
    """
    kind = op.results[0].type
    if kind.shape:
        return None
    number = emitter.value(op.operands[0])
    base = emitter.pointee(number, kind)
    if base is None:
        return None
    offset, size = emitter.widened(op, number), BYTES[kind.element.partition(":")[2]]
    if size > 1:
        shift = emitter.constant(Literal(size.bit_length() - 1, ADDRESS))
        offset = emitter.emit(op, "shr", (offset, shift), (ADDRESS,), (("signed", 1),))[0]
    return emitter.emit(op, "add_pointer", (base, offset), (kind,))


def make_descriptor(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.make_tensor_descriptor base shape... strides...`; padding: what is read outside the tensor."""
    padding = PADDINGS.get(op.attributes.get("padding", 1))
    return _raw(op, emitter, "make_descriptor", padding=padding) if padding else None


def add_pointer(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """`tt.addptr pointer offset`. divisible: bytes, if the kernel says of what the pointers are multiples."""
    said = op.attributes.get("tt.divisibility")
    known = said.value if isinstance(said, Dense) else said
    if isinstance(known, int) and known > 1 and op.results[0].type.shape:
        return _raw(op, emitter, "add_pointer", divisible=known)
    return _raw(op, emitter, "add_pointer")


def descriptor_reduce(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.descriptor_reduce desc value index...`; signed: 0 where integers are compared as unsigned ones."""
    combine = DESCRIPTOR_REDUCTIONS.get(op.attributes["kind"])
    if combine in ("min", "max") and op.operands[0] in emitter.unsigned:
        return _raw(op, emitter, "descriptor_reduce", combine=combine, signed=0)
    return _raw(op, emitter, "descriptor_reduce", combine=combine) if combine else None


def raw(kind: str) -> Rule:
    """A raw access with the operands in Triton's order and no attributes."""
    return lambda op, emitter: _raw(op, emitter, kind)


def _raw(op: RawOp, emitter: ProgramBuilder, kind: str, **attributes: Attribute) -> tuple[int, ...]:
    operands = [emitter.value(operand) for operand in op.operands]
    guard = emitter.guard(op) if kind in GUARDED else None
    if guard is not None:
        operands.append(guard)
        attributes["guarded"] = 1
    return emitter.emit(op, kind, operands, [result.type for result in op.results], tuple(attributes.items()))


MEMORY: dict[str, Rule] = {
    "tt.load": load, "tt.store": store, "tt.atomic_rmw": atomic, "tt.atomic_cas": atomic, "tt.addptr": add_pointer,
    "tt.int_to_ptr": pointer_of,
    "tt.make_tensor_descriptor": make_descriptor, "tt.descriptor_load": raw("descriptor_load"),
    "tt.descriptor_store": raw("descriptor_store"), "tt.descriptor_reduce": descriptor_reduce,
}  # fmt: skip
