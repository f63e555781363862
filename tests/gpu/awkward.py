"""What the code that Triton compiles gives for awkward values: every operation and type, as bits, in one JSON table.

    python tests/gpu/awkward.py > tests/gpu/awkward.json

Needs PyTorch, Triton and a GPU, and nothing of Twill; takes about half a minute. `python -m tests.generated.recorded`
holds the interpreter of tile programs, and what stands in for Triton's interpreter, against the table.

In the table everything is hexadecimal bits, the elements one after the other. Binary operations get every pair of
`pairs`, the left one outside; others get `singles`. With --ptx FILE the kernels are only compiled, without a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("fp16", "bf16", "fp32", "fp64")
FP8 = ("fp8e4nv", "fp8e5")
BITS = {"i1": 8, "fp16": 16, "bf16": 16, "fp32": 32, "fp64": 64, "fp8e4nv": 8, "fp8e5": 8,
        **{name: int(name[1:]) for name in INTEGERS}}  # fmt: skip
LANGUAGE = {"i1": "tl.int1", "fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32", "fp64": "tl.float64",
            "fp8e4nv": "tl.float8e4nv", "fp8e5": "tl.float8e5",
            **{name: f"tl.{'u' if name[0] == 'u' else ''}int{name[1:]}" for name in INTEGERS}}  # fmt: skip
PAIRS, SINGLES = 16, 64
ALL = "propagate_nan=tl.PropagateNan.ALL"

# ---------------------------------------------------------------- inputs, as bits
_SINGLE = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000,
    0xC0200000, 0x40E00000, 0x42FF0000, 0x43000000, 0xC3008000, 0x437F8000, 0x43960000, 0xC3960000,
    0x43E00000, 0x43E80000, 0x43E88000, 0x43F00000, 0x46FFFE00, 0x47000000, 0xC7000100, 0x47600000,
    0x47700000, 0x47700100, 0x477FE000, 0x477FEF00, 0x477FF000, 0x47800000, 0x47C35000, 0x4EFFFFFF,
    0x4F000000, 0xCF000000, 0xCF000001, 0x4F800000, 0x5F000000, 0xDF000001, 0x5F800000, 0x5F8AD6A0,
    0x7F7F0000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x33800000,
    0x38800000, 0x3B000000, 0x3AC00000, 0x3AAAAAAB, 0x40490FDB, 0x42B10000, 0xC2AF0000, 0xC2D00000,
    0x3F808000, 0x3F818000, 0x3F801000, 0x3F800001, 0x7F800000, 0xFF800000, 0x7FC00000, 0xC0A00000,
)  # fmt: skip
_PAIRED = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3DCCCCCD, 0x40E00000, 0xC0200000, 0x4B800001,
    0x7F7FFFFF, 0xFF7FFFFF, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00000,
)  # fmt: skip


# What the ten digits of tf32 leave of numbers, and the numbers that a sum with zeros does not leave alone.
_CUT = (
    0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F802000, 0x3F803000, 0xBF801FFF, 0x00000001, 0x007FFFFF,
    0x40490FDB, 0x7F7FFFFF, 0x33800001, 0x3DCCCCCD, 0x80000000, 0x47C35001, 0x3EAAAAAB, 0x4B800001,
)  # fmt: skip
_NOT_FINITE = (0x7F80, 0xFF80, 0x7FC0, 0x7C00, 0xFC00, 0x7FFF, 0x7F, 0x7C, 0xFC)


def _number(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _small(value: float, name: str) -> int:
    """The bits of a small float that is not far from the value; any would do, for the table says which it was."""
    single = struct.unpack("<I", struct.pack("<f", value))[0]
    if name == "bf16":
        return int(single >> 16)
    if value != value:
        return {"fp16": 0x7FFF, "fp8e5": 0x7F, "fp8e4nv": 0x7F}[name]
    if name in ("fp16", "fp8e5"):
        try:
            half = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            half = 0x7BFF | (0x8000 if value < 0 else 0)
        return int(half if name == "fp16" else half >> 8)
    sign = 0x80 if single >> 31 else 0
    size = min(abs(value), 448.0)
    return sign | min(range(0x7F), key=lambda code: abs(_e4m3(code) - size))


def _e4m3(code: int) -> float:
    power, steps = code >> 3, code & 7
    return float((steps + 8 if power else steps) * 2.0 ** (max(power, 1) - 10))


def values(name: str, count: int) -> list[int]:
    """The bits of `count` inputs of a type."""
    width = BITS[name]
    if name == "i1":
        return [index % 2 for index in range(count)]
    if name in INTEGERS:
        top = 1 << (width - 1)
        special = [0, 1, 2 * top - 1, top, top - 1, top + 1, 2, 3, 7, 2 * top - 2, 2 * top - 7, width - 1, width,
                   width + 1, 100, 2 * top - 100]  # fmt: skip
        more = [31, 32, 33, 63, 64, 65, 127, 128, 129, 255, *((0x9E3779B97F4A7C15 * k) >> 7 for k in range(1, 49))]
        return [value % (2 * top) for value in (special + more)[:count]]
    chosen = (_PAIRED if count == PAIRS else _SINGLE)[:count]
    if name == "fp32":
        return list(chosen)
    if name == "fp64":
        doubles = [struct.unpack("<Q", struct.pack("<d", _number(bits)))[0] for bits in chosen]
        odd = [0x7E37E43C8800759C, 0x0000000000000001, 0x4340000000000001, 0x3FF0000000000001, 0x3FF0100000001000]
        return [*doubles[: count - len(odd)], *odd] if count > PAIRS else doubles
    return [_small(_number(bits), name) for bits in chosen]


# ---------------------------------------------------------------- operations
def binary(name: str) -> dict[str, str]:
    """Operation -> expression of a and b; those of comparisons end in "?"."""
    known = {"add": "a + b", "sub": "a - b", "mul": "a * b", "rem": "a % b", "max": "tl.maximum(a, b)",
             "min": "tl.minimum(a, b)"}  # fmt: skip
    if name in INTEGERS:
        known |= {"div": "a // b", "shl": "a << b", "shr": "a >> b", "and": "a & b", "or": "a | b", "xor": "a ^ b"}
    else:
        known |= {"div": "a / b", "max_nan": f"tl.maximum(a, b, {ALL})", "min_nan": f"tl.minimum(a, b, {ALL})",
                  "fma": "tl.fma(a, b, a)", "mul add": "a * b + a", "clamp": "tl.clamp(a, b, 2.0)",
                  "clamp_nan": f"tl.clamp(a, b, 2.0, {ALL})"}  # fmt: skip
    if name == "fp32":
        known |= {"div_rn": "tl.div_rn(a, b)"}
    signs = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
    return known | {f"{word}?": f"a {sign} b" for word, sign in signs.items()}


def unary(name: str) -> dict[str, str]:
    """Operation -> expression of a."""
    known = {"neg": "-a", "abs": "tl.abs(a)"}
    if name in INTEGERS:
        return known | {"not": "~a"}
    if name in ("fp32", "fp64"):
        known |= {word: f"tl.{word}(a)" for word in ("floor", "ceil", "sqrt", "rsqrt", "exp", "exp2", "log", "log2",
                                                    "sin", "cos", "erf")}  # fmt: skip
        known |= {f"libdevice {word}": f"libdevice.{word}(a)" for word in ("exp", "sqrt", "tanh", "rsqrt")}
    if name == "fp32":
        known |= {"sqrt_rn": "tl.sqrt_rn(a)"}
    return known


def casts(name: str) -> Iterator[tuple[str, str, str]]:
    """(operation, expression of a, type of the result) of every conversion that Triton compiles."""
    for wanted in ("i1", *INTEGERS, *FLOATS, *FP8):
        both = {name, wanted}
        if wanted == name or (both & set(FP8) and not both - set(FP8) <= {"fp16", "bf16", "fp32"}) or both <= set(FP8):
            continue
        yield f"cast {wanted}", f"a.to({LANGUAGE[wanted]})", wanted
        if name == "fp32" and wanted in ("fp16", "bf16", "fp8e5"):
            yield f"cast {wanted} rtz", f'a.to({LANGUAGE[wanted]}, fp_downcast_rounding="rtz")', wanted


def reductions(name: str) -> dict[str, str]:
    """Operation -> expression of the 16 x 16 tile a, reduced along its columns."""
    known = {"reduce max": "tl.max(a, 1)", "reduce min": "tl.min(a, 1)"}
    if name in FLOATS:
        return known | {"reduce max_nan": "tl.reduce(a, 1, whole_max)", "reduce min_nan": "tl.reduce(a, 1, whole_min)"}
    return known | {"reduce sum": "tl.sum(a, 1)", "reduce xor": "tl.xor_sum(a, 1)"}


HEAD = f"""import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def whole_max(a, b):
    return tl.maximum(a, b, {ALL})


