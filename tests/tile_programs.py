"""Tile programs written by hand, with resolved accesses, for tests of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from twill.tile.affine import Polynomial, as_polynomial
from twill.tile.program import Access, Argument, Axis, Carry, Loop, Op, TileProgram, TileType, Value

Offset = int | Polynomial


@dataclass
class _Frame:
    items: list[Op | Loop] = field(default_factory=list)


class Programs:
    """Builds one program: `p = Programs(); x = p.load("x", (64,)); p.store("y", x); p.done()`."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.arguments: list[Argument] = []
        self.frames = [_Frame()]
        self.ops = 0
        self.line = 0

    def value(self, shape: Sequence[int], element: str, name: str = "") -> int:
        self.values.append(Value(len(self.values), TileType(tuple(shape), element), name, self.line))
        return len(self.values) - 1

    def argument(self, name: str, element: str = "i32") -> int:
        value = self.value((), element, name)
        self.arguments.append(Argument(name, value, TileType((), element), 1))
        return value

    def op(self, kind: str, *operands: int, shape: Sequence[int] | None = None, element: str = "",
           name: str = "", access: Access | None = None,
           **attributes: int | float | str | tuple[int, ...]) -> int:  # fmt: skip
        """Appends an operation; shape and element default to those of the last operand."""
        self.line += 1
        results: tuple[int, ...] = ()
        if kind not in ("tile_store", "tile_reduce"):
            like = self.values[operands[-1]].type if operands else TileType((), "i32")
            results = (self.value(like.shape if shape is None else shape, element or like.element, name),)
        made = Op(self.next(), kind, tuple(operands), results, tuple(attributes.items()), self.line, name, access)
        self.frames[-1].items.append(made)
        return results[0] if results else -1

    def next(self) -> int:
        self.ops += 1
        return self.ops - 1

    def constant(self, number: float, shape: Sequence[int] = (), element: str = "i32") -> int:
        return self.op("constant", shape=shape, element=element, value=number)

    def access(self, base: str, shape: Sequence[int], element: str, offsets: Sequence[Offset]) -> Access:
        strides = ([1024] * len(shape) + [1])[-len(shape) :] if shape else []
        axes = tuple(
            Axis(extent, as_polynomial(stride), as_polynomial(offset))
            for extent, stride, offset in zip(shape, strides, offsets or [0] * len(shape), strict=True)
        )
        return Access(base, element, axes, Polynomial(), 0.0, "tma", "")

    def load(self, base: str, shape: Sequence[int], element: str = "f16", at: Sequence[Offset] = (),
             name: str = "") -> int:  # fmt: skip
        access = self.access(base, shape, element, at)
        return self.op("tile_load", shape=shape, element=element, name=name or base, access=access)

    def store(self, base: str, tile: int, at: Sequence[Offset] = (), combine: str = "") -> None:
        kind = self.values[tile].type
        access = self.access(base, kind.shape, kind.element, at)
        if combine:
            self.op("tile_reduce", tile, access=access, combine=combine)
        else:
            self.op("tile_store", tile, access=access)

    def dot(self, a: int, b: int, c: int | None = None, name: str = "", precision: str = "ieee") -> int:
        shape = self.values[a].type.shape[0], self.values[b].type.shape[1]
        if c is None:
            c = self.constant(0.0, shape, "f32")
        return self.op("dot", a, b, c, shape=shape, element="f32", name=name, precision=precision)

    def reduce(self, tile: int, axis: int, combine: str, name: str = "") -> int:
        shape = list(self.values[tile].type.shape)
        del shape[axis]
        return self.op("reduce", tile, shape=shape, name=name, axis=axis, combine=combine)

    def column(self, vector: int, columns: int) -> int:
        """vector[:, None] broadcast to that many columns."""
        (rows,) = self.values[vector].type.shape
        standing = self.op("expand_dims", vector, shape=(rows, 1), axis=1)
        return self.op("broadcast", standing, shape=(rows, columns))

    def row(self, vector: int, rows: int) -> int:
        """vector[None, :] broadcast to that many rows."""
        (columns,) = self.values[vector].type.shape
        lying = self.op("expand_dims", vector, shape=(1, columns), axis=0)
        return self.op("broadcast", lying, shape=(rows, columns))

    @contextmanager
    def loop(self, upper: int, inits: Sequence[int], step: int = 1) -> Iterator[OpenLoop]:
        """for i in range(0, upper, step) with carried values that begin as `inits`."""
        lower, by = self.constant(0), self.constant(step)
        opened = OpenLoop(self, self.value((), "i32", "i"), list(inits))
        self.frames.append(_Frame())
        yield opened
        body = tuple(self.frames.pop().items)
        opened.results = [self.like(init) for init in inits]
        carried = tuple(
            Carry(self.values[argument].name, init, argument, yielded, result)
            for init, argument, yielded, result in zip(
                inits, opened.carried, opened.yields, opened.results, strict=True
            )
        )
        made = Loop(self.next(), opened.induction, lower, upper, by, carried, body, self.line)
        self.frames[-1].items.append(made)

    def like(self, value: int, name: str = "") -> int:
        kind = self.values[value].type
        return self.value(kind.shape, kind.element, name)

    def done(self) -> TileProgram:
        (frame,) = self.frames
        return TileProgram("k", "s", "k.py", tuple(self.arguments), tuple(self.values), tuple(frame.items))


