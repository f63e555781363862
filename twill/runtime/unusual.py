"""Kernels and calls that are Triton's, whatever is emitted for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton import knobs

from twill.runtime.matcher import HOW, changed
from twill.runtime.policy import JitSettings

USUAL = {"enable_fp_fusion": True}  # options of Triton that are not off by default


def never(original: Any, chosen: JitSettings) -> str:
    """Why no launch of this kernel could ever be an emitted one; "" if there is no such reason."""
    if chosen.policy == "off":
        return "the policy is off"
    if original.is_gluon():
        return "it is a Gluon kernel"
    if original.debug:
        return "it is compiled with debug=True"
    for parameter in original.signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"it takes any number of arguments (*{parameter.name})"
    return ""


def unusual(original: Any, options: Mapping[str, Any]) -> str:
    """Why a call with these options of Triton is not for an emitted kernel; "" if none matters."""
    for name, value in options.items():
        if name not in HOW and value is not None and value is not USUAL.get(name, False):
            return f"the option {name}={value!r}"
    if not fused(options.get("enable_fp_fusion")):
        return "the fusion of products and sums is off (TRITON_DEFAULT_FP_FUSION)"
    if knobs.runtime.debug:
        return "Triton's debugging is on"
    return "a global that it uses has changed" if changed(original.used_global_vals) else ""


def fused(requested: Any) -> bool:
    """Whether Triton would fuse a product and a sum, as emitted code does. requested: the call's own option."""
    language = knobs.language
    if getattr(language, "force_disable_fp_fusion", False):  # of Triton 3.9
        return False
    return bool(language.default_fp_fusion if requested is None else requested)
