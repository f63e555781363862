"""Triton kernels become tile programs: goldens of every example, arguments, loops, and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import triton

from tests.conftest import GOLDEN, ROOT
from twill.exc import (
    AtomicResultUsed,
    DataDependentControlFlow,
    KernelDoesNotCompile,
    NestedLoop,
    TwillError,
    UnsupportedOperation,
)
from twill.kernel.specialization import list_specializations, resolve
from twill.kernel.ttir import ttir
from twill.tile import odd_sizes
from twill.tile.access.resolve import resolve_accesses
from twill.tile.program import Loop, Op, TileProgram, TileType
from twill.tile.text import program_text
from twill.tile.translate import operations
from twill.tile.translate.translate import from_mlir, tile_program
from twill.tile.vocabulary import ELEMENTWISE, MMA, RAW_ACCESS, REDUCE, SCAN, SOURCES, VIEWS

EXAMPLES = [
    (path.stem, spec)
    for path in sorted((ROOT / "examples").glob("*.py"))
    for spec in sorted(list_specializations(str(path)))
]
RAW_VOCABULARY = {*SOURCES, *VIEWS, *ELEMENTWISE, *REDUCE, *SCAN, *MMA, *RAW_ACCESS}


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(("stem", "spec"), EXAMPLES)
def test_tile_programs_of_the_examples(stem: str, spec: str, golden: Callable[[str, str], None]) -> None:
    program = odd_sizes.tile_program(resolve(f"examples/{stem}.py", spec=spec))
    assert {op.kind for op in program.ops()} <= RAW_VOCABULARY
    # Triton up to 3.8 spells -x as 0 - x, which has another sign of zero: another program where a kernel negates.
    negates = (GOLDEN / f"program_{stem}_{spec}-subtracted.txt").is_file()
    older = negates and not any(op.kind == "neg" for op in program.ops())
    golden(f"program_{stem}_{spec}{'-subtracted' if older else ''}.txt", program_text(program))


def translate(file: str, kernel: str = "k", **constants: int) -> TileProgram:
    const = [f"{name}={value}" for name, value in {"B": 16, **constants}.items()]
    return tile_program(resolve(f"{file}::{kernel}", sig=["out=*fp32:16", "n=i32"], const=const))


def kernel(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"@triton.jit\ndef k(out, n, B: tl.constexpr):\n    offs = tl.arange(0, B)\n{body}"


def kinds(program: TileProgram) -> list[str]:
    return [op.kind for op in program.ops() if op.kind not in ("splat", "range", "add_pointer", "constant")]


# Triton up to 3.8 makes one zero of a constant's two: of minus zero less x, too, it makes 0 - x.
NEGATION = "neg" if tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9) else "sub"
STORE = "tl.store(out + offs, x)"
LOAD = "x = tl.load(out + offs)"


def test_arguments_carry_names_types_and_divisibility(kernel_file: Callable[..., str]) -> None:
    source = """
    @triton.jit
    def k(desc, out, n):
        tl.store(out + n, tl.sum(desc.load([0, n])))
    """
    sig = ["desc=tensordesc<fp8e4nv[1, 128]>", "out=*fp32:16", "n=i32"]
    program = tile_program(resolve(kernel_file(source), sig=sig))
    assert [(a.name, a.type, a.divisibility) for a in program.arguments] == [
        ("desc", TileType((1, 128), "desc:f8e4m3"), 16),
        ("desc.shape.0", TileType((), "i32"), 1),
        ("desc.shape.1", TileType((), "i32"), 1),
        ("desc.stride.0", TileType((), "i64"), 16),
        ("desc.stride.1", TileType((), "i64"), 1),
        ("out", TileType((), "ptr:f32"), 16),
        ("n", TileType((), "i32"), 1),
    ]


def test_descriptors_made_in_the_kernel(kernel_file: Callable[..., str]) -> None:
    source = kernel("d = tl.make_tensor_descriptor(out, [n, 64], [64, 1], [B, 64])", "d.store([3, 0], d.load([0, 0]))")
    program = translate(kernel_file(source))
    made = next(op for op in program.ops() if op.kind == "make_descriptor")
    assert program.type_of(made.results[0]) == TileType((16, 64), "desc:f32")
    assert len(made.operands) == 5
    assert made.attribute("padding") == "zero"


def test_loops_carry_values_by_name_and_induction(kernel_file: Callable[..., str]) -> None:
    source = kernel("acc = tl.zeros([B], tl.float32)", "for i in range(3, n, 2):", "    acc += tl.load(out + offs + i)",
                    "tl.store(out + offs, acc)")  # fmt: skip
    program = translate(kernel_file(source))
    (loop,) = (item for item in program.body if isinstance(item, Loop))
    assert (loop.line, program.values[loop.induction].name) == (7, "i")
    (carry,) = loop.carried
    assert carry.name == "acc"
    assert program.type_of(carry.result) == TileType((16,), "f32")
    bounds = {op.results[0]: op.attribute("value") for op in program.ops() if op.kind == "constant"}
    assert (bounds[loop.lower], bounds[loop.step]) == (3, 2)
    assert program.values[loop.upper].name == "n"


def test_lines_in_an_inlined_helper_are_the_helpers(kernel_file: Callable[..., str]) -> None:
    source = "@triton.jit\ndef twice(x):\n    y = x * 2.0\n    return y\n" + kernel(LOAD, "x = twice(x)", STORE)
    product = next(op for op in translate(kernel_file(source)).ops() if op.kind == "mul")
    assert (product.line, product.name) == (5, "y")


def test_a_kernel_may_lie_in_a_directory_of_any_name(tmp_path: Path) -> None:
    """MLIR writes its path in bytes."""
    file = tmp_path / 'grö"ße\\' / "kernel.py"
    file.parent.mkdir()
    file.write_text("import triton\nimport triton.language as tl\n" + kernel(LOAD, STORE))
    assert [op.line for op in translate(str(file)).ops() if op.kind in ("load", "store")] == [6, 7]


def test_constants_are_pooled_folded_and_come_first(kernel_file: Callable[..., str]) -> None:
    source = kernel("x = tl.full([B], float('-inf'), tl.float32)", STORE, "tl.store(out + B + offs, x)")
    program = translate(kernel_file(source))
    constants = [op for op in program.ops() if op.kind == "constant"]
    assert constants == list(program.body[: len(constants)])
    values = [(op.attribute("value"), program.type_of(op.results[0])) for op in constants]
    assert (-math.inf, TileType((16,), "f32")) in values
    assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("tl.exp(x) + tl.exp2(x)", ["exp", "exp2", "add"]),
        ("tl.log(x) * tl.log2(x)", ["log", "log2", "mul"]),
        ("tl.sqrt(x) - tl.rsqrt(x)", ["sqrt", "rsqrt", "sub"]),
        ("tl.sin(x) / tl.cos(x)", ["sin", "cos", "div"]),
        ("tl.abs(tl.floor(x)) + tl.ceil(x)", ["floor", "abs", "ceil", "add"]),
        ("tl.erf(-0.0 - x)", [NEGATION, "erf"]),
        ("tl.erf(0.0 - x)", ["sub", "erf"]),  # of zero it is zero, not minus zero
        ("tl.fma(x, x, x)", ["fma"]),
        ("tl.clamp(x, 0.5, 1.0)", ["clamp"]),
        ("tl.maximum(x, tl.minimum(x, 2.0))", ["min", "max"]),
        ("tl.where(x > 0, x, 1.0)", ["compare", "select"]),
        ("x.to(tl.float16)", ["cast", "cast"]),
        ("x.to(tl.float8e4nv).to(tl.float32)", ["cast", "cast"]),
        ("(x.to(tl.int32, bitcast=True) >> 3) << 1", ["bitcast", "shr", "shl", "cast"]),
        ("((offs // n) % 3 & 5 | 2 ^ offs) + x", ["div", "rem", "and", "xor", "or", "cast", "add"]),
        ("tl.program_id(1) * tl.num_programs(2) + x", ["program_id", "num_programs", "mul", "cast", "add"]),
        ("tl.sum(x, 0) + tl.max(x, 0) + tl.min(x, 0) + x",
         ["reduce", "reduce", "add", "reduce", "add", "add"]),
        ("tl.cumsum(x, 0)", ["scan"]),
        ("tl.reshape(tl.trans(tl.reshape(x, [4, 4])), [B])", ["reshape", "transpose", "reshape"]),
        ("tl.div_rn(x, 3.0) + tl.sqrt_rn(x)", ["div", "sqrt", "add"]),
        ("tl.extra.cuda.libdevice.tanh(x) + tl.extra.cuda.libdevice.fast_expf(x)", ["tanh", "exp", "add"]),
        ("tl.extra.cuda.libdevice.pow(x, 2)", ["abs", "cast", "pow"]),
        ("tl.extra.cuda.libdevice.pow(x, 3)", ["abs", "cast", "pow", "bitcast", "compare", "neg", "select"]),
        ("tl.extra.cuda.libdevice.pow(x, x) + tl.extra.cuda.libdevice.atan2(x, x)", ["pow", "atan2", "add"]),
        ("tl.extra.cuda.libdevice.llrint(x).to(tl.int8)", ["rint", "cast", "cast", "cast"]),
        ("tl.where(tl.extra.cuda.libdevice.isinf(x), 1.0, x)", ["abs", "compare", "cast", "compare", "select"]),
        ("tl.where(tl.extra.cuda.libdevice.isnan(x), 1.0, x)", ["compare", "cast", "compare", "select"]),
        ("tl.umulhi(x.to(tl.int32), offs + 7)", ["cast", "add", "cast", "cast", "mul", "shr", "cast", "cast"]),
        ("tl.atomic_add(out + offs, x)", ["atomic_add"]),
        ("tl.atomic_add(out + offs, x, sem='relaxed', scope='cta')", ["atomic_add"]),
        ("tl.atomic_add(out + offs, x, sem='acq_rel', scope='gpu')", ["atomic_add"]),
    ],
)  # fmt: skip
def test_operations(kernel_file: Callable[..., str], expression: str, wanted: list[str]) -> None:
    program = translate(kernel_file(kernel(LOAD, f"x = {expression}", STORE)))
    made = kinds(program)
    assert made[0] == "load"
    assert made[-1] == "store"
    assert made[1:-1] == wanted


def test_splitting_makes_slices_of_the_last_axis(kernel_file: Callable[..., str]) -> None:
    swap = ("a, b = tl.split(tl.reshape(x, [8, 2]))", "x = tl.reshape(tl.join(b, a), [B])")
    program = translate(kernel_file(kernel(LOAD, *swap, STORE)))
    assert kinds(program) == ["load", "reshape", "slice", "slice", "join", "reshape", "store"]
    first, second = (op for op in program.ops() if op.kind == "slice")
    assert dict(first.attributes) == {"axis": 1, "index": 0}
    assert dict(second.attributes) == {"axis": 1, "index": 1}
    assert program.type_of(first.results[0]) == TileType((8,), "f32")
    join = next(op for op in program.ops() if op.kind == "join")
    assert join.operands == second.results + first.results


def test_combiners_keep_their_attributes(kernel_file: Callable[..., str]) -> None:
    source = kernel("x = offs * n", "y = tl.max(x, 0) + tl.xor_sum(x, 0) + tl.sum(tl.load(out + offs), 0)",
                    "tl.store(out, y)")  # fmt: skip
    reductions = [op for op in translate(kernel_file(source)).ops() if op.kind == "reduce"]
    assert [op.attribute("combine") for op in reductions] == ["max", "xor", "add"]
    assert reductions[0].attribute("signed") == 1
    assert all(op.attribute("axis") == 0 for op in reductions)


DOT = ("a = tl.load(out + offs[:, None] * B + offs[None, :])", "tl.store(out + offs[:, None] + offs[None, :], {})")


@pytest.mark.parametrize(
    ("product", "attributes"),
    [
        ("tl.dot(a, a)", {"precision": "tf32"}),
        ("tl.dot(a, a, input_precision='ieee')", {"precision": "ieee"}),
        ("tl.dot(a, a, input_precision='tf32x3')", {"precision": "tf32x3"}),
        ("tl.dot(a.to(tl.float16), a.to(tl.float16))", {"precision": "ieee"}),
    ],
)
def test_the_precision_of_products(kernel_file: Callable[..., str], product: str, attributes: dict[str, str]) -> None:
    program = translate(kernel_file(kernel(*(line.format(product) for line in DOT))))
    (dot,) = (op for op in program.ops() if op.kind == "dot")
    assert dict(dot.attributes) == attributes
    assert len(dot.operands) == 3


def test_products_of_fp8(kernel_file: Callable[..., str]) -> None:
    lines = (line.format("tl.dot(a.to(tl.float8e5), a.to(tl.float8e5))") for line in DOT)
    (dot,) = (op for op in translate(kernel_file(kernel(*lines)), B=32).ops() if op.kind == "dot")
    assert dot.attribute("precision") == "ieee"
    assert isinstance(dot.attribute("imprecise"), int)


@pytest.mark.parametrize(
    ("expression", "kind", "attributes"),
    [
        ("x / 3.0", "div", {}),
        ("tl.div_rn(x, 3.0)", "div", {"rounding": "rn"}),
        ("tl.sqrt(x)", "sqrt", {}),
        ("tl.sqrt_rn(x)", "sqrt", {"rounding": "rn"}),
        ("tl.extra.cuda.libdevice.sqrt(x)", "sqrt", {}),
        ("tl.exp(x)", "exp", {}),
        ("tl.extra.cuda.libdevice.exp(x)", "exp", {"accurate": 1}),
        ("tl.extra.cuda.libdevice.fast_expf(x)", "exp", {}),
        ("x.to(tl.bfloat16, fp_downcast_rounding='rtz')", "cast", {"rounding": "rtz"}),
        ("x.to(tl.float8e5, fp_downcast_rounding='rtz')", "cast", {"rounding": "rtz"}),
        ("tl.maximum(x, 1.0, propagate_nan=tl.PropagateNan.ALL)", "max", {"propagate_nan": 1}),
        ("tl.clamp(x, 0.0, 1.0, propagate_nan=tl.PropagateNan.ALL)", "clamp", {"propagate_nan": 1}),
        ("offs.to(tl.uint32) // n.to(tl.uint32)", "div", {"signed": 0}),
        ("offs.to(tl.uint32) % n.to(tl.uint32)", "rem", {"signed": 0}),
        ("offs.to(tl.uint32) >> n.to(tl.uint32)", "shr", {"signed": 0}),
        ("(offs.to(tl.uint32) < n.to(tl.uint32))", "compare", {"predicate": "lt", "signed": 0}),
        ("tl.maximum(offs.to(tl.uint32), n.to(tl.uint32))", "max", {"signed": 0}),
        ("(offs - n).to(tl.uint32).to(tl.float32)", "cast", {"signed": 0}),
        ("tl.max(offs.to(tl.uint32), 0)", "reduce", {"axis": 0, "combine": "max", "signed": 0}),
        ("tl.min(offs - n, 0)", "reduce", {"axis": 0, "combine": "min", "signed": 1}),
        ("tl.max(x, 0)", "reduce", {"axis": 0, "combine": "max"}),
        ("tl.reduce(x, 0, whole)", "reduce", {"axis": 0, "combine": "max", "propagate_nan": 1}),
        ("tl.associative_scan(x, 0, whole)", "scan", {"axis": 0, "combine": "max", "reverse": 0, "propagate_nan": 1}),
    ],
)
def test_what_tells_operations_of_a_kind_apart_is_kept(
    kernel_file: Callable[..., str], expression: str, kind: str, attributes: dict[str, object]
) -> None:
    combine = "@triton.jit\ndef whole(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"
    program = translate(kernel_file(combine + kernel(LOAD, f"x = {expression}", STORE)))
    found = [dict(op.attributes) for op in program.ops() if op.kind == kind]
    assert attributes in found


def test_reductions_through_descriptors_of_unsigned_numbers_are_unsigned(kernel_file: Callable[..., str]) -> None:
    source = kernel("desc.atomic_max([n, 0], tl.zeros([B, 32], {}))").replace("def k(", "def k(desc, ")
    for kind, word, wanted in (("u32", "tl.uint32", 0), ("i32", "tl.int32", 1)):
        file = kernel_file(source.format(word), name=f"{kind}.py")
        sig = [f"desc=tensordesc<{kind}[16, 32]>", "out=*fp32:16", "n=i32"]
        program = resolve_accesses(tile_program(resolve(f"{file}::k", sig=sig, const=["B=16"])))
        (op,) = (op for op in program.ops() if op.kind == "tile_reduce")
        assert program.arguments[0].type == TileType((16, 32), "desc:i32")
        assert dict(op.attributes).get("signed", 1) == wanted


def test_whether_products_may_be_fused_is_part_of_the_program(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kernel_file(kernel(LOAD, STORE))
    assert translate(file).fp_fusion
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    program = translate(file)
    assert not program.fp_fusion
    assert program_text(program).splitlines()[0].endswith(", no fp fusion")
    Path(file).with_suffix(".twill.toml").write_text(
        '[[specialization]]\nname = "fused"\nenable_fp_fusion = true\n'
        'signature = { out = "*fp32:16", n = "i32" }\nconstexprs = { B = 16 }\n'
    )
    assert tile_program(resolve(f"{file}::k", spec="fused")).fp_fusion


def test_fail_an_attribute_that_nothing_reads(kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version of Triton may say more about an operation than this one understands."""
    file = kernel_file(kernel(LOAD, "x = tl.cumsum(x, 0)", STORE))
    text = ttir(resolve(f"{file}::k", sig=["out=*fp32:16", "n=i32"], const=["B=16"]))
    assert "reverse = false" in text
    spec = resolve(f"{file}::k", sig=["out=*fp32:16", "n=i32"], const=["B=16"])
    with pytest.raises(UnsupportedOperation, match=r"tt\.scan with exclusive = 1") as raised:
        from_mlir(text.replace("reverse = false", "reverse = false, exclusive = true"), spec)
    assert (raised.value.file, raised.value.line) == (file, 7)


