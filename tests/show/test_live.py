"""Promises of twill.show.live: what is drawn as alive is what docs/model.md says is alive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.schedules import attention_schedule
from twill.show.live import copies_alive, level_at, register_layers, rings, total
from twill.show.view import views


@given(birth=st.integers(0, 50), life=st.integers(0, 60), ii=st.integers(1, 20))
def test_copies_alive_counts_the_iterations_at_every_row(birth: int, life: int, ii: int) -> None:
    steps = copies_alive(birth, birth + life, ii)
    for row in range(ii):
        alive = sum(birth + k * ii <= row < birth + life + k * ii for k in range(-200, 200))
        assert level_at(steps, row) == alive


def test_registers_of_a_consumer_are_counted_as_the_checker_counts_them() -> None:
    schedule = attention_schedule()
    (view,) = views(schedule)
    peaks = [max(level for _, level in total(register_layers(view, group))) for group, _ in view.groups]
    # The machine's overhead of 24 comes on top: 163 + 24 fits 192 and not 184.
    assert peaks == [163, 162, 0]


def test_the_accumulator_is_resident() -> None:
    (view,) = views(attention_schedule())
    layers = {layer.name: layer for layer in register_layers(view, view.groups[0][0])}
    assert layers["acc.0 (in place)"].steps == ((0, 64),)
    assert "acc_scaled.0" not in layers
    assert layers["qk.0"].peak == 64


def test_a_value_from_another_group_has_a_landing_place() -> None:
    schedule = attention_schedule()
    moved = tuple(
        op.model_copy(update={"warp_group": 1}) if op.name == "l_ij" and op.block == 0 else op for op in schedule.ops
    )
    (view,) = views(schedule.model_copy(update={"ops": moved}))
    names = [layer.name for layer in register_layers(view, view.groups[1][0])]
    assert "p.0 (landing)" in names


def test_rings_show_the_slots_in_use() -> None:
    schedule = attention_schedule()
    (view,) = views(schedule)
    found = rings(view, schedule.buffers)
    assert [(r.buffer.name, r.buffer.block, r.resident) for r in found] == [
        ("k", -1, False), ("v", -1, False), ("q", 0, True), ("q", 1, True),
    ]  # fmt: skip
    # K of iteration i is alive from 0 until the later product has read it, at 1998 + 577.
    assert found[0].steps == ((0, 2), (527, 1))
    assert all(max(level for _, level in r.steps) <= r.buffer.depth for r in found)
