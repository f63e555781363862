"""Online softmaxes of all kinds, written by hand, for tests of lazy running maxima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.tile_programs import Programs
from twill.tile.affine import Polynomial
from twill.tile.program import TileProgram

ROWS, KEYS, DEPTH = 64, 32, 128

Change = Callable[[Programs, int], int]


def unchanged(p: Programs, value: int) -> int:
    """As it is."""
    return value


@dataclass(frozen=True)
class Softmax:
    """O = softmax(X) V over blocks of keys, with what may be different. Each takes and gives a value id.

    base: "exp2" or "exp". p: what is summed and multiplied with V, of P; l_factor: what the sum is multiplied by, of
    alpha. narrow: what P is converted to. depth: columns of V. loops: in sequence. l_init, m_init: of sum and maximum.
    peeks: the maximum itself is stored, too. swapped: max(X, m) instead of max(m, X). rescales: acc by alpha. nan: the
    maximum propagates it.
    """

    base: str = "exp2"
    p: Change = unchanged
    l_factor: Change = unchanged
    narrow: str = "bf16"
    depth: int = DEPTH
    loops: int = 1
    l_init: float = 0.0
    m_init: float = float("-inf")
    peeks: bool = False
    swapped: bool = False
    rescales: bool = True
    nan: bool = False

    def program(self) -> TileProgram:
        """X[ROWS, trips * KEYS] and V[trips * KEYS, depth] to O[ROWS, depth] and LSE[ROWS]."""
        p = Programs()
        trips = p.argument("trips")
        acc = p.constant(0.0, (ROWS, self.depth), "f32")
        total = p.constant(self.l_init, (ROWS,), "f32")
        m = p.constant(self.m_init, (ROWS,), "f32")
        for number in range(self.loops):
            with p.loop(trips, [acc, total, m]) as n:
                n.yields = self.iteration(p, n.i * KEYS, n.carried, number)
            acc, total, m = n.results
        p.store("O", p.op("div", acc, p.column(total, self.depth), name="o"))
        logarithm = "log2" if self.base == "exp2" else "log"
        p.store("LSE", p.op("add", m, p.op(logarithm, total), name="lse"))
        if self.peeks:
            p.store("M", m)
        return p.done()

    def iteration(self, p: Programs, at: Polynomial, carried: list[int], number: int) -> list[int]:
        """One block of keys."""
        acc, total, m = carried
        x = p.load(f"X{number}", (ROWS, KEYS), "f32", at=(0, at))
        both = (p.reduce(x, 1, "max"), m) if self.swapped else (m, p.reduce(x, 1, "max"))
        new = p.op("max", *both, name="m_new", propagate_nan=1) if self.nan else p.op("max", *both, name="m_new")
        prob = self.p(p, p.op(self.base, p.op("sub", x, p.column(new, KEYS)), name="p"))
        alpha = p.op(self.base, p.op("sub", m, new), name="alpha")
        total = p.op("add", p.op("mul", total, self.l_factor(p, alpha)), p.reduce(prob, 1, "add"))
        v = p.load(f"V{number}", (KEYS, self.depth), "bf16", at=(at, 0))
        if self.rescales:
            acc = p.op("mul", acc, p.column(alpha, self.depth), name="acc")
        return [p.dot(p.op("cast", prob, element=self.narrow), v, acc), total, new]
