"""Loops of about 50 and 100 instructions: examples unrolled, loops fused side by side, and generated ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.side_by_side import side_by_side
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Read
from twill.graph.extract import extract
from twill.graph.unroll import unrolled
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.solve.pipeline import main_region

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RECENT = 6  # instructions back that a generated one reads from
KINDS = (("load", 1), ("product", 1), ("step", 4))  # of generated instructions, with their weights


@dataclass(frozen=True)
class Subject:
    """A loop for one machine; how: where it comes from, for people."""

    name: str
    machine: str
    how: str
    make: Callable[[Machine], CostedGraph]

    def graph(self) -> tuple[CostedGraph, Machine]:
        """The loop, and the machine that it is costed for."""
        machine = load_machine(self.machine)
        return self.make(machine), machine


def example(
    name: str,
    spec: str,
    machine: Machine,
    split: int = 1,
    fuse: int = 1,
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
) -> CostedGraph:
    """The main loop of an example under its first cooperation with so many parts of so many instances.

    sig, const: as in `twill.graph.extract`.
    """
    graph = extract(str(EXAMPLES / f"{name}.py"), spec, sig, const)[1]
    region = main_region(graph)
    chosen = next(c for c in cooperations(graph, region, machine) if (c.split, c.fuse) == (split, fuse))
    return cost(graph, region, machine, chosen)


def generated(machine: Machine, count: int, seed: int) -> CostedGraph:
    """A loop of `count` instructions with the prices of attention's, wired at random; the same seed, the same loop.

    Loads feed products, products and steps feed steps; every fifth step also reads what the iteration before made.
    """
    rng = random.Random(seed)
    base = example("attention", "full-d64", machine)
    kinds = {
        "load": [i for i in base.instructions if i.variable_latency],
        "product": [i for i in base.instructions if machine.mma and i.unit == machine.mma.unit],
        "step": [i for i in base.instructions if not i.asynchronous],
    }
    crossing = max(e.crossing for e in base.edges)
    chosen = ["load", "product", *rng.choices([k for k, _ in KINDS], [w for _, w in KINDS], k=count - 2)]
    ops: list[Instruction] = []
    edges: list[CostedEdge] = []
    reads: dict[int, list[Read]] = {v: [] for v in range(count)}
    for v, kind in enumerate(chosen):
        like = rng.choice(kinds[kind])
        ops.append(like.model_copy(update={"id": v, "name": f"{kind}{v}", "line": v + 1, "block": -1, "source": -1}))
        sources = [u for u in range(max(0, v - RECENT), v)] if kind != "load" else []
        wanted = [u for u in sources if chosen[u] != "load" or kind == "product"]
        listed = [(u, 0) for u in sorted(rng.sample(wanted, min(len(wanted), rng.choice((1, 1, 2)))))]
        if kind == "step" and v % 5 == 0:
            listed.append((v, 1))
        for u, distance in listed:
            reads[u].append(Read(reader=v, distance=distance))
            far = 90 if chosen[u] == "load" else crossing // 4
            edges.append(CostedEdge(src=u, dst=v, delay=ops[u].latency, distance=distance, crossing=far, kind="value"))
    loads = chosen.count("load")
    size = machine.capacity("shared") // (3 * loads) // 1024 * 1024
    values = tuple(
        CostedValue(
            id=v, name=ops[v].name, line=v + 1, block=-1, producer=v, space="shared" if kind == "load" else "register",
            bytes=size if kind == "load" else 0, registers=0 if kind == "load" else rng.choice((1, 4, 8)),
            reads=tuple(reads[v]), spill=0 if kind == "load" else 16,
        )
        for v, kind in enumerate(chosen) if reads[v]
    )  # fmt: skip
    numbered = tuple(x.model_copy(update={"id": n}) for n, x in enumerate(values))
    parts = {"instructions": tuple(ops), "edges": tuple(edges), "values": numbered, "storages": (), "invariants": ()}
    return base.model_copy(update={"name": f"generated {seed}", **parts})


def _unrolled(name: str, spec: str, times: int, split: int = 1) -> Callable[[Machine], CostedGraph]:
    return lambda machine: unrolled(example(name, spec, machine, split), times)


def _narrow(times: int) -> Callable[[Machine], CostedGraph]:
    tiles = [f"{name}=tensordesc<bf16[64, 128]>" for name in ("k_desc", "v_desc")]
    return lambda machine: unrolled(example("attention", "full", machine, 2, sig=tiles, const=["BLOCK_N=64"]), times)


def _attention_and_linear(machine: Machine) -> CostedGraph:
    return side_by_side([example("attention", "full-d64", machine, 2), example("linear_attention", "bf16", machine)])


def _attention_and_norms(machine: Machine) -> CostedGraph:
    norms = unrolled(example("layer_norm", "bf16", machine), 6)
    return side_by_side([example("attention", "full-d64", machine, 2), norms])


def _generated(count: int, seed: int) -> Subject:
    how = f"{count} instructions, seed {seed}"
    return Subject(f"generated {count}/{seed}", "h100", how, lambda machine: generated(machine, count, seed))


SUBJECTS = (
    Subject("backward x2", "h100", "attention_backward:full in two row blocks, unrolled twice",
            _unrolled("attention_backward", "full", 2, 2)),
    Subject("backward x2", "b200", "attention_backward:full unrolled twice",
            _unrolled("attention_backward", "full", 2)),
    Subject("attention x3", "h100", "attention:full with keys in blocks of 64, two row blocks, unrolled three times",
            _narrow(3)),
    Subject("attention x5", "h100", "the same, unrolled five times", _narrow(5)),
    Subject("attention-d64 x2", "h100", "attention:full-d64 in two row blocks, unrolled twice",
            _unrolled("attention", "full-d64", 2, 2)),
    Subject("attention-d64 x5", "h100", "the same, unrolled five times", _unrolled("attention", "full-d64", 5, 2)),
    Subject("linear x3", "h100", "linear_attention:bf16 unrolled three times",
            _unrolled("linear_attention", "bf16", 3)),
    Subject("linear x5", "h100", "the same, unrolled five times", _unrolled("linear_attention", "bf16", 5)),
    Subject("norm x10", "h100", "layer_norm:bf16 unrolled ten times", _unrolled("layer_norm", "bf16", 10)),
    Subject("row blocks", "h100", "attention:full-d64, two instances of two row blocks each",
            lambda machine: example("attention", "full-d64", machine, 2, 2)),
    Subject("attention and linear", "h100", "attention:full-d64 in two row blocks beside linear_attention:bf16",
            _attention_and_linear),
    Subject("attention and norms", "h100", "attention:full-d64 in two row blocks beside six of layer_norm:bf16",
            _attention_and_norms),
    *(_generated(count, seed) for count in (50, 100) for seed in (1, 2)),
)  # fmt: skip
