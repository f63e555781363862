"""The 60 shapes of `benchmarks.sweep`: M, N, K of each, by what makes them hard."""

from __future__ import annotations

Shape = tuple[int, int, int]

WEIGHTS = ((4096, 4096), (8192, 8192), (14336, 4096))  # N, K of what decoding multiplies by
GROUPS: dict[str, tuple[Shape, ...]] = {
    "decode": tuple((m, n, k) for n, k in WEIGHTS for m in (1, 4, 16, 32, 64, 128, 256, 512)),
    "square": tuple((side, side, side) for side in (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)),
    "skinny": (
        (16384, 64, 4096), (16384, 128, 1024), (8192, 256, 8192), (64, 16384, 1024), (32768, 512, 512),
        (128, 32768, 512), (8192, 8192, 128), (512, 65536, 256),
    ),
    "long K": (
        (2304, 1024, 63488), (256, 256, 32768), (512, 512, 65536), (128, 128, 131072), (1024, 1024, 16384),
        (64, 256, 65536), (1536, 512, 32768), (2048, 2048, 32768),
    ),
    "ragged": (
        (5000, 3000, 1000), (1, 3000, 1000), (1000, 1000, 1000), (777, 1304, 2056), (4095, 4104, 4088),
        (2049, 2056, 2064), (130, 8200, 520), (3333, 5000, 1720), (8191, 1032, 1032), (17, 4104, 8200),
    ),
}  # fmt: skip


def shapes(multiple: int) -> list[tuple[str, Shape]]:
    """All of them with their group; N and K rounded up to a multiple, as rows of 16 bytes need it."""
    return [
        (group, (m, -(-n // multiple) * multiple, -(-k // multiple) * multiple))
        for group, all_shapes in GROUPS.items()
        for m, n, k in all_shapes
    ]
