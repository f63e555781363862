"""The Python file beside an emitted kernel that shows how it is launched."""

from __future__ import annotations

from twill.manifest.document import CallArgument, Manifest

_TEXT = '''"""{kernel} ({spec}), emitted by Twill for {machine} ({architecture}).

    from launch import {kernel}
    {kernel}[grid]({arguments})

Called as the Triton kernel of {file}: {grid}.
{notes}"""

from pathlib import Path

from twill.runtime.kernel import EmittedKernel

{kernel} = EmittedKernel.load(Path(__file__).parent)
'''


def launcher(manifest: Manifest) -> str:
    """The text of launch.py."""
    given = [argument for argument in manifest.arguments if argument.kind != "constant"]
    comma = "," if len(manifest.grid) == 1 else ""
    grid = f"grid = ({', '.join(manifest.grid)}{comma})" if manifest.grid else "on the same grid"
    return _TEXT.format(
        kernel=manifest.kernel,
        spec=manifest.spec,
        machine=manifest.machine,
        architecture=manifest.architecture,
        file=manifest.file,
        arguments=", ".join(argument.name for argument in given),
        grid=grid,
        notes="".join(f"\n{_note(argument, manifest)}" for argument in manifest.arguments) + "\n",
    )


def _note(argument: CallArgument, manifest: Manifest) -> str:
    """`a_desc: tensordesc<bf16[128, 64]>`, `M: i32, a multiple of 16`, `BLOCK_M = 128`."""
    if argument.kind == "constant":
        return f"{argument.name} = {argument.value!r}"
    multiple = next((p.multiple for p in manifest.promises if p.name == argument.name), 1)
    unit = "" if argument.kind == "number" else " bytes"
    promise = f", a multiple of {multiple}{unit}" if multiple > 1 else ""
    if any(p.positive for p in manifest.promises if p.name == argument.name):
        promise = ", positive"
    return f"{argument.name}: {argument.type}{promise}"
