"""One function for each kernel, written for its parameters: from a call to the launch that was prepared for its kind.

What it looks at decides everything that a prepared launch relies on: constants, element types and GPUs of tensors,
sizes and strides of descriptors, numbers that a tensor map is made of. Other numbers are free, and so is where tensors
are; of them only the promises that Triton specializes on count (16 divides it; it is 1), and
`LaunchPlan.start` checks their range.

Like Triton's own binder it is Python source, made once: binding a call by hand costs more than the launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from triton import language as tl

from twill.manifest.document import CallArgument, Manifest
from twill.runtime.plan import needed_by_maps, open_ended
from twill.runtime.plans import STALE, Call, Plans
from twill.runtime.tensor import is_torch, storage_end

Kind = Literal[
    "constant", "fixed", "free", "float", "optional tensor", "tensor", "open tensor", "descriptor",
    "open descriptor", "any",
]  # fmt: skip
Match = Callable[..., Any]
"""(grid, *arguments, **arguments) -> True: launched; None: it is Triton's; False: not to be matched; a `Call` that was
not seen before; a `TritonTurn`; anything else: the compiled kernel that Triton launched."""

HOW = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # Triton's options that an emitted kernel does not ask for
NEXT_LINE = "\n    "
NAMED = (bool, str, type(None), tl.dtype)  # classes of values that are what they are


def kinds(
    manifests: Sequence[Manifest],
    names: Sequence[str],
    constexprs: frozenset[str],
    seen: Mapping[str, frozenset[Kind]] | None = None,
) -> dict[str, Kind]:
    """How each parameter is looked at, so that it serves all variants of these manifests, and launches of Triton's in
    which it was looked at as in `seen`."""
    found: dict[str, set[Kind]] = {name: set((seen or {}).get(name, ())) for name in names}
    for manifest in manifests:
        in_maps, ends = needed_by_maps(manifest), open_ended(manifest)
        for argument in manifest.arguments:
            found[argument.name].add(_kind(argument, in_maps, ends, constexprs))
    return {name: _joined(kinds) for name, kinds in found.items()}


def _kind(
    argument: CallArgument,
    in_maps: frozenset[str],
    ends: frozenset[str],
    constexprs: frozenset[str],
) -> Kind:
    if argument.kind == "constant":
        return "constant" if argument.name in constexprs else "fixed"
    if argument.kind == "number":
        if argument.name in in_maps:
            return "fixed"
        return "float" if argument.type.startswith(("fp", "bf")) else "free"
    if argument.kind == "descriptor":
        return "open descriptor" if argument.name in ends else "descriptor"
    return "open tensor" if argument.name in ends else "tensor"


def kind_of(value: object, constexpr: bool) -> Kind | None:
    """How an argument of a launch of Triton's is looked at; None if calls with such a value are not told apart."""
    if constexpr:
        return "constant"
    if type(value) is int:
        return "free"
    if type(value) is float:
        return "float"
    if is_torch(value):
        return "tensor"
    if isinstance(value, NAMED):
        return "fixed"
    return "descriptor" if hasattr(value, "block_shape") and is_torch(getattr(value, "base", None)) else None


def _joined(found: set[Kind]) -> Kind:
    if len(found) == 1:
        return next(iter(found))
    if found <= {"free", "fixed", "float"}:
        return "fixed"
    if found == {"fixed"}:
        return "optional tensor"
    if found == {"tensor", "open tensor"}:
        return "open tensor"
    return "open descriptor" if found == {"descriptor", "open descriptor"} else "any"


def matcher(
    signature: inspect.Signature,
    looked_at: Mapping[str, Kind],
    plans: Plans,
    stream_of: Callable[[int], int],
    current_device: Callable[[], int],
    global_values: Mapping[Any, Any],
    options: bool = False,
    reached: frozenset[str] = frozenset(),
) -> Match:
    """The function for a kernel of this signature.

    plans: what was prepared. stream_of: the current stream of a GPU. global_values: as Triton keeps them,
    (name, id) -> (value, where it is); calls are not matched once one of them has changed. options: whether Triton's
    options, which are nothing to an emitted kernel, tell calls apart, too. reached: tensors of which plans are told how
    far their memory goes (`reaches`).
    """
    names = list(signature.parameters)
    facts = [fact for name in names for fact in _FACTS[looked_at[name]](name)]
    told = reaches(names, looked_at, reached)
    seen = [line for name in names if looked_at[name] in TENSORS for line in _seen(name, name in told)]
    seen += ["pass"]
    values = [*names, *(f"twill__{fact}_{name}" for name in told for fact in ("at", "beyond"))]
    facts += [name for name in HOW if name not in signature.parameters] if options else []
    placed = next((name for name in names if looked_at[name] not in ("constant", "fixed", "free", "float", "any")), "")
    base = f"{placed}.base" if "descriptor" in looked_at.get(placed, "") else placed
    arguments = ", ".join(f"{name!r}: {name}" for name in names)
    device = f"{base}.get_device()" if placed else "twill__device()"
    source = f"""
def match(twill__grid, /, {_parameters(signature)}):
    if twill__globals and twill__changed(twill__globals):
        return False
    if twill__grid.__class__ is tuple:
        twill__sizes = twill__grid
    else:
        twill__sizes = tuple(twill__grid({{{arguments}}}) if callable(twill__grid) else twill__grid)
    {NEXT_LINE.join(seen)}
    twill__key = (twill__sizes, {"".join(f"{fact}, " for fact in facts)})
    twill__values = ({"".join(f"{value}, " for value in values)})
    twill__plan = twill__find(twill__key)
    if twill__plan is None:
        return twill__Call(twill__key)
    twill__result = twill__plan.start(twill__values, twill__stream({device}))
    return twill__Call(twill__key) if twill__result is twill__STALE else twill__result
"""
    known = {
        "find": plans.by_key.get, "STALE": STALE,
        "Call": Call, "stream": stream_of, "device": current_device,
        "globals": global_values,
        "changed": changed, "beyond": beyond, "any": facts_of,
        **{f"default_{name}": p.default for name, p in signature.parameters.items() if p.default is not p.empty},
    }  # fmt: skip
    space = {f"twill__{name}": value for name, value in known.items()}  # no parameter is called so
    exec(source, space)
    match: Match = space["match"]
    return match


