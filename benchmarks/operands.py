"""Products with weights of 8 bits, K^T V and block-scaled fp8 beside Triton.

    python -m benchmarks.operands build FOLDER [ROW...]   anywhere: emits each kernel with one and with two row blocks,
                                                          those of 256 rows with four, too
    python -m benchmarks.operands warm FOLDER [ROW...] --part I/N   on a GPU: a part of Triton's compilations, run
                                                          N times at once before `run`
    python -m benchmarks.operands run FOLDER [ROW...]     on a GPU: checks and times them

Rows: w8a16 (int8 to bf16), w8f16 (e4m3 to bf16), w4a16 (int4, two in a byte, to bf16) and ktv of 4096 x 4096 x 4096,
block_scaled (e4m3 with scales for 128 of K) of 4096 x 4096 x 7168. Contestants of a row are every emitted kernel of it
and Triton's same kernels with 4 and 8 warps, 2 to 5 stages; they take turns, a window of launches each. Results are
compared with a product of float32, and with those of 19 more launches, bit by bit.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("operands_kernels.py")
ROUNDS, WINDOW, AGAIN = 9, 10, 19
CONFIGURATIONS = [(warps, stages) for warps in (4, 8) for stages in (2, 3, 4, 5)]  # of Triton's kernels
NEAR = 1e-2
BLOCK = 128  # of K and N, that have a scale


@dataclass(frozen=True)
class Form:
    """A kernel with its tiles. row: what it computes."""

    row: str
    kernel: str
    tile: tuple[int, int, int]

    @property
    def name(self) -> str:
        """Of its folders."""
        row = f"{self.row}-" if self.row == "w8f16" else ""
        return f"{row}{self.kernel}-{'x'.join(map(str, self.tile))}"

    @property
    def size(self) -> tuple[int, int, int]:
        """M, N and K."""
        return 4096, 4096, 7168 if self.row == "block_scaled" else 4096

    @property
    def constants(self) -> dict[str, int]:
        """Constexprs."""
        return dict(zip(("BK", "BV", "BT") if self.kernel == "ktv" else ("BM", "BN", "BK"), self.tile, strict=True))

    @property
    def blocks(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """Element and block of each descriptor."""
        m, n, k = self.tile
        if self.kernel == "block_scaled":
            return {}
        if self.kernel == "ktv":
            return {"k_desc": ("bf16", (k, m)), "v_desc": ("bf16", (k, n)), "o_desc": ("fp32", (m, n))}
        weights = (n, k) if self.kernel == "w8a16_t" else (k // 2 if self.kernel == "w4a16" else k, n)
        kind = "fp8e4nv" if self.row == "w8f16" else "i8"
        return {"a_desc": ("bf16", (m, k)), "b_desc": (kind, weights), "c_desc": ("bf16", (m, n))}

    @property
    def scalars(self) -> tuple[str, ...]:
        """The signature behind the descriptors."""
        if self.kernel == "ktv":
            return ("T=i32:16",)
        sizes = tuple(f"{n}=i32:16" for n in "MNK")
        if self.kernel == "block_scaled":
            kinds = {"a_ptr": "fp8e4nv", "b_ptr": "fp8e4nv", "as_ptr": "fp32", "bs_ptr": "fp32", "c_ptr": "bf16"}
            return (*(f"{name}=*{kind}:16" for name, kind in kinds.items()), *sizes)
        return ("scale_ptr=*fp32:16", *sizes)


FORMS = (
    Form("w8a16", "w8a16", (128, 128, 64)), Form("w8a16", "w8a16", (128, 256, 64)),
    Form("w8a16", "w8a16", (256, 128, 64)),
    Form("w8a16", "w8a16_t", (128, 128, 64)), Form("w8a16", "w8a16_t", (256, 128, 64)),
    Form("w8f16", "w8a16", (128, 128, 64)), Form("w8f16", "w8a16", (128, 256, 64)),
    Form("w8f16", "w8a16", (256, 128, 64)),
    Form("w4a16", "w4a16", (128, 128, 64)), Form("w4a16", "w4a16", (256, 128, 64)),
    Form("ktv", "ktv", (128, 128, 64)), Form("ktv", "ktv", (128, 256, 64)), Form("ktv", "ktv", (256, 128, 64)),
    Form("block_scaled", "block_scaled", (128, 128, BLOCK)), Form("block_scaled", "block_scaled", (64, 128, BLOCK)),
    Form("block_scaled", "block_scaled", (128, 64, BLOCK)), Form("block_scaled", "block_scaled", (64, 64, BLOCK)),
    Form("block_scaled", "block_scaled", (256, 128, BLOCK)),
)  # fmt: skip


def chosen(rows: Sequence[str]) -> list[Form]:
    """The forms of some rows, or of all."""
    return [form for form in FORMS if not rows or form.row in rows]


def build(folder: Path, machine: str, rows: Sequence[str]) -> None:
    """A directory for each form and number of row blocks; those that are refused are named."""
    from twill.cli.entry import main as twill

    for form in chosen(rows):
        sig = [f"{name}=tensordesc<{kind}[{a}, {b}]>" for name, (kind, (a, b)) in form.blocks.items()]
        words = [word for one in (*sig, *form.scalars) for word in ("--sig", one)]
        words += [word for name, value in form.constants.items() for word in ("--const", f"{name}={value}")]
        for blocks in (1, 2, 4) if form.tile[0] == 256 else (1, 2):
            out = folder / f"{form.name}.{blocks}"
            asked = ["--machine", machine, "--out", str(out), "--blocks", str(blocks), "--budget", "30"]
            code = twill(["emit", f"{FILE}::{form.kernel}", *asked, *words])
            print(f"{out.name}: {'emitted' if code == 0 else f'exit code {code}'}", flush=True)


# -- on a GPU -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Of a row. tensors: by the kernel's name for them, the last one is its result; wanted: in float32."""

    tensors: dict[str, Any]
    wanted: Any

    @property
    def out(self) -> Any:
        """The result."""
        return list(self.tensors.values())[-1]


