"""The order in which the processes of a run take its files: the longest first.

A process takes whole files (`--dist loadfile`). With the longest in front, the processes end within one short file of
one another; in any other order the last one may work for a minute while the others have nothing left.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

# Files of more than ten seconds, and those that wait for other processes as long.
LONGEST = (
    "trial/test_execute.py",
    "codegen/targets/test_blackwell_attention.py",
    "codegen/targets/test_blackwell_rows.py",
    "codegen/targets/test_blackwell_narrow.py",
    "codegen/test_gluon.py",
    "codegen/test_gluon_atomics.py",
    "codegen/test_gluon_axes.py",
    "codegen/test_gluon_blackwell.py",
    "codegen/test_gluon_branches.py",
    "codegen/test_gluon_dynamic.py",
    "codegen/test_gluon_pairs.py",
    "codegen/test_gluon_scales.py",
    "codegen/test_gluon_targets.py",
    "codegen/test_gluon_unbounded.py",
    "tile/interpret/test_generated.py",
    "codegen/targets/test_blackwell_scales.py",
    "codegen/test_printer_survey.py",
    "codegen/verify/ptx/test_strangers_blackwell.py",
    "trial/test_any_size.py",
    "codegen/test_elected.py",
    "cli/test_killed.py",
    "server/test_soak.py",
    "codegen/verify/ptx/test_blackwell_faults.py",
    "codegen/targets/test_blackwell.py",
    "codegen/targets/test_blackwell_people.py",
    "codegen/targets/test_blackwell_pairs.py",
    "codegen/targets/test_blackwell_multicast.py",
    "codegen/targets/test_blackwell_formats.py",
    "codegen/targets/test_blackwell_plain_scales.py",
    "codegen/targets/test_blackwell_by_threads.py",
    "codegen/targets/test_blackwell_straight.py",
    "codegen/targets/test_blackwell_short.py",
    "codegen/targets/test_blackwell_precision.py",
    "certify/test_certify.py",
    "codegen/verify/ptx/test_thread_orders.py",
    "codegen/verify/ptx/test_misread_bits.py",
    "codegen/verify/test_numeric_faults.py",
    "solve/test_pipeline.py",
    "codegen/test_elected_products.py",
    "smt/test_external.py",
    "codegen/test_walks.py",
    "codegen/test_wide_rows.py",
    "test_packaging.py",
    "coverage/test_survey.py",
    "codegen/test_rearrangements.py",
    "codegen/targets/test_blackwell_halves.py",
    "trial/test_strict.py",
    "cli/test_serve.py",
    "server/test_openapi.py",
    "server/test_browser.py",
    "benchmarks/test_compare.py",
    "cli/test_emit.py",
    "cli/test_jit_helper.py",
    "codegen/compile/test_gluon_waits.py",
    "codegen/verify/test_abstract_machine.py",
    "codegen/test_split_k.py",
    "codegen/targets/test_blackwell_states.py",
    "codegen/test_gathers.py",
    "smt/test_boolean.py",
    "codegen/test_straight.py",
    "cli/test_ci.py",
    "codegen/test_warp_programs.py",
    "tile/translate/test_translate.py",
    "runtime/test_jit.py",
    "codegen/test_tile_loops.py",
    "codegen/passes/test_overlay.py",
    "codegen/passes/test_tensor_overlay.py",
    "tile/rewrite/test_conditional_rescale.py",
    "codegen/verify/ptx/test_strangers_block_scales.py",
    "zlp/test_heuristic.py",
    "codegen/targets/test_blackwell_scheduler.py",
    "codegen/verify/test_tensor_fences.py",
)
TESTS = Path(__file__).parent
PLACES = {TESTS / name: place for place, name in enumerate(LONGEST)}


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by file: `LONGEST` in its order, then files of many tests first. Within a file nothing moves."""
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (PLACES.get(item.path, len(LONGEST)), -counts[item.path], item.path))