def test_assumptions_are_dropped_with_what_only_they_read(kernel_file: Callable[..., str]) -> None:
    with_hint = translate(kernel_file(kernel("tl.assume(n > 3)", LOAD, STORE)))
    without = translate(kernel_file(kernel("", LOAD, STORE), name="other.py"))
    assert kinds(with_hint) == kinds(without)


def test_waits_for_the_grid_in_front_are_those_that_every_kernel_has(kernel_file: Callable[..., str]) -> None:
    """As operations, and as the assembly that earlier versions of Triton have for them."""
    waits = ("extra.gdc_wait()", "extra.gdc_launch_dependents()", ASSEMBLY)
    for wait in waits:
        body = kernel(LOAD, wait, STORE)
        made = translate(kernel_file("import triton.language.extra.cuda as extra\n" + body))
        assert kinds(made) == ["load", "store"]


ASSEMBLY = (
    'tl.inline_asm_elementwise("griddepcontrol.wait; // dummy $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1)'
)


def test_barriers_mean_nothing_to_a_sequential_program(kernel_file: Callable[..., str]) -> None:
    assert kinds(translate(kernel_file(kernel(LOAD, "tl.debug_barrier()", STORE)))) == ["load", "store"]


@pytest.mark.parametrize(("rows", "columns", "loops"), [(3, 3, 9), (8, 8, 64), (16, 16, 16), (17, 17, None)])
def test_loops_around_loops_are_written_out_as_long_as_there_are_few(
    rows: int, columns: int, loops: int | None, kernel_file: Callable[..., str]
) -> None:
    """Beyond that the inner one of them is in each of what is left, as a nest that becomes one loop, or is refused."""
    lines = [
        LOAD,
        f"for i in range({rows}):",
        f"    for j in range({columns}):",
        "        for k in range(0, n, 64):",
        "            x += tl.load(out + offs + (i * 3 + j) * n + k)",
        STORE,
    ]
    if loops is None:
        with pytest.raises(NestedLoop, match="a loop inside a loop"):
            translate(kernel_file(kernel(*lines)))
        return
    program = translate(kernel_file(kernel(*lines)))
    assert sum(isinstance(item, Loop) for item in program.body) == loops


