"""Elements of 4 bits and scales of blocks, as the formats define them."""

from __future__ import annotations

import numpy as np
import pytest

from twill.codegen.verify.ptx.units.block_scales import factors, narrow, places, scaled


def test_elements_of_four_bits_are_read_low_half_first_and_padding_is_not() -> None:
    chunk = np.arange(16, dtype=np.uint8) << 4 | np.arange(16, dtype=np.uint8)[::-1]
    packed, padded = narrow(chunk, "e2m1x2"), narrow(chunk, "e2m1")
    assert packed[:6].tolist() == [-6, 0, -4, 0.5, -3, 1]
    assert padded.tolist() == packed[:16].tolist()
    assert len(packed) == 32


def test_rows_of_scales_are_in_the_lanes_of_a_quarter_and_in_columns() -> None:
    lanes, columns = places(96)
    assert lanes[:, 33].tolist() == [1, 33, 65, 97]
    assert columns[0, [0, 31, 32, 95]].tolist() == [0, 0, 1, 2]


def test_scales_are_powers_of_two_or_small_floats_from_a_byte_of_the_word_on() -> None:
    words = np.full((4, 2), 0x7FFF8480, np.uint32)
    assert factors(words, "ue8m0", 0, 2).tolist() == [[2, 32], [2, 32]]
    assert np.isnan(factors(words, "ue8m0", 2, 1)).all()
    assert factors(np.full((4, 1), 0x08384078, np.uint32), "ue4m3", 0, 4).tolist() == [[256, 2, 1, 2**-6]]


@pytest.mark.parametrize(
    ("words", "kind", "first", "count", "said"),
    [([[1], [1], [1], [2]], "ue8m0", 0, 1, "differ between the quarters"), ([[0x80]] * 4, "ue4m3", 0, 4, "has a sign"),
     ([[0]] * 4, "ue8m0", 1, 2, "2 scales from byte 1"), ([[0]] * 4, "ue8m0", 4, 1, "from byte 4")],
)  # fmt: skip
def test_scales_that_no_product_can_have_are_refused(
    words: list[list[int]], kind: str, first: int, count: int, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        factors(np.array(words, np.uint32), kind, first, count)


def test_each_block_along_k_has_its_scale() -> None:
    operand, scales = np.arange(8.0).reshape(1, 8), np.array([[1.0, 10.0]])
    assert scaled(operand, scales).tolist() == [[0, 1, 2, 3, 40, 50, 60, 70]]