class OpenLoop:
    """A loop while its body is written: set `yields` before it ends; then `results` are known."""

    def __init__(self, program: Programs, induction: int, inits: list[int]) -> None:
        self.induction = induction
        self.carried = [program.like(init) for init in inits]
        self.yields: Sequence[int] = self.carried
        self.results: Sequence[int] = ()

    @property
    def i(self) -> Polynomial:
        """The induction variable in an access."""
        return Polynomial.symbol(self.induction)


def gemm(rows: int = 128, columns: int = 128) -> TileProgram:
    """C[rows,columns] = A[rows,K] B[K,columns], 64 of K an iteration, one grid index along m, one along n."""
    p = Programs()
    trips = p.argument("trips")
    pid_m, pid_n = p.op("program_id", axis=0), p.op("program_id", axis=1)
    m, n = Polynomial.symbol(pid_m) * rows, Polynomial.symbol(pid_n) * columns
    zeros = p.constant(0.0, (rows, columns), "f32")
    with p.loop(trips, [zeros]) as k:
        a = p.load("A", (rows, 64), at=(m, k.i * 64), name="a")
        b = p.load("B", (64, columns), at=(k.i * 64, n), name="b")
        k.yields = [p.dot(a, b, k.carried[0], name="acc")]
    p.store("C", p.op("cast", k.results[0], element="f16", name="c"), at=(m, n))
    return p.done()


def attention(causal: bool = False) -> TileProgram:
    """Attention forward with 128 queries and 128 keys a tile; `causal` masks every tile."""
    p = Programs()
    scale, trips = p.argument("scale", "f32"), p.argument("trips")
    pid = p.op("program_id", axis=0)
    start = p.op("mul", pid, p.constant(128))
    at = Polynomial.symbol(pid) * 128
    q = p.load("Q", (128, 64), at=(at, 0), name="q")
    inits = [p.constant(0.0, (128, 64), "f32"), p.constant(0.0, (128,), "f32"), p.constant(-1e9, (128,), "f32")]
    offsets = p.op("range", shape=(128,), start=0, end=128)
    rows = p.op("add", p.op("splat", start, shape=(128,)), offsets)
    with p.loop(trips, inits, step=128) as n:
        acc, l_i, m_i = n.carried
        k = p.load("K", (128, 64), at=(n.i, 0), name="k")
        qk = p.dot(q, p.op("transpose", k, shape=(64, 128), order=(1, 0)), name="qk")
        qk = p.op("mul", qk, p.op("splat", scale, shape=(128, 128)))
        if causal:
            columns = p.op("add", p.op("splat", n.induction, shape=(128,)), offsets)
            seen = p.op("compare", p.column(rows, 128), p.row(columns, 128), element="i1", predicate="ge", signed=1)
            qk = p.op("select", seen, qk, p.constant(-1e6, (128, 128), "f32"), name="qk")
        m_ij = p.op("max", m_i, p.reduce(qk, 1, "max"), name="m_ij")
        prob = p.op("exp2", p.op("sub", qk, p.column(m_ij, 128)), name="p")
        alpha = p.op("exp2", p.op("sub", m_i, m_ij), name="alpha")
        l_new = p.op("add", p.op("mul", l_i, alpha), p.reduce(prob, 1, "add"), name="l_i")
        scaled = p.op("mul", acc, p.column(alpha, 64), name="acc")
        v = p.load("V", (128, 64), at=(n.i, 0), name="v")
        acc = p.dot(p.op("cast", prob, element="f16"), v, scaled, name="acc")
        n.yields = [acc, l_new, m_ij]
    acc, l_i, m_i = n.results
    p.store("O", p.op("cast", p.op("div", acc, p.column(l_i, 64)), element="f16", name="o"), at=(at, 0))
    p.store("L", p.op("add", m_i, p.op("log2", l_i), name="lse"), at=(at,))
    return p.done()
