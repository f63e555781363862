"""The emitted kernels of a folder that compute a row: every one competes, whatever its tiles."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.kernels.contestant import Contestant
from benchmarks.kernels.tables import ROOT, Row, computing
from twill.exc import MalformedSidecar
from twill.kernel.problem import Case, ProblemTable
from twill.kernel.sidecar import read_sidecar
from twill.manifest.document import Manifest, read_manifest
from twill.runtime.kernel import EmittedKernel
from twill.trial.data import Data, emitted


@dataclass(frozen=True)
class Variant:
    """An emitted kernel. name: of its folder without the kernel's."""

    name: str
    folder: Path
    manifest: Manifest

    @property
    def constants(self) -> dict[str, Any]:
        """Constexprs it was emitted for."""
        return constants(self.manifest)

    @property
    def spellable(self) -> bool:
        """Whether the original kernel can be launched with these tiles: Triton's are powers of two."""
        blocks = [value for name, value in self.constants.items() if name.startswith("BLOCK")]
        return all(isinstance(value, int) and value.bit_count() == 1 for value in blocks)

    def case(self, sizes: Mapping[str, int]) -> Case | None:
        """The launch at these sizes; None if the kernel cannot have them."""
        try:
            return problem(self.manifest.file, self.constants).case(sizes)
        except MalformedSidecar:
            return None

    def contestant(self, data: Data) -> Contestant:
        """It, on the tensors of `data`."""
        kernel = EmittedKernel.load(self.folder)
        case = self.case(data.case.sizes)
        assert case is not None
        held = {name: replace(one, tensor=one.tensor.view(case.shapes[name])) for name, one in data.held.items()}
        launch = emitted(kernel, Data(self.manifest, case, held))
        return Contestant(f"twill {self.name}", "twill", launch, outputs(data, launch), tiles(self.constants), True)


def variants(folder: Path, row: Row) -> list[Variant]:
    """Those in `folder` that compute the row; first those of its own kernel, and whose tiles Triton can have, too."""
    found = []
    for path in sorted(folder.glob("*/manifest.json")):
        manifest = read_manifest(path)
        known = constants(manifest)
        if manifest.kernel not in computing(row.kernel) or any(
            known.get(name) != value for name, value in row.fixed.items()
        ):
            continue
        variant = Variant(path.parent.name.removeprefix(f"{row.kernel}-"), path.parent, manifest)
        if variant.case(row.sizes) is not None:
            found.append(variant)
    return sorted(found, key=lambda variant: (variant.manifest.kernel != row.kernel, not variant.spellable))


def constants(manifest: Manifest) -> dict[str, Any]:
    """Constexprs of an emitted kernel."""
    return {a.name: a.value for a in manifest.arguments if a.kind == "constant"}


def problem(file: str, known: Mapping[str, Any]) -> ProblemTable:
    """The problem table of the example, with these constants in place of the sidecar's."""
    sidecar = read_sidecar(str(ROOT / file))
    assert sidecar is not None, f"{file} has no sidecar"
    tables = [table.problem for table in sidecar.tables if table.problem is not None]
    same = [p for p in tables if all(p.constants.get(name) == value for name, value in known.items())]
    found = (same or tables)[0]
    numbers = {name: value for name, value in known.items() if isinstance(value, int | float)}
    return replace(found, constants={**found.constants, **numbers})


def outputs(data: Data, launch: Any) -> Any:
    """What a launch makes of outputs that held nothing."""

    def made() -> dict[str, Any]:
        data.clear()
        launch()
        return data.outputs

    return made


def tiles(known: Mapping[str, Any]) -> str:
    """BLOCK_M=128 BLOCK_N=256."""
    return " ".join(f"{name}={value}" for name, value in known.items() if name.startswith(("BLOCK", "GROUP", "CHUNK")))


@cache
def module(file: str) -> Any:
    """The example, imported once."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, ROOT / file)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def identities(found: list[Variant]) -> dict[str, str]:
    """What a recorded row says it was measured with."""
    return {variant.name: variant.manifest.digest[:12] for variant in found}
