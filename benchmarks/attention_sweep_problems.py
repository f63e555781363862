"""The 40 problems of `benchmarks.attention_sweep`, by what makes them hard; bf16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["dense", "decode", "variable"]


@dataclass(frozen=True)
class Problem:
    """Attention of some sequences. group, name: for people. sequences: queries and keys of each. heads: of queries.
    shared: heads of queries to one of keys. width: of a head, D. In causal ones the last query sees the last key."""

    group: str
    kind: Kind
    sequences: tuple[tuple[int, int], ...]
    heads: int
    shared: int
    width: int
    causal: bool = False

    @property
    def key_heads(self) -> int:
        return self.heads // self.shared

    @property
    def queries(self) -> int:
        """Of the longest sequence."""
        return max(queries for queries, _ in self.sequences)

    @property
    def keys(self) -> int:
        """Of the longest sequence."""
        return max(keys for _, keys in self.sequences)

    @property
    def name(self) -> str:
        """causal 4 x 16/4 x 1024 x 8192, D 128: sequences, heads of queries and of keys, queries, keys."""
        how = "causal" if self.causal else "decode" if self.kind == "decode" else "full"
        heads = f"{self.heads}/{self.key_heads}"
        if self.kind == "variable":
            queries, keys = (sum(both) for both in zip(*self.sequences, strict=True))
            sizes = f"of {queries} queries, {keys} keys, longest {self.queries}, {self.keys}"
            return f"{how}, {len(self.sequences)} x {heads} {sizes}, D {self.width}"
        sizes = f"{self.queries} x {self.keys}" if self.queries != self.keys else f"{self.keys}"
        return f"{how} {len(self.sequences)} x {heads} x {sizes}, D {self.width}"

    @property
    def operations(self) -> float:
        """Multiplications and additions of the two products, without what causal attention leaves out."""
        return 4.0 * self.width * self.heads * sum(pairs(*one, self.causal) for one in self.sequences)

    @property
    def bytes(self) -> float:
        """Of Q, K, V and O, each once."""
        queries, keys = (sum(both) for both in zip(*self.sequences, strict=True))
        return float(4 * self.width * (self.heads * queries + self.key_heads * keys))


def pairs(queries: int, keys: int, causal: bool) -> int:
    """Queries and keys that see each other."""
    return queries * keys - (queries * (queries - 1) // 2 if causal else 0)


def dense(group: str, batch: int, heads: int, shared: int, length: int, width: int = 128, keys: int = 0) -> Problem:
    """Sequences of equal lengths; keys: if there are more of them than queries."""
    same = ((length, keys or length),) * batch
    return Problem(group, "dense", same, heads, shared, width, group.startswith("causal"))


def decode(batch: int, heads: int, shared: int, keys: int, width: int = 128) -> Problem:
    """One query a sequence."""
    return Problem("decode", "decode", ((1, keys),) * batch, heads, shared, width)


def variable(sequences: tuple[tuple[int, int], ...], heads: int, shared: int, causal: bool) -> Problem:
    """Sequences one behind the other."""
    return Problem("variable", "variable", sequences, heads, shared, 128, causal)


def spread(count: int, least: int, most: int) -> tuple[tuple[int, int], ...]:
    """Lengths from least to most, long and short ones in turns."""
    lengths = [least + (most - least) * (index * 7 % count) // (count - 1) for index in range(count)]
    return tuple((length, length) for length in lengths)


def problems() -> tuple[Problem, ...]:
    """All of them."""
    full = (
        dense("full", 256, 16, 1, 1), dense("full", 128, 16, 1, 17), dense("full", 32, 16, 1, 512),
        dense("full", 16, 16, 4, 1000), dense("full", 16, 16, 1, 1024), dense("full", 4, 32, 1, 4096, 64),
        dense("full", 4, 16, 1, 4096, 96), dense("full", 2, 16, 4, 8191), dense("full", 2, 8, 1, 8192, 256),
        dense("full", 1, 16, 8, 16384), dense("full", 1, 4, 4, 65536), dense("full", 4, 16, 8, 512, keys=8192),
    )  # fmt: skip
    causal = (
        dense("causal", 128, 16, 4, 17), dense("causal", 32, 16, 1, 512), dense("causal", 16, 16, 4, 1000),
        dense("causal", 8, 16, 1, 2048), dense("causal", 4, 16, 8, 4096), dense("causal", 4, 16, 4, 4096, 96),
        dense("causal", 2, 32, 4, 8192, 64), dense("causal", 2, 16, 1, 8191), dense("causal", 2, 16, 4, 8192),
        dense("causal", 2, 8, 8, 8192, 256), dense("causal", 1, 16, 8, 16384), dense("causal", 1, 8, 8, 65536),
        dense("causal", 2, 16, 4, 1024, keys=16384),
    )  # fmt: skip
    one_query = (
        decode(1, 32, 1, 1024), decode(1, 64, 8, 8192), decode(1, 64, 8, 65536), decode(8, 32, 4, 16384),
        decode(16, 32, 4, 1000), decode(16, 64, 8, 4096, 64), decode(32, 16, 1, 8192), decode(64, 64, 8, 2048),
        decode(64, 32, 4, 4096), decode(4, 16, 8, 32768, 256),
    )  # fmt: skip
    chunks = tuple((1, keys) for keys in range(1000, 17000, 1000))  # decoding beside two prompts, one of them in parts
    several = (
        variable(spread(16, 64, 4096), 16, 4, True), variable(spread(32, 1, 1024), 16, 1, False),
        variable(((8192, 8192), *spread(24, 16, 700)), 16, 8, True), variable(spread(8, 2000, 6000), 16, 8, False),
        variable((*chunks, (2048, 2048), (1024, 9216)), 32, 8, True),
    )  # fmt: skip
    return (*full, *causal, *one_query, *several)
