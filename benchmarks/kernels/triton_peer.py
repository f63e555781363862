"""The original Triton kernel, autotuned: the fastest of several block sizes, warps and stages at each size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.kernels.contestant import Contestant, errors, right
from benchmarks.kernels.measure import Clock, Launch
from benchmarks.kernels.variants import constants, module, outputs, problem
from twill.manifest.document import Manifest
from twill.trial.data import Blocks, Data, constant, original

NEAR = 1.3  # configurations slower than this times the best at first sight are not looked at again
AGAIN, AGAIN_MS = 12, 60.0  # launches of those that are: so many, or for so long, 2 at least


@dataclass(frozen=True)
class Configuration:
    """Constants other than the specialization's, the descriptors' blocks that go with them, options of the launch."""

    constants: Mapping[str, int]
    blocks: Blocks
    options: Mapping[str, int]

    def text(self) -> str:
        """For the table."""
        return " ".join(f"{name}={value}" for name, value in {**self.constants, **self.options}.items())


def configurations(manifest: Manifest) -> Iterator[Configuration]:
    """Those worth trying, among them what Triton's own tutorials try."""
    known = constants(manifest)
    make = _products if "BLOCK_K" in known else _attention if "HEAD_DIM" in known else _others
    yield from make(manifest, known)


def contestant(data: Data, reference: Mapping[str, Any]) -> Contestant | str:
    """The fastest configuration that is right at this size, or why there is none. Tiles that the kernel was not written
    for may make it wrong: BLOCK_N over BLOCK_M in causal attention."""
    kernel = getattr(module(data.manifest.file), data.manifest.kernel)
    clock = Clock()
    tried: list[tuple[float, Configuration, Launch]] = []
    refused = ""
    for configuration in configurations(data.manifest):
        launch = _launch(kernel, data, configuration)
        try:
            launch()
            tried.append((clock.once(launch), configuration, launch))
        except Exception as error:  # too much shared memory, or a size that this tile does not divide
            if "illegal" in str(error) or "launch failure" in str(error):
                raise
            refused = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if not tried:
        return f"runs with no configuration tried ({refused})"
    first = min(time for time, _, _ in tried)
    near = [(c, launch) for time, c, launch in tried if time <= NEAR * first]
    count = max(2, min(AGAIN, int(AGAIN_MS / first)))
    near_first = sorted(((_median(clock.window(run, count)), c.text(), run) for c, run in near), key=lambda f: f[:2])
    far = sorted(((time, c.text(), run) for time, c, run in tried if time > NEAR * first), key=lambda f: f[:2])
    for _, text, launch in (*near_first, *far):
        found = Contestant("Triton, tuned", "triton", launch, outputs(data, launch), text, True)
        if right(errors(found, reference), {}):
            return found
    return f"is wrong with every configuration tried (the fastest: {near_first[0][1]})"


def compile_ahead(data: Iterable[Data]) -> None:
    """Compiles every configuration of these kernels at once, on all processors; later launches find them made."""
    try:
        from triton import AsyncCompileMode
    except ImportError:  # an older Triton compiles at the launches
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool, AsyncCompileMode(pool, ignore_errors=True):
        for one in data:
            kernel = getattr(module(one.manifest.file), one.manifest.kernel)
            for configuration in configurations(one.manifest):
                fitting = _regrid(one, configuration)
                named = dict(zip(_runtime(one.manifest), fitting.arguments(configuration.blocks), strict=True))
                given = {a.name: constant(a.value) for a in one.manifest.arguments if a.kind == "constant"}
                arguments = {**named, **given, **configuration.constants, **configuration.options}
                kernel.run(grid=fitting.case.grid, warmup=True, **arguments)


def _runtime(manifest: Manifest) -> list[str]:
    return [a.name for a in manifest.arguments if a.kind != "constant"]


def _launch(kernel: Any, data: Data, configuration: Configuration) -> Callable[[], None]:
    fitting = _regrid(data, configuration)
    return original(kernel, fitting, configuration.constants, configuration.blocks, **configuration.options)


def _regrid(data: Data, configuration: Configuration) -> Data:
    """The same tensors on the grid that other tiles need."""
    known = {**constants(data.manifest), **configuration.constants}
    return Data(data.manifest, problem(data.manifest.file, known).case(data.case.sizes), data.held)


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


# ---------------------------------------------------------------- configurations


def _warps(accumulated: int) -> tuple[int, ...]:
    """Warps with which so many accumulators take at most 192 registers a thread: with more of them Triton spills."""
    return tuple(warps for warps in (4, 8) if accumulated <= 192 * 32 * warps)


def _options(warps: tuple[int, ...], stages: tuple[int, ...]) -> Iterator[dict[str, int]]:
    for count in warps:
        for depth in stages:
            yield {"num_warps": count, "num_stages": depth}


def _products(manifest: Manifest, known: Mapping[str, Any]) -> Iterator[Configuration]:
    deep = 128 if any(a.element.startswith("f8") for a in manifest.arguments) else 64
    pairs: tuple[tuple[int, int], ...] = ((128, 256), (128, 128), (256, 128), (64, 256))
    if manifest.kernel == "dual_gemm":
        pairs = ((128, 128), (64, 128))
    transposed = manifest.kernel == "gemm_fp8"
    for m, n in pairs:
        left, right, out = (m, deep), (n, deep) if transposed else (deep, n), (m, n)
        named = {"a_desc": left, "x_desc": left, "b_desc": right, "gate_desc": right, "up_desc": right}
        blocks = {**named, "c_desc": out, "y_desc": out}
        accumulated = m * n * (2 if manifest.kernel == "dual_gemm" else 1)
        for options in _options(_warps(accumulated), (3, 4)):
            yield Configuration({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": deep}, blocks, options)


def _attention(manifest: Manifest, known: Mapping[str, Any]) -> Iterator[Configuration]:
    dim = known["HEAD_DIM"]
    tiles = ((128, 128), (128, 64), (64, 64), (64, 128))
    if manifest.kernel == "attention_backward":
        tiles = ((64, 128), (64, 64), (32, 128), (128, 128))
    queries, keys = ("q_desc", "o_desc", "do_desc", "dq_desc"), ("k_desc", "v_desc", "dk_desc", "dv_desc")
    for m, n in tiles:
        blocks = {**dict.fromkeys(queries, (m, dim)), **dict.fromkeys(keys, (n, dim))}
        backward = manifest.kernel == "attention_backward"
        fitting = _warps(2 * n * dim if backward else m * n + m * dim)
        # Forward, a row of scores is best reduced within one warp: 16 rows of the tile each.
        for options in _options(tuple(w for w in fitting if backward or 16 * w <= m), (2, 3)):
            yield Configuration({"BLOCK_M": m, "BLOCK_N": n}, blocks, options)


def _others(manifest: Manifest, known: Mapping[str, Any]) -> Iterator[Configuration]:
    """Kernels without products, in blocks of a row; chunked ones, in chunks and columns of V."""
    if "CHUNK" in known:
        for chunk, wide in ((64, 64), (64, 128), (128, 64), (128, 128)):
            keys, values = (chunk, known["HEAD_K"]), (chunk, wide)
            blocks = {"q_desc": keys, "k_desc": keys, "v_desc": values, "o_desc": values}
            for options in _options((4, 8), (2, 3)):
                yield Configuration({"CHUNK": chunk, "BLOCK_V": wide}, blocks, options)
        return
    for block in (1024, 2048, 4096) if "BLOCK" in known else (0,):
        for options in _options((2, 4, 8), (2, 3)):
            yield Configuration({"BLOCK": block} if block else {}, {}, options)
