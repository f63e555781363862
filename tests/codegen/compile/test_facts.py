"""Promises of reading ptxas' log."""

from __future__ import annotations

import pytest

from twill import exc
from twill.codegen.compile.facts import FEW, MOST_SPILLED, KernelFacts, Remark, read_facts, refuse
from twill.codegen.compile.listing import ListedInstruction, Listing
from twill.codegen.print.cuda.compiled import IGNORED_BUDGET
from twill.codegen.print.kernel_lines import KernelLines, SourceLine

LOG = """ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
insufficient register resources for the function 'second'
ptxas info    : (C7517) wgmma.wait_group is injected in around line 65 by compiler in function 'first'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
"""


def facts(**fields: object) -> KernelFacts:
    names = ("registers", "stack", "spill_stores", "spill_loads", "static_shared")
    given: dict[str, object] = {"function": "k", **dict.fromkeys(names, 0)}
    return KernelFacts(**(given | fields))  # type: ignore[arg-type]


def test_every_function_of_a_log_is_read() -> None:
    first, second = read_facts(LOG, ())
    assert (first.function, first.registers, first.static_shared) == ("first", 168, 1024)
    assert (first.stack, first.spill_stores, first.spill_loads) == (16, 8, 4)
    assert (second.function, second.registers, second.stack) == ("second", 30, 0)


def test_a_remark_belongs_to_the_function_it_names() -> None:
    first, second = read_facts(LOG, ())
    assert [remark.code for remark in first.remarks] == ["C7517"]
    assert [remark.code for remark in second.remarks] == ["C7512"]
    assert first.remarks[0].injected_wait
    assert not first.remarks[0].serialized
    assert second.remarks[0].serialized


def test_lines_of_the_ptx_are_not_shown_as_if_they_were_the_kernels() -> None:
    assert "line 65" not in read_facts(LOG, ())[0].remarks[0].text


def test_the_nearest_line_above_says_the_kernel_line() -> None:
    lines = KernelLines("kernel.py", {3: 30, 9: 90})
    assert [lines.at(SourceLine("/twill/kernel.cu", n)) for n in (2, 3, 8, 9, 50)] == [0, 30, 30, 90, 90]
    assert lines.at(SourceLine("/twill/ptx.cuh", 9)) == 0
    assert lines.at(None) == 0


def test_without_a_line_of_the_remark_the_first_multiply_is_named() -> None:
    remark = Remark("C7512", "wgmma.mma_async instructions are serialized due to ...")
    slow = facts(remarks=(remark,), first_mma=SourceLine("/twill/kernel.cu", 4))
    with pytest.raises(exc.BuildRejected, match=r"^kernel.py:30: .*\(C7512\)"):
        refuse((slow,), KernelLines("kernel.py", {3: 30}))


@pytest.mark.parametrize("place", [None, SourceLine("/twill/kernel.cu", 1), SourceLine("/twill/tile.cuh", 9)])
def test_a_spill_in_front_of_the_first_statement_is_shown_at_its_line(place: SourceLine | None) -> None:
    """No text was written whose line one could look at."""
    with pytest.raises(exc.BuildRejected, match=r"^kernel.py:30: "):
        refuse((facts(spill_stores=4, most_spills=place),), KernelLines("kernel.py", {3: 30, 9: 90}))


def test_a_spill_in_any_function_is_refused_and_none_is_not() -> None:
    refuse((facts(),), KernelLines("kernel.py", {}))
    with pytest.raises(exc.BuildRejected, match="'b' spills registers"):
        refuse((facts(), facts(function="b", spill_loads=4)), KernelLines("kernel.py", {}))


def test_a_few_registers_that_are_spilled_once_an_instance_are_no_reason_to_refuse() -> None:
    few = facts(spill_stores=4, spill_loads=4, nested_spills=0)
    refuse((few,), KernelLines("kernel.py", {}), persistent=True)
    for spilled, persistent in (
        (few, False),  # not all of it is in a loop over instances
        (facts(spill_stores=4, spill_loads=4, nested_spills=1), True),
        (facts(spill_stores=4, spill_loads=4), True),  # nobody looked where
        (facts(spill_stores=FEW, spill_loads=4, nested_spills=0), True),
    ):
        with pytest.raises(exc.BuildRejected, match="spills registers"):
            refuse((spilled,), KernelLines("kernel.py", {}), persistent)


def test_waits_and_some_spills_are_taken_as_a_last_resort() -> None:
    serialized = Remark("C7510", "Potential Performance Loss: wgmma.mma_async instructions are serialized", None)
    for slow in (facts(spill_stores=MOST_SPILLED, spill_loads=64), facts(remarks=(serialized,))):
        refuse((slow,), KernelLines("kernel.py", {}), last_resort=True)
    ignored = Remark("C7508", f"Potential Performance Loss: {IGNORED_BUDGET}", None)
    for wrong in (facts(spill_stores=MOST_SPILLED + 4), facts(spill_stores=16, remarks=(ignored,))):
        with pytest.raises(exc.BuildRejected):
            refuse((wrong,), KernelLines("kernel.py", {}), last_resort=True)
    with pytest.raises(exc.BuildRejected, match="serialized"):
        refuse((facts(remarks=(serialized,)),), KernelLines("kernel.py", {}))


def test_spills_are_nested_where_they_lie_in_a_loop_within_a_loop() -> None:
    entries = [
        ("STL", -1),
        ("LDL", -1),
        ("LDL", -1),
        ("BRA", 2),
        ("BRA", 1),
        ("EXIT", -1),
    ]  # in no loop, in one, in two
    listed = tuple(
        ListedInstruction(opcode, None, at, jump, opcode != "EXIT") for at, (opcode, jump) in enumerate(entries)
    )
    assert read_facts(LOG, (), (Listing("first", listed),))[0].nested_spills == 1
    assert read_facts(LOG, (), (Listing("first", listed[:2]),))[0].nested_spills == 0
    assert read_facts(LOG, ())[0].nested_spills is None
