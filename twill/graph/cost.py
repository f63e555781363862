"""Bind one region of a dependence graph to a machine: the costed graph that is scheduled.

Row blocks are made first, then each node becomes an instruction with its reservation table, latency and hold
(`twill.graph.price`), and every value gets a place: registers, a shared memory ring, or tensor memory. Moves between
places are folded into the instruction that makes or uses the value when it is the only one, else they are its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twill.graph.accumulator import accumulators, is_one_sum
from twill.graph.by_columns import by_columns, narrowed
from twill.graph.combined_results import combined_results, tag_of
from twill.graph.costed import (
    Cooperation,
    CostedEdge,
    CostedGraph,
    CostedValue,
    Instruction,
    Invariant,
    Read,
    Storage,
)
from twill.graph.dependence import DependenceGraph, Edge, Input, Node, Region, Space, Tile
from twill.graph.overlaid_operands import host_of
from twill.graph.pairs import halved
from twill.graph.price import Price, price_move, price_node
from twill.graph.tile_size import tensor_bytes, tile_bytes, tile_registers
from twill.machine.description import Machine


def cost(graph: DependenceGraph, region: Region, machine: Machine, cooperation: Cooperation) -> CostedGraph:
    """The costed graph of `region` under `cooperation`. Raises KeyError if the machine lacks a price."""
    return _Builder(graph, halved(region) if cooperation.pair else region, machine, cooperation).build()


@dataclass(frozen=True)
class _Made:
    """What a node became in one row block: the instruction, and the value that holds its result."""

    instruction: int
    value: int | None


@dataclass
class _Builder:
    graph: DependenceGraph
    region: Region
    machine: Machine
    cooperation: Cooperation
    instructions: list[Instruction] = field(default_factory=list)
    edges: list[CostedEdge] = field(default_factory=list)
    values: list[CostedValue] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)
    made: dict[tuple[int, int], _Made] = field(default_factory=dict)  # (node, block)
    moved: dict[tuple[int, str], _Made] = field(default_factory=dict)  # (value, place) -> its copy there
    reads: dict[int, list[Read]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dim = next((d.id for d in self.graph.dims if d.name == self.cooperation.dim), -1)
        self.nodes: Mapping[int, Node] = {n.id: n for n in self.region.nodes}
        self.accumulators = accumulators(self.region)
        self.in_place = frozenset(n for nodes in self.accumulators for n in nodes)
        self.meeting = combined_results(self.graph, self.region, self.machine)
        parts = self.cooperation.split if self.cooperation.columns else 1
        self.columns = by_columns(self.graph, self.region, self.dim, parts)

    def build(self) -> CostedGraph:
        for node in self.region.nodes:
            for block in self.blocks_of(node):
                self.make(node, block)
        for edge in self.region.edges:
            for src, dst in self.pairs(edge):
                self.connect(edge, src, dst)
        self.share_storage()
        for entry in self.region.inputs:
            self.invariant(entry)
        values = tuple(v.model_copy(update={"reads": tuple(self.reads.get(v.id, ()))}) for v in self.values)
        return CostedGraph(
            name=self.graph.kernel,
            line=self.region.line,
            region=self.region.id,
            machine=self.machine.name,
            machine_digest=self.machine.digest(),
            cooperation=self.cooperation,
            instructions=tuple(self.instructions),
            edges=tuple(dict.fromkeys(self.edges)),
            values=values,
            storages=tuple(self.storages),
            invariants=tuple(self.invariants),
            kind=self.region.kind,
            interleaved=tuple(u.name for u in self.machine.units if u.interleaved),
        )

    # -- row blocks ---------------------------------------------------------------------------

    def blocks_of(self, node: Node) -> range | tuple[int]:
        """Row blocks of a node; (-1,) if all blocks share it.

        An MMA that is contracted over the split dimension joins the blocks: it reads every block's
        part from shared memory, and is made once, or in parts of its columns (`twill.graph.by_columns`).
        """
        if node.id in self.columns:
            return range(self.cooperation.blocks)
        if self.dim < 0 or self.dim not in node.dims or self.contracts_split(node):
            return (-1,)
        return range(self.cooperation.blocks)

    def contracts_split(self, node: Node) -> bool:
        """Whether an MMA is contracted over the dimension that is split."""
        return node.mma is not None and node.mma.k_dim == self.dim

    def pairs(self, edge: Edge) -> list[tuple[int, int]]:
        """(block of src, block of dst) for every instance of an edge."""
        src = self.blocks_of(self.nodes[edge.src])
        dst = self.blocks_of(self.nodes[edge.dst])
        if len(src) > 1 and len(dst) > 1 and not self.contracts_split(self.nodes[edge.dst]):
            return [(b, b) for b in src]
        return [(a, b) for a in src for b in dst]

    def share(self, dims: tuple[int, ...]) -> int:
        """A tile with these dims is cut in this many parts by the split."""
        return self.cooperation.split if self.dim in dims and self.dim >= 0 else 1

    def parts(self, node: Node) -> int:
        """A node's work is cut in this many parts by the split."""
        if node.id in self.columns:
            return self.cooperation.split
        return 1 if self.contracts_split(node) else self.share(node.dims)

    # -- instructions -------------------------------------------------------------------------

    def make(self, node: Node, block: int) -> None:
        node = narrowed(node, self.columns.get(node.id), self.parts(node))
        if node.transport is not None and self.cooperation.width > 1:
            node = node.model_copy(update={"transport": "plain"})
        parts = 1 if node.mma is not None and node.id in self.columns else self.parts(node)
        a_shared = self.operand_a_place(node) == "shared"
        how = self.cooperation
        price = price_node(node, self.machine, parts, a_shared, how.polynomial, how.pair)
        place = self.place_of(node)
        if node.kind == "elementwise" and place != "register" and node.result:
            price = price.then(price_move("to", place, self.bytes_of(node.result), self.machine))
        if node.kind == "elementwise" and node.id in self.in_place and self.accumulator == "tmem" and node.result:
            price = price_move("from", "tmem", self.bytes_of(node.result), self.machine).then(price)
        i = self.instruction(price, node.name, node.op_text, node.line, block, node.id)
        value = None
        if node.result is not None:
            value = self.value(node.name, node.line, block, i, place, node.result)
        elif node.kind in ("store", "reduce_store") and self.cooperation.width == 1:
            self.staging(node, block, i)
        self.made[node.id, block] = _Made(i, value)
        if node.kind == "elementwise" and place == "shared":
            self.workspace(node, block, i)

    def workspace(self, node: Node, block: int, i: int) -> None:
        """The registers that tiles pass through on their way from shared memory to shared memory."""
        loaded = (e.src for e in self.region.edges if e.dst == node.id and e.kind == "value")
        passing = [self.nodes[n].result for n in loaded if self.nodes[n].kind == "load"]
        if passing:
            room = max(self.registers_of(tile) for tile in (node.result, *passing) if tile is not None)
            self.invariants.append(
                Invariant(id=len(self.invariants), name=f"{node.name} in work", line=node.line, block=block,
                          space="register", bytes=0, registers=room, readers=(i,))
            )  # fmt: skip

    def instruction(self, price: Price, name: str, op: str, line: int, block: int, source: int) -> int:
        i = len(self.instructions)
        self.instructions.append(
            Instruction(
                id=i,
                name=name,
                op=op,
                unit=price.unit,
                line=line,
                block=block,
                uses=price.uses,
                latency=price.latency,
                hold=price.hold,
                asynchronous=price.asynchronous,
                variable_latency=price.variable_latency,
                contexts=price.contexts,
                single_issuer=price.single_issuer or self.issuer(source, block),
                source=source,
            )
        )
        return i

    def issuer(self, source: int, block: int) -> str:
        """The tag of the instructions that one warp group must have: MMAs that meet; where row blocks share what
        joins them, all MMAs of a row block."""
        if self.columns and block >= 0 and source >= 0 and self.nodes[source].mma is not None:
            return f"row block {block}"
        return tag_of(self.meeting, source, block)

    def staging(self, node: Node, block: int, i: int) -> None:
        """The shared memory a bulk store reads from until it is done."""
        size = node.bytes // self.parts(node)
        self.values.append(
            CostedValue(id=len(self.values), name=f"{node.tensor} staging", line=node.line, block=block, producer=i,
                  space="shared", bytes=size, registers=0, reads=(), spill=0)
        )  # fmt: skip

    # -- places -------------------------------------------------------------------------------

    @property
    def accumulator(self) -> Space:
        return self.machine.mma.accumulator if self.machine.mma else "register"

    def place_of(self, node: Node) -> Space:
        """Where the node's result is made."""
        if node.kind == "load":
            return "shared" if self.cooperation.width == 1 else "register"  # whose threads load it themselves
        if node.kind == "mma" or node.id in self.in_place:
            return self.accumulator
        wanted = {self.wanted(e) for e in self.region.edges if e.kind == "value" and e.src == node.id}
        return wanted.pop() if len(wanted) == 1 else "register"

    def operand_a_place(self, node: Node) -> Space:
        """Where an MMA reads its operand A."""
        edges = [e for e in self.region.edges if e.dst == node.id and e.kind == "value" and e.operand == "a"]
        return self.wanted(edges[0]) if edges else "shared"

    def wanted(self, edge: Edge) -> Space:
        """Where the reader of a value edge wants to find it."""
        reader, source = self.nodes[edge.dst], self.nodes[edge.src]
        if reader.kind != "mma" or reader.mma is None or source.result is None:
            return "register"
        if edge.operand == "c":
            return self.accumulator
        if edge.operand == "b" or source.kind == "load":
            return "shared"
        if self.contracts_split(reader):
            return "shared"
        straight = source.result.dims == (reader.mma.m_dim, reader.mma.k_dim)
        if self.cooperation.operand_a == "tmem" and self.machine.mma is not None:  # as whole instructions read it
            straight = straight and reader.mma.m // self.parts(reader) >= self.machine.mma.row_block
        return self.cooperation.operand_a if straight else "shared"

    def bytes_of(self, tile: Tile) -> int:
        """Bytes of one row block's part of a tile."""
        return tile_bytes(tile, self.share(tile.dims))

    def registers_of(self, tile: Tile) -> int:
        """Registers per thread that one row block's part takes, of a warp group's threads times the width."""
        registers = tile_registers(tile, self.share(tile.dims), self.region, self.accumulator)
        return -(-registers // self.cooperation.width)

    def value(self, name: str, line: int, block: int, producer: int, place: Space, tile: Tile) -> int:
        """A new value; `line`, `block` as its producer's."""
        size, in_registers = self.bytes_of(tile), place == "register"
        if place == "tmem" and self.machine.mma is not None:
            size = tensor_bytes(tile, self.share(tile.dims), self.machine.mma.row_block)
        self.values.append(
            CostedValue(
                id=len(self.values), name=name, line=line, block=block, producer=producer, space=place,
                bytes=0 if in_registers else size, registers=self.registers_of(tile) if in_registers else 0,
                reads=(), spill=self.machine.spill_cycles(size) if in_registers else 0,
            )
        )  # fmt: skip
        return len(self.values) - 1

    # -- edges --------------------------------------------------------------------------------

    def connect(self, edge: Edge, src_block: int, dst_block: int) -> None:
        src, dst = self.made[edge.src, src_block], self.made[edge.dst, dst_block]
        barrier = round(self.machine.crossing.barrier.value)
        producer, consumer = self.instructions[src.instruction], self.instructions[dst.instruction]
        if edge.kind != "value" or src.value is None:
            read = edge.kind == "anti" and not producer.asynchronous  # its operands are read by the end of its hold
            delay = producer.hold if read else producer.latency
            self.edge(src.instruction, dst.instruction, delay, edge.distance, barrier, edge.kind)
            return
        source, wanted = src, self.wanted(edge)
        if self.values[src.value].space != wanted and self.must_move(edge, wanted):
            source = self.move(edge, src, src_block, dst_block, wanted)
        assert source.value is not None
        self.read(source.value, consumer.id, edge.distance)
        start = self.instructions[source.instruction]
        delay = start.latency
        if edge.operand == "c" and self.nodes[edge.src].kind == "mma" and self.nodes[edge.dst].kind == "mma":
            delay = max(u.cycles for u in start.uses)  # the tensor core accumulates back to back
        self.edge(start.id, consumer.id, delay, edge.distance, self.crossing(source.value), "value")

    def must_move(self, edge: Edge, wanted: Space) -> bool:
        """Whether the reader cannot fetch the value from where it is as part of its own work."""
        source = self.nodes[edge.src]
        space = self.place_of(source)
        if wanted == "register" and space == "shared":
            return False  # an elementwise reader loads its operand from the ring itself
        in_place_reader = edge.dst in self.in_place and self.nodes[edge.dst].kind == "elementwise"
        return not (wanted == "register" and space == "tmem" and in_place_reader)

    def move(self, edge: Edge, src: _Made, src_block: int, dst_block: int, wanted: Space) -> _Made:
        """The copy of a value in another place, made once per row block."""
        assert src.value is not None
        known = self.moved.get((src.value, wanted))
        if known is not None:
            return known
        node = self.nodes[edge.src]
        assert node.result is not None
        held = self.values[src.value]
        direction = "from" if wanted == "register" else "to"
        place = held.space if wanted == "register" else wanted
        price = price_move(direction, place, self.bytes_of(node.result), self.machine)
        block = src_block if src_block >= 0 else dst_block
        op = f"{held.space} to {wanted}"
        i = self.instruction(price, node.name, op, node.line, block, -1)
        self.read(src.value, i, 0)
        self.edge(src.instruction, i, self.instructions[src.instruction].latency, 0, self.crossing(src.value), "value")
        copy = _Made(i, self.value(node.name, node.line, block, i, wanted, node.result))
        self.moved[src.value, wanted] = copy
        return copy

    def crossing(self, value: int) -> int:
        """Extra cycles until a reader in another warp group has the value."""
        return round(self.machine.crossing.barrier.value) + self.values[value].spill

    def read(self, value: int, reader: int, distance: int) -> None:
        entry = Read(reader=reader, distance=distance)
        if entry not in self.reads.setdefault(value, []):
            self.reads[value].append(entry)

    def edge(self, src: int, dst: int, delay: int, distance: int, crossing: int, kind: str) -> None:
        said = {"src": src, "dst": dst, "delay": delay, "distance": distance, "crossing": crossing, "kind": kind}
        self.edges.append(CostedEdge.model_validate(said))

    # -- storages and invariants --------------------------------------------------------------

    def share_storage(self) -> None:
        """Put the values of every in-place accumulator into one storage per row block; a sum of one iteration, whose
        registers others may have behind its last reader, is one value's."""
        for nodes in self.accumulators:
            in_one = self.accumulator == "register" and is_one_sum(self.region, nodes)
            for block in self.blocks_of(self.nodes[nodes[0]]):
                ids = [self.made[n, block].value for n in nodes]
                held = [v for v in ids if v is not None]
                if in_one:
                    self.lend(held)
                    continue
                largest = max((self.values[v] for v in held), key=lambda v: (v.bytes, v.registers))
                storage = len(self.storages)
                self.storages.append(
                    Storage(id=storage, name=largest.name, line=largest.line, block=block, space=largest.space,
                            bytes=largest.bytes, registers=largest.registers)
                )  # fmt: skip
                for v in held:
                    self.values[v] = self.values[v].model_copy(update={"storage": storage})
        if self.cooperation.operand_a == "tmem":
            self.overlay()

    def overlay(self) -> None:
        """A computed operand A in tensor memory lies over the accumulator it was computed from."""
        for value in list(self.values):
            maker = self.instructions[value.producer]
            if value.space != "tmem" or value.storage is not None or "mma" in maker.single_issuer:
                continue
            host = host_of(value, self.values, self.edges, self.reads)
            if host is not None:
                for r in self.reads.get(value.id, ()):
                    self.read(host.id, r.reader, r.distance)
                self.values[value.id] = value.model_copy(update={"bytes": 0, "name": f"{value.name} over {host.name}"})

    def lend(self, held: Sequence[int]) -> None:
        """The sum's first value has the registers of all of them, from its birth to the last read of any."""
        first, *later = held
        largest = max(self.values[v].registers for v in held)
        for v in later:
            for r in self.reads.get(v, ()):
                self.read(first, r.reader, r.distance)
            self.values[v] = self.values[v].model_copy(update={"registers": 0})
        self.values[first] = self.values[first].model_copy(update={"registers": largest, "spill": 0})

    def invariant(self, entry: Input) -> None:
        """A tile from before the loop: in shared memory for the tensor core, else in registers."""
        blocks = range(self.cooperation.blocks) if self.dim >= 0 and self.dim in entry.tile.dims else (-1,)
        for block in blocks:
            by_place: dict[Space, list[int]] = {}
            for node, operand in entry.readers:
                is_mma = self.nodes[node].kind == "mma"
                place: Space = "shared" if is_mma and operand != "c" else "register"
                everyone = block == -1 or self.contracts_split(self.nodes[node])
                theirs = [b for b in self.blocks_of(self.nodes[node]) if everyone or b in (-1, block)]
                by_place.setdefault(place, []).extend(self.made[node, b].instruction for b in theirs)
            for place, readers in by_place.items():
                self.invariants.append(
                    Invariant(
                        id=len(self.invariants),
                        name=entry.name,
                        line=self.region.line,
                        block=block,
                        space=place,
                        bytes=self.bytes_of(entry.tile) if place == "shared" else 0,
                        registers=self.registers_of(entry.tile) if place == "register" else 0,
                        readers=tuple(sorted(set(readers))),
                    )
                )
