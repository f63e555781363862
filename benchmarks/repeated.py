"""Do losses of a training under `twill.jit` stay with those of the same training without it?

    python -m benchmarks.repeated fill STORE [--seconds S]          solve what the program launches
    python -m benchmarks.repeated runs [STORE] [--runs N] [--nudge | --noise | --rotations once|literal]
                                                                    trainings in one process, without Twill or with it
    python -m benchmarks.repeated shadow STORE [--steps N]          every emitted launch compared (benchmarks.shadow)
    python -m benchmarks.repeated report OUTPUT OUTPUT ...          what outputs of `runs` say, the first one without

The Llama of `benchmarks.training_model`, on four batches that come again and again, at a learning rate (3e-4) at which
it learns them by heart: a program in which small differences grow. `runs` prints the losses of each training, a line of
JSON each; all begin with the same weights. With --nudge, one weight of each training (another in each) is the next
number of its type: what the smallest difference there is becomes. With --noise, launches of Triton's rotations leave
some of their results, by chance, at a neighbouring number, as many as are rounded otherwise by the emitted kernel: what
other roundings become that nobody could call wrong. With --rotations, PyTorch makes the rotations in the place of
Triton's kernel: in f32 and rounded once, or rounded after every product and sum as the kernel is written. Emitted
kernels are launched wherever there are any; TWILL_STRICT_MATH=1: those that round where the kernels say.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.training_model import BATCH, LENGTH, VOCABULARY, gla, llama

BATCHES, RATE, STEPS = 4, 3e-4, 50
SHOWN = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 40, 49)


def train(make: Any, steps: int, nudge: int = 0, pause: Any = None) -> list[float]:
    """The losses of one training."""
    import torch

    torch.manual_seed(0)
    with torch.device("cuda"):
        model = make().to(torch.bfloat16)
    if nudge:
        weight = model.model.embed_tokens.weight.data.view(torch.int16)
        weight[nudge, nudge] += 1  # the next number of its type
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    tokens = torch.randint(0, VOCABULARY, (BATCHES, BATCH, LENGTH), device="cuda")
    losses = []
    for step in range(steps):
        batch = tokens[step % BATCHES]
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if pause is not None:
            pause(step)
    return [float(loss) for loss in losses]


ROUNDED, NOISY = 0.18, {"_triton_rope": ("q_ptr", "k_ptr")}  # 2.3e-3 of the norm of q and k, as seen by `shadow`


@contextmanager
def noisy() -> Iterator[None]:
    """Results of some of Triton's kernels are rounded otherwise inside, here and there."""
    import torch
    from triton.runtime.jit import JITFunction

    launch, numbers = JITFunction.run, torch.Generator("cuda").manual_seed(1)  # others in each training

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        launched = launch(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        given = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        for name in NOISY.get(kernel.__name__, ()):
            bits = given[name].view(torch.int16)
            chance = torch.rand(bits.shape, device=bits.device, generator=numbers)
            step = (chance < ROUNDED / 2).to(torch.int16) - (chance > 1 - ROUNDED / 2).to(torch.int16)
            bits += step * ((bits & 0x7FFF) > 0x80)  # zeros and what lies next to them stay
        return launched

    with mock.patch.object(JITFunction, "run", run):
        yield


@contextmanager
def rotating(literal: bool) -> Iterator[None]:
    """liger-kernel's rotations are made by PyTorch inside. literal: every operation is rounded."""
    import torch
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if kernel.__name__ != "_triton_rope" or warmup:
            return launch(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        given = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        width, length = given["hd"], given["sl"]
        kind = given["q_ptr"].dtype if literal else torch.float32
        cos, sin = (given[name][..., : width // 2].unsqueeze(2).to(kind) for name in ("cos", "sin"))
        sin = -sin if given.get("BACKWARD_PASS") else sin
        for name, heads in (("q", given["n_qh"]), ("k", given["n_kh"])):
            row = given[f"{name}_row_stride"]
            whole = given[f"{name}_ptr"].as_strided((given["bs"], length, heads, width), (length * row, row, width, 1))
            left, right = whole[..., : width // 2].to(kind), whole[..., width // 2 :].to(kind)
            whole.copy_(torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1))
        return None

    with mock.patch.object(JITFunction, "run", run):
        yield


def under(stack: ExitStack, store: Path, policy: str) -> list[Any]:
    """From now on kernels are under `twill.jit`; those that are made."""
    from twill.runtime.policy import settings
    from twill.runtime.script import every_kernel

    made: list[Any] = []
    stack.enter_context(every_kernel(settings(policy, store=str(store), prefer="emitted"), made))
    return made


def fill(make: Any, store: Path, seconds: float) -> None:
    """Launch every kernel, and give the helper time."""
    begun = time.monotonic()

    def pause(step: int) -> None:
        if step == 2:
            time.sleep(max(0.0, seconds - (time.monotonic() - begun)))

    with ExitStack() as stack:
        made = under(stack, store, "solve")
        train(make, 6, pause=pause)
        account(made)


def account(made: Sequence[Any]) -> None:
    """What ran as what, on the error stream."""
    for kernel in made:
        if kernel.twill_dispatch.launched:
            for line in kernel.twill_dispatch.account().splitlines():
                name, _, rest = line.partition("(")
                said = rest.partition(")")[2].lstrip(",: ") or rest  # behind the variant, which is long
                print(f"  {name}: {said}"[:400], file=sys.stderr, flush=True)


def report(outputs: Sequence[Path]) -> None:
    """Step by step: the mean loss of each group of runs, and the spread inside of it."""
    groups = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in outputs}
    first = next(iter(groups.values()))[0]
    print("step  " + "  ".join(f"{name:>24}" for name in groups) + "   (mean ± deviation, apart from the first run)")
    for step in SHOWN:
        cells = []
        for runs in groups.values():
            losses = [run[step] for run in runs]
            deviation = statistics.stdev(losses) if len(losses) > 1 else 0.0
            most = max(abs(loss - first[step]) for loss in losses)
            cells.append(f"{statistics.fmean(losses):8.4f} ± {deviation:6.4f} {most:7.4f}")
        print(f"{step:4}  " + "  ".join(f"{cell:>24}" for cell in cells))


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeated")
    parser.add_argument("command", choices=("fill", "runs", "shadow", "report"))
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--model", choices=("llama", "gla"), default="llama")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--nudge", action="store_true")
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--rotations", choices=("once", "literal"))
    asked = parser.parse_args()
    make = llama if asked.model == "llama" else gla
    if asked.command == "report":
        report(asked.paths)
    elif asked.command == "fill":
        fill(make, asked.paths[0], asked.seconds)
    elif asked.command == "runs":
        with ExitStack() as stack:
            made = under(stack, asked.paths[0], "lookup") if asked.paths else []
            if asked.paths:
                train(make, 3)  # look-ups
                time.sleep(2)
            if asked.noise:
                stack.enter_context(noisy())
            if asked.rotations:
                stack.enter_context(rotating(asked.rotations == "literal"))
            for number in range(asked.runs):
                print(json.dumps(train(make, asked.steps, number + 1 if asked.nudge else 0)), flush=True)
            account(made)
    else:
        from benchmarks.shadow import shadowed

        with ExitStack() as stack:
            made = under(stack, asked.paths[0], "lookup")
            train(make, 3)
            time.sleep(2)
            with shadowed() as seen:
                train(make, asked.steps)
            print(seen.text())
            account(made)


if __name__ == "__main__":
    main()
