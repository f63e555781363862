"""Products with weights of 8 bits (int8 to bf16) and K^T V beside Triton: 4096 x 4096 x 4096.

    python -m benchmarks.operands build FOLDER     anywhere: emits each kernel with one and with two row blocks
    python -m benchmarks.operands run FOLDER       on a GPU: checks and times them

Contestants of a row are every emitted kernel of it and Triton's same kernels with 4 and 8 warps, 2 to 4 stages; they
take turns, a window of launches each. Results are compared with a product of float32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZE = 4096
FILE = Path(__file__).with_name("operands_kernels.py")
ROUNDS, WINDOW = 9, 10
NEAR = 1e-2


@dataclass(frozen=True)
class Form:
    """A kernel with its tiles. row: what it computes."""

    row: str
    kernel: str
    tile: tuple[int, int, int]

    @property
    def name(self) -> str:
        """Of its folders."""
        return f"{self.kernel}-{'x'.join(map(str, self.tile))}"

    @property
    def constants(self) -> dict[str, int]:
        """Constexprs."""
        return dict(zip(("BK", "BV", "BT") if self.kernel == "ktv" else ("BM", "BN", "BK"), self.tile, strict=True))

    @property
    def blocks(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """Element and block of each descriptor."""
        m, n, k = self.tile
        if self.kernel == "ktv":
            return {"k_desc": ("bf16", (k, m)), "v_desc": ("bf16", (k, n)), "o_desc": ("fp32", (m, n))}
        weights = (n, k) if self.kernel == "w8a16_t" else (k, n)
        return {"a_desc": ("bf16", (m, k)), "b_desc": ("i8", weights), "c_desc": ("bf16", (m, n))}


FORMS = (
    Form("w8a16", "w8a16", (128, 128, 64)), Form("w8a16", "w8a16", (128, 256, 64)),
    Form("w8a16", "w8a16", (256, 128, 64)),
    Form("w8a16", "w8a16_t", (128, 128, 64)), Form("w8a16", "w8a16_t", (256, 128, 64)),
    Form("ktv", "ktv", (128, 128, 64)), Form("ktv", "ktv", (128, 256, 64)), Form("ktv", "ktv", (256, 128, 64)),
)  # fmt: skip


def build(folder: Path, machine: str) -> None:
    """A directory for each form and number of row blocks; those that are refused are named."""
    from twill.cli.entry import main as twill

    for form in FORMS:
        sig = [f"{name}=tensordesc<{kind}[{a}, {b}]>" for name, (kind, (a, b)) in form.blocks.items()]
        scalars = ["T=i32:16"] if form.kernel == "ktv" else ["scale_ptr=*fp32:16", *(f"{n}=i32:16" for n in "MNK")]
        words = [word for one in (*sig, *scalars) for word in ("--sig", one)]
        words += [word for name, value in form.constants.items() for word in ("--const", f"{name}={value}")]
        for blocks in (1, 2):
            out = folder / f"{form.name}.{blocks}"
            asked = ["--machine", machine, "--out", str(out), "--blocks", str(blocks), "--budget", "30"]
            code = twill(["emit", f"{FILE}::{form.kernel}", *asked, *words])
            print(f"{out.name}: {'emitted' if code == 0 else f'exit code {code}'}", flush=True)


# -- on a GPU -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Of a row. wanted: in float32."""

    tensors: dict[str, Any]
    scale: Any
    wanted: Any


def data_of(row: str) -> Data:
    """Random tensors."""
    import torch

    left = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    if row == "ktv":
        right = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(SIZE, SIZE, device="cuda")
        return Data({"k_desc": left, "v_desc": right, "o_desc": out}, None, left.float().T @ right.float())
    weights = torch.randint(-127, 128, (SIZE, SIZE), device="cuda", dtype=torch.int8)
    scale = torch.rand(SIZE, device="cuda") / 100
    out = torch.empty(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    tensors = {"a_desc": left, "b_desc": weights, "c_desc": out}
    return Data(tensors, scale, (left.float() @ weights.float()) * scale)


def launches(form: Form, data: Data, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every contestant of a form."""
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    from benchmarks import operands_kernels
    from twill.runtime.kernel import EmittedKernel

    tensors = dict(data.tensors)
    if form.kernel == "w8a16_t":
        tensors["b_desc"] = tensors["b_desc"].T.contiguous()
    described = [TensorDescriptor.from_tensor(tensors[name], list(block)) for name, (_, block) in form.blocks.items()]
    rest = (SIZE,) if form.kernel == "ktv" else (data.scale, SIZE, SIZE, SIZE)
    grid = (triton.cdiv(SIZE, form.tile[0]), triton.cdiv(SIZE, form.tile[1]))
    for path in sorted(folder.glob(f"{form.name}.*")):
        if (path / "manifest.json").exists():
            yield f"twill {path.name}", _bound(EmittedKernel.load(path)[grid], described, rest)
    kernel = getattr(operands_kernels, form.kernel)
    for warps in (4, 8):
        for stages in (2, 3, 4):
            options = {**form.constants, "num_warps": warps, "num_stages": stages}
            yield f"triton {form.name} {warps}w {stages}s", _bound(kernel[grid], described, rest, **options)


def _bound(run: Any, described: list[Any], rest: tuple[Any, ...], **options: int) -> Callable[[], object]:
    return lambda: run(*described, *rest, **options)


def run(folder: Path) -> int:
    """Every row; how many results are wrong."""
    import torch

    print(f"{torch.cuda.get_device_name()}, TFLOP/s of {SIZE}^3", flush=True)
    wrong = 0
    for row in dict.fromkeys(form.row for form in FORMS):
        data = data_of(row)
        out = data.tensors["o_desc" if row == "ktv" else "c_desc"]
        good: dict[str, Callable[[], object]] = {}
        for form in (one for one in FORMS if one.row == row):
            for name, launch in launches(form, data, folder):
                out.zero_()
                try:
                    launch()
                    torch.cuda.synchronize()
                except Exception as error:  # Triton's, of shared memory that there is not
                    print(f"  {name}: {type(error).__name__}", flush=True)
                    continue
                far = float((out.float() - data.wanted).norm() / data.wanted.norm())
                if far > NEAR:
                    wrong += name.startswith("twill")
                    print(f"  WRONG {name}: {far:.1e}", flush=True)
                    continue
                good[name] = launch
        report(row, good)
    print("FAIL" if wrong else "PASS", flush=True)
    return wrong


def report(row: str, contestants: dict[str, Callable[[], object]]) -> None:
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
            speed = 2 * SIZE**3 / middle[name] / 1e9
            print(f"  {name:28} {middle[name] * 1e3:8.1f} us {speed:6.0f} TFLOP/s", flush=True)
    if all(fastest):
        print(f"{row}: {middle[fastest[1]] / middle[fastest[0]]:.3f} of Triton's best", flush=True)


def main() -> None:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("build", "run"))
    one.add_argument("folder", type=Path)
    one.add_argument("--machine", default="h200")
    given = one.parse_args()
    if given.command == "build":
        build(given.folder, given.machine)
        return
    sys.exit(bool(run(given.folder)))


if __name__ == "__main__":
    main()
