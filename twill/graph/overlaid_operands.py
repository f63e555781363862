"""Operands A in tensor memory that lie where the accumulator was from which they were computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twill.graph.costed import CostedEdge, CostedValue, Read
from twill.reach import reach


def host_of(
    value: CostedValue,
    values: Sequence[CostedValue],
    edges: Sequence[CostedEdge],
    reads: Mapping[int, Sequence[Read]],
) -> CostedValue | None:
    """The tensor memory value of the same row block that dies while `value` is computed from it. reads: of the values,
    by their ids."""
    inputs: dict[int, set[int]] = {}
    for e in edges:
        if e.distance == 0 and e.kind == "value":
            inputs.setdefault(e.dst, set()).add(e.src)
    ancestors = reach([value.producer], lambda v: inputs.get(v, ()))
    for host in values:
        fits = host.space == "tmem" and host.storage is None and host.bytes >= value.bytes > 0
        readers = {r.reader for r in reads.get(host.id, ()) if r.distance == 0}
        if fits and host.block == value.block and host.id != value.id and readers and readers <= ancestors:
            return host
    return None
