"""Guessed specializations of a kernel that has no sidecar; docs/coverage.md states the rule.

What the source says comes first (`twill.coverage.source`), then what the kernel is wrapped in (configurations of an
autotuner, heuristics), then literals at its launches, then defaults; only then names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

from triton.runtime.jit import JITFunction

from twill.coverage.source import Said
from twill.kernel.sidecar import Constant

INDEX = re.compile(r"(^|_)(idx|index|indices|ids?|offsets?|lens?|lengths?|cu_?seq\w*|seq_?lens?|targets?|labels?"
                   r"|tables?|pos|counts?|starts?|ends?)(_ptr)?$", re.IGNORECASE)  # fmt: skip
OPTIONAL = re.compile(r"cu_?seq|indices|offsets?$|bias|mask|alibi|initial|h0|ht$|_idx", re.IGNORECASE)
SUMMED = re.compile(r"lse|delta|rstd|mean|rms|loss|scale|norm|sum|max|acc|lock|^[lmg]$|^dg|^g[kv]$", re.IGNORECASE)
FLOAT = re.compile(
    r"eps|scale|alpha|beta|prob|drop|lr$|decay|temperature|softcap|cap$|gamma|momentum"
    r"|slope|limit|threshold|smoothing|ratio|inv_|factor|bound|theta|penalty|weight|^p$|value$",
    re.I,
)
COUNT = re.compile(r"stride|num|size|dim|batch|idx|seq|len|cols|rows|offset|block", re.IGNORECASE)
FLAG = re.compile(r"^(is|use|has|store|output|do|with|save|load|even|reverse|causal|head_first|safe|need|compute)(_|$)"
                  r"|causal|reverse|_flag$|inplace", re.IGNORECASE)  # fmt: skip
DTYPE = re.compile(r"dtype|_type$", re.IGNORECASE)
SMALL = re.compile(r"^(bc|b[ij]|nc|w|width|kernel_w\w*)$", re.IGNORECASE)
CHUNK = re.compile(r"^(b[tkvdmnsl]|c|chunk\w*|bt_size)$", re.IGNORECASE)
HEAD = re.compile(r"^[kvd]$|head_?dim|d_head|^d(k|v|qk)$|dmodel", re.IGNORECASE)
FIRST = re.compile(r"(^|_)offset$", re.IGNORECASE)  # of a launch in parts: the first part
# Which block it is, and not how large blocks are.
PLACE = re.compile(r"(^|_)(dst|src|first|last|cur|prev|next)_(block|tile|chunk)$", re.IGNORECASE)
LEAST = 16  # below it, no size is halved
UNROLLED = 8  # iterations of a loop that is written out


@dataclass(frozen=True)
class Guess:
    """types: of runtime arguments, with promises. constants: of the others. sizes: those of the constants that are
    sizes by their names alone."""

    types: Mapping[str, str]
    constants: Mapping[str, Constant]
    sizes: frozenset[str] = frozenset()

    def halved(self) -> Guess:
        """The guess with those sizes halved, as long as they are more than LEAST."""
        smaller = {
            name: value // 2
            for name, value in self.constants.items()
            if name in self.sizes and type(value) is int and value > LEAST
        }
        return replace(self, constants={**self.constants, **smaller})


@dataclass(frozen=True)
class Plan:
    """One way to guess. element: of tensors. optional: whether arguments that may be None are there. flag: what flags
    of unknown value are."""

    element: str
    optional: bool
    flag: bool = False


PLANS = (
    Plan("bf16", True), Plan("bf16", False), Plan("fp32", True), Plan("fp32", False), Plan("fp16", True),
    Plan("bf16", False, True), Plan("bf16", True, True),
)  # fmt: skip
"""In this order; the first that Triton compiles is the specialization."""


def guesses(function: JITFunction, wrapped: Any, said: Said, launched: Mapping[str, Any]) -> Iterator[Guess]:
    """At most one for each plan. wrapped: the kernel as its module has it. launched: literals at its launches."""
    rules, configs = _wrappers(wrapped)
    tuned = _middle(configs)
    before: list[Guess] = []
    for plan in PLANS:
        guess = _guess(function, said, plan, {**launched, **tuned}, rules)
        if guess not in before:
            before.append(guess)
            yield guess


def _wrappers(value: Any) -> tuple[list[Mapping[str, Any]], list[Any]]:
    """The heuristics (name -> function of the arguments) and configurations around a kernel."""
    rules: list[Mapping[str, Any]] = []
    configs: list[Any] = []
    while value is not None and not isinstance(value, JITFunction):
        inside = getattr(value, "__dict__", {})
        if isinstance(inside.get("values"), dict):
            rules.append(inside["values"])
        if isinstance(inside.get("configs"), list):
            configs = configs or inside["configs"]
        value = inside.get("fn")
    return rules, configs


def _middle(configs: list[Any]) -> dict[str, Any]:
    """The configuration in the middle, by the product of its numbers."""

    def volume(config: Any) -> int:
        product = 1
        for value in config.kwargs.values():
            product *= value if type(value) is int and value > 0 else 1
        return product

    ordered = sorted((config for config in configs if hasattr(config, "kwargs")), key=volume)
    return dict(ordered[len(ordered) // 2].kwargs) if ordered else {}


def _guess(
    function: JITFunction, said: Said, plan: Plan, given: Mapping[str, Any], rules: list[Mapping[str, Any]]
) -> Guess:
    types: dict[str, str] = {}
    constants: dict[str, Constant] = {}
    units = _unit_strides(function.arg_names) - said.wide
    ruled = {name for rule in rules for name in rule}
    blocks = {name: value for name, value in given.items() if type(value) is int}
    sizes: set[str] = set()
    for parameter in function.params:
        name = parameter.name
        if parameter.is_constexpr:
            if name not in ruled:
                known = _constant(parameter, said, plan, given)
                constants[name] = _size(name, said) if known is ... else known
                sizes |= {name} if known is ... else set()
        elif name in said.descriptors and name not in said.addresses:
            types[name] = f"tensordesc<{plan.element}[{', '.join(map(str, _block(constants | blocks)))}]>"
        elif name in said.addresses or re.search(r"_ptrs?$", name):
            absent = not plan.optional and (bool(parameter.has_default) or OPTIONAL.search(name) or name in said.tested)
            absent = absent or (OPTIONAL.search(name) is not None and bool(rules) and not plan.flag)
            if absent:
                constants[name] = None
            else:
                types[name] = f"*{_element(name, said, plan)}:16"
        elif name in units:
            constants[name] = 1
        elif FLOAT.search(name) and not COUNT.search(name) and name not in said.integers:
            types[name] = "fp32"
        else:
            wide = "stride" in name.lower() or re.fullmatch(r"[A-Z]|.*(dim|cols|hidden\w*)", name) is not None
            types[name] = "i32:16" if wide and not parameter.do_not_specialize else "i32"
    arguments = {name: constants.get(name, _stand_in(types.get(name, "i32"))) for name in function.arg_names}
    for rule in reversed(rules):
        for name, compute in rule.items():
            try:
                value = compute(arguments)
            except Exception:  # of the user, about arguments that are none
                value = plan.flag
            arguments[name] = value
            if name in function.arg_names:
                constants[name] = value if isinstance(value, int | float | str | None) else bool(value)
    ordered = {name: constants[name] for name in function.arg_names if name in constants}
    return Guess(types, ordered, frozenset(sizes - ruled))


def _unit_strides(names: list[str]) -> set[str]:
    """The last stride of each group of strides (`stride_am`, `stride_ak`): 1. Not a group are those of one tensor
    each (`stride_x`, `stride_y`)."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if "stride" in name.lower() and name.rpartition("_")[2] not in names:
            groups.setdefault(name[:-1], []).append(name)
    return {group[-1] for group in groups.values() if len(group) > 1}


