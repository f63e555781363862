"""Kernels whose atomic operations are read, or order something: tickets, slots, locks, semaphores, loops that wait."""

from __future__ import annotations

from dataclasses import dataclass

from twill.kernel.problem import Case

HEAD = "@triton.jit\ndef k(x, y, s, n, B: tl.constexpr):\n"
BLOCK = "    at = tl.program_id(0) * B + tl.arange(0, B)\n    v = tl.load(x + at, mask=at < n, other=0)\n"


@dataclass(frozen=True)
class ElectedKernel:
    """body: of `k(x, y, s, n)`, with `s` the locks and counters. element: of x and y. sizes: of y and s."""

    body: str
    element: str = "fp32"
    y: int = 256
    s: int = 1
    head: str = BLOCK

    @property
    def text(self) -> str:
        """The kernel."""
        return HEAD + self.head + self.body

    @property
    def sig(self) -> list[str]:
        """Its signature."""
        return [f"x=*{self.element}:16", f"y=*{self.element}:16", "s=*i32:16", "n=i32"]

    def case(self, instances: int = 5) -> Case:
        """A launch with a ragged end."""
        shapes = {"x": (instances * 256,), "y": (self.y,), "s": (self.s,)}
        return Case({}, (instances,), shapes, {"n": instances * 256 - 77})


LOCK = "    while tl.atomic_cas(s, 0, 1) == 1:\n        pass\n"
UNLOCK = "    tl.atomic_xchg(s, 0)\n"
ADD = "    o = tl.arange(0, B)\n    tl.store(y + o, tl.load(y + o) + v)\n"

KERNELS = {
    "slots of a compaction": ElectedKernel(
        "    k = (v > 0).to(tl.int32)\n    first = tl.atomic_add(s, tl.sum(k, 0))\n"
        "    tl.store(y + first + tl.cumsum(k, 0) - k, v, mask=v > 0)\n", y=1280,
    ),
    "the last one reduces": ElectedKernel(
        "    tl.store(y + tl.program_id(0), tl.sum(v, 0))\n"
        "    if tl.atomic_add(s, 1) == tl.num_programs(0) - 1:\n"
        "        o = tl.arange(0, 16)\n"
        "        tl.store(y + 64, tl.sum(tl.load(y + o, mask=o < tl.num_programs(0), other=0.0), 0))\n", y=65,
    ),
    "a sum under a lock": ElectedKernel(LOCK + ADD + UNLOCK),
    "a lock for each of two": ElectedKernel(
        "    i = tl.program_id(0) % 2\n    while tl.atomic_xchg(s + i, 1) == 1:\n        pass\n"
        "    o = i * B + tl.arange(0, B)\n    tl.store(y + o, tl.load(y + o) + v)\n"
        "    tl.atomic_xchg(s + i, 0)\n", y=512, s=2,
    ),
    "the first one stores": ElectedKernel(
        "    o = tl.arange(0, B)\n" + LOCK + "    c = tl.load(s + 1)\n"
        "    if c == 0:\n        tl.atomic_xchg(s + 1, 1)\n    else:\n        v += tl.load(y + o)\n"
        "    tl.store(y + o, v)\n    tl.debug_barrier()\n" + UNLOCK, s=2,
    ),
    "the largest by compare and swap": ElectedKernel(
        "    m = tl.max(v, 0)\n    assumed = m * 0 - 1\n    old = m * 0\n    while old != assumed:\n"
        "        assumed = old\n        old = tl.atomic_cas(y, assumed, tl.maximum(assumed, m))\n", "i32", 1,
    ),
    "the largest float by compare and swap": ElectedKernel(
        "    m = tl.max(v, 0)\n    p = y.to(tl.pointer_type(tl.int32), bitcast=True)\n"
        "    old = tl.atomic_add(p, 0)\n    assumed = old + 1\n"
        "    while old != assumed:\n        assumed = old\n"
        "        now = tl.maximum(assumed.to(tl.float32, bitcast=True), m)\n"
        "        old = tl.atomic_cas(p, assumed, now.to(tl.int32, bitcast=True))\n", y=1,
    ),
    "in the order of their numbers": ElectedKernel(
        "    while tl.atomic_add(s, 0) != tl.program_id(0):\n        pass\n" + ADD.replace("+ v", "* 0.5 + v")
        + "    tl.atomic_add(s, 1)\n",
    ),
    "in the opposite order": ElectedKernel(
        "    while tl.atomic_add(s, 0) != tl.num_programs(0) - 1 - tl.program_id(0):\n        pass\n"
        + ADD.replace("+ v", "* 0.5 + v") + "    tl.atomic_add(s, 1)\n",
    ),
    "a flag that is read": ElectedKernel(
        "    p = tl.program_id(0)\n    tl.store(y + at, v)\n    tl.atomic_xchg(s + p, 1)\n    if p > 0:\n"
        "        while tl.load(s + p - 1, volatile=True) != 1:\n            pass\n"
        "    tl.atomic_or(s + 32, 0)\n    tl.store(y + 2048 + p, tl.sum(v, 0))\n", y=2053, s=33,
    ),
    "one waits for the others": ElectedKernel(
        "    p = tl.program_id(0)\n    tl.store(y + at, v)\n    tl.atomic_add(s, 1)\n"
        "    if p == 0:\n        while tl.atomic_add(s, 0) < tl.num_programs(0):\n            pass\n"
        "        o = tl.arange(0, B)\n        w = tl.load(y + o)\n"
        "        for i in tl.static_range(1, 3):\n            w += tl.load(y + i * B + o)\n"
        "        tl.store(y + 2048 + o, w)\n", y=2304,
    ),
    "numbers of a sum of floats": ElectedKernel(
        "    before = tl.atomic_add(y, tl.max(v, 0))\n    tl.store(y + 1 + tl.program_id(0), before)\n", y=6,
    ),
    "bits that were set": ElectedKernel(
        "    p = tl.program_id(0)\n    a = tl.atomic_or(s, 1 << p)\n    b = tl.atomic_and(s + 1, ~(1 << p))\n"
        "    c = tl.atomic_xor(s + 2, p + 7)\n    d = tl.atomic_max(s + 3, p * 3)\n    e = tl.atomic_min(s + 4, -p)\n"
        "    f = tl.atomic_xchg(s + 5, p + 1)\n"
        "    tl.store(y + p * 8 + tl.arange(0, 8), (a + b * 3 + c * 5 + d * 7 + e * 11 + f * 13 + tl.arange(0, 8)))\n"
        "    tl.store(y + 64 + tl.program_id(0), tl.sum(v, 0))\n", "i32", 69, 6,
    ),
    "relaxed, and nobody is ordered": ElectedKernel(
        '    t = tl.atomic_add(s, 1, sem="relaxed")\n    tl.store(y + t * B + tl.arange(0, B), v)\n', y=1280,
    ),
}  # fmt: skip

