"""Matrix multiplications that the tensor core lacks, as several that it has, at the precision the kernel asks for.

The tensor core multiplies f16, bf16, tf32 and 8-bit floats with an accumulator of f32, and reads
operands of 8 and 32 bits along K only. What else `tl.dot` can say becomes such products and elementwise work::

    %c = dot %a %b %acc precision=bf16x6        (f32 operands, each a sum of three bf16: hi + mid + lo)

    %p = dot %a.mid %b.mid;  %p = dot %a.lo %b.hi %p;  ...;  %p = dot %a.hi %b.mid %p
    %q = select (%p == %p) %p 0                 (an infinite operand: see below)
    %r = dot %a.hi %b.hi %q
    %c = add %acc %r

A bf16 has 8 bits of significand and the exponents of an f32, so that three of them hold an f32 exactly, down to 2^-133.
Smaller products come first, and the sum over a tile is added to the accumulator as an f32, rounded to nearest: a tensor
core truncates what it adds up. Where an operand is infinite its lower parts are NaN, and a finite one's lower parts are
often 0, times infinity NaN; the highest product alone says what the result is then, so such sums are made 0 before it.

| `tl.dot` | becomes | error of a product, relative, beside that of the sum |
| --- | --- | --- |
| bf16x3 | 3 products of 2 parts | 2^-16 (as Triton's) |
| bf16x6 | 6 products of 3 parts | 2^-23 (as Triton's) |
| tf32x3 | the same | 2^-23; Triton's has 2^-21: two parts of 11 bits, and what they leave is dropped |
| ieee | 8 products of 3 parts, all but lo times lo | 2^-32 |
| tf32 of tiles that are computed, or not read along K | as bf16x3 | 2^-16; tf32's own is 2^-10 |
| 8-bit floats that are computed, or not read along K, or with promotion within a tile | f16 | none |
| 8-bit floats of which A is what floats are cast to, for the product alone | the product itself | none |
| 8-bit floats with promotion after each tile | the product without accumulator, and an addition | none |
| int8 | bf16; the sum over a tile is an integer below 2^24, converted and added as i32 | none |
| accumulators of f16 | f32, rounded to f16 behind the product | none |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from twill import exc
from twill.tile.dead_code import compact
from twill.tile.operand_order import is_in_quads
from twill.tile.program import Attribute, Items, Loop, Op, TileProgram, TileType, constant_of
from twill.tile.rewrite.op_rewriter import OpRewriter

INSTEAD = "instead"  # of a product: what the kernel asked for where it has another form
PARTS: dict[str, tuple[tuple[int, int], ...]] = {
    "bf16x3": ((1, 0), (0, 1), (0, 0)),
    "bf16x6": ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)),
    "tf32x3": ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)),
    "ieee": ((2, 1), (1, 2), (1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)),
}
"""Which parts of A and B are multiplied, the least product first; part 0 is the greatest."""
NAMES = ("hi", "mid", "lo")
ROWS = 64  # of a computed matrix in the registers of a warp group, at least (PTX ISA, "Register Fragments")
EXACT_SUM = 1 << 24  # integers up to it are f32, each of them
EIGHT_BITS, INTEGERS = ("f8e4m3", "f8e5m2"), ("i8",)
FLOATS = ("f32", "f16", "bf16")
TRUTH = "i1"


def split_mmas(program: TileProgram, computed: bool = True) -> TileProgram:
    """The program with such products made of others; the same one if there are none. computed: whether an operand A of
    8 bits may be one that threads compute. Raises `UnsupportedMma`."""
    return _MmaSplitter(program, computed=computed).rewritten()


@dataclass
class _MmaSplitter(OpRewriter):
    """computed: as of `split_mmas`. behind: operations to put behind the one that makes a value, or first into the loop
    that carries it."""

    computed: bool = True
    behind: dict[int, list[Op]] = field(default_factory=dict)
    known: dict[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)

    # -- the program --------------------------------------------------------------------------

    def rewritten(self) -> TileProgram:
        """The program with such products, and the parts of their operands where they belong."""
        body = self.block(self.program.body)
        if not self.changed:
            return self.program
        return compact(replace(self.program, body=self.placed(body), values=tuple(self.write.values)))

    def placed(self, items: Items) -> Items:
        """The items with every operation in `behind` where it belongs."""
        found: list[Op | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                first = [op for carry in item.carried for op in self.behind.get(carry.argument, ())]
                found.append(replace(item, body=(*first, *self.placed(item.body))))
                found += [op for carry in item.carried for op in self.behind.get(carry.result, ())]
                continue
            found.append(item)
            found += [op for value in item.results for op in self.behind.get(value, ())]
        return tuple(found)

    # -- products -----------------------------------------------------------------------------

    def instead(self, op: Op) -> list[Op]:
        """What a product becomes: itself, if the tensor core has it. Parts of operands wait in `behind`."""
        if op.kind != "dot":
            return [op]
        element, result = self.program.type_of(op.operands[0]).element, self.program.type_of(op.results[0]).element
        if self.program.type_of(op.operands[1]).element != element and element not in EIGHT_BITS:
            self.refuse(op, f"a product of {element} and {self.program.type_of(op.operands[1]).element}",
                        "both operands of one type")  # fmt: skip
        if element == "f32":
            self.of_floats(op)
        elif element in EIGHT_BITS:
            self.of_eight_bits(op)
        elif element in INTEGERS:
            self.of_integers(op)
        elif element not in ("f16", "bf16"):
            self.refuse(op, f"a product of {element}", "operands of f32, f16, bf16, fp8 or int8")
        elif result == "f16":
            self.wide(op, op.operands[:2])
        elif result != "f32":
            self.refuse(op, f"a product of {element} with an accumulator of {result}", "an accumulator of fp32 or fp16")
        return self.write.made or [op]

    def of_floats(self, op: Op) -> None:
        """f32 operands, with the precision that was asked for."""
        precision = str(op.attribute("precision"))
        if precision == "tf32" and all(self.read_along_k(op, position) for position in (0, 1)):
            return
        pairs = PARTS.get("bf16x3" if precision == "tf32" else precision)
        if pairs is None:
            self.refuse(op, f"a product with input precision {precision}", ", ".join(("tf32", *PARTS)))
            return
        count, truncated = 1 + max(max(pair) for pair in pairs), precision == "ieee"
        left = self.operand(op, 0, count, truncated)
        right = self.operand(op, 1, count, truncated)
        self.several(op, left, right, pairs)

    def several(
        self, op: Op, left: tuple[int, ...], right: tuple[int, ...], pairs: tuple[tuple[int, int], ...]
    ) -> None:
        """The products of parts, the last one behind the test for infinite operands, and the sum with the addend."""
        kind = TileType(self.program.type_of(op.results[0]).shape, "f32")
        total: int | None = None
        for i, j in pairs[:-1]:
            total = self.dot(op, (left[i], right[j]), total, kind)
        assert total is not None
        number = self.write.op("compare", (total, total), replace(kind, element=TRUTH), op.line, predicate="eq")
        zero = self.write.op("constant", (), kind, op.line, value=0.0)
        finite = self.write.op("select", (number, total, zero), kind, op.line, op.name)
        i, j = pairs[-1]
        last = self.dot(op, (left[i], right[j]), finite, kind, asked(op))
        self.finish(op, last, op.operands[2] if len(op.operands) > 2 else None)

    def of_eight_bits(self, op: Op) -> None:
        """8-bit floats: as they are, in f16, or a tile at a time."""
        depth, imprecise = self.program.type_of(op.operands[0]).shape[1], int(str(op.attribute("imprecise")))
        kind = TileType(self.program.type_of(op.results[0]).shape, "f32")
        exact = 0 < imprecise < depth
        rounded = self.read_along_k(op, 0) or (self.computed and self.is_rounded(op))
        if exact or not (rounded and self.read_along_k(op, 1)):
            operands = tuple(self.converted(op, position, "f16") for position in (0, 1))
            self.wide(op, operands)
        elif imprecise == depth and len(op.operands) > 2:
            self.finish(op, self.dot(op, op.operands[:2], None, kind, asked(op)), self.widened(op))
        elif self.program.type_of(op.results[0]).element != "f32":
            self.wide(op, op.operands[:2])

    def of_integers(self, op: Op) -> None:
        """int8 with an accumulator of i32."""
        shape, depth = self.program.type_of(op.results[0]).shape, self.program.type_of(op.operands[0]).shape[1]
        if depth * 128 * 128 > EXACT_SUM:
            self.refuse(op, f"a product of int8 over {depth} columns at once", f"{EXACT_SUM // 128**2} at most")
        operands = tuple(self.converted(op, position, "bf16") for position in (0, 1))
        total = self.dot(op, operands, None, TileType(shape, "f32"), INTEGERS[0])
        whole = self.write.op("cast", (total,), TileType(shape, "i32"), op.line, op.name, signed=1)
        self.finish(op, whole, op.operands[2] if len(op.operands) > 2 else None)

    # -- statements ---------------------------------------------------------------------------

    def wide(self, op: Op, operands: tuple[int, ...]) -> None:
        """One product with an accumulator of f32."""
        kind = TileType(self.program.type_of(op.results[0]).shape, "f32")
        self.finish(op, self.dot(op, operands, self.widened(op), kind, asked(op)), None)

    def dot(
        self, op: Op, operands: tuple[int, ...], addend: int | None, kind: TileType, instead: str = ""
    ) -> int:  # fmt: skip
        """A product that the tensor core has."""
        attributes: dict[str, Attribute] = {"precision": "ieee"}
        if self.write.values[operands[0]].type.element in EIGHT_BITS:
            attributes["imprecise"] = 1 << 30
        if instead:
            attributes[INSTEAD] = instead
        given = operands if addend is None else (*operands, addend)
        return self.write.op("dot", given, kind, op.line, op.name, **attributes)

    def widened(self, op: Op) -> int | None:
        """The addend as f32; None if there is none."""
        if len(op.operands) < 3:
            return None
        kind = self.program.type_of(op.operands[2])
        if kind.element == "f32":
            return op.operands[2]
        if kind.element != "f16":
            self.refuse(op, f"an accumulator of {kind.element}", "an accumulator of fp32 or fp16")
        constant = constant_of(self.write.makers.get(op.operands[2]))
        if constant is not None:
            return self.write.op("constant", (), replace(kind, element="f32"), op.line, value=constant)
        return self.write.op("cast", (op.operands[2],), replace(kind, element="f32"), op.line, op.name)

    def finish(self, op: Op, total: int, addend: int | None) -> None:
        """The product's own result from the total."""
        kind, made = self.program.type_of(op.results[0]), self.write.values[total].type.element
        nothing = addend is None or constant_of(self.write.makers.get(addend)) == 0
        if nothing and made == kind.element:
            last = self.write.makers[total]
            at = next(i for i, one in enumerate(self.write.made) if one.id == last.id)
            self.write.made[at] = replace(last, results=op.results)
            return
        if addend is not None and not nothing:
            element = self.write.values[addend].type.element
            if element != made:
                self.refuse(op, f"an addend of {element} to a product of {made}", "an accumulator of the same type")
            if made == kind.element:
                self.write.made.append(Op(op.id, "add", (addend, total), op.results, (), op.line, op.name))
                return
            total = self.write.op("add", (addend, total), TileType(kind.shape, made), op.line, op.name)
        self.write.made.append(Op(op.id, "cast", (total,), op.results, (), op.line, op.name))

    # -- operands -----------------------------------------------------------------------------

    def shown(self, value: int) -> tuple[int, bool]:
        """The tile that an operand is a view of, and whether with rows and columns exchanged."""
        maker = self.write.makers.get(value)
        if maker is None or maker.kind != "transpose" or maker.attribute("order") != (1, 0):
            return value, False
        inner, turned = self.shown(maker.operands[0])
        return inner, not turned

    def read_along_k(self, op: Op, position: int) -> bool:
        """Whether operand A or B is a tile from memory whose rows lie along K."""
        base, turned = self.shown(op.operands[position])
        maker = self.write.makers.get(base)
        while maker is not None and maker.kind == "reshape" and self.is_one_matrix(maker):
            maker = self.write.makers.get(maker.operands[0])
        return maker is not None and maker.kind == "tile_load" and turned == (position == 1)

    def is_one_matrix(self, op: Op) -> bool:
        """Whether a reshape takes nothing but axes of one element away, in front of a matrix."""
        before, behind = (self.write.values[one].type.shape for one in (op.operands[0], op.results[0]))
        return len(behind) == 2 and before == (1,) * (len(before) - 2) + behind

    def is_rounded(self, op: Op) -> bool:
        """Whether operand A is made of floats by a cast for this product alone, which threads can put in its order."""
        value = op.operands[0]
        maker = self.write.makers.get(value)
        if maker is not None and is_in_quads(maker, self.write.values[value].type.shape):
            value, op = maker.operands[0], maker
            maker = self.write.makers.get(value)
        if maker is None or maker.kind != "cast" or "rounding" in dict(maker.attributes):
            return False
        if self.write.values[maker.operands[0]].type.element not in FLOATS:
            return False
        return [reader.id for reader in self.program.ops() if value in reader.operands] == [op.id]

    def oriented(self, op: Op, position: int) -> tuple[int, bool]:
        """The tile to compute with, which has whole row blocks if either side has, and whether the operand is its
        transpose."""
        base, turned = self.shown(op.operands[position])
        maker, shape = self.write.makers.get(base), self.write.values[base].type.shape
        if maker is None or maker.kind != "tile_load" or shape[0] % ROWS == 0 or shape[1] % ROWS:
            return base, turned
        return self.turned(base), not turned

    def turned(self, value: int) -> int:
        """The transpose of a tile, made behind it."""
        key = (value, "transpose")
        if key not in self.known:
            (rows, columns), element = self.write.values[value].type.shape, self.write.values[value].type.element
            write = _Behind(self, self.root(value))
            name = self.write.values[value].name
            made = write.op("transpose", (value,), TileType((columns, rows), element), name, order=(1, 0))
            self.known[key] = (made,)
        return self.known[key][0]

    def root(self, value: int) -> int:
        """The value of the program that a new one was made of."""
        while value >= len(self.program.values):
            value = self.write.makers[value].operands[0]
        return value

    def operand(self, op: Op, position: int, count: int, truncated: bool) -> tuple[int, ...]:
        """The parts of an f32 operand, the greatest first. truncated: rounded towards zero, so that the greatest part
        of a number that is no infinity is none."""
        value, turned = self.oriented(op, position)
        key = (value, f"{count} parts{', truncated' if truncated else ''}")
        if key not in self.known:
            self.known[key] = self.parts(value, count, truncated)
        return self.as_operand(self.known[key], turned)

    def parts(self, value: int, count: int, truncated: bool) -> tuple[int, ...]:
        """hi = bf16(x), mid = bf16(x - hi), lo = bf16(x - hi - mid)."""
        write = _Behind(self, self.root(value))
        kind, name = self.write.values[value].type, self.write.values[value].name or "x"
        found: list[int] = []
        left = value
        for part in NAMES[:count]:
            attributes: dict[str, str] = {"rounding": "rtz"} if truncated and not found else {}
            found.append(write.op("cast", (left,), replace(kind, element="bf16"), f"{name}_{part}", **attributes))
            if len(found) < count:
                wide = write.op("cast", (found[-1],), kind, f"{name}_{part}")
                left = write.op("sub", (left, wide), kind, f"{name}_left")
        return tuple(found)

    def converted(self, op: Op, position: int, element: str) -> int:
        """An operand in another type that holds all of its values."""
        value, turned = self.oriented(op, position)
        key = (value, element)
        if key not in self.known:
            write = _Behind(self, self.root(value))
            kind, name = self.write.values[value].type, self.write.values[value].name or "x"
            self.known[key] = (write.op("cast", (value,), replace(kind, element=element), f"{name}_{element}"),)
        return self.as_operand(self.known[key], turned)[0]

    def as_operand(self, parts: tuple[int, ...], turned: bool) -> tuple[int, ...]:
        """Parts of a tile as the operand shows it."""
        return tuple(map(self.turned, parts)) if turned else parts

    def refuse(self, op: Op, what: str, hint: str) -> None:
        """Raises UnsupportedMma at the product's line."""
        raise exc.UnsupportedMma(what, hint=hint, file=self.program.file, line=op.line)


@dataclass(frozen=True)
class _Behind:
    """Writes operations that stand behind the one that makes a value."""

    splitter: _MmaSplitter
    value: int

    def op(
        self, kind: str, operands: tuple[int, ...], result: TileType, name: str,
        **attributes: Attribute,
    ) -> int:  # fmt: skip
        """A new operation; its result."""
        write = self.splitter.write
        retained, write.made = write.made, []
        made = write.op(kind, operands, result, write.values[self.value].line, name, **attributes)
        self.splitter.behind.setdefault(self.value, []).extend(write.made)
        write.made = retained
        return made


def asked(op: Op) -> str:
    """What a product is called in the list of what was changed."""
    return str(dict(op.attributes).get("precision", ""))


def changed_mmas(program: TileProgram) -> Iterator[Op]:
    """The products that stand for others."""
    return filter(is_changed, program.ops())


def is_changed(op: Op) -> bool:
    """Whether it is a product that stands for another."""
    return op.kind == "dot" and INSTEAD in dict(op.attributes)
