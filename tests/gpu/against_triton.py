"""Emitted kernels of all classes beside Triton's own, on a GPU: gathers, control flow, scans, small products.

    python -m tests.gpu.against_triton build DIR [WORD...]   # anywhere: solves and emits every kernel into DIR
    python -m tests.gpu.against_triton run DIR [WORD...]     # on a GPU; exit code 1 if one is not as it should be

Each case runs both kernels on the same random data. Where sums are made in the same order results must have equal bits,
elsewhere the error against float64 may be 1.2 times Triton's. Emitted launches are repeated and must not differ.
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
GATHERS, FLOW, VIEWS = ROOT / "gather_kernels.py", ROOT / "gpu" / "flow_kernels.py", ROOT / "gpu" / "view_kernels.py"
MACHINE = "h200"
LAUNCHES = 20
RATIO = 1.2  # of the errors

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """args: makes the arguments that are no constants, in order, and the grid. outs: those that the kernel writes.
    exact: sums in the same order as Triton's. wanted: the result in float64. timed: whether times are of interest."""

    name: str
    file: Path
    kernel: str
    const: Arguments
    args: Callable[[], tuple[Arguments, tuple[int, ...]]]
    outs: tuple[str, ...]
    sig: tuple[str, ...] = ()
    spec: str = ""
    exact: bool = True
    wanted: Callable[[Arguments], Any] | None = None
    timed: bool = False


def cases() -> list[Case]:
    """All of them; what needs PyTorch is not run before it is asked for."""
    gemm = (
        "a_ptr=*fp16:16", "b_ptr=*fp16:16", "c_ptr=*fp16:16", "M=i32", "N=i32", "K=i32:16", "sa=i32:16", "sb=i32:16",
        "sc=i32:16",
    )  # fmt: skip
    tiles = {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8}
    found = [
        Case(f"{kernel} {'x'.join(map(str, size))}", FLOW, kernel, const, multiply(size, const, persistent),
             ("c_ptr",), gemm, exact=False, wanted=product, timed=size[0] >= 16 and size[1] >= 4096)
        for kernel, persistent, const, sizes in (
            ("persistent_gemm", True, {**tiles, "SMS": 132}, ((128, 128, 64), (1000, 520, 336), (4096, 4096, 4096))),
            ("plain_gemm", False, tiles, ((1000, 520, 336), (4096, 4096, 4096))),
            ("plain_gemm", False, {**tiles, "BM": 16}, ((16, 8192, 8192), (40, 520, 336))),
            ("plain_gemm", False, {**tiles, "BM": 32}, ((32, 8192, 8192),)),
        )
        for size in sizes
    ]  # fmt: skip
    found += [
        Case("scan", FLOW, "running_sums", {"BLOCK": 1024}, scan, ("y_ptr",),
             ("x_ptr=*fp32:16", "y_ptr=*fp32:16", "columns=i32"), exact=False,
             wanted=lambda a: a["x_ptr"].double().cumsum(1)),
        Case("loaded bounds", FLOW, "sequences", {"D": 256}, sequences, ("y_ptr",),
             ("x_ptr=*fp32:16", "ends_ptr=*i32:16", "y_ptr=*fp32:16")),
        Case("loop in a loop", FLOW, "powers", {"D": 256}, powers, ("y_ptr",),
             ("x_ptr=*fp32:16", "y_ptr=*fp32:16", "rows=i32", "times=i32")),
        Case("first of the largest", FLOW, "largest", {"R": 16, "C": 64}, ties, ("most_ptr", "where_ptr", "least_ptr"),
             ("x_ptr=*fp32:16", "most_ptr=*fp32:16", "where_ptr=*i32:16", "least_ptr=*i32:16")),
    ]  # fmt: skip
    scaled = (
        "a_ptr=*fp8e4nv:16", "b_ptr=*fp8e4nv:16", "as_ptr=*fp32:16", "bs_ptr=*fp32:16", "c_ptr=*bf16:16", "M=i32:16",
        "N=i32:16", "K=i32:16",
    )  # fmt: skip
    found += [
        Case(f"block_scaled {'x'.join(map(str, size))}", FLOW, "block_scaled", {"BM": 128, "BN": 128, "BK": 128},
             scales(*size), ("c_ptr",), scaled, exact=False, wanted=scaled_product, timed=size[0] >= 4096)
        for size in ((272, 400, 528), (4096, 4096, 7168))
    ]  # fmt: skip
    return found + counted() + scattered() + views() + gathers()


