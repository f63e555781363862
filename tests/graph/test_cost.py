"""What a loop becomes on a machine: its instructions with their figures, and the place of every value."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.kernels import B200, H100, costed_example, example
from twill.codegen.emission import extract
from twill.exc import UnpricedOperation
from twill.graph.accumulator import accumulators, one_sums
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph, CostedValue, Instruction
from twill.machine.description import Machine
from twill.solve.pipeline import SolveOptions, main_region, solve
from twill.zlp.normalize import normalize

ROWS, KEYS, DIM = 64, 128, 128  # a row block of attention's tile in two parts; its keys; its head dimension
TILE = ROWS * KEYS

Figures = tuple[dict[str, int], int, int]  # cycles by unit, latency, hold


def elementwise(machine: Machine, **counts: int) -> Figures:
    """What so many elements of each operation class (all of f32) come to, straight from the machine."""
    busy: dict[str, float] = {}
    for name, elements in counts.items():
        for rate in machine.operation(f"{name}.f32").rates:
            busy[rate.unit] = busy.get(rate.unit, 0) + elements / rate.per_cycle.value
    cycles = {unit: math.ceil(c) for unit, c in busy.items()}
    depth = max(machine.operation(f"{name}.f32").latency.value for name in counts)
    hold = max(cycles.values())
    return cycles, hold + int(depth), hold


def product(machine: Machine, rows: int, columns: int, depth: int) -> Figures:
    """A bf16 product that the tensor core's arithmetic limits."""
    assert machine.mma is not None
    rate = next(r.per_cycle.value for r in machine.mma.rates if r.dtype == "bf16")
    cycles = math.ceil(rows * columns * depth / rate)
    return {machine.mma.unit: cycles}, cycles + int(machine.mma.latency.value), int(machine.mma.issue.value)


def load(machine: Machine, nbytes: int) -> Figures:
    """A tile by TMA."""
    transfer = machine.transfer("tma_load")
    cycles = math.ceil(nbytes / transfer.bytes_per_cycle.value)
    return {"tma": cycles}, cycles + int(transfer.latency.value), int(transfer.issue.value)


def figures(instruction: Instruction) -> Figures:
    """What was made of it."""
    assert all(use.start == 0 for use in instruction.uses)
    return {use.unit: use.cycles for use in instruction.uses}, instruction.latency, instruction.hold


def named(graph: CostedGraph, name: str, op: str) -> list[Instruction]:
    """The instructions of that name whose operation ends in `op`, one for each row block."""
    return [i for i in graph.instructions if i.name == name and i.op.split()[-1] == op]


def made(graph: CostedGraph, instruction: Instruction) -> CostedValue:
    """The value that an instruction makes."""
    (value,) = [v for v in graph.values if v.producer == instruction.id]
    return value


def readers(value: CostedValue) -> set[tuple[int, int]]:
    """(instruction, distance) of its reads."""
    return {(r.reader, r.distance) for r in value.reads}


def without_words(graph: CostedGraph) -> CostedGraph:
    """The graph with names and lines left out."""
    blank = {"name": "", "line": 0}
    return graph.model_copy(
        update={
            **blank,
            "instructions": tuple(i.model_copy(update=blank) for i in graph.instructions),
            "values": tuple(v.model_copy(update=blank) for v in graph.values),
            "storages": tuple(s.model_copy(update=blank) for s in graph.storages),
            "invariants": tuple(i.model_copy(update=blank) for i in graph.invariants),
        }
    )


# -- figures ------------------------------------------------------------------------------------


def test_attention_in_two_row_blocks_has_the_figures_of_the_machine_file() -> None:
    graph = costed_example("attention", "full", split=2)
    expected = {
        ("qk", "dot"): product(H100, ROWS, KEYS, DIM),
        ("m_ij", "max"): elementwise(H100, reduce_max=TILE, mul=ROWS, max=ROWS),
        ("p", "sub"): elementwise(H100, fma=TILE),
        ("p", "exp2"): elementwise(H100, exp2=TILE),
        ("alpha", "exp2"): elementwise(H100, add=ROWS, exp2=ROWS),
        ("l_i", "add"): elementwise(H100, fma=ROWS, reduce_add=TILE),
        ("acc", "mul"): elementwise(H100, mul=ROWS * DIM),
        ("acc", "cast"): elementwise(H100, cast=TILE),
        ("acc", "dot"): product(H100, ROWS, DIM, KEYS),
    }
    assert len(graph.instructions) == 20
    for (name, op), figure in expected.items():
        assert [(i.block, figures(i)) for i in named(graph, name, op)] == [(0, figure), (1, figure)]
    for name in ("k", "v"):
        assert [(i.block, figures(i)) for i in named(graph, name, "load")] == [(-1, load(H100, KEYS * DIM * 2))]


