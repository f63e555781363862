"""C identifiers for the kernel's names: readable, and each once in its scope."""

from __future__ import annotations

import re

from twill.codegen.warp.parameters import LAUNCH

# C++, then what the printed text itself and the headers use.
_TAKEN = """
alignas alignof and asm auto bool break case catch char class compl const constexpr continue decltype default delete
do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new not
nullptr operator or private protected public register return short signed sizeof static struct switch template this
throw true try typedef typeid typename union unsigned using virtual void volatile while xor

i j r w ks mb at tile held whole other scratch chain0 chain1 apart desc_a desc_b shared_memory warps_before smem warp
lane thread leader instance instances lane_row lane_column low0 low1 low2 low3 low4 high0 high1 high2 high3 high4
program_id_0 program_id_1 program_id_2 grid0 grid1 grid2 u8 u16 u32 u64 i8 i16 i32 i64 part pin bound infinity rcp ex2
others together begin odd ranked nth before width inside along other step walk claims place next told most wide
programs0 programs1 programs2 runs run longer run_begin run_end run_step grid_line in_line
in_layer first_row in_band rows lane_row_32
cta cluster clusters pairs pair
lg2 min max abs clock threadIdx blockIdx gridDim blockDim
"""
RESERVED = frozenset(_TAKEN.split())


class Names:
    """Gives out identifiers, none twice."""

    def __init__(self, taken: frozenset[str] = RESERVED) -> None:
        self._taken = set(taken)

    def fresh(self, wish: str) -> str:
        """`wish` as a C identifier, with a number behind it if it is taken."""
        name = identifier(wish)
        candidate, number = name, 0
        while candidate in self._taken:
            candidate, number = f"{name}_{number}", number + 1
        self._taken.add(candidate)
        return candidate

    def inside(self) -> Names:
        """The names of an inner scope: what it takes is free again outside."""
        return Names(frozenset(self._taken))


def identifier(text: str) -> str:
    """`text` with everything that C does not allow in a name replaced by "_"."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"v{name}" if name[0].isdigit() or name.startswith(LAUNCH) else name
