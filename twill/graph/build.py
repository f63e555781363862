"""Tile program -> dependence graph.

1. `uniformity` tells index arithmetic and loop-invariant computations apart from the kernel's work.
2. `flat` copies pure computations for each use; `dims` finds dimension classes; equal copies merge.
3. `wiring` follows values through views and loop-carried values to the step that makes them.
4. `fuse` makes chains of elementwise steps; `nodes` turns chains, products and accesses into nodes.
5. Edges: values with their distance, memory (`alias`), write after read (`inplace`).

Costs nothing and is no node: constants, ranges, views, uniform scalars, loads' addresses. Integer
tiles computed from these alone (masks, offsets) are counted in the chains that use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twill.graph.accumulator import overwriting
from twill.graph.alias import LoopCounter, MemoryNode, counter_of, memory_edges
from twill.graph.dependence import Carried, DependenceGraph, Dim, Edge, Input, Mma, Node, Region, Tile
from twill.graph.dims import Classes, dimension_classes
from twill.graph.fuse import Atom, chains
from twill.graph.inplace import anti_edges
from twill.graph.nodes import NodeMaker, kind_of
from twill.graph.origin import fusable_classes
from twill.graph.wiring import ValueOrigin, Wiring
from twill.graph.work import elements, is_free, is_transcendental
from twill.tile.flat import UNIFORM, Flat, Step, flatten, merge
from twill.tile.program import Loop, TileProgram
from twill.tile.scalars import Scalars
from twill.tile.uniformity import Uniformity, classify, stretches
from twill.tile.vocabulary import ACCESS, ELECTED, MMA

LETTERS = ("d", "e", "f", "g", "h", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z")


def dependence_graph(program: TileProgram) -> DependenceGraph:
    """The dependence graph of a program whose accesses are resolved.

    Raises `UnsupportedOperation` for raw accesses and `NestedLoop`.
    """
    return _Builder(program).graph()


@dataclass(frozen=True)
class Wired:
    """A dependence graph and the steps of the flat program behind its nodes, for code generation.

    steps: indices in `Flat.steps` by (region, node), in program order. stretch: of each region. dims: Dim.id by
    dimension class (-1 for classes that no node mentions).
    """

    program: TileProgram
    graph: DependenceGraph
    flat: Flat
    wiring: Wiring
    classes: Classes
    uniformity: Uniformity
    scalars: Scalars
    steps: dict[tuple[int, int], tuple[int, ...]]
    stretch: tuple[int, ...]
    dims: dict[int, int]


def wire(program: TileProgram) -> Wired:
    """The dependence graph with what it was made from. Raises what `dependence_graph` raises."""
    builder = _Builder(program)
    graph = builder.graph()
    steps: dict[tuple[int, int], tuple[int, ...]] = {}
    for step in builder.work:
        place = builder.place[step]
        steps[place] = (*steps.get(place, ()), step)
    return Wired(
        program,
        graph,
        builder.flat,
        builder.wiring,
        builder.classes,
        builder.uniformity,
        builder.scalars,
        steps,
        tuple(builder.stretches),
        builder.rename,
    )


@dataclass(frozen=True)
class _Read:
    """Step `reader` reads, as `operand`, the value of `origin`."""

    reader: int
    operand: str
    origin: ValueOrigin


class _Builder:
    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.uniformity = classify(program)
        copied = flatten(program, self.uniformity)
        self.classes = dimension_classes(copied)
        self.flat = merge(copied, self.classes.of)
        self.wiring = Wiring(self.flat)
        self.maker = NodeMaker(self.flat, self.wiring, self.classes)
        self.scalars = Scalars(program, self.uniformity)
        free = self.uniformity.pure | self.uniformity.uniform
        self.data_cells = {cell.value: cell.id for cell in self.flat.cells if cell.value not in free}
        self.work = [i for i, step in enumerate(self.flat.steps) if not step.index and not is_free(step)]
        self.reads = [read for i in self.work for read in self._reads(i)]
        self.place: dict[int, tuple[int, int]] = {}  # step -> (region, node)
        self.nodes: dict[tuple[int, int], Node] = {}
        self.stretches: list[int] = []  # by region
        self.rename: dict[int, int] = {}  # dimension class -> Dim.id

    def graph(self) -> DependenceGraph:
        """Regions in program order; straight-line stretches without nodes are left out."""
        regions: list[Region] = []
        for number, loop, _ in stretches(self.program):
            members = [i for i in self.work if self.flat.steps[i].stretch == number]
            if members:
                regions.append(self._region(len(regions), number, loop, members))
                self.stretches.append(number)
        dims, rename = self._dims(regions)
        self.rename = rename
        return DependenceGraph(
            kernel=self.program.kernel,
            spec=self.program.spec,
            file=self.program.file,
            dims=dims,
            regions=tuple(rename_dims(region, rename) for region in regions),
        )

    # -- reads ------------------------------------------------------------------------------------

    def _reads(self, reader: int) -> list[_Read]:
        step = self.flat.steps[reader]
        named = [(cell, letter) for cell, letter in zip(step.operands, _letters(step), strict=True) if cell != UNIFORM]
        named.extend((cell, "address") for cell in self._address_cells(step))
        return [_Read(reader, letter, origin) for cell, letter in named for origin in self.wiring.origins(cell)]

    def _address_cells(self, step: Step) -> list[int]:
        """Scalars from memory or reductions that an address depends on."""
        access = step.op.access
        if access is None:
            return []
        polynomials = [access.constant]
        for axis in access.axes:
            polynomials.extend(p for p in (axis.stride, axis.offset, axis.lower, axis.upper) if p is not None)
        symbols = frozenset[int]().union(*(p.symbols() for p in polynomials))
        return [self.data_cells[symbol] for symbol in sorted(symbols) if symbol in self.data_cells]

    # -- regions ----------------------------------------------------------------------------------

    def _region(self, region: int, stretch: int, loop: Loop | None, members: Sequence[int]) -> Region:
        counter = counter_of(loop, self.scalars.number(loop.step)) if loop else None
        for node, group in enumerate(self._groups(stretch, members, counter)):
            self.place.update((member, (region, node)) for member in group)
            self.nodes[region, node] = self.maker.node(node, group)
        nodes = tuple(node for (home, _), node in self.nodes.items() if home == region)
        inner = [r for r in self.reads if self._stretch(r.reader) == stretch == self._stretch(r.origin.step)]
        value = dict.fromkeys(self._value_edge(read) for read in inner)
        memory = self._memory([(self.place[i][1], i) for i in members], counter)
        edges = [edge for edge in value if edge.src != edge.dst or edge.distance] + memory
        tiles = {node.id: node.result for node in nodes}
        anti = anti_edges({node.id: node.kind for node in nodes}, tiles, edges) if loop else ()
        made = Region(
            id=region,
            kind="loop" if loop else "straight",
            line=loop.line if loop else nodes[0].line,
            trip=self.scalars.trip(loop) if loop else None,
            nodes=nodes,
            edges=(*edges, *anti),
            carried=self._carried(stretch, inner),
            inputs=self._inputs(stretch),
        )
        return made.model_copy(update={"edges": (*made.edges, *overwriting(made))}) if loop else made

    def _stretch(self, step: int) -> int:
        return self.flat.steps[step].stretch

    def _groups(self, stretch: int, members: Sequence[int], counter: LoopCounter | None) -> Sequence[Sequence[int]]:
        """The steps of each node."""
        reads = [read for read in self.reads if self._stretch(read.origin.step) == stretch]
        uses: dict[int, set[int]] = {}
        escapes: set[int] = set()
        edges: list[Edge] = []
        for read in reads:
            origin = read.origin
            if self._stretch(read.reader) != stretch or origin.distance:
                escapes.add(origin.step)
            else:
                uses.setdefault(origin.step, set()).add(read.reader)
            if self._stretch(read.reader) == stretch:
                edges.append(_edge(origin.step, read.reader, origin.distance, read.operand))
        steps = {i: self.flat.steps[i] for i in members}
        edges.extend(self._memory([(i, i) for i in members], counter))
        if counter is not None:
            tiles = {i: self.maker.tile(s.results[0]) if s.results else None for i, s in steps.items()}
            edges.extend(anti_edges({i: kind_of(s) for i, s in steps.items()}, tiles, edges))
        order = [(e.src, e.dst) for e in edges if e.distance == 0 and e.kind != "value"]
        atoms = [self._atom(i, step, i in escapes) for i, step in steps.items()]
        largest = max((elements(s, self.flat) for s in steps.values() if s.results), default=1)
        return chains(atoms, {i: frozenset(readers) for i, readers in uses.items()}, order, largest)

    def _atom(self, number: int, step: Step, escapes: bool) -> Atom:
        if step.op.access or step.op.kind in (*MMA, ELECTED):
            return Atom(number, "", 0, escapes)
        pipe = "transcendental" if is_transcendental(step, self.flat) else "arithmetic"
        return Atom(number, pipe, elements(step, self.flat), escapes)

    # -- edges ------------------------------------------------------------------------------------

    def _value_edge(self, read: _Read) -> Edge:
        source, reader = self.place[read.origin.step][1], self.place[read.reader][1]
        return _edge(source, reader, read.origin.distance, read.operand)

    def _memory(self, named: Sequence[tuple[int, int]], counter: LoopCounter | None) -> list[Edge]:
        ops = ((node, self.flat.steps[i].op) for node, i in named)
        accesses = [MemoryNode(node, op) for node, op in ops if op.access or op.kind == ELECTED]
        return list(memory_edges(accesses, counter))

    def _carried(self, stretch: int, reads: Sequence[_Read]) -> tuple[Carried, ...]:
        """The carried values that something in the loop reads and something in it makes."""
        used = {carry for read in reads for carry in read.origin.via}
        found = []
        for carry in self.flat.carries:
            if carry not in used or carry.stretch != stretch:
                continue
            inside = [o for o in self.wiring.origins(carry.yielded) if self._stretch(o.step) == stretch]
            producer = self.place[inside[0].step]
            entry = [o.step for o in self.wiring.origins(carry.init)]
            found.append(
                Carried(
                    name=carry.name or self.nodes[producer].name,
                    producer=producer[1],
                    tile=self.maker.tile(carry.argument),
                    result_of=self.place[entry[0]] if entry else None,
                )
            )
        return tuple(found)

    def _inputs(self, stretch: int) -> tuple[Input, ...]:
        """What the region reads from earlier ones, ordered by where it was made."""
        readers: dict[tuple[int, int], list[tuple[int, str]]] = {}
        for read in self.reads:
            if self._stretch(read.reader) != stretch or self._stretch(read.origin.step) == stretch:
                continue
            reader = (self.place[read.reader][1], read.operand)
            known = readers.setdefault(self.place[read.origin.step], [])
            if reader not in known:
                known.append(reader)
        return tuple(self._input(made_by, tuple(sorted(found))) for made_by, found in sorted(readers.items()))

    def _input(self, made_by: tuple[int, int], readers: tuple[tuple[int, str], ...]) -> Input:
        node = self.nodes[made_by]
        assert node.result is not None
        return Input(name=node.name, tile=node.result, made_by=made_by, readers=readers)

    # -- dimensions -------------------------------------------------------------------------------

    def _dims(self, regions: Sequence[Region]) -> tuple[tuple[Dim, ...], dict[int, int]]:
        """The classes that occur in nodes, in order of appearance, and their new numbers."""
        fusable = fusable_classes(self.program, self.uniformity, self.flat, self.classes, self.wiring)
        rename = {-1: -1}
        for region in regions:
            for c in (c for node in region.nodes for c in node_classes(node)):
                rename.setdefault(c, len(rename) - 1)
        names = dim_names(self.classes, [c for c in rename if c >= 0])
        dims = tuple(
            Dim(
                id=number,
                name=names[c],
                size=self.classes.size[c],
                parallel=c not in self.classes.sequential,
                fusable=c in fusable,
            )
            for c, number in rename.items()
            if c >= 0
        )
        return dims, rename


def _letters(step: Step) -> tuple[str, ...]:
    """What each operand is to the step."""
    if step.op.kind in MMA:
        return ("a", "b", "c", "scales of a", "scales of b")[: len(step.operands)]
    if step.op.kind in ACCESS:
        indices = ("address",) * len(step.op.index_operands)
        return ("data", *indices, "mask")[step.op.kind == "tile_load" :][: len(step.operands)]
    return tuple("in" for _ in step.operands)


def _edge(src: int, dst: int, distance: int, operand: str) -> Edge:
    return Edge(src=src, dst=dst, distance=distance, kind="value", operand=operand)


def node_classes(node: Node) -> tuple[int, ...]:
    """Every dimension class that a node mentions."""
    return (*node.dims, *(node.result.dims if node.result else ()))


def dim_names(classes: Classes, wanted: Sequence[int]) -> dict[int, str]:
    """Names for classes, after their roles: a second "n" of one loop is "d" (or the next letter
    that is free), the "n" of another loop is "n2".
    """
    names: dict[int, str] = {}
    homes: dict[str, int] = {}
    for c in [*(c for c in classes.letters if c in wanted), *(c for c in wanted if c not in classes.letters)]:
        letter, stretch = classes.letters.get(c, ("d", 0))
        again = (f"{letter}{number}" for number in range(2, len(wanted) + 2))
        free = again if homes.get(letter, stretch) != stretch else iter((*LETTERS, *again))
        name = letter if letter not in homes else next(name for name in free if name not in homes)
        names[c], homes[name] = name, stretch
    return names


def rename_dims(region: Region, rename: dict[int, int]) -> Region:
    """The region with its dimension classes renumbered."""

    def tile(old: Tile) -> Tile:
        return old.model_copy(update={"dims": tuple(rename.get(c, -1) for c in old.dims)})

    def mma(old: Mma) -> Mma:
        axes = {name: rename[getattr(old, name)] for name in ("m_dim", "n_dim", "k_dim")}
        return old.model_copy(update=axes)

    def node(old: Node) -> Node:
        update = {
            "dims": tuple(rename[c] for c in old.dims),
            "result": tile(old.result) if old.result else None,
            "mma": mma(old.mma) if old.mma else None,
        }
        return old.model_copy(update=update)

    return region.model_copy(
        update={
            "nodes": tuple(node(n) for n in region.nodes),
            "carried": tuple(c.model_copy(update={"tile": tile(c.tile)}) for c in region.carried),
            "inputs": tuple(i.model_copy(update={"tile": tile(i.tile)}) for i in region.inputs),
        }
    )