@triton.jit
def whole_min(a, b):
    return tl.minimum(a, b, {ALL})


"""


class Kernel:
    """The text of one kernel, its outputs (operation, type, elements), and its arguments."""

    def __init__(self, name: str, inputs: list[tuple[str, list[int]]], loads: list[str]) -> None:
        self.name, self.inputs = name, inputs
        self.outputs: list[tuple[str, str, int]] = []
        self.lines = loads

    def add(self, operation: str, text: str, dtype: str, size: int, index: str) -> None:
        """One more result."""
        stored = "i8" if dtype == "i1" else dtype
        cast = f"({text}).to({LANGUAGE[stored]})" if dtype in ("i1", "cast") else text
        self.lines.append(f"    tl.store(y{len(self.outputs)} + {index}, {cast})")
        self.outputs.append((operation, stored, size))

    def source(self) -> str:
        """A Triton kernel."""
        names = [f"x{n}" for n in range(len(self.inputs))] + [f"y{n}" for n in range(len(self.outputs))]
        return f"@triton.jit\ndef {self.name}({', '.join(names)}):\n" + "\n".join(self.lines) + "\n"


def kernels() -> Iterator[Kernel]:
    """Every kernel."""
    for name in (*INTEGERS, *FLOATS):
        pairs = values(name, PAIRS)
        left = [a for a, _ in itertools.product(pairs, pairs)]
        right = [b for _, b in itertools.product(pairs, pairs)]
        size = PAIRS * PAIRS
        loads = [f"    i = tl.arange(0, {size})", "    a = tl.load(x0 + i)", "    b = tl.load(x1 + i)"]
        kernel = Kernel(f"binary_{name}", [(name, left), (name, right)], loads)
        for operation, text in binary(name).items():
            kernel.add(operation, text, "i1" if operation.endswith("?") else name, size, "i")
        yield kernel
        rows = Kernel(f"rows_{name}", [(name, left)], [
            f"    i = tl.arange(0, {PAIRS})", f"    a = tl.load(x0 + (i[:, None] * 7 + i[None, :] * 17) % {size})"
        ])  # fmt: skip
        for operation, text in reductions(name).items():
            rows.add(operation, f"({text}).to({LANGUAGE[name]})", name, PAIRS, "i")
        yield rows
    for name in ("i1", *INTEGERS, *FLOATS, *FP8):
        kernel = Kernel(f"unary_{name}", [(name, values(name, SINGLES))],
                        [f"    i = tl.arange(0, {SINGLES})", "    a = tl.load(x0 + i)"])  # fmt: skip
        for operation, text in unary(name).items() if name in (*INTEGERS, *FLOATS) else ():
            kernel.add(operation, text, name, SINGLES, "i")
        for operation, text, dtype in casts(name):
            kernel.add(operation, text, dtype, SINGLES, "i")
        yield kernel
    yield from products()


def products() -> Iterator[Kernel]:
    """Products with one term each, so that no order of sums matters: what becomes of the operands."""
    for name, total in (("fp16", "fp32"), ("fp16", "fp16"), ("bf16", "fp32"), ("fp32", "fp32"), ("fp8e4nv", "fp32"),
                        ("fp8e5", "fp32"), ("i8", "i32")):  # fmt: skip
        one = {"fp16": 0x3C00, "bf16": 0x3F80, "fp32": 0x3F800000, "fp8e4nv": 0x38, "fp8e5": 0x3C, "i8": 1}[name]
        plain = list(_CUT) if name == "fp32" else values(name, PAIRS)
        finite = [one if name != "i8" and value in _NOT_FINITE else value for value in plain]
        left = [finite[row % 16] if column == row % 64 else 0 for row in range(64) for column in range(64)]
        right = [one if row == column else 0 for row in range(64) for column in range(64)]
        kernel = Kernel(f"dot_{name}_{total}", [(name, left), (name, right)], [
            "    i = tl.arange(0, 64)", "    ij = i[:, None] * 64 + i[None, :]",
            "    a = tl.load(x0 + ij)", "    b = tl.load(x1 + ij)",
        ])  # fmt: skip
        words = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6") if name == "fp32" else ("ieee",)
        for word in words:
            text = f'tl.sum(tl.dot(a, b, out_dtype={LANGUAGE[total]}, input_precision="{word}"), 1)'
            operation = f"dot {word} -> {total}"
            kernel.add(operation, f"({text}).to({LANGUAGE[total]})", total, 64, "i")
        yield kernel


# ---------------------------------------------------------------- running
def module_of(every: list[Kernel], directory: str) -> ModuleType:
    """The kernels as a module of Python, which Triton reads the source of."""
    path = Path(directory) / "awkward_kernels.py"
    path.write_text(HEAD + "\n\n".join(kernel.source() for kernel in every), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("awkward_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["awkward_kernels"] = module
    spec.loader.exec_module(module)
    return module


def on_gpu(every: list[Kernel], module: ModuleType) -> dict[str, Any]:
    """The table."""
    import torch
    import triton
    import triton.language as tl

    torch_of = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
    language = {name: getattr(tl, text.removeprefix("tl.")) for name, text in LANGUAGE.items()}
    results: dict[str, Any] = {}
    for kernel in every:
        arrays, outputs = [], []
        for dtype, bits in kernel.inputs:
            width = BITS[dtype]
            signed = [value - (1 << width) if value >> (width - 1) else value for value in bits]
            arrays.append(torch.tensor(signed, dtype=torch_of[width], device="cuda"))
        for _, dtype, size in kernel.outputs:
            outputs.append(torch.zeros(size, dtype=torch_of[BITS[dtype]], device="cuda"))
        kinds = [dtype for dtype, _ in kernel.inputs] + [dtype for _, dtype, _ in kernel.outputs]
        given = [triton.reinterpret(one, language[kind]) for one, kind in zip([*arrays, *outputs], kinds, strict=True)]
        try:
            getattr(module, kernel.name)[(1,)](*given)
            torch.cuda.synchronize()
        except Exception as error:  # one that Triton cannot compile is worth knowing, too
            results[kernel.name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            continue
        source = kernel.name.split("_")[1]
        for (operation, dtype, _), array in zip(kernel.outputs, outputs, strict=True):
            results[f"{operation} {source} -> {dtype}"] = hexadecimal(array.tolist(), BITS[dtype])
    return {"device": torch.cuda.get_device_name(), "triton": triton.__version__, "results": results}


def hexadecimal(numbers: list[int], width: int) -> str:
    """The bits of integers of a width, one after the other."""
    return "".join(f"{number % (1 << width):0{width // 4}x}" for number in numbers)


def to_ptx(every: list[Kernel], module: ModuleType) -> str:
    """The PTX of every kernel for sm_90a."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    texts = []
    for kernel in every:
        options = backend.parse_options({"enable_fp_fusion": True})
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        kinds = [f"*{dtype}" for dtype, _ in kernel.inputs] + [f"*{dtype}" for _, dtype, _ in kernel.outputs]
        function = getattr(module, kernel.name)
        source = ASTSource(function, dict(zip(function.arg_names, kinds, strict=True)), {}, {})
        implementation, modules = backend.get_codegen_implementation(options), backend.get_module_map()
        code = source.make_ir(target, options, implementation, modules, context)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, source.language)
        about: dict[str, Any] = {}
        for stage in ("ttir", "ttgir", "llir", "ptx"):
            code = stages[stage](code, about)
        texts.append(f"// {kernel.name}\n{code}")
    return "\n".join(texts)


def main() -> None:
    """Prints the table, or writes the PTX."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ptx", help="compile the kernels to PTX only, into this file")
    arguments = parser.parse_args()
    every = list(kernels())
    with tempfile.TemporaryDirectory() as directory:
        module = module_of(every, directory)
        if arguments.ptx:
            Path(arguments.ptx).write_text(to_ptx(every, module), encoding="utf-8")
            return
        table = on_gpu(every, module)
    given = {
        name: {"pairs": hexadecimal(values(name, PAIRS), BITS[name]),
               "singles": hexadecimal(values(name, SINGLES), BITS[name])}
        for name in ("i1", *INTEGERS, *FLOATS, *FP8)
    }  # fmt: skip
    print(json.dumps({**table, "inputs": given}, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
