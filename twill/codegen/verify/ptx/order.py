"""Who knows of what: vector clocks of warps, and the last accesses of every byte of shared memory.

A clock says of every agent up to which of its epochs one knows what it did. Agents are the warps of a cluster and, for
copies that land on them, the mbarriers. A warp's epoch ends when it arrives somewhere; what an arrival of some of its
lanes covers is in `lanes.py`. `visible` says the same of accesses that asynchronous operations come after: those behind
which a `fence.proxy.async` is on the way to whoever starts the operation, of the thread itself or of one who has
synchronized with it (PTX ISA, "Causality Order": proxy-preserved base causality order). A multiply or a bulk store must
see what threads wrote; a copy must not overwrite what they still read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twill.codegen.verify.ptx.lanes import WARP, Lanes
from twill.ptx.arrays import some

EVERY = np.ones(WARP, bool)

Array = Any  # np.ndarray


@dataclass(frozen=True)
class Snapshot:
    """What a warp knew when it arrived. tensor: what of it tcgen05 operations may follow (`Clocks.tensor`)."""

    known: Array
    visible: Array
    tensor: Array | None = None

    def join(self, other: Snapshot | None) -> Snapshot:
        """What one knows who knows both."""
        if other is None:
            return self
        size = max(len(self.known), len(other.known))
        return Snapshot(
            np.maximum(_long(self.known, size), _long(other.known, size)),
            np.maximum(_long(self.visible, size), _long(other.visible, size)),
            other.tensor if self.tensor is None else self.tensor if other.tensor is None
            else np.maximum(self.tensor, other.tensor),
        )  # fmt: skip


class Clocks:
    """The clocks of all warps that run together, and, where they issue `tcgen05.mma`, of each warp's multiplies.

    lanes: what those of a warp know of one another. unfenced: threads of each warp that wrote and have not fenced.
    tensor: up to which epoch each warp knows that tcgen05 operations of others came before a
    `fence::before_thread_sync` or a commit; fenced: the same at its last `fence::after_thread_sync`.
    """

    def __init__(self, warps: int, tensor: bool = False) -> None:
        self.threads = warps
        warps = 2 * warps if tensor else warps
        self.warps = warps
        self.lanes = Lanes(warps)
        self.agents = warps
        size = warps + 64
        self.known = np.zeros((warps, size), np.int32)
        self.visible = np.zeros((warps, size), np.int32)
        self.known[np.arange(warps), np.arange(warps)] = 1
        self.unfenced = np.zeros((warps, 32), bool)
        self.tensor = np.zeros((warps, warps), np.int32)
        self.fenced = np.zeros((warps, warps), np.int32)

    def tensor_agent(self, warp: int) -> int:
        """The agent of a warp's multiplies."""
        return self.threads + warp

    def name(self, agent: int) -> str:
        """For people."""
        if agent < self.threads:
            return f"warp {agent}"
        return f"a multiply of warp {agent - self.threads}" if agent < self.warps else "a copy"

    def agent(self) -> int:
        """A new one."""
        self.agents += 1
        if self.agents > self.known.shape[1]:
            wider = ((0, 0), (0, self.known.shape[1]))
            self.known, self.visible = np.pad(self.known, wider), np.pad(self.visible, wider)
        return self.agents - 1

    def accessed(self, warps: Array, lanes: Array) -> None:
        """Lanes access shared memory themselves."""
        self.lanes.access(warps, lanes, self.known[warps, warps])

    def release(self, warp: int, lanes: Array = EVERY) -> Snapshot:
        """What others learn of a warp of which some lanes [32] arrive; its next epoch begins."""
        snapshot = Snapshot(self.known[warp].copy(), self.visible[warp].copy(), self.tensor[warp].copy())
        covered = self.lanes.covered(warp, lanes)
        snapshot.known[warp] = min(snapshot.known[warp], covered)
        snapshot.visible[warp] = min(snapshot.visible[warp], covered)
        self.known[warp, warp] += 1
        return snapshot

    def known_to(self, warp: int, lane: int) -> tuple[Array, Array]:
        """What one lane of a warp knows, and of what it knows that asynchronous operations come after."""
        known, visible = self.known[warp].copy(), self.visible[warp].copy()
        covered = self.lanes.covered(warp, np.arange(WARP) == lane)
        known[warp], visible[warp] = min(known[warp], covered), min(visible[warp], covered)
        return known, visible

    def acquire(self, warp: int, snapshot: Snapshot | None) -> None:
        """A warp has waited for something."""
        if snapshot is None:
            return
        size = len(snapshot.known)
        np.maximum(self.known[warp, :size], snapshot.known, out=self.known[warp, :size])
        np.maximum(self.visible[warp, :size], snapshot.visible, out=self.visible[warp, :size])
        if snapshot.tensor is not None:
            np.maximum(self.tensor[warp], snapshot.tensor, out=self.tensor[warp])

    def before_thread_sync(self, warp: int) -> None:
        """`tcgen05.fence::before_thread_sync`: who learns of the warp may order tcgen05 operations behind its own."""
        self.tensor[warp, warp] = self.known[warp, warp]
        self.known[warp, warp] += 1

    def after_thread_sync(self, warp: int) -> None:
        """`tcgen05.fence::after_thread_sync`: the warp's tcgen05 operations follow those that it has learnt of."""
        np.maximum(self.fenced[warp], self.tensor[warp], out=self.fenced[warp])

    def fence(self, warp: int, lanes: Array) -> None:
        """A proxy fence of some lanes: it covers what they wrote, and what the warp has learnt of others. What other
        lanes of the warp wrote stays unfenced, and with it the warp."""
        self.unfenced[warp] &= ~lanes
        own = self.visible[warp, warp]
        np.maximum(self.visible[warp], self.known[warp], out=self.visible[warp])
        if some(self.unfenced[warp]):
            self.visible[warp, warp] = own
        else:
            self.known[warp, warp] += 1