def test_fusing_two_instances_keeps_the_work_of_each_and_shares_the_loads() -> None:
    one, two = costed_example("attention", "full"), costed_example("attention", "full", fuse=2)
    assert len(two.instructions) == 2 * len(one.instructions) - 2
    whole = {(i.name, i.op): figures(i) for i in one.instructions}
    assert all(figures(i) == whole[i.name, i.op] for i in two.instructions)


def test_splitting_halves_the_work_and_not_the_loads() -> None:
    one, two = costed_example("gemm"), costed_example("gemm", split=2)
    (whole,) = named(one, "acc", "dot")
    for half in named(two, "acc", "dot"):
        assert [(u.unit, 2 * u.cycles) for u in half.uses] == [(u.unit, u.cycles) for u in whole.uses]
    assert figures(named(two, "b", "load")[0]) == figures(named(one, "b", "load")[0])
    assert named(two, "b", "load")[0].block == -1
    assert [i.block for i in named(two, "a", "load")] == [0, 1]


def test_a_read_waits_for_the_latency_and_in_another_warp_group_also_for_barrier_and_spill() -> None:
    graph = costed_example("attention", "full", split=2)
    for e in graph.edges:
        source = graph.instructions[e.src]
        value = made(graph, source)
        assert e.delay == source.latency
        assert e.crossing == int(H100.crossing.barrier.value) + value.spill
        in_registers = ROWS * 4 if value.name in ("m_ij", "alpha", "l_i") else value.registers * 128 * 4
        assert value.spill == (H100.spill_cycles(in_registers) if value.space == "register" else 0)


def test_the_tensor_core_accumulates_back_to_back() -> None:
    graph = costed_example("gemm")
    (acc,) = named(graph, "acc", "dot")
    (edge,) = [e for e in graph.edges if e.src == e.dst == acc.id]
    assert (edge.delay, edge.distance) == (acc.uses[0].cycles, 1)
    assert edge.delay < acc.latency


# -- places -------------------------------------------------------------------------------------


def test_keys_and_values_are_rings_in_shared_memory_that_the_row_blocks_share() -> None:
    graph = costed_example("attention", "full", split=2)
    for name, product_of in (("k", "qk"), ("v", "acc")):
        (instruction,) = named(graph, name, "load")
        value = made(graph, instruction)
        assert (value.space, value.bytes, value.block, value.registers) == ("shared", KEYS * DIM * 2, -1, 0)
        assert readers(value) == {(i.id, 0) for i in named(graph, product_of, "dot")}


def test_the_query_tile_is_resident_in_shared_memory_a_part_for_each_block() -> None:
    graph = costed_example("attention", "full", split=2)
    mmas = named(graph, "qk", "dot")
    found = [(i.name, i.space, i.bytes, i.block, i.readers) for i in graph.invariants]
    assert found == [("q", "shared", ROWS * DIM * 2, b, (mmas[b].id,)) for b in (0, 1)]


def test_the_accumulator_is_one_storage_for_each_block_counted_once() -> None:
    graph = costed_example("attention", "full", split=2)
    per_thread = ROWS * DIM // 128
    found = [(s.name, s.block, s.space, s.registers) for s in graph.storages]
    assert found == [("acc", 0, "register", per_thread), ("acc", 1, "register", per_thread)]
    for block in (0, 1):
        inside = {v.producer for v in graph.values if v.storage == block}
        assert inside == {named(graph, "acc", op)[block].id for op in ("mul", "dot")}


