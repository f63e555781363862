"""Promises of a kernel's parameters: what is passed, in which order."""

from __future__ import annotations

from dataclasses import replace

from tests.printed_attention import attention
from tests.printed_programs import arguments, gemm, simple, symbol, tile_program
from twill.codegen.print.cuda.names import identifier
from twill.codegen.warp.expression import Apply, Local, Number
from twill.codegen.warp.parameters import LAUNCH, PrintedParameter, parameters, passed_as
from twill.codegen.warp.program import Given, Let, StoreGlobal, Window


def test_maps_come_first_then_used_arguments_then_the_grid() -> None:
    assert [(p.kind, p.name, p.index) for p in parameters(attention())] == [
        ("map", "map0", 0), ("map", "map1", 1), ("map", "map2", 2), ("map", "map3", 3),
        ("pointer", "LSE", 0), ("scalar", "scale", 1), ("scalar", "N", 2),
        ("grid", "grid0", 0), ("grid", "grid1", 1), ("grid", "grid2", 2),
    ]  # fmt: skip


def test_arguments_that_the_program_does_not_refer_to_are_not_passed() -> None:
    assert [p.name for p in parameters(gemm()) if p.kind == "scalar"] == ["K"]


def test_what_is_used_before_the_first_instance_or_after_the_last_is_passed_too() -> None:
    program = tile_program("k", arguments(a="i32", b="i64", c="f32"))
    made = simple("k", program.arguments, [], [])
    first, last = (Let(name, symbol(program, name)) for name in ("b", "c"))
    made = replace(made, groups=(replace(made.groups[0], start=(first,), finish=(last,)),))
    assert [(p.name, p.element) for p in parameters(made) if p.kind == "scalar"] == [("b", "i64"), ("c", "f32")]


def test_a_window_passes_the_address_even_of_a_descriptor_argument() -> None:
    args = arguments(q_desc="desc:bf16")
    stored = StoreGlobal(Window("q_desc", "bf16", (), Number(0), 0.0), Number(1.0, "bf16"))
    assert parameters(simple("k", args, [], [stored]))[0] == PrintedParameter("pointer", "q_desc", "bf16", 0)


def test_what_the_launch_computes_comes_behind_the_grid_and_what_it_is_made_of_is_not_passed() -> None:
    program = tile_program("k", arguments(a="i32", b="i64"))
    made = simple(
        "k", program.arguments, [], [Let("twice", Apply("add", (Local("half"), symbol(program, "b")), "i64"))]
    )
    less = Apply("compare", (symbol(program, "a"), Number(4)), "i1", (("predicate", "lt"), ("signed", 1)))
    made = replace(made, setup=(*made.setup, Given("few", less), Given("half", symbol(program, "b"))))
    passed = [(p.kind, p.name, p.element, p.index) for p in parameters(made)]
    assert passed[0] == ("scalar", "b", "i64", 1) and "a" not in [name for _, name, *_ in passed]
    assert passed[-2:] == [("computed", "launch_few", "i32", 0), ("computed", "launch_half", "i64", 1)]


def test_no_scalar_of_a_kernel_is_printed_as_a_parameter_of_the_launch() -> None:
    assert passed_as("divide.factor") == "launch_divide_factor" == f"{LAUNCH}divide_factor"
    assert not identifier("launch_divide_factor").startswith(LAUNCH)
    assert identifier("prelaunch_factor") == "prelaunch_factor"
