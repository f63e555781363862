"""How exact emitted products, divisions, roots and exponentials are, beside Triton's own, on a GPU.

    python -m tests.gpu.precision emit DIR       # no GPU needed: every kernel of precision_kernels.py into DIR
    python -m tests.gpu.precision run DIR        # on the GPU, with PyTorch and Triton; exit code 1: a promise is broken

An error is |result - exact|, where `exact` is float64's, in units of 2^-24 of what it is measured by: of a product, the
sum of the products' magnitudes; of a function, the result. The table has the root of the mean square and the largest;
`ratio` is ours over Triton's. A product may be 1.2 times as far off as Triton's on the mean, a function 1.01 times at
the worst.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PRODUCTS = ("tf32", "bf16x3", "tf32x3", "bf16x6", "ieee")
EIGHT_BITS = {"fp8-32": 32, "fp8-128": 128}
FUNCTIONS = ("quotient", "rounded_quotient", "root", "rounded_root", "power", "power2", "logarithm", "reciprocal_root")
WAVES = ("sine", "cosine", "error_function", "logarithm2")
ROUNDED = ("rounded_quotient", "rounded_root")  # bit for bit as Triton's
UNIT = 2.0**-24
MEAN, WORST = 1.2, 1.01


@dataclass(frozen=True)
class Row:
    """One line of the table: errors in UNITs. same: whether every bit is Triton's; other: infinities and NaN that are
    elsewhere than Triton's."""

    what: str
    data: str
    mean: tuple[float, float]
    worst: tuple[float, float]
    same: bool
    other: int
    good: bool

    def text(self) -> str:
        """Ours, Triton's, ratio; of the mean and of the largest error."""
        numbers = [f"{n:12.4g}" for pair in (self.mean, self.worst) for n in (*pair, _ratio(*pair))]
        word = "ok" if self.good else "BROKEN"
        bits = "same bits" if self.same else f"{self.other} not finite elsewhere" if self.other else ""
        return f"{self.what:18}{self.data:22}{''.join(numbers)}  {word:7}{bits}"


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else float(ours > 0)


def emit(folder: Path) -> int:
    """Every specialization of precision_kernels.py, one directory each."""
    from twill.cli import main

    failed = 0
    for name in (*PRODUCTS, *EIGHT_BITS, "functions", "waves"):
        kernel = name if name in ("functions", "waves") else "product8" if name in EIGHT_BITS else "product"
        target = f"{HERE / 'precision_kernels.py'}::{kernel}"
        failed += main(["emit", target, "--spec", name, "--machine", "h100", "--out", str(folder / name)]) != 0
    return int(failed > 0)


def run(folder: Path) -> int:
    """The table, with those that are there."""
    import torch

    torch.manual_seed(0)
    heads = ("mean", "Triton's", "ratio", "largest", "Triton's", "ratio")
    print(f"{torch.cuda.get_device_name()}, errors in units of 2^-24")
    print(f"{'':18}{'':22}{''.join(f'{head:>12}' for head in heads)}")
    good = True
    for row in rows(folder):
        print(row.text(), flush=True)
        good &= row.good
    return 0 if good else 1


def rows(folder: Path) -> Iterator[Row]:
    """Everything that is emitted there."""
    for name in (*PRODUCTS, *EIGHT_BITS):
        if (folder / name / "manifest.json").exists():
            yield from products(folder / name, name)
    if (folder / "functions" / "manifest.json").exists():
        yield from functions(folder / "functions")
    if (folder / "waves" / "manifest.json").exists():
        yield from waves(folder / "waves")


def operands(name: str) -> Iterator[tuple[str, Any, Any]]:
    """Data, A [M, K], B [N, K]."""
    import torch

    shapes = ((256, 256, 32), (512, 384, 1024), (256, 256, 8192))
    made: dict[str, Callable[..., Any]] = {
        "normal": lambda *shape: torch.randn(shape, device="cuda"),
        "positive": lambda *shape: torch.rand(shape, device="cuda"),
        "wide": lambda *shape: (
            torch.randn(shape, device="cuda") * torch.exp2(torch.randint(-12, 12, shape, device="cuda"))
        ),
    }
    for m, n, k in shapes:
        for data, draw in made.items():
            if name in EIGHT_BITS:
                to = torch.float8_e4m3fn
                yield f"{data}, K = {k}", draw(m, k).clamp(-400, 400).to(to), draw(n, k).clamp(-400, 400).to(to)
            else:
                yield f"{data}, K = {k}", draw(m, k), draw(n, k)
    if name not in EIGHT_BITS:
        a, b = torch.randn((256, 1024), device="cuda"), torch.randn((256, 1024), device="cuda")
        a[3, 5], a[7, 9], b[11, 5], b[200, 1000] = float("inf"), float("nan"), 0.0, float("-inf")
        a[:, 17], b[:, 17] = 1.0, 2.0
        b[13, 17] = float("inf")  # times 1, whose lower parts are 0
        yield "not finite, K = 1024", a, b
        whole = torch.randint(-50, 50, (256, 1024), device="cuda").float()
        yield "integers, K = 1024", whole, torch.randint(-50, 50, (256, 1024), device="cuda").float()