def test_gemm_accumulates_in_one_storage_of_the_whole_tile() -> None:
    graph = costed_example("gemm")
    assert [(s.space, s.registers) for s in graph.storages] == [("register", 128 * 128 // 128)]
    assert [v.storage for v in graph.values if v.space == "register"] == [0]


IN_PARTS = """
@triton.jit
def k(q, k_ptr, v_ptr, o_ptr, N, B: tl.constexpr, D: tl.constexpr):
    o, c = tl.arange(0, B), tl.arange(0, D)
    rows = o[:, None] * D + c[None, :]
    b_q, acc = tl.load(q + rows), tl.zeros((B, D), tl.float32)
    for i in range(0, N, B):
        b_k, b_v = tl.load(k_ptr + i * D + rows), tl.load(v_ptr + i * D + rows)
        p = tl.exp(tl.dot(b_q, tl.trans(b_k), input_precision="ieee"))
        acc += tl.dot(p, b_v, input_precision="ieee")
    tl.store(o_ptr + rows, acc)
"""


def test_a_sum_of_one_iteration_has_its_registers_until_its_last_reader_is_done(
    kernel_file: Callable[..., str],
) -> None:
    """The first of the products that one `tl.dot` of f32 became has the registers of their sum, and is read by whoever
    reads any of them; what the loop carries is a storage, all the time."""
    sig = [f"{name}=*fp32:16" for name in ("q", "k_ptr", "v_ptr", "o_ptr")]
    read = extract(f"{kernel_file(IN_PARTS)}::k", sig=[*sig, "N=i32:16"], const=["B=64", "D=64"]).graph
    region = main_region(read)
    graph = cost(read, region, H100, next(iter(cooperations(read, region, H100))))
    sums = one_sums(region)
    assert sums and len(graph.storages) < len(accumulators(region))
    for nodes in sums:
        producers = {i.id for i in graph.instructions if i.source in nodes and i.block <= 0}
        chain = [v for v in graph.values if v.producer in producers and v.space == "register"]
        first, *later = chain
        assert first.registers and later and not any(v.registers for v in later)
        assert {r.reader for v in later for r in v.reads} <= {r.reader for r in first.reads}
        assert first.storage is None and first.spill == 0 and all(v.spill for v in later)


def test_a_vector_takes_the_registers_of_the_rows_that_a_thread_sees() -> None:
    hopper = costed_example("attention", "full", split=2)
    assert made(hopper, named(hopper, "m_ij", "max")[0]).registers == ROWS // 32  # four lanes share a row
    blackwell = costed_example("attention", "full", B200)
    assert made(blackwell, named(blackwell, "m_ij", "max")[0]).registers == 1  # a lane has a row


def test_probabilities_stay_in_registers_on_hopper() -> None:
    graph = costed_example("attention", "full", split=2)
    assert all(i.source >= 0 for i in graph.instructions)  # nothing is moved
    for block in (0, 1):
        value = made(graph, named(graph, "acc", "cast")[block])
        assert (value.space, value.registers) == ("register", TILE * 2 // 512)
        assert readers(value) == {(named(graph, "acc", "dot")[block].id, 0)}


def test_probabilities_lie_over_the_scores_in_tensor_memory() -> None:
    graph = costed_example("attention", "full", B200, fuse=2, operand_a="tmem")
    store = B200.transfer("tmem_store")
    for block in (0, 1):
        cast, acc = named(graph, "acc", "cast")[block], named(graph, "acc", "dot")[block]
        scores = made(graph, named(graph, "qk", "dot")[block])
        value = made(graph, cast)
        assert (value.space, value.bytes) == ("tmem", 0)
        assert (scores.space, scores.bytes) == ("tmem", 128 * KEYS * 4)
        assert (acc.id, 0) in readers(value)
        assert (acc.id, 0) in readers(scores)  # what lies over them keeps their place taken
        cycles = math.ceil(128 * KEYS * 2 / store.bytes_per_cycle.value)
        assert [u.cycles for u in cast.uses if u.unit == "tmem"] == [cycles]


def test_probabilities_may_go_to_shared_memory_instead() -> None:
    graph = costed_example("attention", "full", B200, fuse=2, operand_a="shared")
    for block in (0, 1):
        cast = named(graph, "acc", "cast")[block]
        value = made(graph, cast)
        assert (value.space, value.bytes) == ("shared", 128 * KEYS * 2)
        assert any(u.unit == B200.transfer("register_to_shared").unit for u in cast.uses)
        assert {r for r, _ in readers(made(graph, named(graph, "qk", "dot")[block]))} == {
            i.id for i in named(graph, "qk", "register") if i.block == block
        }


def test_scores_are_fetched_from_tensor_memory_once_for_all_their_readers() -> None:
    graph = costed_example("attention", "full", B200, fuse=2, operand_a="tmem")
    fetches = named(graph, "qk", "register")
    assert [(i.op, i.block, i.contexts, i.source) for i in fetches] == [
        ("tmem to register", b, B200.transfer("tmem_load").contexts, -1) for b in (0, 1)
    ]
    for block, fetch in enumerate(fetches):
        held = made(graph, fetch)
        assert held.space == "register"
        assert readers(held) == {(named(graph, n, op)[block].id, 0) for n, op in (("m_ij", "max"), ("p", "sub"))}


def test_rescaling_in_tensor_memory_is_one_instruction_that_loads_and_stores() -> None:
    graph = costed_example("attention", "full", B200, fuse=2, operand_a="tmem")
    for rescale in named(graph, "acc", "mul"):
        assert [u.unit for u in rescale.uses if u.unit == "tmem"] == ["tmem", "tmem"]
        assert made(graph, rescale).space == "tmem"
    assert [s.space for s in graph.storages] == ["tmem", "tmem"]


def test_an_operand_b_that_was_computed_goes_through_shared_memory() -> None:
    graph = costed_example("linear_attention")
    (cast,) = [i for i in named(graph, "o", "cast") if i.op == "cast"]
    value = made(graph, cast)
    assert (value.space, value.bytes) == ("shared", 128 * 64 * 2)
    assert any(u.unit == H100.transfer("register_to_shared").unit for u in cast.uses)


def test_a_transposed_operand_a_goes_through_shared_memory() -> None:
    graph = costed_example("attention_backward", "full")
    (copy,) = named(graph, "dsT", "shared")
    (dq,) = named(graph, "dq", "dot")
    (ds,) = named(graph, "dsT", "cast")
    (dk,) = named(graph, "dk", "dot")
    assert copy.op == "register to shared"
    assert readers(made(graph, copy)) == {(dq.id, 0)}
    assert readers(made(graph, ds)) == {(dk.id, 0), (copy.id, 0)}  # straight from registers where it is not transposed


def test_a_product_contracted_over_the_split_dimension_is_made_once_of_all_parts() -> None:
    graph = costed_example("attention_backward", "full", split=2)
    (dq,) = named(graph, "dq", "dot")
    copies = named(graph, "dsT", "shared")
    assert dq.block == -1
    assert [c.block for c in copies] == [0, 1]
    assert all(readers(made(graph, c)) == {(dq.id, 0)} for c in copies)
    assert figures(dq) == product(H100, 64, 128, 128)  # the whole contraction
    keys = [i for i in graph.invariants if i.name == "k"]
    assert [i.block for i in keys] == [0, 1]
    assert all(dq.id in i.readers for i in keys)


def test_a_bulk_store_reads_from_staging_until_it_is_done() -> None:
    graph = costed_example("attention_backward", "full")
    (store,) = [i for i in graph.instructions if i.op == "tma reduce store"]
    value = made(graph, store)
    assert (value.name, value.space, value.bytes, value.reads) == ("dq_desc staging", "shared", 64 * 128 * 4, ())
    staged = math.ceil(value.bytes / H100.transfer("register_to_shared").bytes_per_cycle.value)
    assert store.uses[0].cycles == staged
    assert store.latency > store.hold > staged


# -- what must not matter, and what must be refused -----------------------------------------------


def test_descriptors_and_pointers_cost_the_same() -> None:
    for split in (1, 2):
        one, two = (costed_example(name, split=split) for name in ("gemm", "gemm_pointers"))
        assert without_words(one) == without_words(two)


def test_a_normalized_graph_keeps_its_structure() -> None:
    exact = costed_example("attention", "full", split=2)
    coarse = normalize(exact, 100)
    assert coarse.normalization is not None
    assert coarse.normalization.bound == 100
    same = (
        "id",
        "name",
        "op",
        "unit",
        "line",
        "block",
        "asynchronous",
        "variable_latency",
        "contexts",
        "single_issuer",
    )
    for a, b in zip(exact.instructions, coarse.instructions, strict=True):
        assert [getattr(a, f) for f in same] == [getattr(b, f) for f in same]
        assert [u.unit for u in a.uses] == [u.unit for u in b.uses]
    assert [(e.src, e.dst, e.distance, e.kind) for e in exact.edges] == [
        (e.src, e.dst, e.distance, e.kind) for e in coarse.edges
    ]
    assert [v.model_copy(update={"spill": 0}) for v in exact.values] == [
        v.model_copy(update={"spill": 0}) for v in coarse.values
    ]
    assert (exact.storages, exact.invariants) == (coarse.storages, coarse.invariants)
    assert coarse.cooperation == exact.cooperation
    assert max(i.latency for i in coarse.instructions) < max(i.latency for i in exact.instructions) / 10


def without(machine: Machine, operation: str) -> Machine:
    """The machine with no price for an operation class."""
    retained = tuple(o for o in machine.operations if o.name != operation)
    return machine.model_copy(update={"operations": retained})


def test_cost_fail_names_the_operation_without_a_price() -> None:
    graph = example("attention", "full")
    region = main_region(graph)
    (plain, *_) = cooperations(graph, region, H100)
    with pytest.raises(KeyError, match=r"exp2\.f32"):
        cost(graph, region, without(H100, "exp2.f32"), plain)


def test_solve_fail_names_the_operation_without_a_price_and_the_loop() -> None:
    graph = example("attention", "full")
    with pytest.raises(
        UnpricedOperation, match=r"attention\.py:20: machine h100 has no price for 'exp2\.f32'"
    ) as error:
        solve(graph, without(H100, "exp2.f32"), SolveOptions(blocks=2))
    assert error.value.exit_code == 2
    assert "exp2.f32" in error.value.hint


def test_solve_fail_names_the_type_that_the_tensor_core_lacks() -> None:
    assert H100.mma is not None
    rates = tuple(r for r in H100.mma.rates if r.dtype != "bf16")
    machine = H100.model_copy(update={"mma": H100.mma.model_copy(update={"rates": rates})})
    with pytest.raises(UnpricedOperation, match=r"'mma\.bf16'"):
        solve(example("gemm"), machine)
