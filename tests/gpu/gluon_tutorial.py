"""The persistent matmul of Triton's own Gluon tutorials, beside which modules are timed.

Its files are Triton's: whoever builds says where a copy of `python/tutorials/gluon` of the same version is.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, patch

if TYPE_CHECKING:
    import torch

FOLDER = "tutorial"
MATMUL = "07-persistence"
FILES = (MATMUL, "05-wgmma")
CONFIGURATIONS = (
    (128, 256, 3, 0),
    (128, 256, 3, 8),
    (128, 256, 4, 8),
    (128, 128, 5, 8),
    (128, 128, 5, 0),
    (256, 128, 3, 8),
)
"""Rows, columns, buffers, rows of tiles in a group (0: the order of the grid). With 4 buffers, B's last one is where
the tile is stored from."""
DEPTH, WARPS = 64, 8


def take(tutorials: Path, place: Path) -> None:
    """Puts what is needed beside the built modules."""
    (place / FOLDER).mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(tutorials / f"{name}.py", place / FOLDER)


def launches(place: Path, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each configuration; none where the files were not taken along."""
    if not (place / FOLDER).is_dir():
        return
    tutorial = _load(place / FOLDER)
    for rows, columns, buffers, group in CONFIGURATIONS:
        order = tutorial.GroupedPersistentTileScheduler(group) if group else tutorial.PersistentTileScheduler
        run = partial(tutorial.persistent_matmul_pipelined, a, b, c, rows, columns, DEPTH, buffers, WARPS, order)
        yield f"tutorial {rows} x {columns}, {buffers} buffers, group {group}", run


def _load(folder: Path) -> Any:
    """Without what its own tests and its own comparison with cuBLAS need."""
    from triton._C.libtriton import nvidia

    sys.path.insert(0, str(folder))
    if importlib.util.find_spec("pytest") is None:
        sys.modules["pytest"] = MagicMock()
    with patch.object(nvidia.cublas, "CublasLt"):
        return importlib.import_module(MATMUL)