LOOPS = {
    "a ticket in every iteration": ElectedKernel(
        "    for i in range(n):\n        t = tl.atomic_add(s, 1)\n"
        "        o = tl.arange(0, B)\n"
        "        tl.store(y + t * B + o, tl.load(x + (tl.program_id(0) * n + i) * B + o))\n",
        y=15 * 256, head="",
    ),
    "a lock in every iteration": ElectedKernel(
        "    o = tl.arange(0, B)\n    for i in range(n):\n"
        "        v = tl.load(x + (tl.program_id(0) * n + i) * B + o)\n"
        "        while tl.atomic_xchg(s + i, 1) == 1:\n            pass\n"
        "        tl.store(y + i * B + o, tl.load(y + i * B + o) + v)\n        tl.atomic_xchg(s + i, 0)\n",
        y=3 * 256, s=3, head="",
    ),
    "a sum, and where it goes": ElectedKernel(
        "    a = tl.zeros((B,), tl.float32)\n    for i in range(n):\n"
        "        a += tl.load(x + (tl.program_id(0) * n + i) * B + tl.arange(0, B))\n"
        "        t = tl.atomic_add(s, 1)\n        if t % 2 == 1:\n"
        "            tl.store(y + t * B + tl.arange(0, B), a)\n    tl.atomic_max(s + 1, tl.atomic_add(s, 0))\n",
        y=15 * 256, s=2, head="",
    ),
}  # fmt: skip

TILES = {
    "slots of a histogram": ElectedKernel(
        "    o = tl.program_id(0) * 128 + tl.arange(0, 128)\n"
        "    b = tl.load(x + o, mask=o < n, other=0).to(tl.int32) & 7\n"
        "    t = tl.atomic_add(s + b, 1, mask=o < n)\n    tl.store(y + b * 1024 + t, o.to(tl.float32), mask=o < n)\n",
        y=8192, s=8, head="",
    ),
    "what was there": ElectedKernel(
        "    o = tl.arange(0, B)\n    w = tl.atomic_add(y + o, v, mask=at < n)\n"
        "    tl.store(y + 256 + at, w, mask=at < n)\n",
        y=256 + 1280,
    ),
    "exchanged with a constant": ElectedKernel(
        "    o = tl.arange(0, 64)\n    w = tl.atomic_xchg(s + o, tl.program_id(0) + o)\n"
        "    u = tl.atomic_max(s + 64 + o, w * 3)\n"
        "    tl.store(y + tl.program_id(0) * 64 + o, (w + u).to(tl.float32))\n",
        y=320, s=128, head="",
    ),
    "under a condition": ElectedKernel(
        "    o = tl.arange(0, B)\n    w = v * 0\n    if tl.program_id(0) != 1:\n        w = tl.atomic_add(y + o, v)\n"
        "    tl.store(y + 256 + at, w + 1)\n", y=256 + 1280,
    ),
    "rows and columns": ElectedKernel(
        "    r, c = tl.arange(0, 16), tl.arange(0, 32)\n"
        "    v = tl.load(x + tl.program_id(0) * 512 + r[:, None] * 32 + c[None, :])\n"
        "    w = tl.atomic_add(y + r[:, None] * 32 + c[None, :], v)\n"
        "    tl.store(y + 512 + tl.program_id(0) * 16 + r, tl.sum(w, 1))\n", y=512 + 80, head="",
    ),
}  # fmt: skip