def counted() -> list[Case]:
    """Loops that are written as `while`."""
    return [
        Case("while gemm", FLOW, "while_gemm", {"B": 64, "PROGRAMS": 8}, squares, ("c_ptr",),
             ("a_ptr=*fp16:16", "b_ptr=*fp16:16", "c_ptr=*fp16:16", "tiles=i32", "K=i32:16"), exact=False,
             wanted=lambda a: a["a_ptr"].double() @ a["b_ptr"].double()),
        Case("while down", FLOW, "while_down", {"D": 256}, sequences, ("y_ptr",),
             ("x_ptr=*fp32:16", "ends_ptr=*i32:16", "y_ptr=*fp32:16")),
    ]  # fmt: skip


def scattered() -> list[Case]:
    """Stores and atomic operations where data says, and atomics of floats and unsigned numbers."""
    return [
        Case("histogram", FLOW, "histogram", {"BLOCK": 1024}, bins, ("y_ptr",),
             ("x_ptr=*i32:16", "y_ptr=*i32:16", "n=i32")),
        *(Case(f"extremes {kind}", FLOW, "extremes", {"BLOCK": 1024}, edges(dtype), ("most_ptr", "least_ptr"),
               (f"x_ptr=*{kind}:16", f"most_ptr=*{kind}:16", f"least_ptr=*{kind}:16", "n=i32"))
          for kind, dtype in (("fp32", "float32"), ("i32", "int32"), ("u32", "uint32"), ("fp64", "float64"))),
        Case("keep positive", FLOW, "keep_positive", {"BLOCK": 256}, positive, ("y_ptr",),
             ("x_ptr=*fp32:16", "y_ptr=*fp32:16")),
    ]  # fmt: skip


def views() -> list[Case]:
    """Elements that move between threads: 4,000 tiles, so that every CTA has many, one after the other."""

    def tiles(rows: int, columns: int) -> Callable[[], tuple[Arguments, tuple[int, ...]]]:
        return lambda: ({"x_ptr": normal(4000 * rows, columns), "y_ptr": zeros(4000 * rows, columns)}, (4000,))

    sizes = {"rotated": (32, 64), "halves": (16, 64), "grouped": (16, 256), "ordered": (4, 16), "recurrence": (8, 16)}
    return [
        Case(kernel, VIEWS, kernel, {"R": rows, "C": columns}, tiles(rows, columns), ("y_ptr",),
             ("x_ptr=*fp32:16", "y_ptr=*fp32:16"), exact=kernel != "recurrence",
             wanted=recurred if kernel == "recurrence" else None)
        for kernel, (rows, columns) in sizes.items()
    ]  # fmt: skip


def recurred(a: Arguments) -> Any:
    """h = x/4 h + x along rows, in float64."""
    x = a["x_ptr"].double()
    h = x.clone()
    for column in range(1, x.shape[1]):
        h[:, column] += x[:, column] / 4 * h[:, column - 1]
    return h


def gathers() -> list[Case]:
    """Those of tests/gather_kernels.py; constants are its sidecar's."""

    def one(spec: str, args: Callable[[], tuple[Arguments, tuple[int, ...]]], const: Arguments, **more: Any) -> Case:
        kernel = spec.partition("-")[0]
        out = ("c_ptr",) if kernel == "routed_gemm" else ("y_ptr",)
        return Case(spec, GATHERS, kernel, const, args, out, spec=spec, **more)

    return [
        one("gather_rows", gather("bfloat16", "int32", 128, 16), {"D": 128, "BLOCK": 16}),
        one("gather_rows-wide", gather("float16", "int64", 64, 32), {"D": 64, "BLOCK": 32}),
        one("scatter_rows", scatter, {"D": 64, "BLOCK": 32}),
        one("table", lookup, {"BLOCK": 128}),
        one("pages", pages, {"D": 64, "PAGE": 64}),
        one(
            "routed_gemm", routed, {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "TOP": 2}, exact=False, wanted=experts
        ),
    ]


