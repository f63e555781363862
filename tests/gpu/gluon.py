"""Emitted modules of Gluon on a GPU: right beside float32, equal bits from launch to launch, timed beside others.

python -m tests.gpu.gluon build DIR     # anywhere: modules and, for their times, the CUDA forms
python -m tests.gpu.gluon run DIR       # on a GPU; exit code 1 if one is not as it should be
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

MACHINE = "h200"
LAUNCHES = 20
MODULES = {
    "gemm": ("gemm", "bf16"), "wide": ("gemm", "bf16-wide"), "full": ("attention", "full"),
    "causal": ("attention", "causal"),
}  # fmt: skip
CONSTANTS: dict[str, dict[str, Any]] = {"wide": {"BLOCK_N": 256, "GROUP_M": 16}}
TUNED: list[dict[str, Any]] = [
    {"BLOCK_M": 128, "BLOCK_N": 128}, {"BLOCK_M": 128, "BLOCK_N": 256}, {"BLOCK_M": 128, "BLOCK_N": 256, "GROUP_M": 16},
    {"BLOCK_M": 256, "BLOCK_N": 128}, {"BLOCK_M": 256, "BLOCK_N": 128, "GROUP_M": 16},
]  # fmt: skip
"""Tiles of Triton's GEMM, of which the fastest counts."""


def build(place: Path) -> int:
    """Solve and emit, in both forms."""
    failed = 0
    for name, (kernel, spec) in MODULES.items():
        for form in ("gluon", "cuda"):
            command = ["twill", "emit", f"examples/{kernel}.py", "--spec", spec, "--machine", MACHINE, "--as", form]
            done = subprocess.run(
                [sys.executable, "-m", *command, "--out", str(place / f"{name}-{form}")],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            failed += bool(done.returncode)
            print(name, form, (done.stdout or done.stderr).strip().splitlines()[-1:], flush=True)
    return int(failed > 0)


def module(path: Path, name: str) -> Any:
    """The emitted module's kernel. The file that modules share lies beside it."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return getattr(made, name)


def run(place: Path) -> int:
    """All sizes of all modules."""
    import torch

    from tests.gpu import jit_calls
    from twill.runtime.kernel import EmittedKernel

    sizes: dict[str, list[Any]] = {
        "gemm": [(128, 128, 64), (512, 384, 64), (1040, 528, 336), (16, 16, 16), (4096, 4096, 4096),
                 (8192, 8192, 1024)],
        "full": [(1, 128), (6, 640), (32, 2048), (16, 8192)],
        "causal": [(1, 128), (6, 640), (32, 2048), (16, 8192)],
        "wide": [(128, 256, 64), (1040, 528, 336), (16, 16, 16), (4096, 4096, 4096), (8192, 8192, 1024)],
    }  # fmt: skip
    failed = 0
    for name, (kernel, _) in MODULES.items():
        emitted = module(place / f"{name}-gluon" / f"{kernel}_gluon.py", kernel)
        contestants = {"Gluon": emitted, "CUDA": EmittedKernel.load(place / f"{name}-cuda")}
        contestants["Triton"] = jit_calls.kernel(kernel)
        for size in sizes[name]:
            call = (
                jit_calls.gemm(*size, **CONSTANTS.get(name, {}))
                if kernel == "gemm"
                else jit_calls.attention(size[0], size[1], name == "causal")
            )
            errors, bits = {}, []
            for who, fast in contestants.items():
                for _ in range(LAUNCHES if who == "Gluon" else 1):
                    call.out.fill_(float("nan"))
                    call.launch(fast)
                    if who == "Gluon":
                        bits.append(call.out.clone())
                torch.cuda.synchronize()
                errors[who] = call.error()
            same = all(torch.equal(bits[0], one) for one in bits)
            good = same and errors["Gluon"] <= 1.2 * errors["Triton"] + 1e-6
            failed += not good
            said = ", ".join(f"{who} {error:.2e}" for who, error in errors.items())
            line = f"{name} {call.text}: {'ok' if good else 'WRONG'}{'' if same else ' launches differ'}; errors {said}"
            if size[-1] >= 1024:
                launches = {who: partial(call.launch, fast) for who, fast in contestants.items()}
                others = [jit_calls.gemm(*size, **tiles) for tiles in TUNED] if kernel == "gemm" else []
                for other in others:
                    other.launch(contestants["Triton"])
                    torch.cuda.synchronize()
                    failed += other.error() > 1.2 * errors["Triton"] + 1e-6
                tuned = {f"Triton {at}": partial(o.launch, contestants["Triton"]) for at, o in enumerate(others)}
                times = timed({**launches, **tuned})
                fastest = min((time, who) for who, time in times.items() if who.startswith("Triton"))
                times = {who: time for who, time in times.items() if who not in tuned} | {"Triton, tuned": fastest[0]}
                line += "; µs " + ", ".join(f"{who} {time:.1f}" for who, time in times.items())
            print(line, flush=True)
    return int(failed > 0)


def timed(launches: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of each, in turns: medians of 15 times 10 launches."""
    import torch

    times: dict[str, list[float]] = {who: [] for who in launches}
    for _ in range(15):
        for who, launch in launches.items():
            event: Any = torch.cuda.Event
            begin, end = event(enable_timing=True), event(enable_timing=True)
            begin.record()
            for _ in range(10):
                launch()
            end.record()
            torch.cuda.synchronize()
            times[who].append(float(begin.elapsed_time(end)) * 100)
    return {who: statistics.median(taken) for who, taken in times.items()}


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    what, place = words
    return build(Path(place)) if what == "build" else run(Path(place))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
