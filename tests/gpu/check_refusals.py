"""What must be refused before a launch, streams, and tensors that come through DLPack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.gpu.builds import COPIES, FRAGMENTS, GpuBuild
from tests.gpu.run import Row
from twill import exc
from twill.runtime.launch import LaunchShape, launch
from twill.runtime.module import Kernel, LaunchParameter, LoadedModule
from twill.runtime.tensor import view
from twill.runtime.tensor_map import TileBox, tensor_map

SHAPE = LaunchShape((1, 1, 1), (64, 1, 1), 8192)


class Wrapped:
    """A tensor of another framework: nothing but DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._tensor.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def rows(load: Callable[[GpuBuild], LoadedModule]) -> Iterator[Row]:
    """All of them."""
    module = load(COPIES)
    kernel = module.kernel("copy_rows", COPIES.kernels["copy_rows"])
    yield _dlpack(kernel)
    yield _other_stream(kernel)
    good = torch.zeros(33, 64, device="cuda", dtype=torch.bfloat16)
    elsewhere = Kernel(kernel.name, "sm_100a", kernel.parameters, kernel.handle)
    other = module.kernel("copy_rows", (LaunchParameter("n", "i32"),))
    refusals: list[tuple[str, type[exc.TwillError], Callable[[], object]]] = [
        ("element type", exc.WrongArgument, lambda: launch(kernel, SHAPE, [good.float(), good, good, 1])),
        ("host tensor", exc.WrongArgument, lambda: launch(kernel, SHAPE, [good.cpu(), good, good, 1])),
        ("misaligned", exc.MisalignedTensor, lambda: launch(kernel, SHAPE, [good.view(-1)[1:], good, good, 1])),
        ("too few arguments", exc.WrongArgument, lambda: launch(kernel, SHAPE, [good])),
        ("number too large", exc.WrongArgument, lambda: launch(kernel, SHAPE, [good, good, good, 1 << 40])),
        ("architecture", exc.WrongArchitecture, lambda: launch(elsewhere, SHAPE, [good, good, good, 1])),
        ("shared memory", exc.LaunchTooLarge, lambda: launch(kernel, _with(shared=1 << 20), [good, good, good, 1])),
        ("threads", exc.LaunchTooLarge, lambda: launch(kernel, _with(threads=96), [good, good, good, 1])),
        ("map of odd rows", exc.MisalignedTensor, lambda: _map(torch.zeros(4, 65, device="cuda").bfloat16())),
        ("other parameters", exc.WrongArgument, lambda: launch(other, SHAPE, [1])),
        ("no such kernel", exc.DriverFailed, lambda: module.kernel("nothing", ())),
    ]
    for name, error, start in refusals:
        yield _refused(name, error, start)
    talk = load(FRAGMENTS).kernel("talk", FRAGMENTS.kernels["talk"])
    facts = f"{talk.registers(0)} registers, {talk.local_bytes(0)} local, {talk.static_shared(0)} shared bytes"
    yield Row("what the driver says", "talk", 0, talk.local_bytes(0) == 0 and talk.max_threads(0) == 128, facts)


def _with(shared: int = 0, threads: int = 64) -> LaunchShape:
    return LaunchShape((1, 1, 1), (threads, 1, 1), shared)


def _map(tensor: torch.Tensor) -> object:
    return tensor_map(view(tensor, "t"), TileBox((1, 64)), "t")


def _refused(name: str, error: type[exc.TwillError], start: Callable[[], object]) -> Row:
    try:
        start()
    except exc.TwillError as raised:
        return Row(f"refused: {name}", error.__name__, 0, type(raised) is error, str(raised).replace("\n ", ";"))
    return Row(f"refused: {name}", error.__name__, 1, False, "nothing was raised")


def _dlpack(kernel: Kernel) -> Row:
    source = torch.randn(32, 64, device="cuda").bfloat16()
    out, again = torch.zeros_like(source), torch.zeros_like(source)
    launch(kernel, SHAPE, [Wrapped(source), Wrapped(out), Wrapped(again), 32])
    torch.cuda.synchronize()
    return Row("tensors through DLPack", "", 0, torch.equal(out, source) and torch.equal(again, source))


def _other_stream(kernel: Kernel) -> Row:
    """Ordered after slow work on the stream that is current."""
    source, out = torch.zeros(32, 64, device="cuda").bfloat16(), torch.zeros(32, 64, device="cuda").bfloat16()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        torch.cuda._sleep(50_000_000)  # type: ignore[no-untyped-call]
        source.fill_(3)
        launch(kernel, SHAPE, [source, out, torch.zeros_like(out), 32])
        torch.cuda.current_stream().synchronize()
    return Row("PyTorch's current stream", "", 0, bool((out == 3).all()))
