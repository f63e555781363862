"""A call of an emitted kernel, written as for the Triton kernel: which value is which argument.

`kernel[grid](a, b, M, BLOCK_M=128, num_warps=8)`: positions and names mix as in Python; constexprs may be given and
must then have the specialization's value; Triton's launch options are accepted and mean nothing: the schedule decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twill import exc
from twill.manifest.document import CallArgument, Constant

IGNORED = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl", "enable_fp_fusion",
    "debug", "sanitize_overflow", "ptx_options", "ir_override", "max_num_imprecise_acc_default", "extern_libs",
})  # fmt: skip

# What the sidecar calls Triton's types, and how they name themselves.
_TYPES = {
    "tl.float16": "fp16", "tl.bfloat16": "bf16", "tl.float32": "fp32", "tl.float64": "fp64",
    "tl.float8e4nv": "fp8e4nv", "tl.float8e5": "fp8e5", "tl.int1": "int1",
    **{f"tl.{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class _Recipe:
    """Where a call with so many positions and these names has its values. Sources: a position or a name."""

    values: tuple[int | str, ...]
    straight: bool  # the values are the first positions
    constants: tuple[tuple[int | str, CallArgument], ...]
    defaults: Mapping[str, Constant]


class Calls:
    """Binds the calls of one kernel; ways of calling that were seen are understood at once."""

    def __init__(self, kernel: str, arguments: Sequence[CallArgument]) -> None:
        self.kernel = kernel
        self.arguments = tuple(arguments)
        self.runtime = tuple(a for a in self.arguments if a.kind != "constant")
        self._recipes: dict[tuple[int, tuple[str, ...]], _Recipe] = {}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The values of the arguments that are no constants, in order. Errors: WrongArgument, WrongConstant."""
        form = (len(args), tuple(kwargs))
        recipe = self._recipes.get(form)
        if recipe is None:
            recipe = self._recipes.setdefault(form, self._recipe(*form))
        for source, argument in recipe.constants:
            found = args[source] if isinstance(source, int) else kwargs[source]
            if found is not argument.value and not same(found, argument.value):
                raise exc.WrongConstant(self.kernel, argument.name, found, argument.value)
        if recipe.straight:
            return args[: len(recipe.values)]
        if recipe.defaults:
            kwargs = {**recipe.defaults, **kwargs}
        return [args[source] if type(source) is int else kwargs[source] for source in recipe.values]  # type: ignore[index]

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """Bound values and constants by name: what a grid that is a function gets."""
        known = dict(zip((a.name for a in self.runtime), values, strict=True))
        return {a.name: a.value if a.kind == "constant" else known[a.name] for a in self.arguments}

    def _recipe(self, count: int, names: tuple[str, ...]) -> _Recipe:
        wanted = ", ".join(a.name for a in self.arguments)
        if count > len(self.arguments):
            raise exc.WrongArgument("(all)", f"{count} values", f"at most {len(self.arguments)}: {wanted}")
        places: dict[str, int | str] = {a.name: i for i, a in enumerate(self.arguments[:count])}
        known = {a.name for a in self.arguments}
        for name in names:
            if name in places:
                raise exc.WrongArgument(name, "given twice", "it by position or by name")
            if name in known:
                places[name] = name
            elif name not in IGNORED:
                raise exc.WrongArgument(name, f"no parameter of {self.kernel}", f"only {wanted}")
        values = tuple(places.get(a.name, a.name) for a in self.runtime)
        return _Recipe(
            values=values,
            straight=values == tuple(range(len(values))),
            constants=tuple((places[a.name], a) for a in self.arguments if a.kind == "constant" and a.name in places),
            defaults=self._defaults(set(places)),
        )

    def _defaults(self, given: set[str]) -> dict[str, Constant]:
        """Of what the call leaves out."""
        defaults: dict[str, Constant] = {}
        for argument in self.arguments:
            if argument.name in given:
                continue
            if argument.kind == "constant":
                if argument.optional and not same(argument.default, argument.value):
                    raise exc.WrongConstant(self.kernel, argument.name, argument.default, argument.value)
            elif argument.optional:
                defaults[argument.name] = argument.default
            else:
                raise exc.WrongArgument(argument.name, "missing", f"a value of type {argument.type}")
        return defaults


def same(found: object, wanted: Constant) -> bool:
    """Whether a constexpr's value is the specialization's; truth values are no numbers, `tl.bfloat16` is itself."""
    found = getattr(found, "value", found) if type(found).__name__ == "constexpr" else found
    if isinstance(wanted, str) and wanted in _TYPES and not isinstance(found, str):
        return str(found) == _TYPES[wanted]
    if isinstance(found, bool) != isinstance(wanted, bool):
        return False
    return bool(found == wanted)
