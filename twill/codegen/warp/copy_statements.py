"""Copies from global to shared memory by threads: a statement of the grammar in `twill.codegen.warp.program`."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.resources import SlotRef, Window
from twill.codegen.warp.statements import Stmt

COPIES = "copies"  # the transport of a ring that threads fill by copies


@dataclass(frozen=True)
class CopyGlobal(Stmt):
    """A slot's vector = the window (masked elements: 0), copied by all threads past their registers; asynchronous.

    Each thread of the group copies some elements, and arrives by Publish on the full barrier of the slot at `cursor`
    when its copies so far have landed. Only threads may read the slot, not MMAs or the TMA.
    """

    window: Window
    target: SlotRef
    cursor: int
