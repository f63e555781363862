"""Launches of `benchmarks.attention_sweep`'s kernels, emitted ones and Triton's own, on the tensors of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attention_sweep_data import Inputs, inputs
from benchmarks.attention_sweep_members import MOST, Member, computing
from benchmarks.attention_sweep_problems import Problem
from twill.manifest.document import MANIFEST

WAVES = (1, 2, 4)  # of CTAs that chunks of keys make, about
TRITON = {  # BLOCK_M, BLOCK_N, warps, stages by width
    64: ((128, 128, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3), (128, 128, 4, 3)),
    128: ((128, 128, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 3)),
    256: ((128, 64, 8, 2), (128, 32, 8, 3), (64, 64, 4, 2)),
}
TRITON_DECODE = ((64, 4, 3), (128, 4, 3), (64, 4, 2))  # BLOCK_N, warps, stages
COMBINING = {"num_warps": 4, "num_stages": 1}
THREADS = 16


@dataclass(frozen=True)
class Contestant:
    """launch: gives back the result. out: where it is, if that is always the same place. shown: the result in the shape
    of q."""

    name: str
    launch: Callable[[], Any]
    out: Any = None
    shown: Callable[[Any], Any] = lambda found: found


@dataclass(frozen=True)
class Described:
    """A descriptor whose block may have any sizes."""

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]


@dataclass(frozen=True)
class Call:
    """What a kernel is called with."""

    grid: tuple[int, ...]
    arguments: tuple[Any, ...]


Describe = Callable[[Any, list[int]], Any]


def described(tensor: Any, block: list[int]) -> Described:
    return Described(tensor, tensor.shape, tensor.stride(), block)


def triton_described(tensor: Any, block: list[int]) -> Any:
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)


# ---------------------------------------------------------------- arguments


def call(given: Inputs, tiles: Member, describe: Describe) -> Call:
    """Of a kernel without chunks."""
    problem = given.problem
    query, key = [1, tiles.rows, tiles.width], [1, tiles.keys, tiles.width]
    if problem.kind == "variable":
        q, k, v = (one.transpose(0, 1) for one in (given.q, given.k, given.v))
        of_all = (given.scale, given.q.shape[0], problem.shared, given.q.stride(0))
        grid = (-(-problem.queries // tiles.rows), problem.heads, len(problem.sequences))
        maps = (describe(q, query), describe(k, key), describe(v, key))
        return Call(grid, (*maps, given.out, given.lse, *given.begins, *of_all))
    q, k, v, out = (one.flatten(0, 1) for one in (given.q, given.k, given.v, given.out))
    numbers: tuple[Any, ...] = (given.scale, problem.queries, problem.keys, problem.shared)
    if tiles.kernel == "descending":
        whole = tiles.rows % tiles.keys == 0 == (problem.keys - problem.queries) % tiles.keys
        numbers += (tiles.rows // tiles.keys if whole else -(-tiles.rows // tiles.keys) + 1,)
    four = (describe(q, query), describe(k, key), describe(v, key), describe(out, query))
    return Call((-(-problem.queries // tiles.rows), q.shape[0]), (*four, given.lse, *numbers))


def packed_call(given: Inputs, tiles: Member, q: Any, out: Any, describe: Describe) -> Call:
    """Of `packed`: q, out: [heads of keys, queries of all, heads that share them, D]."""
    problem, total = given.problem, q.shape[1]
    k, v = (describe(joined(one).transpose(0, 1), [1, tiles.keys, tiles.width]) for one in (given.k, given.v))
    grid = (-(-problem.queries * problem.shared // tiles.rows), problem.key_heads, len(problem.sequences))
    rows = describe(q.flatten(1, 2), [1, tiles.rows, tiles.width])
    return Call(grid, (rows, k, v, out, given.lse, *given.begins, given.scale, total))


def joined(tensor: Any) -> Any:
    """[positions of all sequences, heads, D]: as FlashAttention has it."""
    return tensor if tensor.dim() == 3 else tensor.transpose(1, 2).contiguous().flatten(0, 1)


def together(given: Inputs) -> Any:
    """q as `packed` has it."""
    problem = given.problem
    apart = joined(given.q).view(-1, problem.key_heads, problem.shared, problem.width)
    return apart.transpose(0, 1).contiguous()


def apart(given: Inputs, found: Any) -> Any:
    """The other way round: as q is."""
    rows = found.transpose(0, 1).flatten(1, 2)
    if given.q.dim() == 3:
        return rows
    return rows.view(len(given.problem.sequences), -1, *rows.shape[1:]).transpose(1, 2)


def decode_call(given: Inputs, tiles: Member, chunk: int, part: Any, lse: Any, describe: Describe) -> Call:
    """Of `decode`: chunks of so many keys."""
    problem = given.problem
    q = given.q.view(-1, problem.shared, problem.width)
    k, v = (one.flatten(0, 1) for one in (given.k, given.v))
    key = [1, tiles.keys, tiles.width]
    maps = (describe(q, [1, tiles.rows, tiles.width]), describe(k, key), describe(v, key))
    numbers = (given.scale, problem.keys, chunk, problem.shared)
    return Call((-(-problem.keys // chunk), q.shape[0]), (*maps, given.out, part, lse, *numbers))


def chunks_of(problem: Problem, block: int, sms: int) -> list[int]:
    """How many keys a chunk may have: all of them, or as many as give CTAs enough to do, two blocks at least."""
    tiles = len(problem.sequences) * problem.key_heads
    counts = {1, 2, *(min(MOST[-1], waves * sms // tiles) for waves in WAVES)} - {0}
    return sorted({max(2, -(-problem.keys // (count * block))) * block for count in counts})


def parts_of(given: Inputs, chunk: int) -> tuple[Any, Any]:
    """Room for what chunks leave: float32 [heads of keys, chunks, heads that share them, D], and without D."""
    import torch

    count = -(-given.problem.keys // chunk) * given.q.shape[0] * given.problem.heads
    return (torch.empty(count, given.problem.width, device="cuda"), torch.empty(count, device="cuda"))


def combine_call(given: Inputs, chunk: int, part: Any, lse: Any) -> Call:
    """Of `combine`."""
    problem = given.problem
    grid = (problem.shared, len(problem.sequences) * problem.key_heads)
    return Call(grid, (part, lse, given.out, -(-problem.keys // chunk), problem.shared))


def most(chunks: int) -> int:
    """The smallest constant of `combine` that holds so many."""
    return next(one for one in MOST if one >= chunks)


# ---------------------------------------------------------------- emitted kernels


def emitted(folder: Path, given: Inputs) -> Iterator[Contestant]:
    """Every member that computes the problem, with every number of chunks that may make sense."""
    import torch

    from twill.runtime.kernel import EmittedKernel

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for member in computing(given.problem):
        if not (folder / member.name / MANIFEST).is_file():
            continue
        kernel = EmittedKernel.load(folder / member.name)
        if member.kernel == "packed":
            q = together(given)
            out = torch.empty_like(q)
            made = packed_call(given, member, q, out, described)
            launch = partial(_run, out, partial(kernel[made.grid], *made.arguments))
            yield Contestant(member.name, launch, out, partial(apart, given))
            continue
        if given.problem.kind != "decode":
            made = call(given, member, described)
            launch = partial(_run, given.out, partial(kernel[made.grid], *made.arguments))
            yield Contestant(member.name, launch, given.out)
            continue
        for chunk in chunks_of(given.problem, member.keys, sms):
            count = -(-given.problem.keys // chunk)
            if (count > 1) != (member.spec == "decode-split"):
                continue
            part, lse = parts_of(given, chunk)
            made = decode_call(given, member, chunk, part, lse, described)
            steps = [partial(kernel[made.grid], *made.arguments)]
            if count > 1:
                adding = folder / Member("combine", "combine", member.width, 1, most(count)).name
                if not (adding / MANIFEST).is_file():
                    continue
                behind = combine_call(given, chunk, part, lse)
                steps.append(partial(EmittedKernel.load(adding)[behind.grid], *behind.arguments))
            yield Contestant(f"{member.name}/{count}", partial(_run, given.out, *steps), given.out)


def _run(out: Any, *steps: Callable[[], Any]) -> Any:
    for step in steps:
        step()
    return out


# ---------------------------------------------------------------- Triton's


@dataclass(frozen=True)
class TritonStep:
    """A launch of a Triton kernel."""

    kernel: str
    call: Call
    options: dict[str, Any]

    @property
    def launch(self) -> Callable[[], Any]:
        return partial(_kernel(self.kernel)[self.call.grid], *self.call.arguments, **self.options)

    def compile(self) -> None:
        """Without a launch."""
        _kernel(self.kernel).warmup(*self.call.arguments, grid=self.call.grid, **self.options)

    @property
    def key(self) -> str:
        """Equal for what Triton compiles once."""
        numbers = [(one == 1, one % 16 == 0) for one in self.call.arguments if isinstance(one, int)]
        blocks = [one.block_shape for one in self.call.arguments if hasattr(one, "block_shape")]
        return f"{self.kernel} {sorted(self.options.items())} {numbers} {blocks}"


def _kernel(name: str) -> Any:
    from benchmarks import attention_kernels

    return getattr(attention_kernels, name)


def triton_ways(given: Inputs) -> Iterator[tuple[str, list[TritonStep]]]:
    """The same kernels with some usual configurations; a head has a power of two for a width."""
    import torch

    problem = given.problem
    width = 1 << (problem.width - 1).bit_length()
    if problem.kind != "decode":
        known = {"HEAD_DIM": width, "CAUSAL": problem.causal}
        for rows, keys, warps, stages in TRITON[width]:
            name = "variable" if problem.kind == "variable" else "forward"
            tiles = Member(name, "", width, rows, keys)
            even = {} if name == "variable" else {"EVEN_N": not problem.causal and problem.keys % keys == 0}
            options = {**tiles.constants, **known, **even, "num_warps": warps, "num_stages": stages}
            made = call(given, tiles, triton_described)
            yield f"Triton {rows}x{keys}w{warps}s{stages}", [TritonStep(name, made, options)]
        return
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for keys, warps, stages in TRITON_DECODE:
        for chunk in chunks_of(problem, keys, sms):
            count = -(-problem.keys // chunk)
            part, lse = parts_of(given, chunk)
            tiles = Member("decode", "", width, 16, keys)
            options = {**tiles.constants, "SPLIT": count > 1, "num_warps": warps, "num_stages": stages}
            steps = [TritonStep("decode", decode_call(given, tiles, chunk, part, lse, triton_described), options)]
            if count > 1:
                adding = {"HEAD_DIM": width, "MOST": most(count), **COMBINING}
                steps.append(TritonStep("combine", combine_call(given, chunk, part, lse), adding))
            yield f"Triton {keys}w{warps}s{stages}/{count}", steps


def triton_peers(given: Inputs) -> Iterator[Contestant]:
    """All of them, as contestants."""
    for name, steps in triton_ways(given):
        yield Contestant(name, partial(_run, given.out, *(step.launch for step in steps)), given.out)


def compile_triton(found: Sequence[Problem]) -> int:
    """What all problems need, many at a time; how many kernels. What does not compile says so when it is launched."""
    import torch

    held = [inputs(problem, filled=False) for problem in found]
    steps = {step.key: step for given in held for _, way in triton_ways(given) for step in way}
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(step.compile) for step in steps.values()]:
            done.exception()
    count = len(steps)
    held.clear()
    steps.clear()
    torch.cuda.empty_cache()
    return count