# ---------------------------------------------------------------- arguments


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    """Random numbers on the GPU."""
    torch = importlib.import_module("torch")
    made = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, device="cuda", generator=made).to(getattr(torch, dtype))


def below(count: int, *shape: int, dtype: str = "int32", seed: int = 0) -> Any:
    """Random indices on the GPU."""
    torch = importlib.import_module("torch")
    made = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randint(0, count, shape, device="cuda", generator=made).to(getattr(torch, dtype))


def zeros(*shape: int, dtype: str = "float32") -> Any:
    """Where a kernel writes."""
    torch = importlib.import_module("torch")
    return torch.zeros(*shape, device="cuda", dtype=getattr(torch, dtype))


def multiply(
    size: tuple[int, int, int], const: Arguments, persistent: bool
) -> Callable[[], tuple[Arguments, tuple[int, ...]]]:
    """Of a GEMM."""
    m, n, k = size

    def args() -> tuple[Arguments, tuple[int, ...]]:
        width = -(-n // 16) * 16
        a, b = normal(m, k, dtype="float16"), normal(k, width, dtype="float16", seed=1)
        tiles = -(-m // const["BM"]) * -(-n // const["BN"])
        strides = {"sa": k, "sb": width, "sc": width}
        given = {"a_ptr": a, "b_ptr": b, "c_ptr": zeros(m, width, dtype="float16"), "M": m, "N": n, "K": k, **strides}
        return given, (min(tiles, const["SMS"]) if persistent else tiles,)

    return args


def product(a: Arguments) -> Any:
    """In float64, zeros beyond N."""
    full = a["a_ptr"].double() @ a["b_ptr"].double()
    full[:, a["N"] :] = 0
    return full


def scan() -> tuple[Arguments, tuple[int, ...]]:
    """Rows of 1,000 numbers."""
    return {"x_ptr": normal(37, 1000), "y_ptr": zeros(37, 1000), "columns": 1000}, (37,)


def sequences() -> tuple[Arguments, tuple[int, ...]]:
    """Sequences of 0 to 90 steps."""
    torch = importlib.import_module("torch")
    ends = torch.tensor([0, 0, 3, 93, 94, 130, 130, 200], device="cuda", dtype=torch.int32)
    return {"x_ptr": normal(200, 256), "ends_ptr": ends, "y_ptr": zeros(200, 256)}, (7,)


def squares() -> tuple[Arguments, tuple[int, ...]]:
    """21 tiles of rows times one matrix."""
    a, b = normal(21 * 64, 256, dtype="float16"), normal(256, 64, dtype="float16")
    return {"a_ptr": a, "b_ptr": b, "c_ptr": zeros(21 * 64, 64, dtype="float16"), "tiles": 21, "K": 256}, (8,)


def bins() -> tuple[Arguments, tuple[int, ...]]:
    """100,000 numbers below 1000."""
    return {"x_ptr": below(1000, 98 * 1024), "y_ptr": zeros(64, dtype="int32"), "n": 100_000}, (98,)


def edges(dtype: str) -> Callable[[], tuple[Arguments, tuple[int, ...]]]:
    """100,000 numbers of both signs."""

    def args() -> tuple[Arguments, tuple[int, ...]]:
        torch = importlib.import_module("torch")
        x = (normal(98 * 1024, dtype="float64") * 1e9).to(torch.int64)
        x = x.to(torch.int32).view(torch.uint32) if dtype == "uint32" else x.to(getattr(torch, dtype))
        most, least = x[:64].clone(), x[64:128].clone()
        return {"x_ptr": x, "most_ptr": most, "least_ptr": least, "n": 100_000}, (98,)

    return args


def positive() -> tuple[Arguments, tuple[int, ...]]:
    """20 blocks."""
    return {"x_ptr": normal(20 * 256), "y_ptr": zeros(20 * 256)}, (20,)


def powers() -> tuple[Arguments, tuple[int, ...]]:
    """23 rows to the fifth power."""
    return {"x_ptr": normal(23, 256), "y_ptr": zeros(256), "rows": 23, "times": 5}, (3,)


def ties() -> tuple[Arguments, tuple[int, ...]]:
    """40 tiles of numbers of which many are the same."""
    x = normal(40 * 16, 64).mul(2).round()
    return {
        "x_ptr": x, "most_ptr": zeros(640), "where_ptr": zeros(640, dtype="int32"),
        "least_ptr": zeros(2560, dtype="int32"),
    }, (40,)  # fmt: skip


def scales(m: int, n: int, k: int) -> Callable[[], tuple[Arguments, tuple[int, ...]]]:
    """Of a product of fp8 with a scale for each 128 of K."""

    def args() -> tuple[Arguments, tuple[int, ...]]:
        steps = -(-k // 128)
        given = {
            "a_ptr": normal(m, k, dtype="float8_e4m3fn"), "b_ptr": normal(n, k, dtype="float8_e4m3fn", seed=1),
            "as_ptr": normal(m, steps, seed=2).exp(), "bs_ptr": normal(-(-n // 128), steps, seed=3).exp(),
            "c_ptr": zeros(m, n, dtype="bfloat16"), "M": m, "N": n, "K": k,
        }  # fmt: skip
        return given, (-(-m // 128), -(-n // 128))

    return args


def scaled_product(a: Arguments) -> Any:
    """In float64."""
    m, n, k = a["M"], a["N"], a["K"]
    rows = a["as_ptr"].double().repeat_interleave(128, 1)[:, :k]
    columns = a["bs_ptr"].double().repeat_interleave(128, 1)[:, :k].repeat_interleave(128, 0)[:n]
    return (a["a_ptr"].double()[:m] * rows) @ (a["b_ptr"].double() * columns).T


def gather(dtype: str, index: str, d: int, block: int) -> Callable[[], tuple[Arguments, tuple[int, ...]]]:
    """An embedding of 1,001 rows."""

    def args() -> tuple[Arguments, tuple[int, ...]]:
        x, rows = normal(500, 2 * d, dtype=dtype), below(500, 1024, dtype=index)
        return {"x_ptr": x, "rows_ptr": rows, "y_ptr": zeros(1024, d, dtype=dtype), "n": 1001, "stride": 2 * d}, (
            -(-1001 // block),
        )

    return args


def scatter() -> tuple[Arguments, tuple[int, ...]]:
    """Each row once."""
    torch = importlib.import_module("torch")
    rows = torch.randperm(1024, device="cuda", generator=torch.Generator(device="cuda").manual_seed(5)).int()
    return {"x_ptr": normal(1024, 64), "rows_ptr": rows, "y_ptr": zeros(1024, 64), "n": 1024, "stride": 64}, (32,)


def lookup() -> tuple[Arguments, tuple[int, ...]]:
    """A table inside of a table."""
    return {"x_ptr": below(1000, 1024), "y_ptr": zeros(1024, dtype="int32")}, (8,)


def pages() -> tuple[Arguments, tuple[int, ...]]:
    """9 pages of 64 x 64 for each of 50 programs."""
    given = {"k_ptr": normal(100 * 64, 64, dtype="bfloat16"), "table_ptr": below(100, 450), "scale_ptr": normal(450)}
    return {**given, "y_ptr": zeros(50 * 64, 64), "n": 9, "stride": 4096}, (50,)


def routed() -> tuple[Arguments, tuple[int, ...]]:
    """Eight experts, 300 of 512 places taken."""
    torch = importlib.import_module("torch")
    order = torch.randperm(512, device="cuda", generator=torch.Generator(device="cuda").manual_seed(5)).int()
    given = {
        "a_ptr": normal(256, 336, dtype="bfloat16"), "b_ptr": normal(8, 336, 256, dtype="bfloat16", seed=1),
        "c_ptr": zeros(512, 256, dtype="bfloat16"), "token_ptr": order, "expert_ptr": below(8, 8),
    }  # fmt: skip
    strides = {"sa": 336, "sbe": 336 * 256, "sbk": 256, "sc": 256}
    return {**given, "n": 300, "K": 336, **strides}, (8, 4)


def experts(a: Arguments) -> Any:
    """In float64."""
    torch = importlib.import_module("torch")
    out = torch.zeros(512, 256, device="cuda", dtype=torch.float64)
    for place, token in enumerate(a["token_ptr"].tolist()):
        if token < a["n"]:
            expert = a["b_ptr"][a["expert_ptr"][place // 64]].double()
            out[token] = a["a_ptr"][token // 2].double() @ expert
    return out


# ---------------------------------------------------------------- commands


def folder(place: Path, case: Case) -> Path:
    """Of its emitted kernel."""
    rows = f"-{case.const['BM']}" if "BM" in case.const else ""
    element = f"-{case.sig[0].split('*')[1].split(':')[0]}" if case.kernel == "extremes" else ""
    return place / f"{case.spec or case.kernel}{rows}{element}"


def build(place: Path, chosen: Sequence[Case]) -> int:
    """Emit every kernel that is not there yet."""
    failed = 0
    for case in chosen:
        out = folder(place, case)
        if out.exists():
            continue
        words = ["--spec", case.spec] if case.spec else []
        words += [word for one in case.sig for word in ("--sig", one)]
        words += [] if case.spec else [word for n, v in case.const.items() for word in ("--const", f"{n}={v}")]
        command = [sys.executable, "-m", "twill", "emit", f"{case.file}::{case.kernel}", "--machine", MACHINE, *words]
        done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
        failed += bool(done.returncode)
        print(f"{case.name}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", flush=True)
    return int(failed > 0)


def compare(place: Path, case: Case) -> str:
    """What is wrong with a case; "" if nothing is. Prints a line."""
    torch, triton = importlib.import_module("torch"), importlib.import_module("triton")
    from twill.runtime.kernel import EmittedKernel

    spec = importlib.util.spec_from_file_location(case.file.stem, case.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    emitted, original = EmittedKernel.load(folder(place, case)), getattr(module, case.kernel)
    given, grid = case.args()

    def fresh() -> Arguments:
        return {name: value.clone() if name in case.outs else value for name, value in given.items()}

    theirs, results = fresh(), []
    original[grid](**theirs, **case.const, num_warps=4)
    for _ in range(LAUNCHES):
        ours = fresh()
        emitted[grid](**ours)
        results.append([ours[name] for name in case.outs])
    torch.cuda.synchronize()
    same = all(torch.equal(a, b) for one in results[1:] for a, b in zip(one, results[0], strict=True))
    equal = all(torch.equal(theirs[name], ours[name]) for name in case.outs)
    said = ["equal bits" if equal else "other bits", "" if same else "launches differ"]
    wrong = "" if same and (equal or not case.exact) else "wrong"
    if case.wanted is not None:
        wanted = case.wanted(given)
        errors = [float((one[case.outs[0]].double() - wanted).norm() / wanted.norm()) for one in (ours, theirs)]
        said.append(f"error {errors[0]:.2e}, Triton's {errors[1]:.2e}")
        wrong = wrong or ("" if errors[0] <= RATIO * errors[1] + 1e-12 else "wrong")
    if case.timed:
        first, second = (
            timed(torch, lambda: emitted[grid](**ours)),
            timed(torch, lambda: original[grid](**theirs, **case.const, num_warps=8, num_stages=3)),
        )
        said.append(f"{first:.1f} µs, Triton's {second:.1f} µs ({second / first:.2f})")
    print(f"{case.name}: {', '.join(filter(None, [wrong or 'ok', *said]))} (Triton {triton.__version__})", flush=True)
    return wrong


def timed(torch: Any, launch: Callable[[], None]) -> float:
    """Microseconds: the median of 20 times 10 launches."""
    times: list[float] = []
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            launch()
        end.record()
        torch.cuda.synchronize()
        times.append(float(begin.elapsed_time(end)) * 100)
    return statistics.median(times)


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    what, place, *rest = words
    chosen = [case for case in cases() if not rest or any(word in case.name for word in rest)]
    if what == "build":
        return build(Path(place), chosen)
    failed = 0
    for case in chosen:
        try:
            failed += bool(compare(Path(place), case))
        except Exception as error:
            failed += 1
            print(f"{case.name}: {type(error).__name__}: {error}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
