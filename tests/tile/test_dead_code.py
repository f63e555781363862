"""Compacting drops exactly what no store needs, and numbers the rest densely in program order."""

from __future__ import annotations

from twill.tile.dead_code import compact
from twill.tile.program import Argument, Carry, Loop, Op, TileProgram, TileType, Value

INT, POINTER = TileType((), "i32"), TileType((), "ptr:i32")


def op(number: int, kind: str, operands: tuple[int, ...], *results: int) -> Op:
    return Op(number, kind, operands, results, (), number, "")


def program(*body: Op | Loop, values: int) -> TileProgram:
    names = tuple(Value(value, INT, f"v{value}", value) for value in range(values))
    return TileProgram("k", "s", "k.py", (Argument("out", 0, POINTER, 1),), names, body)


def names(made: TileProgram) -> list[str]:
    return [value.name for value in made.values]


def test_operations_without_readers_go_and_arguments_stay() -> None:
    made = compact(program(op(5, "a", (), 1), op(6, "b", (), 2), op(7, "c", (1,), 3), op(9, "store", (0, 2)), values=4))
    assert [item.kind for item in made.ops()] == ["b", "store"]
    assert names(made) == ["v0", "v2"]
    assert [item.id for item in made.ops()] == [0, 1]
    assert made.body[1].operands == (0, 1)  # type: ignore[union-attr]
    assert all(value.id == index for index, value in enumerate(made.values))


def test_a_carried_value_that_only_feeds_itself_goes() -> None:
    loop = Loop(
        3, 4, 1, 2, 1,
        (Carry("kept", 1, 5, 7, 9), Carry("dead", 1, 6, 8, 10)),
        (op(4, "add", (5, 4), 7), op(5, "add", (6, 4), 8)),
        3,
    )  # fmt: skip
    made = compact(program(op(1, "one", (), 1), op(2, "n", (), 2), loop, op(6, "store", (0, 9)), values=11))
    (retained,) = (item for item in made.body if isinstance(item, Loop))
    assert [carry.name for carry in retained.carried] == ["kept"]
    assert len(retained.body) == 1
    assert names(made) == ["v0", "v1", "v2", "v4", "v5", "v7", "v9"]
    assert (retained.lower, retained.upper, retained.induction) == (1, 2, 3)
    assert retained.carried[0] == Carry("kept", 1, 4, 5, 6)


def test_a_loop_without_stores_or_live_results_goes() -> None:
    loop = Loop(3, 4, 1, 2, 1, (Carry("dead", 1, 5, 6, 7),), (op(4, "add", (5, 4), 6),), 3)
    made = compact(program(op(1, "one", (), 1), op(2, "n", (), 2), loop, op(6, "store", (0, 1)), values=8))
    assert [item.kind for item in made.ops()] == ["one", "store"]
    assert not any(isinstance(item, Loop) for item in made.body)


def test_a_store_in_a_loop_keeps_the_loops_bounds() -> None:
    loop = Loop(3, 4, 1, 2, 3, (), (op(4, "store", (0, 4)),), 3)
    body = (op(1, "lower", (), 1), op(2, "upper", (), 2), op(3, "step", (), 3))
    made = compact(program(*body, loop, values=5))
    assert [item.kind for item in made.ops()] == ["lower", "upper", "step", "store"]


def test_compacting_twice_changes_nothing() -> None:
    loop = Loop(3, 4, 1, 2, 1, (Carry("x", 1, 5, 6, 7),), (op(4, "add", (5, 4), 6),), 3)
    made = compact(program(op(1, "one", (), 1), op(2, "n", (), 2), loop, op(6, "store", (0, 7)), values=8))
    assert compact(made) == made