def test_unrolled_loops_have_simple_bounds(kernel_file: Callable[..., str]) -> None:
    source = kernel("for i in tl.range(0, n, loop_unroll_factor=2):", "    tl.store(out + i, 1.0)")
    program = translate(kernel_file(source))
    assert kinds(program) == ["rem", "sub", "store", "add", "store", "store"]


REFUSED = [
    (
        (LOAD, "while tl.atomic_cas(out + 7, 0.0, 1.0) == 1.0:", "    x = tl.load(out + offs)", STORE),
        DataDependentControlFlow, 7, "as for a lock", "in front of the tiles",
    ),
    (
        ("while n > 3:", "    tl.store(out + n * B + offs, 1.0)", "    n = tl.atomic_add(out, 1.0).to(tl.int32)"),
        DataDependentControlFlow, 6, "next turn depends on what an atomic operation gives", "of the launch grid",
    ),
    (
        ("while n > 0:", "    tl.store(out, n)", "    n = tl.sum(tl.load(out + tl.arange(0, B)).to(tl.int32), 0)"),
        DataDependentControlFlow, 6, "depends on tiles", "for i in range",
    ),
    (
        ("acc = 0", "for i in range(n):", "    for j in range(i):", "        for k in range(j):",
         "            acc += k", "tl.store(out, acc)"),
        NestedLoop, 9, "a loop inside a loop", "tl.static_range",
    ),
    (
        (LOAD, "x, y = tl.reduce((x, x), 0, crossed)", "tl.store(out, x + y)"),
        UnsupportedOperation, 7, "control flow", "tl.where",
    ),
    (("tl.device_print('n', n)", "tl.store(out, n)"), UnsupportedOperation, 6, "tl.device_print", "leave"),
    ((LOAD, "tl.atomic_cas(out + offs, x, x)"), AtomicResultUsed, 7, "tl.atomic_cas of a tile", "one number at a time"),
    (("x = tl.atomic_add(out, 1.0, scope='sys')", "tl.store(out, x)"),
     UnsupportedOperation, 6, "scope of the system", "gpu"),
    ((LOAD, "tl.atomic_add(out + offs, x, sem='release')"), UnsupportedOperation, 7, "release order", "relaxed"),
    ((LOAD, "tl.atomic_add(out + offs, x, sem='acquire')"), UnsupportedOperation, 7, "acquire or", "relaxed"),
    ((LOAD, "tl.atomic_add(out + offs, x, scope='sys')"), UnsupportedOperation, 7, "scope of the system", "gpu"),
    ((LOAD, "x = tl.load(out + offs, volatile=True)", STORE), UnsupportedOperation, 7, "volatile", "tl.load"),
    (("x = tl.load((out + offs).to(tl.pointer_type(tl.int16), bitcast=True))", STORE),
     UnsupportedOperation, 6, "a pointer of one type", "bitcast=True"),
    ((LOAD, "x = x.to(tl.float8e4nv, fp_downcast_rounding='rtz').to(tl.float32)", STORE),
     UnsupportedOperation, 7, "rtz", "rtne"),
    ((LOAD, "x = tl.extra.cuda.libdevice.j0(x)", STORE), UnsupportedOperation, 7, "__nv_j0", "tl.math"),
    (
        (LOAD, "x = tl.inline_asm_elementwise('foo.b32 $0, $1;', '=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)",
         STORE),
        UnsupportedOperation, 7, "tl.inline_asm_elementwise: `foo.b32`", "registers alone",
    ),
    (
        (LOAD, "tl.inline_asm_elementwise('nanosleep.u32 20; // $0', '=r', [], tl.int32, False, 1)", STORE),
        UnsupportedOperation, 7, "`nanosleep.u32`", "registers alone",
    ),
    (
        ("x = tl.zeros([32, B, B], tl.float32)", "x = tl.dot(x, x)",
         "tl.store(out + offs[None, :, None] + tl.zeros([32, B, B], tl.int32), x)"),
        UnsupportedOperation, 7, "more than 16 matrices", "launch grid",
    ),
]  # fmt: skip