def _element(name: str, said: Said, plan: Plan) -> str:
    if name in said.places:
        return "i64"
    if name in said.quarters:
        return "i8"
    if name in said.booleans:
        return "i1"
    if name in said.indices or name in said.bits or INDEX.search(name):
        return "i32"
    if name in said.bytes:
        return "i8"
    if re.search("mask", name, re.IGNORECASE):
        return "i8"
    return "fp32" if SUMMED.search(name) else plan.element


def _constant(parameter: Any, said: Said, plan: Plan, given: Mapping[str, Any]) -> Constant | EllipsisType:
    """What is known of a constexpr; ... where only its name says how large it may be."""
    name = parameter.name
    value = given.get(name, parameter.default if parameter.has_default else ...)
    if isinstance(value, int | float | str | None) and not (isinstance(value, bool) and plan.flag):
        return value
    if name in said.strings:
        return said.strings[name]
    if name in said.addresses:
        return None
    if FLAG.search(name) or (name in said.tested and name not in said.block):
        return plan.flag
    if "precision" in name.lower():
        return "tf32"
    if DTYPE.search(name):
        return "tl.float32" if re.search("acc|comp", name, re.IGNORECASE) else "tl.bfloat16"
    if name in said.numbers and name not in said.block:
        return said.numbers[name]
    if FLOAT.search(name) and not COUNT.search(name) and name not in said.block | said.integers:
        return 0.5
    return ...


def _size(name: str, said: Said) -> int:
    """A constexpr integer by its name."""
    if FIRST.search(name):
        return 0
    if "stride" in name.lower():
        return 1 if name.endswith(("n", "d")) else 1024
    if name in said.unrolled:
        return UNROLLED
    for pattern, value in ((SMALL, 16), (CHUNK, 64), (HEAD, 128)):
        if pattern.search(name):
            return value
    if PLACE.search(name) and name not in said.block:
        return 1
    if re.search(r"block|tile|size|cols|hidden|vocab", name, re.IGNORECASE):
        return 64 if re.search(r"_[mnkdvt]$", name, re.IGNORECASE) else 1024
    return 64 if name in said.block else 16


def _block(constants: Mapping[str, Constant]) -> tuple[int, int]:
    """The block of a descriptor: the first two tile sizes."""
    sizes = [
        value for name, value in constants.items() if type(value) is int and re.search(r"block|^b[mnk]$", name, re.I)
    ]
    return (sizes[0], sizes[1]) if len(sizes) > 1 else (64, 64)


def _stand_in(kind: str) -> object:
    """What heuristics see of an argument of a type."""
    if kind.startswith(("*", "tensordesc")):
        return object()
    return 0.125 if kind.startswith("fp") else 2048
