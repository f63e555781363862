"""Loops around a kernel's work of which numbers in memory say how often it is done, and pointers that are looked up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.kernels import H100
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.lower.made_maps import MadeMaps
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.scalars import ScalarTable
from twill.codegen.print.gluon.sayable import refuse_at_once
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch, launches, sidecar_problem
from twill.codegen.verify.abstract.operands import operand_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Apply, Expr, Local, Number
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import (
    BulkCommit,
    BulkWait,
    CountReuse,
    If,
    MakeMap,
    Pipeline,
    ScalarLoop,
    Settle,
    ShowMaps,
    SlotRef,
    Stmt,
    TensorMapSpec,
    TmaStore,
    WarpProgram,
    walk,
    with_blocks,
)
from twill.codegen.warp.text import text
from twill.exc import NotInGluon, TwillError, UnknownProblem, UnsupportedInKernel, UnsupportedOperation
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.kernel.ttir import ttir
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.interpret.sequential import run
from twill.tile.mlir import parse as parse_mlir
from twill.tile.parse import parse as parse_tile
from twill.tile.text import program_text
from twill.tile.translate.counted_while import count_whiles
from twill.tile.translate.translate import _around, _program
from twill.tile.vocabulary import ELECTED
from twill.trial.execute import verified

Block = tuple[Stmt, ...]
KERNELS = "tests/walk_kernels.py"
RAGGED = [(72, 104, 40), (0, 64, 64), (8, 64, 0), (64, 8, 136), (200, 72, 64)]
PROBLEMS = [(128, 64, 128), (0, 64, 64), (64, 128, 0), (-5, 64, 64), (64, 64, 192), (192, 64, 64)]


@cache
def kernel(name: str, spec: str) -> Extracted:
    return extract(f"{KERNELS}::{name}", spec=spec)


@cache
def emission(name: str, spec: str) -> Emission:
    made = kernel(name, spec)
    return emit_scheduled(made, H100, solve(made.graph, H100, SolveOptions(strategy="heuristic")))


def products(problems: list[tuple[int, int, int]]) -> tuple[CheckedLaunch, list[np.ndarray]]:
    """A launch of several products, their tensors one behind the other, and what each of them is."""
    rng = np.random.default_rng(0)
    arrays: dict[str, list[np.ndarray]] = {"lefts": [], "rights": [], "results": []}
    addresses: dict[str, list[int]] = {name: [] for name in arrays}
    wanted = []
    for m, n, k in problems:
        a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((max(m, 0), k), (k, n)))
        wanted.append(a.astype(np.float64) @ b.astype(np.float64))
        for name, matrix in zip(arrays, (a, b, np.zeros((max(m, 0), n), np.float16)), strict=True):
            addresses[name].append(2 * sum(one.size for one in arrays[name]))
            arrays[name].append(matrix.reshape(-1))
    case = Case({}, (3,), {}, {"count": len(problems)})
    known: dict[str, np.ndarray] = {name: np.array(of, np.int64) for name, of in addresses.items()}
    known |= {f"{name}.pointee": np.concatenate(of) for name, of in arrays.items()}
    known["sizes"] = np.array(problems, np.int32).reshape(-1)
    known["strides"] = np.array([(k, n, n) for _, n, k in problems], np.int32).reshape(-1)
    return CheckedLaunch(case.grid, known, case.scalars, text="six problems"), wanted


def test_programs_do_the_work_that_loaded_numbers_give_them() -> None:
    made, (given, wanted) = emission("products", "products"), products(PROBLEMS)
    found = verified(made.build.ptx, made.manifest, made.program, given)
    assert found.said() == []
    left = 0
    for product in wanted:
        part = found.arrays["results.pointee"][left : left + product.size].reshape(product.shape)
        assert np.allclose(part, product, rtol=1e-2, atol=0.1)
        left += product.size


@pytest.mark.parametrize("blank, dropped", [(0, 0), (72, 0), (0, 72)])
def test_descriptors_that_a_kernel_makes_are_tensor_maps(blank: int, dropped: int) -> None:
    """Sizes that no tile divides, and none; descriptors are made under an `if` in front of the inner loop."""
    made, (given, wanted) = emission("described_products", "described"), products(RAGGED)
    accesses = [op.access for op in made.program.program.ops() if op.access is not None and op.access.axes]
    assert [(access.transport, access.made) for access in accesses] == [("tma", True)] * 3
    arrays = {name: array for name, array in given.arrays.items() if name != "strides"}
    scalars = {**given.scalars, "blank": blank, "dropped": dropped}
    found = verified(made.build.ptx, made.manifest, made.program, replace(given, arrays=arrays, scalars=scalars))
    assert found.said() == []
    left = 0
    for product in wanted:
        part = found.arrays["results.pointee"][left : left + product.size].reshape(product.shape)
        there = max(len(product) - max(blank, dropped), 0)
        assert np.allclose(part[:there], product[:there], rtol=1e-2, atol=0.1)
        assert not part[there:].any()
        left += product.size


def test_launches_without_any_work_end() -> None:
    made, (given, _) = emission("products", "products"), products([(0, 64, 64), (-1, 64, 64)])
    assert verified(made.build.ptx, made.manifest, made.program, given).said() == []
    none = replace(given, scalars={"count": 0})
    assert verified(made.build.ptx, made.manifest, made.program, none).said() == []


def test_vectors_are_found_where_looked_up_addresses_say() -> None:
    made = emission("scaled_rows", "rows")
    case = Case({}, (3, 3), {name: (3,) for name in ("sources", "targets", "lengths")}, {})
    given = launch(made.program.program, case)
    arrays = {**given.arrays, "lengths": np.array([300, 0, -7], np.int32)}
    arrays |= {"sources": np.array([4000, 0, 16]), "targets": np.array([8, 4000, 4000])}
    arrays |= {f"{name}.pointee": np.arange(2000, dtype=np.float32) for name in ("sources", "targets")}
    found = verified(made.build.ptx, made.manifest, made.program, replace(given, arrays=arrays))
    assert found.said() == []
    wanted = np.arange(2000, dtype=np.float32)
    wanted[2:302] = 2 * np.arange(1000, 1300)
    assert np.array_equal(found.arrays["targets.pointee"], wanted)


def given_sizes(name: str, **sizes: int) -> CheckedLaunch:
    """A launch at sizes of the sidecar's table, with locks of zeros."""
    program = kernel(*name.split("-")).program
    problem = sidecar_problem(program)
    assert problem is not None
    made = launch(program, problem.case(sizes))
    return replace(made, arrays={**made.arrays, "locks": np.zeros_like(made.arrays["locks"])})


