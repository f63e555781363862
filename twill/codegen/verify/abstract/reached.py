"""Which elements a launch reaches where addresses are looked up: the tensors that are looked into are made first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from twill.codegen.verify.abstract.extent import loaded_by_walk
from twill.reach import reach
from twill.tile.affine import Polynomial
from twill.tile.data_addresses import accesses_by_data
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.elements import OutsideOfTensor, spread
from twill.tile.interpret.sequential import Instance, instances, visits
from twill.tile.program import Access, Loop, Op, TileProgram, reads
from twill.tile.uniformity import Uniformity, classify
from twill.tile.vocabulary import ELECTED

SHORTEST = 50  # elements of a tensor that a loop over scalars looks into, if it looks for any


def looked_into(program: TileProgram) -> tuple[str, ...]:
    """The tensors that numbers are looked up in."""
    found = classify(program).lookups
    loads = (op for op in program.ops() if found.intersection(op.results) and op.access is not None)
    regions = (base for op in program.ops() if op.region is not None for base in sorted(op.region.bases()))
    return tuple(dict.fromkeys((*(op.access.base for op in loads if op.access is not None), *regions)))


def found_through(program: TileProgram) -> Mapping[str, frozenset[str]]:
    """Of each tensor that numbers are looked up in, the tensors that say where in it."""
    found: dict[str, frozenset[str]] = {}
    for name in looked_into(program):
        ops = (op for op in program.ops() if op.access is not None and op.access.base == name)
        found[name] = _loaded_for(program, [value for op in ops if op.kind == "tile_load" for value in reads(op)])
    return found


def picks(program: TileProgram) -> bool:
    """Whether an address is looked up, or computed element by element."""
    return bool(looked_into(program)) or any(op.index_operands for op in program.ops())


def scattered(program: TileProgram) -> frozenset[str]:
    """The tensors that the address of a store depends on."""
    stores = (op for op in program.ops() if op.access is not None and op.kind != "tile_load")
    return _loaded_for(program, [value for op in stores for value in (set(reads(op)) - {op.operands[0]})])


def accessed_by_data(program: TileProgram) -> frozenset[str]:
    """The tensors that a program loads from, or stores to, at addresses that are computed from data."""
    return frozenset(op.access.base for op in accesses_by_data(program) if op.access is not None)


def counted(program: TileProgram) -> Mapping[str, int]:
    """The tensors that trip counts depend on, each with the step of such a loop (1: not known now)."""
    makers = program.makers
    found: dict[str, int] = {}
    for loop in (item for item in program.body if isinstance(item, Loop)):
        step = makers.get(loop.step)
        number = step.attribute("value") if step is not None and step.kind == "constant" else 1
        loaded = _loaded_for(program, [loop.lower, loop.upper, loop.step])
        found |= {name: max(found.get(name, 1), int(str(number))) for name in sorted(loaded)}
    return found


def begins(program: TileProgram) -> frozenset[str]:
    """The tensors that say where a tile that is loaded or stored begins."""
    return _loaded_for(program, [symbol for place in _places(program) for symbol in place.symbols()], bounds=False)


def subtracted(program: TileProgram) -> frozenset[str]:
    """The tensors whose numbers are subtracted where a tile that is loaded or stored begins."""
    terms = (term for place in _places(program) for term in place.terms)
    symbols = [symbol for monomial, factor in terms if factor < 0 for symbol, _ in monomial]
    return _loaded_for(program, symbols, bounds=False)


def _places(program: TileProgram) -> Iterator[Polynomial]:
    """Where tiles begin that are loaded or stored."""
    for _, access in program.accesses:
        yield from (access.constant, *(axis.offset for axis in access.axes))


def _loaded_for(program: TileProgram, pending: list[int], bounds: bool = True) -> frozenset[str]:
    """The tensors that values are loaded from, or made of what is. bounds: or that say how often a loop runs which
    makes them."""
    makers = program.makers
    needs: dict[int, tuple[int, ...]] = {result: reads(op) for result, op in makers.items()}
    for loop in (item for item in program.body if isinstance(item, Loop)):
        needs[loop.induction] = (loop.lower, loop.upper, loop.step) if bounds else (loop.lower, loop.step)
        for carry in loop.carried:
            counted = needs[loop.induction] if bounds else ()
            needs[carry.argument] = needs[carry.result] = (carry.init, carry.yielded, *counted)
    accesses = (makers[value].access for value in reach(pending, lambda value: needs.get(value, ())) if value in makers)
    return frozenset(access.base for access in accesses if access is not None)


def reached(
    program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float], tensors: Mapping[str, Array]
) -> dict[str, int]:
    """How many elements of each tensor a launch reaches, as far as these tensors say it."""
    uniformity = classify(program)
    found: dict[str, int] = {}
    for index, at in _visits(program, grid, scalars, tensors):
        _Walker(program, uniformity, index, grid, scalars, tensors, found, at=at).run()
    return found


def reached_places(
    program: TileProgram,
    grid: Sequence[int],
    scalars: Mapping[str, int | float],
    tensors: Mapping[str, Array],
    name: str,
    size: int,
) -> Array:
    """Which of the `size` elements of a tensor a launch reaches, as far as these tensors say it; all if they say
    nothing."""
    uniformity = classify(program)
    places = np.zeros(size, bool)
    for index, at in _visits(program, grid, scalars, tensors):
        _Walker(program, uniformity, index, grid, scalars, tensors, {}, {name: places}, at).run()
    return places if np.any(places) else np.ones(size, bool)


def _visits(
    program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float], tensors: Mapping[str, Array]
) -> Iterator[tuple[tuple[int, int, int], tuple[Any, ...]]]:
    """Program instances; where in their walk they are, as far as these tensors say it."""
    if loaded_by_walk(program) <= tensors.keys():
        yield from visits(program, grid, tensors, scalars)
    else:
        yield from ((index, ()) for index in instances(grid))


class _Walker(Instance):
    """An instance that makes scalars and tiles of integers only, as far as they are known."""

    def __init__(
        self,
        program: TileProgram,
        uniformity: Uniformity,
        index: Sequence[int],
        grid: Sequence[int],
        scalars: Mapping[str, int | float],
        tensors: Mapping[str, Array],
        found: dict[str, int],
        places: Mapping[str, Array] = MappingProxyType({}),
        at: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(program, index, grid, tensors, scalars, at=at)
        self.free, self.found, self.places = uniformity.uniform | uniformity.pure, found, places

    def loop(self, loop: Loop) -> None:
        """All its iterations, with what is known of the carried values."""
        if any(bound not in self.values for bound in (loop.lower, loop.upper, loop.step)):
            return
        carried = {carry: self.values.get(carry.init) for carry in loop.carried}
        for index in range(*(int(self.values[value]) for value in (loop.lower, loop.upper, loop.step))):
            self.values[loop.induction] = np.int32(index)
            self.tell({carry.argument: value for carry, value in carried.items()})
            self.block(loop.body)
            carried = {carry: self.values.get(carry.yielded) for carry in loop.carried}
        self.tell({carry.result: value for carry, value in carried.items()})

    def tell(self, values: Mapping[int, object]) -> None:
        """Values that are known, or not any more."""
        for number, value in values.items():
            self.values.pop(number, None)
            if value is not None and number in self.free:
                self.values[number] = value

    def op(self, op: Op) -> None:
        """What is known of its results, and which elements it reaches."""
        if op.access is not None:
            self.note(op, op.access)
        known = all(value in self.values for value in reads(op))
        if op.kind == "visited" and not self.at:
            known = False
        if op.region is not None and (op.kind == ELECTED or not op.region.bases() <= self.tensors.keys()):
            known = False
        if not self.free.issuperset(op.results) or not known or (op.access and op.access.base not in self.tensors):
            self.tell(dict.fromkeys(op.results))
            return
        try:
            super().op(op)
        except OutsideOfTensor as outside:  # the table is to be longer (`found`)
            for base in op.region.bases() if op.region is not None else ():  # by how much, the rest of the loop knows
                longer = max(outside.most + 1, 2 * outside.size, SHORTEST)
                if outside.is_of(self.tensors[base]):
                    self.found[base] = max(self.found.get(base, 0), longer)
            self.tell(dict.fromkeys(op.results))

    def note(self, op: Op, access: Access) -> None:
        """The elements that an access reaches; its mask counts where it is known."""
        masks = [] if op.mask_operand is None else [op.operands[op.mask_operand]]
        data = [] if op.kind == "tile_load" else [op.operands[0]]
        if any(value not in self.values for value in reads(op) if value not in (*masks, *data)):
            return
        address, inside = self.elements(access)
        for position, index in zip(op.index_operands, access.indices, strict=True):
            tile = spread(self.values[op.operands[position]], index.axes, address.shape)
            address = address + self.number(index.scale) * tile
        for mask in masks:
            inside = inside & self.values.get(mask, True)
        if np.any(inside):
            self.found[access.base] = max(self.found.get(access.base, 0), int(np.max(address[inside])) + 1)
            if access.base in self.places:
                places = self.places[access.base]
                places[address[inside & (address >= 0) & (address < places.size)]] = True
