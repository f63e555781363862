"""Rows measured in this process: what the parent (`supervise.py`) starts, and ends if it hangs.

    python -m benchmarks.kernels.child   < {"rows": [...], "emitted": DIR, "without": {row: {contestant: why}}, ...}

prints one JSON object a line: {"environment": ...} first, {"at": [row, contestant, step]} before every step that could
hang, {"entry": ...} after every row, {"skipped": row, "why": ...} for a row that nobody can compute.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.kernels import triton_peer
from benchmarks.kernels.contestant import Contestant, errors, right
from benchmarks.kernels.libraries import libraries
from benchmarks.kernels.measure import Effort, Launch, burst, sustained
from benchmarks.kernels.record import Entry, Timed
from benchmarks.kernels.sensor import Sensor, sensing
from benchmarks.kernels.tables import Row
from benchmarks.kernels.variants import Variant, identities, variants
from benchmarks.kernels.work import flops, moved
from tests.gpu.references import EXAMPLES
from twill.trial.data import Data, make_data
from twill.trial.timing import host_microseconds

HOST_LAUNCHES = 200


@dataclass
class Child:
    """What is the same for every row. without: contestants that already failed, and why."""

    emitted: Path
    effort: Effort
    without: Mapping[str, Mapping[str, str]]
    sensor: Sensor
    seed: int = 0

    def entry(self, row: Row) -> Entry | None:
        """The row, measured; None if no emitted kernel says how its tensors look."""
        competing = variants(self.emitted, row)
        if not competing:
            return None
        data = make_data(competing[0].manifest, _case(competing[0], row))
        example = EXAMPLES[row.kernel]
        if example.prepare:
            example.prepare(data)
        tell(at=[row.key, "", "reference"])
        reference = _flat(example.reference(data, _float32()))
        contestants, absent = self._gathered(row, competing, data, reference)
        found = self._checked(row, contestants, reference, data)
        del reference
        timed = self._timed(row, contestants, found)
        operations = flops(row.kernel, competing[0].constants, row.sizes)
        return Entry(
            key=row.key,
            kernel=row.kernel,
            part=row.part,
            sizes=dict(row.sizes),
            unit="TFLOP/s" if operations else "TB/s",
            work=(operations or moved(data)) / 1e9,
            emitted=identities(competing),
            timed=timed,
            absent=absent,
            at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )

    def _gathered(
        self, row: Row, competing: list[Variant], data: Data, reference: Mapping[str, Any]
    ) -> tuple[list[Contestant], dict[str, str]]:
        """Everyone who can take part, and who cannot."""
        failed = self.without.get(row.key, {})
        absent = dict(failed)
        found: list[Contestant] = []
        for variant in competing:
            if f"twill {variant.name}" not in failed:
                found.append(variant.contestant(data))
        for library in libraries(row.kernel):
            if library.name in failed:
                continue
            tell(at=[row.key, library.name, "start"])
            peer = library.contestant(data)
            if isinstance(peer, str):
                absent[library.name] = peer
            else:
                found.append(peer)
        if "Triton, tuned" not in failed:
            tell(at=[row.key, "Triton, tuned", "tuning"])
            triton = triton_peer.contestant(data, reference)
            if isinstance(triton, str):
                absent["Triton, tuned"] = triton
            else:
                found.append(triton)
        return found, absent

    def _checked(
        self, row: Row, contestants: list[Contestant], reference: Mapping[str, Any], data: Data
    ) -> dict[str, Timed]:
        """Errors of each, the Triton kernel first: emitted kernels are held to its."""
        found: dict[str, Timed] = {}
        triton: Mapping[str, float] = {}
        for one in sorted(contestants, key=lambda c: c.group != "triton"):
            tell(at=[row.key, one.name, "check"])
            try:
                wrong_by = errors(one, reference)
            except Exception as error:
                if "illegal" in str(error) or "launch failure" in str(error):
                    raise
                found[one.name] = Timed(one.name, one.group, one.detail, ok=False, note=_said(error))
                continue
            compares = bool(wrong_by) or one.group == "twill"
            ok = right(wrong_by, triton if one.group == "twill" else {}) if compares else True
            outside = data.outside() if one.group == "twill" else []
            note = f"writes beside {', '.join(outside)}" if outside else "" if ok else "wrong"
            ok = ok and not outside
            found[one.name] = Timed(one.name, one.group, one.detail, wrong_by, ok, note=note)
            triton = wrong_by if one.group == "triton" else triton
        return found

    def _timed(self, row: Row, contestants: list[Contestant], found: Mapping[str, Timed]) -> tuple[Timed, ...]:
        """All that are right, in turns."""
        running = [one for one in contestants if found[one.name].ok]
        launches: dict[str, Launch] = {one.name: one.launch for one in running}
        chance = random.Random(f"{self.seed} {row.key}")
        tell(at=[row.key, "", "sustained"])
        steady = sustained(launches, self.effort, self.sensor, chance)
        tell(at=[row.key, "", "burst"])
        single = burst(launches, self.effort, chance)
        hosts = {one.name: host_microseconds(one.launch, HOST_LAUNCHES) for one in running if one.host}
        timed = []
        for one in contestants:
            name, known = one.name, found[one.name]
            if name in steady:
                known = replace(known, sustained=steady[name], burst=single[name], host_us=hosts.get(name))
            timed.append(known)
        return tuple(timed)


def main() -> int:
    """See the module."""
    import torch

    task = json.load(sys.stdin)
    rows = [Row(**row) for row in task["rows"]]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    with sensing() as sensor:
        tell(environment=environment(sensor))
        child = Child(Path(task["emitted"]), Effort(**task["effort"]), task["without"], sensor, task["seed"])
        tell(at=[rows[0].key, "Triton, tuned", "compile"])
        triton_peer.compile_ahead(_small(child.emitted, rows))
        for row in rows:
            tell(at=[row.key, "", "begin"])
            entry = child.entry(row)
            torch.cuda.empty_cache()
            if entry is None:
                tell(skipped=row.key, why="no emitted kernel computes it")
            else:
                tell(entry=asdict(entry))
    return 0


def tell(**said: Any) -> None:
    """One line for the parent."""
    print(json.dumps(said), flush=True)


def environment(sensor: Sensor) -> dict[str, str]:
    """Where and with what."""
    import torch
    import triton

    cudnn: Any = torch.backends.cudnn
    driver = sensor.library.nvmlSystemGetDriverVersion() if sensor.library else "unknown"
    return {
        "device": torch.cuda.get_device_name(),
        "driver": driver if isinstance(driver, str) else driver.decode(),
        "power limit": sensor.limit(),
        "PyTorch": torch.__version__,
        "CUDA": str(torch.version.cuda),
        "cuDNN": str(cudnn.version()),
        "Triton": triton.__version__,
    }


def _small(folder: Path, rows: list[Row]) -> list[Data]:
    """One little problem of each kind, for compilers."""
    seen: dict[str, Data] = {}
    for row in rows:
        competing = variants(folder, row)
        if row.kind in seen or not competing:
            continue
        sizes = {**row.sizes, **{name: min(size, 2048) for name, size in row.sizes.items()}}
        seen[row.kind] = make_data(competing[0].manifest, _case(competing[0], replace(row, sizes=sizes)))
    return list(seen.values())


def _case(variant: Variant, row: Row) -> Any:
    case = variant.case(row.sizes)
    assert case is not None
    return case


def _flat(reference: Mapping[str, Any]) -> dict[str, Any]:
    """The reference as long rows: peers shape their results otherwise."""
    return {name: wanted.reshape(-1) for name, wanted in reference.items()}


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"


def _float32() -> Any:
    import torch

    return torch.float32


if __name__ == "__main__":
    sys.exit(main())
