"""Which products with scales of blocks are read, and what is said of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twill import exc
from twill.kernel.specialization import resolve
from twill.tile.program import TileProgram
from twill.tile.translate.translate import tile_program

Files = Callable[..., str]


def read(
    files: Files, product: str, a: str = "fp8e4nv", b: str = "fp8e4nv", scale: str = "u8", per: int = 4
) -> TileProgram:
    """The program of `c = product` of tiles x [128, 128] and y [128, 128] with scales u [128, per] and v."""
    text = (
        "@triton.jit\ndef k(a, b, sa, sb, c):\n    x = a.load([0, 0])\n    y = b.load([0, 0])\n"
        f"    u = sa.load([0, 0])\n    v = sb.load([0, 0])\n    c.store([0, 0], {product})\n"
    )
    kinds = {"a": f"{a}[128,128]", "b": f"{b}[128,128]", "sa": f"{scale}[128,{per}]", "sb": f"{scale}[128,{per}]",
             "c": "fp32[128,128]"}  # fmt: skip
    sig = [f"{name}=tensordesc<{kind}>" for name, kind in kinds.items()]
    return tile_program(resolve(f"{files(text)}::k", sig=sig))


@pytest.mark.parametrize(
    ("a", "scale", "per", "said"),
    [("fp8e4nv", "u8", 4, ("e4m3", 32)), ("fp8e5", "u8", 4, ("e5m2", 32)), ("u8", "u8", 8, ("e2m1", 32)),
     ("u8", "fp8e4nv", 16, ("e2m1", 16))],
)  # fmt: skip
def test_elements_and_blocks(kernel_file: Files, a: str, scale: str, per: int, said: tuple[str, int]) -> None:
    name = {"fp8e4nv": "e4m3", "fp8e5": "e5m2", "u8": "e2m1"}[a]
    program = read(kernel_file, f'tl.dot_scaled(x, u, "{name}", y.T, v, "{name}")', a, a, scale, per)
    (product,) = (op for op in program.ops() if op.kind == "dot_scaled")
    assert (product.attribute("a"), product.attribute("block")) == said
    assert product.attribute("layout") == "rows" and len(product.operands) == 5


def test_the_two_kinds_of_fp8_may_be_mixed(kernel_file: Files) -> None:
    program = read(kernel_file, 'tl.dot_scaled(x, u, "e4m3", y.T, v, "e5m2")', b="fp8e5")
    (product,) = (op for op in program.ops() if op.kind == "dot_scaled")
    assert (product.attribute("a"), product.attribute("b")) == ("e4m3", "e5m2")


@pytest.mark.parametrize(
    ("product", "b", "what", "hint"),
    [('tl.dot_scaled(x, u, "e4m3", y.T, None, "e4m3")', "fp8e4nv", "scales of one operand alone", "127 as e8m0"),
     ('tl.dot_scaled(x, None, "e4m3", y.T, v, "e4m3")', "fp8e4nv", "scales of one operand alone", "127 as e8m0"),
     ('tl.dot_scaled(x, u, "e4m3", y.T, v, "bf16")', "bf16", "of e4m3 x bf16", "e4m3, e5m2, e2m1 in any mixture")],
)  # fmt: skip
def test_fail_products_that_are_not_read(kernel_file: Files, product: str, b: str, what: str, hint: str) -> None:
    with pytest.raises(exc.UnsupportedOperation, match=what) as refused:
        read(kernel_file, product, b=b)
    assert refused.value.line and hint in refused.value.hint
