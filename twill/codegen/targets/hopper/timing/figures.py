"""Figures of the SM that the machine file does not have, because no schedule knows of them: `figures.toml`."""

from __future__ import annotations

import importlib.resources
import tomllib
from dataclasses import dataclass, fields
from functools import cache

FILE = "figures.toml"


@dataclass(frozen=True)
class SmFigures:
    """In cycles, and bytes or multiply-adds a cycle; the file says what each is, and where it comes from. `interval`: a
    scheduler's pipe takes an instruction every so many cycles; `port`: that of shared memory and shuffles."""

    alu_interval: int
    fma_interval: int
    special_interval: int
    special_latency: int
    special_queue: int
    double_interval: int
    double_latency: int
    uniform_interval: int
    register_latency: int
    constant_latency: int
    read_latency: int
    branch: int
    port_bytes: int
    port_interval: int
    port_queue: int
    shared_latency: int
    shuffle_latency: int
    global_latency: int
    global_bytes: int
    global_store_bytes: int
    tensor_queue: int
    tensor_start: int
    tensor_end: int
    multiply_rate: int
    multiply_least: int
    bulk_load_bytes: int
    bulk_load_latency: int
    bulk_read: int
    bulk_store_bytes: int
    bulk_reduce_bytes: int
    bulk_store_latency: int
    arrive_latency: int
    wake_latency: int
    try_latency: int
    barrier_latency: int
    barrier_register: int


@cache
def load_figures() -> SmFigures:
    """The figures of the file."""
    text = importlib.resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    table = tomllib.loads(text)["figures"]
    return SmFigures(**{field.name: table[field.name]["value"] for field in fields(SmFigures)})
