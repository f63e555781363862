"""Promises of the kernel benchmark: what is recorded is kept, a hang costs one contestant, ratios are fair."""

from __future__ import annotations

import json
import random
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kernels import emitting, measure, tables, variants
from benchmarks.kernels.__main__ import main
from benchmarks.kernels.contestant import right
from benchmarks.kernels.measure import Effort, sustained
from benchmarks.kernels.plot import picture
from benchmarks.kernels.record import Document, Entry, Spread, Timed, entry_of, percentile, read, spread, write
from benchmarks.kernels.report import entry_line, markdown
from benchmarks.kernels.sensor import Reading, Sensor
from benchmarks.kernels.supervise import Supervisor
from benchmarks.kernels.tables import TABLES, Row, rows
from benchmarks.kernels.work import flops
from tests.conftest import ROOT
from tests.manifests import KERNEL
from twill.manifest.document import CallArgument, Manifest


def timed(name: str, group: str, ms: float, ok: bool = True) -> Timed:
    known = Spread(ms, ms * 0.9, ms * 1.1, 10, (ms,), 1500.0, 690.0)
    return Timed(
        name, group, "", {"c": 1e-3}, ok, known if ok else None, known if ok else None, 5.0, "" if ok else "wrong"
    )


def entry(key: str, *contestants: Timed, absent: Mapping[str, str] | None = None) -> Entry:
    return Entry(key, "gemm", "bf16", {"M": 8}, "TFLOP/s", 1.0, {"bf16": "abc"}, contestants, absent or {}, "today")


FULL = entry(
    "gemm M=8",
    timed("twill small", "twill", 2.0),
    timed("twill wide", "twill", 1.0),
    timed("cuBLAS", "library", 1.1),
    timed("cuBLAS, product alone", "partial", 0.5),
    timed("Triton, tuned", "triton", 1.5),
    absent={"FlashAttention 4": "not installed (flash_attn)"},
)


# -- what is recorded -----------------------------------------------------------------------------


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    document = Document("gemm", {"device": "a GPU"}, (FULL,))
    write(tmp_path / "a.json", document)
    assert read(tmp_path / "a.json") == document
    assert read(tmp_path / "none.json") is None


def test_a_file_of_another_kind_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kernels-gemm.json").write_text("{}")
    with pytest.raises(ValueError, match="another --out"):
        main(["--report", "--out", str(tmp_path), "--table", "gemm"])


def test_a_row_measured_again_takes_the_place_of_the_old_one() -> None:
    order = ["gemm M=8", "gemm M=16"]
    later = entry("gemm M=16", timed("twill a", "twill", 3.0))
    document = Document("gemm", {}).with_entry(later, order).with_entry(FULL, order)
    again = document.with_entry(entry("gemm M=8", timed("twill a", "twill", 9.0)), order)
    assert [e.key for e in again.entries] == order
    assert again.entries[0].timed[0].name == "twill a"


def test_the_fastest_right_variant_stands_against_the_fastest_whole_peer() -> None:
    best = FULL.best("twill")
    assert best is not None and best.name == "twill wide"
    assert FULL.ratio("peers") == pytest.approx(1.1)
    assert FULL.ratio("triton") == pytest.approx(1.5)


def test_a_wrong_kernel_has_no_ratio() -> None:
    one = entry("gemm M=8", timed("twill wide", "twill", 0.1, ok=False), timed("cuBLAS", "library", 1.0))
    assert one.ratio("peers") is None
    assert "wrong" in entry_line(one)


