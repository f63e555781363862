"""1 - erf(x) by the short formulas of `twill.codegen.passes.erf_tails`, as functions of the module."""

from __future__ import annotations

import math

from twill import exc
from twill.codegen.print.gluon.elementwise import Elementwise
from twill.codegen.print.gluon.scalars import Text
from twill.codegen.warp.program import DIGITS, FACTOR

BF16_DIGITS = 8  # of a significand
FLOAT_DIGITS = 24
RATIO, TAIL = "scaled_erfc", "erfc"

_TEXTS = {
    RATIO: f'''

@gluon.jit
def {RATIO}(x, log_twice: gl.constexpr, inverse: gl.constexpr):
    """k (1 - erf(x)) for results that are rounded to bf16: 2k / (1 + 2^(x p(x^2))). log_twice: log2(2k); inverse:
    1 / 2k. The relative error is under 4.3e-4 where 1 - erf(x) > 1e-4; behind that the absolute one is under
    4.3e-8 k."""
    RECIPROCAL: gl.constexpr = "rcp.approx.ftz.f32 $0, $1;"
    y = x * x
    p = 1.5767229e-05 * y - 0.00018414693
    p = p * y - 0.0057867368
    p = p * y + 0.30392334
    p = p * y + 3.252683
    return gl.inline_asm_elementwise(RECIPROCAL, "=f,f", [gl.exp2(x * p - log_twice) + inverse], gl.float32, True, 1)
''',
    TAIL: f'''

@gluon.jit
def {TAIL}(x):
    """1 - erf(x) for results that are rounded to 16 bits: 2^(-x q(x)), and 2 minus that of -x where x < 0. The absolute
    error is under 2.1e-7, the relative one under 2.5e-4 where 1 - erf(x) > 1e-4."""
    y = gl.abs(x)
    q = 3.412388e-05 * y - 0.00036298737
    q = q * y + 0.0012524154
    q = q * y + 0.0011145002
    q = q * y - 0.028510973
    q = q * y + 0.14858139
    q = q * y + 0.9183989
    q = q * y + 1.6279095
    tail = gl.exp2(-(y * q))
    return gl.where(x < 0.0, 2.0 - tail, tail)
''',
}
HELPERS = tuple(_TEXTS)


def helper(name: str) -> str:
    """One of the functions, behind two empty lines."""
    return _TEXTS[name]


def function_of(op: Elementwise) -> str:
    """Which of the functions an operation is. Errors: NotInGluon for results of more bits."""
    digits = int(op.attributes.get(DIGITS, FLOAT_DIGITS))
    if digits >= FLOAT_DIGITS:
        raise exc.NotInGluon("1 - erf(x) to all bits of float32 has no printer for Gluon", hint="`--as cuda`")
    return TAIL if digits > BF16_DIGITS else RATIO


def print_tail(op: Elementwise) -> Text:
    """A call of one of them, which is of matrices of float32."""
    name = function_of(op)
    if name == TAIL:
        return Text(f"{TAIL}({op.operands[0].text})")
    twice = 2 * float(op.attributes.get(FACTOR, 1.0))
    return Text(f"{RATIO}({op.operands[0].text}, {math.log2(twice)!r}, {1 / twice!r})")
