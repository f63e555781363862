"""Promises of `twill.codegen.verify.ptx.atomic_orders`: the PTX has the orders that a kernel asks for, no others."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.codegen.test_elected import emitted
from tests.elected_kernels import ADD, KERNELS, ElectedKernel
from twill import exc
from twill.codegen.emit import refuse_misordered
from twill.codegen.print.cuda import print_elected
from twill.codegen.verify.ptx.atomic_orders import AtomicKind, reordered
from twill.codegen.warp.program import Atomic
from twill.ptx.parse import parse

LOCKED = ElectedKernel(
    '    while tl.atomic_cas(s, 0, 1, sem="acquire") == 1:\n        pass\n'
    + ADD
    + '    tl.atomic_xchg(s, 0, sem="release")\n'
)
COUNTED = ElectedKernel(
    '    t = tl.atomic_add(s, 1, sem="relaxed")\n    tl.store(y + t * B + tl.arange(0, B), v)\n'
    '    tl.atomic_add(s + 1, 1, sem="release")\n', y=1280, s=2,
)  # fmt: skip
ATOM = re.compile(r"atom\.(\w+)\.gpu")


@pytest.mark.parametrize(
    "kernel",
    [LOCKED, COUNTED, KERNELS["bits that were set"], KERNELS["a flag that is read"]],
    ids=["a lock", "orders of one kind", "many kinds", "a volatile load"],
)
def test_an_order_that_another_one_stands_for_and_a_smaller_scope_are_found(
    kernel_file: Callable[..., str], kernel: ElectedKernel
) -> None:
    emission, program = emitted(kernel_file, kernel)
    refuse_misordered(program, emission)
    stmts = [stmt for group in program.groups for stmt in group.stmts if isinstance(stmt, Atomic)]
    asked = [(AtomicKind(one.combine, int(one.element[1:])), one.order) for one in stmts]

    def rules(text: str) -> set[str]:
        found = reordered(parse(text).function(emission.printed.function), asked)
        return {one.rule for one in found}

    text = emission.build.ptx
    assert rules(text) == set()
    places = list(ATOM.finditer(text))
    assert places
    for place in places:
        for other in {"relaxed", "acquire", "release", "acq_rel"} - {order for _, order in asked}:
            assert rules(text[: place.start(1)] + other + text[place.end(1) :]) == {"atomic-order"}
        assert rules(text[: place.end() - 3] + "cta" + text[place.end() :]) == {"atomic-order"}
    for order in {order for _, order in asked}:
        others = re.sub(rf"(atom|ld|st)\.{order}\.gpu", r"\1.weak.gpu", text)
        assert rules(others) == {"atomic-order"}


def test_fail_a_printer_that_takes_a_lock_without_acquiring(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = print_elected.atom
    monkeypatch.setattr(
        print_elected, "atom", lambda combine, order, *more: right(combine, order.replace("acquire", "relaxed"), *more)
    )
    with pytest.raises(exc.CodeBroken, match="cas on 32 bits has the order relaxed, asked for acquire"):
        emitted(kernel_file, LOCKED)
