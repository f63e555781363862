"""Promises of what is printed of the tile scheduler: a CTA divides nothing that one comparison tells it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.warp_programs import clustered_gemm, gemm
from twill.codegen.print.cuda.print_tile_scheduler import compared
from twill.codegen.print.cuda.print_unsigned import print_unsigned
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms

INSTANCE, UNSIGNED = Local("instance", "u32"), (("signed", 0),)
ACROSS, DOWN = NumPrograms(0, "u32"), NumPrograms(1, "u32")


def over(kind: str, left: Expr, right: Expr) -> Apply:
    """left / right, or what is left."""
    return Apply(kind, (left, right), "u32", UNSIGNED)


def test_the_first_row_of_a_grid_is_found_without_a_division() -> None:
    text = print_cuda(gemm()).text
    assert "program_id_0 = instance < grid0 ? instance : instance % grid0;" in text
    assert re.search(r"instance < pairs \? instance : instance % pairs", print_cuda(clustered_gemm()).text)


@pytest.mark.parametrize("across", [1, 3, 7])
@pytest.mark.parametrize("down", [1, 2])
def test_what_is_compared_is_what_is_divided(across: int, down: int) -> None:
    first, second = over("rem", INSTANCE, ACROSS), over("rem", over("div", INSTANCE, ACROSS), DOWN)
    sizes = {"grid0": np.int64(across), "grid1": np.int64(down)}
    for expr in (first, second, over("mul", Number(2, "u32"), first)):
        plain, quick = (print_unsigned(one, str) for one in (expr, compared(expr)))
        assert "?" in quick and "?" not in plain
        for instance in range(2 * across * down):
            assert value(quick, instance, sizes) == value(plain, instance, sizes), (quick, instance)


def value(text: str, instance: int, sizes: dict[str, np.int64]) -> int:
    """Of C."""
    text = re.sub(r"Local\(name='(\w+)'[^)]*\)", r"\1", text).replace("/", "//")
    made = re.sub(r"\(?(\w+ < \w+) \? (\w+) : ([^()]+)\)?$", r"((\2) if \1 else (\3))", text)
    return int(eval(made, {"instance": instance, **sizes}))


def test_another_scalar_is_divided_as_it_is() -> None:
    expr = over("rem", Local("place", "u32"), ACROSS)
    assert compared(expr) == expr