def test_a_spread_is_the_median_of_rounds_and_the_percentiles_of_launches() -> None:
    found = spread([[1.0, 1.0, 9.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    assert (found.ms, found.rounds, found.launches) == (2.0, (1.0, 2.0, 3.0), 9)
    assert percentile([0.0, 10.0], 5) == pytest.approx(0.5)
    assert found.low < found.ms < found.high


# -- what is shown --------------------------------------------------------------------------------


def test_the_table_names_the_variant_the_absent_and_the_ratios() -> None:
    text = markdown(Document("gemm", {"device": "a GPU"}, (FULL,)))
    row = next(line for line in text.splitlines() if line.startswith("| gemm M=8 | TFLOP/s"))
    assert "| wide |" in row and row.endswith("| 1.10 | 1.50 |")
    assert "FlashAttention 4: not installed" in text
    assert "1500" in text and "690" in text


def test_the_picture_is_xml_with_a_point_for_each_contestant_that_is_right() -> None:
    tree = ElementTree.fromstring(picture(Document("gemm", {"device": "a <GPU>"}, (FULL,))))
    points = [node for node in tree.iter() if node.tag.endswith("circle") and len(node)]
    assert len(points) == 3  # twill, cuBLAS, Triton


def test_recorded_documents_are_drawn_as_they_are() -> None:
    results = ROOT / "benchmarks" / "results"
    for table in TABLES:
        document = read(results / f"kernels-{table}.json")
        assert document is not None
        assert (results / f"kernels-{table}.md").read_text(encoding="utf-8") == markdown(document)
        assert (results / f"kernels-{table}.svg").read_text(encoding="utf-8") == picture(document)


# -- what is measured -----------------------------------------------------------------------------


def test_rows_of_a_table_have_keys_of_their_own() -> None:
    for table in TABLES:
        keys = [row.key for row in rows(table)]
        assert keys and len(set(keys)) == len(keys)
    assert {"layer_norm", "dual_gemm"} <= {row.kernel for row in rows("examples")}


def test_masked_products_do_not_count() -> None:
    sizes = {"Z": 4, "H": 16, "N_CTX": 1024}
    full = flops("attention", {"HEAD_DIM": 128}, sizes)
    assert full == 4.0 * 4 * 16 * 1024 * 1024 * 128
    assert flops("attention", {"HEAD_DIM": 128, "CAUSAL": True}, sizes) == full / 2
    assert flops("attention_backward", {"HEAD_DIM": 128}, sizes) == 2.5 * full


def test_an_emitted_kernel_is_held_to_the_error_of_the_triton_kernel() -> None:
    assert right({"c": 1.1e-3}, {"c": 1e-3})
    assert not right({"c": 1.3e-3}, {"c": 1e-3})
    assert not right({"c": float("nan")}, {"c": 1e-3})
    assert right({"c": 0.01}, {}) and not right({"c": 0.03}, {}) and not right({}, {})


def test_problems_of_other_tiles_have_other_grids(at_root: None) -> None:
    wide = variants.problem("examples/gemm.py", {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8})
    assert wide.case({"M": 256, "N": 256, "K": 64}).grid == (2 * 4,)


class FakeClock:
    """Counts launches; the n-th takes n milliseconds."""

    def __init__(self) -> None:
        self.times = 0

    def once(self, launch: Any) -> float:
        return self.window(launch, 1)[0]

    def window(self, launch: Any, count: int) -> list[float]:
        launch()
        return [1.0] * count


def test_contestants_take_turns_in_changing_order_and_the_first_round_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "Clock", FakeClock)
    order: list[str] = []
    launches = {name: (lambda name=name: order.append(name)) for name in "abcd"}
    found = sustained(launches, Effort(rounds=4, warm=0.0, window=0.01), Sensor(), random.Random(1))
    assert all(len(one.rounds) == 4 for one in found.values())
    body = order[4:]  # after one estimate each
    heat, rest = body[:4], body[4:]
    assert sorted(heat) == list("abcd")
    turns = ["".join(rest[i : i + 8 : 2]) for i in range(0, len(rest), 8)]  # each warms up, then is timed
    assert all(sorted(turn) == list("abcd") for turn in turns) and len(set(turns)) > 1


def test_clock_and_power_are_means_over_the_window() -> None:
    sensor = Sensor(readings=[Reading(float(t), 1000.0 + t, 600.0) for t in range(10)])
    assert sensor.mean(2.0, 4.0) == (1003.0, 600.0)
    assert sensor.mean(20.0, 30.0) == (None, None)


# -- the child that measures ----------------------------------------------------------------------

CHILD = """
import json, sys, time
task = json.load(sys.stdin)
def tell(**said): print(json.dumps(said), flush=True)
tell(environment={{"device": "fake"}})
for row in task["rows"]:
    key = row["kernel"] + " " + " ".join(f"{{n}}={{v}}" for n, v in row["sizes"].items())
    tell(at=[key, "", "begin"])
    absent = task["without"].get(key, {{}})
    if row["sizes"]["M"] == 2 and "twill bad" not in absent:
        tell(at=[key, "twill bad", "check"])
        {fate}
    entry = json.loads({entry!r})
    tell(entry={{**entry, "key": key, "absent": absent}})
"""


def supervisor(fate: str, tell: list[str], limit: float = 2.0) -> Supervisor:
    program = CHILD.format(fate=fate, entry=json.dumps(asdict(FULL)))
    return Supervisor("nowhere", Effort(), limit, command=(sys.executable, "-c", program), tell=tell.append)


ROWS = tuple(Row("gemm", "gemm", {"M": m}) for m in (1, 2, 3))


@pytest.mark.parametrize(
    ("fate", "said"),
    [("time.sleep(60)", "no end of 'check' after 2 s"), ("sys.exit('illegal address')", "illegal address")],
)
def test_who_hangs_or_dies_is_left_out_and_the_row_is_measured_without(fate: str, said: str) -> None:
    listed: list[str] = []
    found = list(supervisor(fate, listed).entries(ROWS))
    assert [e.key for e in found] == ["gemm M=1", "gemm M=2", "gemm M=3"]
    assert said in found[1].absent["twill bad"]
    assert not found[0].absent and not found[2].absent
    assert len(listed) == 1


def test_a_row_that_fails_without_a_culprit_is_left_out() -> None:
    program = CHILD.format(fate="pass", entry=json.dumps(asdict(FULL))).replace(
        'tell(at=[key, "", "begin"])', 'tell(at=[key, "", "begin"])\n    if row["sizes"]["M"] == 1: sys.exit(9)'
    )
    listed: list[str] = []
    one = Supervisor("nowhere", Effort(), 5.0, command=(sys.executable, "-c", program), tell=listed.append)
    assert [e.key for e in one.entries(ROWS)] == ["gemm M=2", "gemm M=3"]
    assert "exit code 9" in listed[0]


def test_no_row_begins_after_its_time() -> None:
    one = supervisor("pass", [])
    one.until = 0.0
    assert list(one.entries(ROWS)) == []


def test_entries_survive_json() -> None:
    assert entry_of(json.loads(json.dumps(asdict(FULL)))) == FULL


def two_specializations() -> list[tuple[str, str]]:
    return [("examples/gemm_fp8.py", "e4m3"), ("examples/gemm_fp8.py", "e4m3-wide")]


def test_kernels_are_emitted_again_only_if_their_sources_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    class Pool:
        """Runs at once, in this process."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, function: Any, file: str, spec: str, folder: Path, cluster: int) -> Future[str]:
            made.append(folder.name)
            assert folder.name.endswith("-cluster2") == (cluster == 2)
            done: Future[str] = Future()
            done.set_result("no registers" if spec == "e4m3" else "")
            return done

    monkeypatch.setattr(emitting, "specializations", lambda kernels: two_specializations())
    monkeypatch.setattr(emitting, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(emitting, "source_digest", lambda: "first")
    listed: list[str] = []
    wanted = (Row("fp8", "gemm_fp8", {}),)
    emitting.emit_missing(tmp_path, wanted, listed.append)
    emitting.emit_missing(tmp_path, wanted, listed.append)
    assert made == ["gemm_fp8-e4m3", "gemm_fp8-e4m3-wide"]
    assert listed == ["gemm_fp8-e4m3: not emitted: no registers"]
    monkeypatch.setattr(emitting, "source_digest", lambda: "second")
    emitting.emit_missing(tmp_path, wanted, listed.append)
    assert len(made) == 4
    emitting.emit_missing(tmp_path, wanted, listed.append, clusters=(1, 2))
    assert made[4:] == ["gemm_fp8-e4m3-cluster2", "gemm_fp8-e4m3-wide-cluster2"]


def test_kernels_of_other_origin_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in ("e4m3", "e4m3-wide"):
        (tmp_path / f"gemm_fp8-{spec}").mkdir()
        (tmp_path / f"gemm_fp8-{spec}" / "manifest.json").write_text("{}")
    monkeypatch.setattr(emitting, "specializations", lambda kernels: two_specializations())
    monkeypatch.setattr(emitting, "ProcessPoolExecutor", None)  # not to be called
    emitting.emit_missing(tmp_path, (Row("fp8", "gemm_fp8", {}),), print)


def test_variants_are_of_the_row_and_those_that_triton_can_spell_come_first(at_root: None, tmp_path: Path) -> None:
    gemm = make("gemm", {"BLOCK_M": 128, "BLOCK_N": 192, "BLOCK_K": 64, "GROUP_M": 8})
    wide = make("gemm", {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8})
    other = make("gemm_fp8", {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "GROUP_M": 8})
    for name, manifest in {"gemm-192": gemm, "gemm-wide": wide, "gemm_fp8-wide": other}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(manifest.text())
    found = variants.variants(tmp_path, Row("gemm", "gemm", {"M": 256, "N": 256, "K": 64}))
    assert [one.name for one in found] == ["wide", "192"]
    promising = make("gemm_bias_gelu", {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8})
    (tmp_path / "gemm_bias_gelu-bf16").mkdir()
    (tmp_path / "gemm_bias_gelu-bf16" / "manifest.json").write_text(promising.text())
    assert variants.variants(tmp_path, Row("gelu", "gemm_bias_gelu", {"M": 256, "N": 256, "K": 64}))
    assert variants.variants(tmp_path, Row("gelu", "gemm_bias_gelu", {"M": 256, "N": 255, "K": 64})) == []
    assert variants.variants(tmp_path, Row("gemm", "gemm", {"M": 256, "N": 256, "K": 64}, {"BLOCK_N": 64})) == []


def test_a_kernel_that_computes_the_same_competes_behind_the_row_s_own(at_root: None, tmp_path: Path) -> None:
    known = {"HEAD_DIM": 64, "BLOCK_M": 128, "BLOCK_N": 128, "CAUSAL": False}
    made = {
        "attention-full-d64": make("attention", known),
        "attention_any_length-full-d64": make("attention_any_length", {**known, "BLOCK_M": 192, "EVEN_N": True}),
        "attention_pointers-full": make("attention_pointers", known),
    }
    for name, manifest in made.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(manifest.text())
    fixed, sizes = {"HEAD_DIM": 64, "CAUSAL": False}, {"Z": 1, "H": 2, "N_CTX": 256}
    own, other = variants.variants(tmp_path, Row("attention", "attention", sizes, fixed))
    assert (own.name, other.name) == ("full-d64", "attention_any_length-full-d64")
    cases = own.case(sizes), other.case(sizes)
    assert all(case is not None for case in cases)
    shapes = [case.shapes["q_desc"] for case in cases if case is not None]
    assert shapes == [(512, 64), (2, 256, 64)]  # of the same elements
    wanted = {"attention", "attention_any_length", "attention_descending"}
    assert {Path(file).stem for file, _ in emitting.specializations(wanted)} == wanted
    assert set(tables.computing("attention")) == wanted and tables.computing("gemm") == ("gemm",)


def make(kernel: str, known: Mapping[str, int]) -> Manifest:
    """A manifest with these constants."""
    constants = tuple(CallArgument(name, "constant", value=value) for name, value in known.items())
    return replace(KERNEL, kernel=kernel, file=f"examples/{kernel}.py", arguments=(*KERNEL.arguments, *constants))