CROSSED = "@triton.jit\ndef crossed(a, b, c, d):\n    while a > c:\n        a = a * 0.5 - 1\n    return a, b + d\n"


@pytest.mark.parametrize(("lines", "error", "line", "what", "hint"), REFUSED)
def test_fail_names_the_line_what_and_what_to_write_instead(
    kernel_file: Callable[..., str], lines: tuple[str, ...], error: type[TwillError], line: int, what: str, hint: str
) -> None:
    file = kernel_file(kernel(*lines) + CROSSED)
    with pytest.raises(error) as raised:
        translate(file)
    assert (raised.value.file, raised.value.line) == (f"{file}", line)
    assert what in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.exit_code == 2


SQUARES = ("i = tl.arange(0, 64)", "ij = i[:, None] * 64 + i[None, :]", "x = tl.load(out + ij)")


def test_fail_a_precision_that_triton_knows_and_the_table_of_precisions_does_not(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "PRECISIONS", operations.PRECISIONS[:-1])
    product = "x = tl.dot(x, x, input_precision='bf16x6')"
    with pytest.raises(UnsupportedOperation, match="another precision than tf32") as raised:
        translate(kernel_file(kernel(*SQUARES, product, "tl.store(out + ij, x)")))
    assert raised.value.line == 9
    assert "with one of these precisions" in raised.value.hint


