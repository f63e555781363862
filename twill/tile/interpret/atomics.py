"""What an atomic operation on one number of memory does (`ATOMIC` of `twill.tile.vocabulary`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twill.tile.interpret.arrays import np
from twill.tile.interpret.conversions import HELD, Array, rounded
from twill.tile.interpret.elements import Elements, check_inside, scatter, seen_as
from twill.tile.vocabulary import combining

VALUES = {"load": 0, "cas": 2}  # operands behind the index, where it is not one


def values_of(combine: str) -> int:
    """How many operands an atomic operation has between its index and its mask."""
    return VALUES.get(combine, 1)


def atomically(tensor: Array, attributes: Mapping[str, Any], operands: Sequence[Any]) -> tuple[Any, bool]:
    """What was in the tensor in front of the operation, 0 where the mask does not hold; and whether it changed.
    operands: index, values, mask. Errors: OutsideOfTensor."""
    combine, element = str(attributes["combine"]), str(attributes["element"])
    index, values, masks = operands[0], operands[1 : 1 + values_of(combine)], operands[1 + values_of(combine) :]
    if masks and not masks[0]:
        return rounded(np.zeros((), HELD[element]), element)[()], False
    seen, address = seen_as(tensor, element), np.asarray(index).reshape(1).astype(np.int64)
    check_inside(seen, address)
    old = seen[address][0]
    match combine:
        case "load":
            pass
        case "cas":
            if _bits(old) == _bits(np.asarray(values[0]).astype(seen.dtype)):  # of floats, too (PTX ISA: atom.cas)
                seen[address] = np.asarray(values[1]).astype(seen.dtype)
        case "xchg" | "store":
            seen[address] = np.asarray(values[0]).astype(seen.dtype)
        case _:
            inside = np.ones(1, bool)
            scatter(seen, (address, inside), np.asarray(values[0]).reshape(1), combining(attributes), element)
    return old, _bits(seen[address][0]) != _bits(old)


def old_values(tensor: Array, elements: Elements, value: Array, combine: str, element: str) -> Array:
    """What an atomic operation on a tile gives: of several elements at one address, each finds what the one in front of
    it leaves. 0 where nothing is touched. Errors: OutsideOfTensor."""
    address, inside = np.broadcast_arrays(*elements)
    chosen = np.broadcast_to(value, address.shape)[inside]
    at = address[inside].reshape(-1)
    check_inside(tensor, at)
    found = tensor[at].copy()
    if np.unique(at).size < at.size:
        after = tensor.copy()
        for number in range(at.size):
            found[number] = after[at[number]]
            one = (at[number : number + 1], np.ones(1, bool))
            scatter(after, one, chosen[number : number + 1], combine, element)
    old = np.zeros(address.shape, tensor.dtype)
    old[inside] = found
    return old


def in_turn(tensor: Array, elements: Elements, value: Array, element: str, order: Array) -> None:
    """Adds a tile to a flat tensor as hardware does: one element after the other, each sum rounded. order: of those
    that are touched, a permutation. Errors: OutsideOfTensor."""
    address, inside = np.broadcast_arrays(*elements)
    at, chosen = address[inside][order], np.broadcast_to(value, address.shape)[inside][order]
    by_address = np.argsort(at, kind="stable")
    begins = np.searchsorted(at[by_address], at[by_address])
    turn = np.empty(at.size, np.int64)
    turn[by_address] = np.arange(at.size) - begins  # how often its address came before
    for number in range(int(turn.max(initial=-1)) + 1):
        now = turn == number
        scatter(tensor, (at[now], np.ones(int(now.sum()), bool)), chosen[now], "add", element)


def _bits(number: Any) -> bytes:
    return np.asarray(number).tobytes()
