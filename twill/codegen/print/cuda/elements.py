"""Element types in C: how one value is held, how it lies in memory, how many bytes it has.

In registers f16, bf16 and the 8-bit floats are floats that hold numbers of that type: every operation rounds its
result. 16-bit floats are packed, two neighbours a register (`is_packed`), in layout Accumulator, as wgmma takes them,
and in runs of even length, as they lie in memory.
"""

from __future__ import annotations

from twill.codegen.warp.layout import Accumulator, Blocked, Layout

BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f8e4m3": 1, "f8e5m2": 1, "f16": 2, "bf16": 2, "f32": 4,
         "f64": 8, "e2m1": 1}  # fmt: skip
SMALL = {"f16": "f16", "bf16": "bf16", "f8e4m3": "e4m3", "f8e5m2": "e5m2"}  # element -> name in the headers
_VALUE = {"i1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "u32": "u32", "i64": "i64", "f32": "float",
          "f64": "double"}  # fmt: skip
SHORT = ("i1", "i8", "i16")
_MEMORY = {"i1": "u8", "f8e4m3": "u8", "f8e5m2": "u8", "f16": "u16", "bf16": "u16"}


def value_type(element: str) -> str:
    """The C type of one value in a register."""
    return "float" if element in SMALL else _VALUE[element]


def memory_type(element: str) -> str:
    """The C type of one element in memory."""
    return _MEMORY.get(element) or _VALUE[element]


def scalar_type(element: str) -> str:
    """The C type of a scalar parameter: i32, i64, float or double."""
    return "i32" if element in SHORT else value_type(element)


def from_parameter(element: str, name: str) -> str:
    """C: what a scalar parameter is as a value. An unsigned one of 8 or 16 bits may be larger than a signed one."""
    if element == "i1":
        return f"({name} != 0)"
    return f"({value_type(element)}){name}" if element in SHORT else name


def is_float(element: str) -> bool:
    """Whether the type is a floating-point type."""
    return element in SMALL or element in ("f32", "f64")


def is_packed(element: str, layout: Layout) -> bool:
    """Whether a fragment holds two elements a register."""
    pairs = isinstance(layout, Accumulator) or (isinstance(layout, Blocked) and layout.run % 2 == 0)
    return element in ("f16", "bf16") and pairs


def from_memory(element: str, value: str) -> str:
    """C: what an element of `memory_type` is as a value."""
    if element in SMALL:
        return f"from_bits_{SMALL[element]}({value})"
    return f"({value} != 0)" if element == "i1" else value


def to_memory(element: str, value: str) -> str:
    """C: a value as an element of `memory_type`."""
    if element in SMALL:
        return f"({memory_type(element)})bits_{SMALL[element]}({value})"
    return f"(u8){value}" if element == "i1" else value


def vector_from_memory(element: str, count: int, name: str) -> tuple[str, list[str]]:
    """C type of `count` neighbouring elements as one access moves them, and what each of them is as a value, if the
    vector is `name`. 16-bit floats come in words: half of one is a float after one instruction."""
    if element in ("f16", "bf16") and count > 1 and count % 2 == 0:
        words = [name if count == 2 else f"{name}.at[{word}]" for word in range(count // 2)]
        kind = "u32" if count == 2 else f"Vector<u32, {count // 2}>"
        return kind, [f"{half}_{SMALL[element]}({word})" for word in words for half in ("low", "high")]
    if count == 1:
        return memory_type(element), [from_memory(element, name)]
    kind = f"Vector<{memory_type(element)}, {count}>"
    return kind, [from_memory(element, f"{name}.at[{e}]") for e in range(count)]


def rounded(element: str, value: str) -> str:
    """C: a float result as a value of its type."""
    return f"round_{SMALL[element]}({value})" if element in SMALL else value


def words_in_memory(words: list[str]) -> tuple[str, str]:
    """C type and C value of registers as one access moves them."""
    kind = f"Vector<u32, {len(words)}>"
    return ("u32", words[0]) if len(words) == 1 else (kind, f"{kind}{{{{{', '.join(words)}}}}}")


def vector_in_memory(element: str, values: list[str]) -> tuple[str, str]:
    """C type and C value of neighbouring elements as one access moves them; small floats are packed word by word."""
    per_word = {"f16": 2, "bf16": 2, "f8e4m3": 4, "f8e5m2": 4}.get(element, 0)
    if len(values) == 1:
        return memory_type(element), to_memory(element, values[0])
    if not per_word or len(values) % per_word:
        kind = f"Vector<{memory_type(element)}, {len(values)}>"
        return kind, f"{kind}{{{{{', '.join(to_memory(element, value) for value in values)}}}}}"
    name = f"pack_{SMALL[element]}" + ("x4" if per_word == 4 else "")
    words = [f"{name}({', '.join(values[at : at + per_word])})" for at in range(0, len(values), per_word)]
    return words_in_memory(words)