def products(directory: Path, name: str) -> Iterator[Row]:
    """One precision, at every kind of data."""
    import torch

    from tests.gpu import precision_kernels
    from twill.runtime.kernel import EmittedKernel

    emitted = EmittedKernel.load(str(directory))
    constants = {arg.name: arg.value for arg in emitted.manifest.arguments if arg.kind == "constant"}
    theirs = precision_kernels.product8 if name in EIGHT_BITS else precision_kernels.product
    for data, a, b in operands(name):
        (m, k), n = a.shape, b.shape[0]
        found = [torch.full((m, n), float("nan"), device="cuda") for _ in range(2)]
        grid = (-(-m // int(str(constants["BM"]))), -(-n // int(str(constants["BN"]))))
        emitted[grid](a, b, found[0], m, n, k)
        theirs[grid](a, b, found[1], m, n, k, **constants)
        exact = a.double() @ b.double().T
        scale = a.double().abs() @ b.double().abs().T
        yield compared(name, data, found, exact, scale, MEAN, float("inf"), exact_data=data.startswith("integers"))


def functions(directory: Path) -> Iterator[Row]:
    """Each function, where its results are normal numbers, and where they are not."""
    import torch

    from tests.gpu import precision_kernels
    from twill.runtime.kernel import EmittedKernel

    emitted = EmittedKernel.load(str(directory))
    n, block = 1 << 20, 1024
    normal = torch.randn(n, device="cuda") * 20
    positive = torch.exp2(torch.rand(n, device="cuda") * 40 - 20)
    tiny = torch.exp2(torch.rand(n, device="cuda") * 20 - 146)
    special = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, 3.4e38], device="cuda")
    grid = torch.cartesian_prod(special, special).repeat(n // 49 + 1, 1)[:n]
    cases = (("usual", normal, positive), ("subnormal", -90 - positive % 12, tiny), ("special", grid[:, 0].contiguous(),
             grid[:, 1].contiguous()))  # fmt: skip
    for data, x, y in cases:
        found = [[torch.full((n,), float("nan"), device="cuda") for _ in FUNCTIONS] for _ in range(2)]
        emitted[(n // block,)](x, y, *found[0], n)
        precision_kernels.functions[(n // block,)](x, y, *found[1], n, B=block)
        wide, long = x.double(), y.double()
        exact = (wide / long, wide / long, long.sqrt(), long.sqrt(), wide.exp(), wide.exp2(), long.log(), long.rsqrt())
        for i, name in enumerate(FUNCTIONS):
            scale = exact[i].abs().clamp(min=2.0**-126)
            yield compared(name, data, [found[0][i], found[1][i]], exact[i], scale, WORST, WORST, name in ROUNDED)


def waves(directory: Path) -> Iterator[Row]:
    """Sine, cosine, error function and logarithm: of numbers around 1, of subnormal ones of both signs, and of what is
    none. Triton's may read a subnormal number as 0 and give 0 for one (docs/operations.md): the columns say so."""
    import torch

    from tests.gpu import precision_kernels
    from twill.runtime.kernel import EmittedKernel

    emitted = EmittedKernel.load(str(directory))
    n, block = 1 << 20, 1024
    tiny = torch.randint(1, 1 << 23, (n,), device="cuda", dtype=torch.int32).view(torch.float32)
    sign = torch.where(torch.arange(n, device="cuda") % 2 == 0, 1.0, -1.0)
    special = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, 3.4e38], device="cuda")
    cases = (
        ("usual", torch.randn(n, device="cuda")), ("large", torch.randn(n, device="cuda") * 1e4),
        ("subnormal", tiny * sign), ("subnormal, positive", tiny), ("special", special.repeat(n // 7 + 1)[:n]),
    )  # fmt: skip
    known: dict[str, float] = {}  # Triton's largest error, of numbers around 1
    for data, x in cases:
        found = [[torch.full((n,), float("nan"), device="cuda") for _ in WAVES] for _ in range(2)]
        emitted[(n // block,)](x, *found[0], n)
        precision_kernels.waves[(n // block,)](x, *found[1], n, B=block)
        wide = x.double()
        exact = (wide.sin(), wide.cos(), torch.special.erf(wide), wide.log2())
        for i, name in enumerate(WAVES):
            scale = exact[i].abs().clamp(min=2.0**-126)
            pair = [found[0][i], found[1][i]]
            row = compared(name, data, pair, exact[i], scale, WORST, WORST, elsewhere=known.get(name, 0.0))
            known.setdefault(name, row.worst[1])
            yield row


def compared(
    name: str, data: str, found: list[Any], exact: Any, scale: Any, mean: float, worst: float, exact_data: bool = False,
    elsewhere: float = 0.0,
) -> Row:  # fmt: skip
    """A row of the table. exact_data: every bit has to be Triton's. elsewhere: Triton's largest error among other
    numbers, which may be the largest here too: few of the large ones are where the error function is not 1."""
    import torch

    finite = torch.isfinite(found[0]) & torch.isfinite(found[1]) & torch.isfinite(exact) & (scale > 0)
    kinds = [torch.where(torch.isnan(one), 2.0, torch.where(torch.isinf(one), one.sign(), 0.0)) for one in found]
    other = int((kinds[0] != kinds[1]).sum())
    errors = [((one.double() - exact).abs() / scale)[finite] / UNIT for one in found]
    means = [float(one.square().mean().sqrt()) if one.numel() else 0.0 for one in errors]
    most = [float(one.max()) if one.numel() else 0.0 for one in errors]
    same = bool((found[0].view(torch.int32) == found[1].view(torch.int32))[~torch.isnan(found[1])].all()) and not other
    good = not other and means[0] <= mean * means[1] + 1e-3 and most[0] <= worst * max(most[1], elsewhere) + 1e-3
    return Row(name, data, (means[0], means[1]), (most[0], most[1]), same, other, same if exact_data else good)


def main(words: list[str]) -> int:
    """The command line."""
    if len(words) != 2 or words[0] not in ("emit", "run"):
        print(__doc__, file=sys.stderr)
        return 2
    return emit(Path(words[1])) if words[0] == "emit" else run(Path(words[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
