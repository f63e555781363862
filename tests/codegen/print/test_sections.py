"""Promises of `twill.codegen.print.sections`: what is printed once is, warp group by warp group, what the program
says."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests import golden_schedules
from tests.kernels import H100
from tests.lowered import scheduled
from tests.mutations import mutants
from tests.places import edit, instead, places
from tests.tile_programs import attention
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.print.sections import common_name, expand, is_expansion, sections, together
from twill.codegen.warp.expression import Number, PerGroup
from twill.codegen.warp.program import Arrive, If, NamedBarrier, Pipeline, Range, Sync, WarpGroup, WarpProgram


@cache
def program() -> WarpProgram:
    tile = attention(causal=True)
    return lower(tile, scheduled(tile, blocks=2), H100)


def test_row_blocks_are_one_section_and_the_load_group_another() -> None:
    assert [section.groups for section in sections(program())] == [(0, 1), (2,)]


def test_a_section_makes_each_of_its_warp_groups_again() -> None:
    made = sections(program())[0]
    for place, group in enumerate(program().groups[:2]):
        assert is_expansion(made, place, group)
        assert not is_expansion(made, place, program().groups[1 - place])
        again = expand(made, place)
        assert [f.layout for f in again.fragments] == [group.fragment(f.id).layout for f in again.fragments]


def test_numbers_that_differ_are_one_for_each_group() -> None:
    ranges = [p.stmt.start for p in places(one_group(sections(program())[0].stream)) if isinstance(p.stmt, Range)]
    assert PerGroup((0, 64)) in ranges


def one_group(group: WarpGroup) -> WarpProgram:
    return replace(program(), groups=(group,))


def example(name: str) -> WarpProgram:
    found = next(one for one in golden_schedules.examples() if one.name == name)
    return lower(golden_schedules.kernel(found).program, golden_schedules.schedule(found), H100)


@pytest.mark.usefixtures("at_root")
def test_no_fault_of_one_warp_group_is_printed_away() -> None:
    program = example("attention_full")
    right = print_cuda(program).text
    faults = [m for m in mutants(program) if m.place and m.place.group == 1 and not m.kind.startswith("swapped")]
    for mutant in faults[::9]:
        assert print_cuda(mutant.program).text != right, mutant.text


@pytest.mark.usefixtures("at_root")
def test_the_text_says_which_of_its_groups_a_thread_is_in() -> None:
    text = print_cuda(example("attention_full")).text
    assert re.findall(r"// ---- role: (.*) \(", text) == ["consumer 0, consumer 1", "load"]
    assert "const i32 consumer = warps_before / 4;" in text
    assert re.search(r"const u32 q_at = \(q_0_at \+ consumer \* \d+\);", text)


def test_groups_of_other_registers_or_threads_are_apart() -> None:
    first, second, load = program().groups
    for other in (replace(second, registers=second.registers - 8), replace(second, issuer=True)):
        assert together(replace(program(), groups=(first, other, load)), (0, 1)) is None


def test_buffers_that_are_not_alike_keep_groups_apart() -> None:
    made = sections(program())[0]
    own = next(ids for ids in made.buffers.values() if len(set(ids)) > 1)
    buffers = tuple(replace(b, panel=b.panel // 2) if b.id == own[1] else b for b in program().buffers)
    assert together(replace(program(), buffers=buffers), (0, 1)) is None


def with_turns() -> WarpProgram:
    """Both consumers give turns to each other; the second one begins, the first one ends."""
    made = program()
    barriers = tuple(NamedBarrier(len(made.barriers) + n, f"turn {n} to {1 - n}", (0, 1), 256) for n in (1, 0))
    to_first, to_second = (len(made.barriers) + n for n in (1, 0))
    for group, (mine, theirs) in enumerate(((to_first, to_second), (to_second, to_first))):
        place = next(p for p in places(made) if p.group == group and isinstance(p.stmt, Pipeline))
        made = edit(made, place, instead(Sync(mine), place.stmt, Arrive(theirs)))
    first, second, load = made.groups
    first = replace(first, finish=(Sync(to_first), *first.finish))
    second = replace(second, start=(Arrive(to_first),))
    return replace(made, barriers=(*made.barriers, *barriers), groups=(first, second, load))


def test_what_one_group_alone_does_is_under_a_guard() -> None:
    made = sections(with_turns())[0]
    assert made.groups == (0, 1)
    guards = [stmt.condition for stmt in (*made.stream.start, *made.stream.finish) if isinstance(stmt, If)]
    assert guards == [PerGroup((0, 1), "i1"), PerGroup((1, 0), "i1")]
    assert [len(expand(made, place).start) for place in (0, 1)] == [0, 1]


def test_a_number_of_another_group_is_found_out() -> None:
    made = sections(program())[0]
    wrong = replace(made, stream=replace(made.stream, body=made.stream.body[1:]))
    assert not is_expansion(wrong, 0, program().groups[0])
    swapped = replace(made, buffers={first: ids[::-1] for first, ids in made.buffers.items()})
    assert not is_expansion(swapped, 0, program().groups[0])


@pytest.mark.parametrize(("names", "common"), [
    (("acc_0", "acc_1"), "acc"), (("acc_0_2", "acc_1_2"), "acc_2"), (("q.0_get", "q.1_get"), "q_get"),
    (("consumer 0", "consumer 1", "consumer 2"), "consumer"), (("turn 1 to 0", "turn 0 to 1"), "turn to"),
    (("a", "b"), "a"), (("k", "k"), "k"),
])  # fmt: skip
def test_a_common_name_has_no_number_of_a_group(names: tuple[str, ...], common: str) -> None:
    assert common_name(names) == common


def test_a_literal_of_another_type_is_no_number_that_differs() -> None:
    first, second, load = program().groups
    place = next(p for p in places(program()) if p.group == 1 and hasattr(p.stmt, "value"))
    odd = replace(place.stmt, value=Number(1.0, "f16"))  # type: ignore[call-arg]
    made = edit(program(), place, instead(odd))
    assert together(made, (0, 1)) is None