@pytest.mark.parametrize("m, k, shared", [(64, 256, True), (128, 256, True), (192, 448, False), (128, 64, False)])
def test_programs_have_shares_of_the_iterations_of_all_tiles(m: int, k: int, shared: bool) -> None:
    """Stream-K: a tile may be made by several programs, the first of which wait for the one that ends it."""
    made, given = emission("stream_k", "shares"), given_sizes("stream_k-shares", M=m, N=64, K=k)
    found = verified(made.build.ptx, made.manifest, made.program, given, ctas=3)
    assert found.said() == []
    a, b = given.arrays["a_ptr"].reshape(m, k), given.arrays["b_ptr"].reshape(k, 64)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(found.arrays["c_ptr"].reshape(m, 64), wanted, rtol=1e-4, atol=1e-3)
    assert found.arrays["locks"].any() == shared


@pytest.mark.parametrize("n", [3, 6, 15, 30])
def test_what_a_program_leaves_for_another_one_is_loaded_behind_its_flag(n: int) -> None:
    """Each program stores what it has begun in one place, and loads what another one has begun: instances of one
    program wait for all that the one before has accessed."""
    made, given = emission("chained", "chain"), given_sizes("chained-chain", n=n)
    found = verified(made.build.ptx, made.manifest, made.program, given, ctas=4)
    assert found.said() == []
    wanted = given.arrays["x_ptr"].astype(np.float64).reshape(n // 3, 3, 256).sum(1)
    assert np.allclose(found.arrays["y_ptr"].reshape(-1, 256), wanted, rtol=1e-5, atol=1e-5)
    assert [op.line for op in kernel("chained", "chain").program.ops() if op.kind == ELECTED][0] < min(
        op.line for op in kernel("chained", "chain").program.ops() if op.access is not None
    )


def test_work_is_done_in_the_order_of_the_loops_around_it() -> None:
    """The loops as Triton has them, and the walk with its work, leave the same."""
    spec, made = resolve(f"{KERNELS}::products", spec="products"), kernel("products", "products").program
    blocks = count_whiles(
        next(op for op in parse_mlir(ttir(spec), spec.file).regions[0][0].operations if op.name == "tt.func").regions[0]
    )
    nest = _program(spec, blocks, {}, _around(blocks))
    given, _ = products(PROBLEMS)
    left = []
    for program in (nest, made):
        arrays = {
            name: array.astype(np.float32 if "." in name else array.dtype) for name, array in given.arrays.items()
        }
        run(program, given.grid, arrays, given.scalars)
        left.append(arrays["results.pointee"])
    assert np.array_equal(*left)
    assert np.any(left[0])


def test_what_is_said_about_alignment_is_used() -> None:
    """Runs of 16 bytes are moved at once: stride and address are multiples of eight elements."""
    made = emission("products", "products").program
    loads = [op.access for op in made.program.ops() if op.access is not None and op.access.axes and op.results]
    assert [(access.transport, access.made) for access in loads] == [("tma", True), ("tma", True)]
    assert all(axis.stride.constant == 1 or axis.stride.terms[0][1] == 8 for access in loads for axis in access.axes)


def without(block: tuple[Stmt, ...], wrong: Callable[[Stmt], bool]) -> tuple[Stmt, ...]:
    """The statements but some."""
    return tuple(with_blocks(stmt, lambda inner: without(inner, wrong)) for stmt in block if not wrong(stmt))


def edited(program: WarpProgram, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> WarpProgram:
    return replace(program, groups=tuple(replace(group, body=change(group.body)) for group in program.groups))


def test_tensor_maps_are_made_where_the_problem_is_another() -> None:
    made = emission("products", "products").program
    for group in made.groups:
        count = next(stmt for stmt in group.body if isinstance(stmt, CountReuse))
        guard = next(stmt for stmt in group.body if isinstance(stmt, If))
        assert [repr(value) for value in count.values] == ["Local(name='p', element='i32')"]
        assert any(isinstance(stmt, MakeMap) for stmt in walk((guard,)))
    assert [entry.made for entry in made.maps] == [1, 1, 2]  # of the stores, and the first and second that are loaded


def test_maps_are_made_and_shown_while_the_first_tiles_are_on_their_way() -> None:
    """In front of the loop. Where results are stored, what the instance before stored may still be on its way: that
    went through the map that is not made now."""
    for group in emission("products", "products").program.groups:
        at = {kind: [n for n, stmt in enumerate(group.body) if any(isinstance(one, kind) for one in walk((stmt,)))]
              for kind in (MakeMap, Pipeline, ShowMaps)}  # fmt: skip
        assert max(at[MakeMap]) <= min(at[ShowMaps]) < min(at[Pipeline])
        copies = sum(isinstance(stmt, BulkCommit) for stmt in group.stmts)
        waits = [stmt.pending for stmt in walk(group.body) if isinstance(stmt, BulkWait) and not stmt.read]
        assert waits == ([copies] if copies else [])


COPY: tuple[Stmt, ...] = (TmaStore(0, (), SlotRef(0)), BulkCommit())
MAY: Expr = Local("may", "i1")


@pytest.mark.parametrize(
    "loops, behind, pending",
    [
        ((), (If(MAY, COPY * 2),), 2),
        ((), (If(MAY, (If(Local("if_so", "i1"), COPY),)),), 0),  # an instance may store nothing
        ((), (If(Local("if_so", "i1"), COPY),), 0),
        ((), (If(MAY, COPY, (BulkCommit(),)),), 0),
        ((), (If(MAY, COPY), If(MAY, (TmaStore(1, (), SlotRef(0)), BulkCommit()))), 0),  # of another map
        ((If(MAY, COPY),), (If(MAY, COPY),), 0),
    ],
)
def test_copies_that_not_every_instance_has_are_waited_for(loops: Block, behind: Block, pending: int) -> None:
    nothing = Number(0, "i64")
    seen = TensorMapSpec(0, "c", "f16", (None, None), (nothing, nothing), nothing, (64, 64), 128)
    made = MadeMaps(SharedMemoryPlan("k.py"), ScalarTable.__new__(ScalarTable))
    made.of(seen, 1, where=MAY)
    assert made.pending(loops, behind) == pending


def test_groups_of_whole_warps_know_that_all_lanes_have_one_trip_count() -> None:
    """K of a product is looked up: shuffled, it is in a uniform register, and so are the cursors of the loop. The
    thread that loads has no other lane to compare with."""
    consumers, loader = re.split(r"// ---- role: load", emission("products", "products").build.source)
    assert re.findall(r"_trip = .*;", consumers) == re.findall(r"_trip = shuffle_from\(.*, 0\);", consumers) != []
    assert re.findall(r"_trip = .*;", loader) != []
    assert "shuffle_from(" not in loader
    known = extract("examples/gemm.py")
    plain = emit_scheduled(known, H100, solve(known.graph, H100, SolveOptions(strategy="heuristic"))).build.source
    assert "_trip = shuffle_from(" not in plain
    assert re.findall(r"_trip = .*;", plain) != []


def test_each_map_is_made_in_shared_memory_of_its_own() -> None:
    """Its template is copied there once; the next tensor's numbers replace the last one's."""
    made = emission("products", "products")
    maps = [stmt for group in made.program.groups for stmt in group.stmts if isinstance(stmt, MakeMap)]
    assert len({stmt.scratch for stmt in maps}) == len(maps) == 4  # two of groups that store, two of one that loads

    def shared(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        one = (replace(stmt, scratch=maps[0].scratch) if isinstance(stmt, MakeMap) else stmt for stmt in block)
        return tuple(with_blocks(stmt, shared) for stmt in one)

    broken = edited(made.program, shared)
    found = [one.message for group in broken.groups for one in operand_violations(broken, group)]
    assert any("as another one is" in message for message in found)


def test_a_panel_of_a_result_waits_for_the_one_that_was_in_its_buffer() -> None:
    made = extract(f"{KERNELS}::described_products", spec="described", const=("BM=128", "BN=256"))
    program = emit_scheduled(made, H100, solve(made.graph, H100, SolveOptions(strategy="heuristic"))).program
    waits = [
        [stmt.pending for stmt in group.stmts if isinstance(stmt, BulkWait) and stmt.read]
        for group in program.groups
        if any(isinstance(stmt, TmaStore) for stmt in group.stmts)
    ]
    assert waits == [[0, 1, 1, 1]] * 2  # four panels in two buffers


def edited_waits(block: Block, change: Callable[[int], int]) -> Block:
    """With other numbers of copies that may go on where writes are waited for."""
    made = (
        replace(stmt, pending=change(stmt.pending)) if isinstance(stmt, BulkWait) and not stmt.read else stmt
        for stmt in block
    )
    return tuple(with_blocks(stmt, lambda inner: edited_waits(inner, change)) for stmt in made)


FAULTS = {
    "a map that no group makes": (lambda block: without(block, lambda s: isinstance(s, MakeMap)), "map"),
    "a map that is not shown": (lambda block: without(block, lambda s: isinstance(s, ShowMaps)), "map"),
    "a map made anew under copies": (lambda block: without(block, lambda s: isinstance(s, Settle)), "map"),
    "a map made anew under stores": (
        lambda block: without(block, lambda s: isinstance(s, BulkWait) and not s.read),
        "map",
    ),
    "a map made anew under stores of the problem before the last": (
        lambda block: edited_waits(block, lambda pending: 2 * pending),
        "map",
    ),
    "a map of the problem before": (
        lambda block: tuple(replace(s, values=()) if isinstance(s, CountReuse) else s for s in block),
        "values",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_tensor_map_is_found(name: str) -> None:
    change, rule = FAULTS[name]
    made = emission("products", "products").program
    assert rule in {violation.rule for violation in verify(edited(made, change), enough=1)}


@pytest.mark.parametrize("fence", [r"release\.gpu;", r"acquire\.gpu \[%rd\d+\], 128;"])
def test_a_tensor_map_without_a_fence_is_found(fence: str) -> None:
    made, (given, _) = emission("products", "products"), products(PROBLEMS[:1])
    broken = re.sub(rf"fence\.proxy\.tensormap::generic\.{fence}", "", made.build.ptx)
    assert broken != made.build.ptx
    found = verified(broken, made.manifest, made.program, given)
    assert "tensor-map" in {finding.rule for finding in found.findings}


@pytest.mark.parametrize("apart, ahead", [(8, 0), (1, 0), (0, 1), (0, 8)])
def test_results_may_lie_anywhere(apart: int, ahead: int) -> None:
    """Rows that are further apart than they are long, behind other elements: by the TMA if in whole 16 bytes."""
    made, (given, (wanted,)) = emission("products", "products"), products([(64, 128, 64)])
    room = np.zeros(64 * (128 + apart) + ahead, np.float16)
    moved = {"results.pointee": room, "results": np.array([2 * ahead]), "strides": np.array([64, 128, 128 + apart])}
    arrays = {**given.arrays, **{name: array.astype(given.arrays[name].dtype) for name, array in moved.items()}}
    found = verified(made.build.ptx, made.manifest, made.program, replace(given, arrays=arrays))
    assert found.said() == []
    left = found.arrays["results.pointee"][ahead:].reshape(64, -1)
    assert np.allclose(left[:, :128], wanted, rtol=1e-2, atol=0.1)
    assert not left[:, 128:].any()


def test_a_walk_is_read_back_from_text() -> None:
    made = emission("products", "products").program
    assert made.program.walk is not None
    assert parse_tile(program_text(made.program)).walk == parse_tile(program_text(made.program.walk))
    assert parse(text(made), made.program) == made


def further(stmt: Stmt) -> Stmt:
    """A loop that ends one turn later."""
    if not isinstance(stmt, ScalarLoop):
        return stmt
    body = tuple(further(one) for one in stmt.body)
    inner = any(isinstance(one, ScalarLoop) for one in stmt.body)
    assert isinstance(stmt.condition, Apply)
    said = replace(stmt.condition, attributes=(("predicate", "le"), ("signed", 1)))
    return replace(stmt, body=body) if inner else replace(stmt, condition=said)


def test_a_wrong_walk_is_found() -> None:
    made = emission("products", "products").program
    assert verify(made, enough=1) == ()
    wrong = replace(made, walk=tuple(further(stmt) for stmt in made.walk))
    assert wrong != made
    assert verify(wrong, enough=1)


def test_sizes_are_made_up_by_what_they_let_programs_do() -> None:
    made = emission("products", "products").program
    problem = sidecar_problem(made.program)
    assert problem is not None
    steps = {int(max(0, k)) // 64 for one in launches(made, problem) for k in one.arrays["sizes"][2::3]}
    assert steps >= {0, 1, 2, 3}


def test_nothing_is_made_up_for_numbers_that_say_what_work_there_is() -> None:
    made = emission("products", "products").program
    elsewhere = replace(made, program=replace(made.program, file="nowhere.py"))
    with pytest.raises(UnknownProblem, match="the numbers in `sizes` say how often"):
        verify(elsewhere)


def test_an_order_of_instances_is_refused_where_programs_walk() -> None:
    made = extract(f"{KERNELS}::products", spec="products", order="dynamic")
    schedule = solve(made.graph, H100, SolveOptions(strategy="heuristic"))
    with pytest.raises(UnsupportedInKernel, match="in this order"):
        emit_scheduled(made, H100, schedule)


def test_modules_of_gluon_have_no_walk() -> None:
    with pytest.raises(NotInGluon, match="no loops around a kernel's work"):
        refuse_at_once(kernel("products", "products").program, "sm_90a")


HEAD = """
@triton.jit
def k(p, q, n, B: tl.constexpr):
    i = tl.arange(0, B)
"""
REFUSED = {
    "an address that is computed": (
        """
    x = (tl.load(p) * tl.load(q)).to(tl.pointer_type(tl.float32))
    tl.store(x + i, i.to(tl.float32))
""",
        UnsupportedOperation,
        "not loaded from one tensor of addresses",
    ),
    "addresses of two kinds of elements in one tensor": (
        """
    x, y = tl.load(p).to(tl.pointer_type(tl.float32)), tl.load(p + 1).to(tl.pointer_type(tl.float16))
    tl.store(x + i, tl.load(y + i).to(tl.float32))
""",
        UnsupportedOperation,
        "one element type for each tensor of addresses",
    ),
    "a tile of addresses": (
        """
    tl.store(tl.load(p + i).to(tl.pointer_type(tl.float32)), i.to(tl.float32))
""",
        UnsupportedOperation,
        "a tile of such pointers",
    ),
    "work that changes what there is to do": (
        """
    for g in range(n):
        for t in range(tl.load(p + g)):
            for s in range(t, tl.load(p + g)):
                for u in range(s):
                    tl.store(p + u * B + i, i.to(tl.int64))
""",
        TwillError,
        "a loop inside a loop",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_known_is_refused(kernel_file: Callable[..., str], name: str) -> None:
    body, error, words = REFUSED[name]
    with pytest.raises(error) as refused:
        extract(f"{kernel_file(HEAD + body)}::k", sig=["p=*i64", "q=*i64", "n=i32"], const=["B=64"])
    assert words in refused.value.describe()
    assert refused.value.line