def _parameters(signature: inspect.Signature) -> str:
    """As the kernel declares them, then Triton's options that make no difference."""
    written, keyword_only = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            written.append("*")
            keyword_only = True
        written.append(name if parameter.default is parameter.empty else f"{name}=twill__default_{name}")
    written += [] if keyword_only else ["*"]
    return ", ".join([*written, *(f"{name}=None" for name in HOW if name not in signature.parameters)])


def reaches(names: Sequence[str], looked_at: Mapping[str, Kind], reached: frozenset[str]) -> dict[str, int]:
    """Tensors of which a plan is told where they begin, and how many bytes behind that are of their storage: where in
    its values the first of both numbers is, by name. They come behind the arguments."""
    told = [n for n in names if looked_at[n] == "open tensor" or (looked_at[n] in TENSORS and n in reached)]
    return {name: len(names) + 2 * number for number, name in enumerate(told)}


TENSORS = ("tensor", "open tensor")


def _seen(name: str, whole: bool) -> list[str]:
    """Of a tensor, once: where it is; whole: and how far its storage goes, as `beyond`."""
    lines = [f"twill__at_{name} = {name}.data_ptr()"]
    if whole:
        memory = f"twill__of_{name}"
        end = f"{memory}.data_ptr() + {memory}.nbytes()"
        lines += [f"{memory} = {name}.untyped_storage()", f"twill__beyond_{name} = {end} - twill__at_{name}"]
    return lines


def _tensor(name: str) -> list[str]:
    return [f"not twill__at_{name} & 15", f"{name}.dtype", f"{name}.get_device()"]


def _based(name: str) -> list[str]:
    return [f"{name}.data_ptr() & 15 == 0", f"{name}.dtype", f"{name}.get_device()"]


def _descriptor(name: str) -> list[str]:
    sizes = [f"tuple({name}.{field})" for field in ("shape", "strides", "block_shape")]
    return [*sizes, f"{name}.padding", f"getattr({name}, 'round_f32_to_tf32', None)", *_based(f"{name}.base")]


_FACTS: dict[Kind, Callable[[str], list[str]]] = {
    "constant": lambda name: [f"{name}.__class__", name],
    "fixed": lambda name: [f"{name}.__class__", name],
    "free": lambda name: [f"{name}.__class__", f"{name} == 1", f"not {name} & 15"],
    "float": lambda name: [f"{name}.__class__"],
    "optional tensor": lambda name: [
        f"None if {name} is None else ({name}.data_ptr() & 15 == 0, {name}.dtype, {name}.get_device())"
    ],
    "tensor": _tensor,
    "open tensor": lambda name: [*_tensor(name), f"twill__beyond_{name}"],
    "descriptor": _descriptor,
    "open descriptor": lambda name: [*_descriptor(name), f"twill__beyond({name}.base)"],
    "any": lambda name: [f"twill__any({name})"],
}


def facts_of(value: Any) -> tuple[Any, ...]:
    """Of a parameter that is now this, now that: a tensor in one variant, left out in another."""
    base = getattr(value, "base", value)
    if not is_torch(base):
        return value.__class__, value
    facts = [base.data_ptr() & 15 == 0, base.dtype, base.get_device(), beyond(base)]
    if base is not value and hasattr(value, "block_shape"):
        facts += [tuple(value.shape), tuple(value.strides), tuple(value.block_shape), value.padding]
        facts.append(getattr(value, "round_f32_to_tf32", None))
    return tuple(facts)


def beyond(tensor: Any) -> int:
    """Bytes from a PyTorch tensor's first element to the end of its storage."""
    return storage_end(tensor) - int(tensor.data_ptr())


def changed(values: Mapping[Any, Any]) -> bool:
    """Whether a global that the kernel was compiled with has another value now; Triton refuses such a launch."""
    return any(place.get(name, values) != value for (name, _), (value, place) in list(values.items()))