def data_of(row: str, size: tuple[int, ...]) -> Data:
    """Random tensors."""
    import torch

    m, n, k = size
    if row == "block_scaled":
        return block_scaled_data(m, n, k)
    left = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    if row == "ktv":
        right = torch.randn(m, n, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(k, n, device="cuda")
        return Data({"k_desc": left, "v_desc": right, "o_desc": out}, left.float().T @ right.float())
    weights = torch.randint(-127, 128, (k // 2 if row == "w4a16" else k, n), device="cuda", dtype=torch.int8)
    right = weights.float()
    if row == "w8f16":
        weights = torch.randn(k, n, device="cuda").to(torch.float8_e4m3fn)
        right = weights.float()
    elif row == "w4a16":
        right = torch.stack(((weights << 4) >> 4, weights >> 4), 1).reshape(k, n).float()
    scale = torch.rand(n, device="cuda") / 100
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    tensors = {"a_desc": left, "b_desc": weights, "scale_ptr": scale, "c_desc": out}
    return Data(tensors, (left.float() @ right) * scale)


def block_scaled_data(m: int, n: int, k: int) -> Data:
    """Of e4m3, a scale for each row and BLOCK of K of A, and for each BLOCK of N and K of B."""
    import torch

    left, right = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
    rows, columns = (torch.randn(lines, k // BLOCK, device="cuda").exp() for lines in (m, n // BLOCK))
    spread = columns.repeat_interleave(BLOCK, 0)
    wanted = sum(
        (left[:, at : at + BLOCK].float() * rows[:, at // BLOCK, None])
        @ (right[:, at : at + BLOCK].float() * spread[:, at // BLOCK, None]).T
        for at in range(0, k, BLOCK)
    )
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return Data({"a_ptr": left, "b_ptr": right, "as_ptr": rows, "bs_ptr": columns, "c_ptr": out}, wanted)


def arguments(form: Form, data: Data) -> tuple[Any, ...]:
    """Of a launch, in the kernel's order."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    if form.kernel == "block_scaled":
        return (*data.tensors.values(), *form.size)
    tensors = dict(data.tensors)
    if form.kernel == "w8a16_t":
        tensors["b_desc"] = tensors["b_desc"].T.contiguous()
    described = [TensorDescriptor.from_tensor(tensors[name], list(block)) for name, (_, block) in form.blocks.items()]
    return (*described, *((form.size[0],) if form.kernel == "ktv" else (tensors["scale_ptr"], *form.size)))


def launches(form: Form, data: Data, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every contestant of a form."""
    import triton

    from benchmarks import operands_kernels
    from twill.runtime.kernel import EmittedKernel

    given = arguments(form, data)
    grid = (triton.cdiv(form.size[0], form.tile[0]), triton.cdiv(form.size[1], form.tile[1]))
    for path in sorted(folder.glob(f"{form.name}.*")):
        if (path / "manifest.json").exists():
            yield f"twill {path.name}", _bound(EmittedKernel.load(path)[grid], given)
    kernel = getattr(operands_kernels, form.kernel)
    for warps, stages in CONFIGURATIONS:
        options = {**form.constants, "num_warps": warps, "num_stages": stages}
        yield f"triton {form.name} {warps}w {stages}s", _bound(kernel[grid], given, **options)


def _bound(run: Any, given: tuple[Any, ...], **options: int) -> Callable[[], object]:
    return lambda: run(*given, **options)


def warm(rows: Sequence[str], part: int, parts: int) -> None:
    """Compile every `parts`-th of Triton's kernels, from the `part`-th on."""
    import triton

    from benchmarks import operands_kernels

    number = 0
    for form in chosen(rows):
        given = arguments(form, data_of(form.row, tuple(min(n, 512) for n in form.size)))
        grid = (triton.cdiv(form.size[0], form.tile[0]), triton.cdiv(form.size[1], form.tile[1]))
        for warps, stages in CONFIGURATIONS:
            number += 1
            if number % parts == part:
                options = {**form.constants, "num_warps": warps, "num_stages": stages}
                with contextlib.suppress(Exception):  # shared memory that there is not; `run` says so
                    getattr(operands_kernels, form.kernel).warmup(*given, grid=grid, **options)


def run(folder: Path, rows: Sequence[str]) -> int:
    """Every row; how many results are wrong."""
    import torch

    print(f"{torch.cuda.get_device_name()}, TFLOP/s", flush=True)
    wrong = 0
    for row in dict.fromkeys(form.row for form in chosen(rows)):
        forms = chosen([row])
        data = data_of(row, forms[0].size)
        good: dict[str, Callable[[], object]] = {}
        for form in forms:
            for name, launch in launches(form, data, folder):
                data.out.zero_()
                try:
                    launch()
                    torch.cuda.synchronize()
                except Exception as error:  # Triton's, of shared memory that there is not
                    print(f"  {name}: {type(error).__name__}", flush=True)
                    continue
                far = float((data.out.float() - data.wanted).norm() / data.wanted.norm())
                if far > NEAR:
                    wrong += name.startswith("twill")
                    print(f"  WRONG {name}: {far:.1e}", flush=True)
                    continue
                if name.startswith("twill") and not repeats(data, launch):
                    wrong += 1
                    print(f"  OTHER BITS {name}", flush=True)
                    continue
                good[name] = launch
        report(row, forms[0].size, good)
    print("FAIL" if wrong else "PASS", flush=True)
    return wrong


def repeats(data: Data, launch: Callable[[], object]) -> bool:
    """Whether more launches give the same bits."""
    import torch

    first = data.out.clone()
    for _ in range(AGAIN):
        data.out.zero_()
        launch()
        torch.cuda.synchronize()
        if not torch.equal(first, data.out):
            return False
    return True


def report(row: str, size: tuple[int, int, int], contestants: dict[str, Callable[[], object]]) -> None:
    """Take turns, and print who took how long."""
    import torch

    event: Any = torch.cuda.Event
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(ROUNDS + 1):
        for name, launch in contestants.items():
            first, last = (event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(WINDOW):
                launch()
            last.record()
            torch.cuda.synchronize()
            if turn:
                times[name].append(first.elapsed_time(last) / WINDOW)
    middle = {name: statistics.median(found) for name, found in times.items()}
    order = sorted(middle, key=lambda one: middle[one])
    fastest = [next((name for name in order if name.startswith(who)), "") for who in ("twill", "triton")]
    for name in order:
        if name.startswith("twill") or name in fastest:
            speed = 2 * math.prod(size) / middle[name] / 1e9
            print(f"  {name:28} {middle[name] * 1e3:8.1f} us {speed:6.0f} TFLOP/s", flush=True)
    if all(fastest):
        print(f"{row}: {middle[fastest[1]] / middle[fastest[0]]:.3f} of Triton's best", flush=True)


def main() -> None:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("build", "warm", "run"))
    one.add_argument("folder", type=Path)
    one.add_argument("rows", nargs="*", metavar="ROW")
    one.add_argument("--machine", default="h200")
    one.add_argument("--part", default="0/1", metavar="I/N")
    given = one.parse_args()
    if given.command == "build":
        build(given.folder, given.machine, given.rows)
        return
    if given.command == "warm":
        part, parts = map(int, given.part.split("/"))
        warm(given.rows, part, parts)
        return
    sys.exit(bool(run(given.folder, given.rows)))


if __name__ == "__main__":
    main()