@pytest.mark.parametrize(("left", "right"), [("int8", "bfloat16"), ("float16", "bfloat16"), ("int8", "uint8")])
def test_fail_products_of_types_that_no_mma_has(kernel_file: Callable[..., str], left: str, right: str) -> None:
    product = f"x = tl.dot(x.to(tl.{left}), x.to(tl.{right}))"
    file = kernel_file(kernel(*SQUARES, product, "tl.store(out + ij, x)"))
    with pytest.raises(KernelDoesNotCompile, match="Both operands must be same dtype") as raised:
        translate(file)
    assert (raised.value.file, raised.value.line) == (file, 9)
    assert raised.value.hint


def test_hints_about_caches_leave_a_load_what_it_is(kernel_file: Callable[..., str]) -> None:
    def source(load: str, store: str) -> str:
        return f"""
        @triton.jit
        def k(x, y, B: tl.constexpr):
            o = tl.arange(0, B)
            tl.store(y + o, tl.load(x + o{load}){store})
        """

    def body(text: str) -> tuple[Op | Loop, ...]:
        return tile_program(resolve(kernel_file(text), sig=["x=*fp32:16", "y=*fp32:16"], const=["B=64"])).body

    hinted = ', cache_modifier=".cg", eviction_policy="evict_first"', ', cache_modifier=".cs"'
    assert body(source(*hinted)) == body(source("", ""))


def test_a_kernel_of_more_operations_than_can_be_scheduled_is_refused_before_it_is_read(
    kernel_file: Callable[..., str],
) -> None:
    many = kernel_file(kernel(LOAD, "for _ in tl.static_range(9000):", "    x = x * 1.5", STORE))
    with pytest.raises(UnsupportedOperation, match="9... operations once its loops over constants are written out"):
        translate(many)
