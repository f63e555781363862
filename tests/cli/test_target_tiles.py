"""Promises of `twill emit` about tiles that a target has not: others of the sidecar are taken, and said; and of pairs
of CTAs, which are taken where they have less I."""

from __future__ import annotations

from argparse import Namespace

import pytest

from twill import exc
from twill.cli.arguments import parser
from twill.cli.emit import extracted_as, solved, with_registers
from twill.cli.emit_pairs import in_pairs, pairs_pay
from twill.cli.target_tiles import fitting
from twill.codegen.emission import Extracted
from twill.machine.file import load_machine

pytestmark = pytest.mark.usefixtures("at_root")

B200, H100 = load_machine("b200"), load_machine("h100")


def asked(file: str, *words: str) -> tuple[Extracted, Namespace]:
    given = parser().parse_args(["emit", file, "--machine", "b200", "--no-store", "--ir", *words])
    return extracted_as(given), given


def rows(kernel: Extracted) -> set[tuple[int, int]]:
    nodes = (node for region in kernel.graph.regions for node in region.nodes)
    return {(node.mma.m, node.mma.n) for node in nodes if node.mma is not None}


def test_tiles_of_192_rows_are_those_of_128_of_the_sidecar_on_blackwell(capsys: pytest.CaptureFixture[str]) -> None:
    kernel, given = asked("examples/attention_any_length.py", "--spec", "full")
    assert rows(kernel) == {(192, 80), (192, 128)}
    made, again = fitting(kernel, B200, given, {})
    assert rows(made) == {(128, 128)}
    assert "BLOCK_M=128" in again.const and "BLOCK_N=128" in again.const
    assert "Blackwell has 128 or 64 rows" in capsys.readouterr().err
    assert dict(made.specialization.signature)["k_desc"] == "tensordesc<bf16[1, 128, 128]>"


def test_tiles_that_the_target_has_stay(capsys: pytest.CaptureFixture[str]) -> None:
    kernel, given = asked("examples/attention_any_length.py", "--spec", "full")
    assert fitting(kernel, H100, given, {}) == (kernel, given)
    assert capsys.readouterr().err == ""


def test_where_the_sidecar_has_no_others_the_error_stays() -> None:
    kernel, given = asked("examples/dual_gemm.py", "--spec", "bf16-192")
    with pytest.raises(exc.UnsupportedInKernel, match="a product of 192 x 128 x 64"):
        fitting(kernel, B200, given, {})


def clusters(file: str, *words: str) -> list[int]:
    """Of what is made, in order; the first is refused."""
    kernel, given = asked(file, *words)
    found: list[int] = []

    def make(one: Namespace) -> int:
        found.append(one.cluster)
        if len(found) == 1:
            raise exc.UnsupportedInKernel("no")
        return int(one.cluster)

    alone, paired = (Namespace(**{**vars(given), "cluster": n}) for n in (1, 2))
    if given.cluster is None and pairs_pay(kernel, B200, alone, paired, solved):
        in_pairs(kernel, B200, given, make)
    return found


@pytest.mark.parametrize(
    ("words", "made"), [((), [2, 1]), (("--cluster", "1"), []), (("--order", "dynamic"), [])], ids=str
)
def test_pairs_come_first_where_they_have_less_i_and_nobody_said(words: tuple[str, ...], made: list[int]) -> None:
    assert clusters("examples/gemm.py", *words) == made


@pytest.mark.parametrize(("file", "whole"), [("attention", [False, True]), ("gemm", [False])])
def test_exponentials_are_whole_where_the_build_is_refused_otherwise(file: str, whole: list[bool]) -> None:
    kernel, given = asked(f"examples/{file}.py")
    tried: list[bool] = []

    def make(one: Namespace) -> None:
        tried.append(one.whole_exponentials)
        raise exc.BuildRejected("spill", "it spills", None)

    with pytest.raises(exc.BuildRejected, match="it spills"):
        with_registers(kernel, B200, given, make)
    assert tried == whole


def test_pairs_are_not_looked_at_where_threads_read_sums_in_their_loop() -> None:
    assert clusters("examples/attention.py", "--spec", "full") == []