class Shadow:
    """The shared memory of one CTA as clocks see it: arrays of one element for each `grain` bytes, which all accesses
    have together (`twill.codegen.verify.ptx.grain`). busy: reads in flight. Places `at` are bytes, in rows of whole
    grains."""

    def __init__(self, size: int, clocks: Clocks, grain: int = 1) -> None:
        self.clocks, self.grain = clocks, grain
        self.shift = grain.bit_length() - 1  # a grain is a power of two
        size = -(-size // grain)
        self.writer = np.zeros(size, np.int16)
        self.written = np.zeros(size, np.int32)
        self.generic = np.zeros(size, bool)
        self.readers = np.zeros((size, clocks.warps), np.int32)
        self.loads = np.zeros((size, clocks.warps), np.int32)  # of threads, which go through the generic proxy
        self.busy = np.zeros(size, np.int16)
        self._grained: dict[int, tuple[Array, Array]] = {}  # of arrays that nobody changes, which come again

    def _grains(self, at: Array | slice) -> Array | slice:
        """Which elements bytes have, an array [..., k] or a slice."""
        if isinstance(at, slice):
            return slice(at.start // self.grain, -(-at.stop // self.grain))
        if at.flags.writeable:
            return at[..., :: self.grain] >> self.shift if self.grain > 1 else at
        found = self._grained.get(id(at))
        if found is None or found[0] is not at:
            found = self._grained[id(at)] = at, at[..., :: self.grain] >> self.shift
        return found[1]

    def read(self, at: Array, warps: Array) -> str:
        """Threads read bytes at `at` [n, k], of warps [n]. Says what is wrong with it, rule first ("" if nothing)."""
        at = self._grains(at)
        stamp = self.written[at]
        late = stamp > self.clocks.known[warps[:, None], self.writer[at]]
        self.readers[at, warps[:, None]] = self.clocks.known[warps, warps][:, None]
        self.loads[at, warps[:, None]] = self.clocks.known[warps, warps][:, None]
        return f"order:reads what {self._writer(at, late)} wrote" if some(late) else ""

    def write(self, at: Array, warps: Array, lanes: Array) -> str:
        """Threads write bytes; lanes: their numbers in their warps."""
        clocks, at = self.clocks, self._grains(at)
        wrong = self._overwritten(at, clocks.known[warps][:, None, :])
        self.writer[at] = warps[:, None]
        self.written[at] = clocks.known[warps, warps][:, None]
        self.generic[at] = True
        clocks.unfenced[warps, lanes] = True
        clocks.accessed(warps, lanes)
        return wrong

    def combined(self, at: Array, warps: Array, lanes: Array) -> None:
        """Threads change bytes by atomic operations, which nothing has to order."""
        at = self._grains(at)
        self.writer[at] = warps[:, None]
        self.written[at] = self.clocks.known[warps, warps][:, None]
        self.generic[at] = True
        self.clocks.accessed(warps, lanes)

    def copied_to(self, at: Array | slice, warp: int, lane: int, agent: int, epoch: int) -> str:
        """A copy that a lane of `warp` starts writes bytes; it is over when epoch `epoch` of `agent` is known."""
        known, visible = self.clocks.known_to(warp, lane)
        at = self._grains(at)
        wrong = self._overwritten(at, known)
        unfenced = self.loads[at] > visible[: self.clocks.warps]
        if not wrong and some(unfenced):
            late = int(np.argwhere(unfenced)[0][-1])
            wrong = f"proxy-fence:a copy overwrites what warp {late} read without a fence.proxy.async behind it"
        self.writer[at] = agent
        self.written[at] = epoch
        self.generic[at] = False
        return wrong

    def begin(self, at: Array | slice, warps: list[int]) -> str:
        """Asynchronous reads of bytes, started by warps together, of which each must know that the bytes are there."""
        return self._begin(at, self.clocks.known[warps].min(axis=0), self.clocks.visible[warps].min(axis=0))

    def begin_alone(self, at: Array | slice, warp: int, lane: int) -> str:
        """The same, started by one lane."""
        return self._begin(at, *self.clocks.known_to(warp, lane))

    def _begin(self, at: Array | slice, known: Array, visible: Array) -> str:
        at = self._grains(at)
        writer, stamp = self.writer[at], self.written[at]
        late = stamp > known[writer]
        self.busy[at] += 1
        if some(late):
            return f"order:reads what {self._writer(at, late)} wrote"
        unfenced = self.generic[at] & (stamp > visible[writer])
        if some(unfenced):
            return f"proxy-fence:reads what {self._writer(at, unfenced)} wrote without a fence.proxy.async"
        return ""

    def end(self, at: Array | slice, warps: list[int]) -> None:
        """These reads are over, and the warps know it."""
        at = self._grains(at)
        self.busy[at] -= 1
        if isinstance(at, slice):
            self.readers[at, warps] = self.clocks.known[warps, warps]
        else:
            self.readers[at[..., None], warps] = self.clocks.known[warps, warps]

    def end_of(self, at: Array | slice, agent: int, epoch: int) -> None:
        """These reads are over, and who knows the agent's epoch knows it."""
        at = self._grains(at)
        self.busy[at] -= 1
        self.readers[at, agent] = epoch

    def _overwritten(self, at: Array | slice, known: Array) -> str:
        """Whether one who knows `known` (broadcast over grains) may overwrite grains."""
        if some(self.busy[at]):
            return "in-flight:overwrites what a multiply or a bulk store may still read"
        writer = self.writer[at]
        if known.ndim == 1:
            late = self.written[at] > known[writer]
        else:
            late = self.written[at] > np.take_along_axis(
                known[:, 0, :], writer.reshape(len(known), -1).astype(np.intp), 1
            )
        if some(late):
            return f"order:overwrites what {self._writer(at, late)} wrote"
        read = self.readers[at] > known[..., : self.clocks.warps]
        if some(read):
            return f"order:overwrites what {self.clocks.name(int(np.argwhere(read)[0][-1]))} reads"
        return ""

    def _writer(self, at: Array | slice, wrong: Array) -> str:
        return self.clocks.name(int(self.writer[at][wrong].flat[0]))


def _long(clock: Array, size: int) -> Array:
    return clock if len(clock) == size else np.pad(clock, (0, size - len(clock)))
