"""What modules of Gluon emitted by Twill have in common: rings, instructions for which Gluon has no words, launches."""

import functools

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tensor_memory_descriptor,
)
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# What Triton 3.6 to 3.9 call otherwise than one another.
aggregate = getattr(gluon, "aggregate", None) or triton.language.core._aggregate
tma_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
tma_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global
tma_add = getattr(tma, "async_atomic_add", None)  # of 3.8 and later
clc = getattr(blackwell, "clc", None)  # of 3.8 and later
TensorMemoryScalesLayout = getattr(blackwell, "TensorMemoryScalesLayout", None)  # of 3.7 and later
tensor_memory_as = getattr(tensor_memory_descriptor, "reinterpret", None) or tensor_memory_descriptor._reinterpret


# ---------------------------------------------------------------- rings
@aggregate
class TileRing:
    """Tiles that one partition makes and others read, in slots that come round.

    Every partition counts the slots that it has passed: the next one is the count modulo the slots. Two barriers say of
    a slot that it is full, and that it is empty; the parity that is waited for changes from round to round. Tensor
    memory is put in order with its barriers, too (`tensor_memory_fence`).
    """

    tiles: gl.shared_memory_descriptor | tensor_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    slots: gl.constexpr
    each: gl.constexpr  # tiles to a slot,
    first: gl.constexpr  # and the one of them that is used
    fenced: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, tiles, full, empty, each, first):
        self.tiles = tiles
        self.full = full
        self.empty = empty
        self.slots = gl.constexpr(full.shape[0])
        self.each = gl.constexpr(each)
        self.first = gl.constexpr(first)
        self.fenced = gl.constexpr(isinstance(tiles, tensor_memory_descriptor))

    @gluon.jit
    def tile(self, count):
        """The tile of a slot."""
        return self.tiles.index(self.each * (count % self.slots) + self.first)

    @gluon.jit
    def full_barrier(self, count):
        """The barrier at which copies and products arrive that fill a slot."""
        return self.full.index(count % self.slots)

    @gluon.jit
    def empty_barrier(self, count):
        """The barrier at which products arrive that have read a slot."""
        return self.empty.index(count % self.slots)

    @gluon.jit
    def acquire(self, count):
        """Before a slot is filled: wait until it is empty, as a fresh one is."""
        mbarrier.wait(self.empty.index(count % self.slots), (count // self.slots & 1) ^ 1)
        if self.fenced:
            tensor_memory_fence("after")

    @gluon.jit
    def expect(self, count, size: gl.constexpr):
        """A slot is full when copies have brought that many bytes."""
        mbarrier.expect(self.full.index(count % self.slots), size)

    @gluon.jit
    def load(self, desc, at, count):
        """Begin to copy a tile of a tensor into a slot. at: where in the tensor."""
        tile = self.tiles.index(self.each * (count % self.slots) + self.first)
        tma_load(desc, at, self.full.index(count % self.slots), tile)

    @gluon.jit
    def load_slice(self, desc, at, count):
        """The same of a tensor that has more axes than a tile, along which the tile has one element."""
        tile = self.tiles.index(self.each * (count % self.slots) + self.first)
        tma_load(desc, at, self.full.index(count % self.slots), tile.reshape(desc.block_type.shape))

    @gluon.jit
    def publish(self, count):
        """A slot is filled, by this partition."""
        if self.fenced:
            tensor_memory_fence("before")
        mbarrier.arrive(self.full.index(count % self.slots), count=1)

    @gluon.jit
    def wait(self, count):
        """Before a slot is read: wait until it is full."""
        mbarrier.wait(self.full.index(count % self.slots), count // self.slots & 1)
        if self.fenced:
            tensor_memory_fence("after")

    @gluon.jit
    def release(self, count):
        """A slot is read, by this partition."""
        if self.fenced:
            tensor_memory_fence("before")
        mbarrier.arrive(self.empty.index(count % self.slots), count=1)


@gluon.jit
def ring(tiles, full: gl.constexpr, empty: gl.constexpr, each: gl.constexpr = 1, first: gl.constexpr = 0):
    """A ring of tiles. full, empty: how many arrivals say that a slot is full, and empty."""
    slots: gl.constexpr = tiles.shape[0] // each
    of_full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    of_empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(of_full.index(slot), count=full)
        mbarrier.init(of_empty.index(slot), count=empty)
    return TileRing(tiles, of_full, of_empty, each, first)


@gluon.jit
def ring_of_pair(tiles, full: gl.constexpr, empty: gl.constexpr):
    """A ring of operands that two CTAs multiply together: each loads its part of a tile. The first CTA alone waits
    until a slot is full, so that both arrive there; each is told by products that its part is empty."""
    slots: gl.constexpr = tiles.shape[0]
    of_full = mbarrier.allocate_mbarrier(batch=slots, two_ctas=True)
    of_empty = mbarrier.allocate_mbarrier(batch=slots)
    for slot in gl.static_range(slots):
        mbarrier.init(of_full.index(slot), count=full)
        mbarrier.init(of_empty.index(slot), count=empty)
    return TileRing(tiles, of_full, of_empty, 1, 0)


@gluon.jit
def tensor_ring_of_pair(element: gl.constexpr, shape, full: gl.constexpr, empty: gl.constexpr):
    """A ring of results of two CTAs, of which each has its rows. The first CTA alone waits until a slot is empty, so
    that both arrive there; each is told by products that its rows are there. shape: slots, rows, columns."""
    ROWS: gl.constexpr = shape[1] // 2
    layout: gl.constexpr = TensorMemoryLayout(block=(ROWS, shape[2]), col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    tiles = allocate_tensor_memory(element, shape, layout)
    slots: gl.constexpr = shape[0]
    of_full = mbarrier.allocate_mbarrier(batch=slots)
    of_empty = mbarrier.allocate_mbarrier(batch=slots, two_ctas=True)
    for slot in gl.static_range(slots):
        mbarrier.init(of_full.index(slot), count=full)
        mbarrier.init(of_empty.index(slot), count=empty)
    return TileRing(tiles, of_full, of_empty, 1, 0)


@gluon.jit
def tensor_ring(element: gl.constexpr, shape, full: gl.constexpr, empty: gl.constexpr):
    """A ring of tiles in tensor memory. shape: slots, rows, columns."""
    layout: gl.constexpr = TensorMemoryLayout(block=(shape[1], shape[2]), col_stride=1)
    return ring(allocate_tensor_memory(element, shape, layout), full, empty)


@gluon.jit
def tensor_ring_over(
    host, element: gl.constexpr, shape, full: gl.constexpr, empty: gl.constexpr, each: gl.constexpr, first: gl.constexpr
):
    """A ring that lies over another in tensor memory: `each` tiles to a slot of that one, of which one is used."""
    layout: gl.constexpr = TensorMemoryLayout(block=(shape[1], shape[2]), col_stride=1)
    return ring(tensor_memory_as(host.tiles, element, shape, layout), full, empty, each, first)


@gluon.jit
def ring_beside(other, tiles):
    """A ring of tiles that are filled, read and given back together with those of another, whose barriers it has."""
    return TileRing(tiles, other.full, other.empty, 1, 0)


# ---------------------------------------------------------------- scales of blocks
@aggregate
class TensorScales:
    """Scales in tensor memory, in as many slots as a ring has in shared memory: [rows, blocks along K] each."""

    columns: tensor_memory_descriptor
    slots: gl.constexpr
    element: gl.constexpr
    shape: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, columns, element, shape):
        self.columns = columns
        self.slots = gl.constexpr(columns.shape[0])
        self.element = gl.constexpr(element)
        self.shape = gl.constexpr(shape)

    @gluon.jit
    def tile(self, count):
        """The scales of a slot."""
        layout: gl.constexpr = TensorMemoryScalesLayout()
        return tensor_memory_as(self.columns.index(count % self.slots), self.element, self.shape, layout)


@gluon.jit
def tensor_scales(element: gl.constexpr, shape: gl.constexpr):
    """Tensor memory for them. shape: slots, rows, blocks. 128 rows and 4 blocks are 4 columns."""
    LANES: gl.constexpr = 4 * 32
    COLUMNS: gl.constexpr = shape[1] // LANES * shape[2]
    layout: gl.constexpr = TensorMemoryLayout(block=(LANES, COLUMNS), col_stride=1)
    return TensorScales(allocate_tensor_memory(gl.int32, [shape[0], LANES, COLUMNS], layout), element, shape[1:])


@gluon.jit
def in_rows(tile):
    """Scales as they are copied, [1, rows / 128, blocks / 4, 2, 256], as [rows, blocks]: row r and block k of 512 bytes
    are at byte r % 32 * 16 + r // 32 * 4 + k."""
    ROWS: gl.constexpr = tile.shape[1]
    BLOCKS: gl.constexpr = tile.shape[2]
    tile = tile.reshape((ROWS, BLOCKS, 32, 4, 4)).permute((0, 3, 2, 1, 4))
    return tile.reshape((ROWS * 4 * 32, BLOCKS * 4))


# ---------------------------------------------------------------- a dynamic order of instances
@gluon.jit
def next_of_counter(counter, instances):
    """The next instance that nobody has; `instances` or more if there is none. Those behind the first one of each CTA
    come from a counter in global memory, which the last request of all leaves as a 0."""
    taken = gl.atomic_add(counter, 1)
    if taken == instances - 1:
        gl.store(counter, 0)
    return taken + gl.num_programs(0)


@gluon.jit
def place_of_answer(answer, instances):
    """The instance of a CTA that the hardware now does not start; `instances` if there was none left."""
    result = clc.load_result(answer)
    place = instances
    if result.is_canceled():
        place = result.program_id(0)
    return place


@gluon.jit
def tell(slot, instance):
    """Put an instance where other partitions learn of it."""
    ONE: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    slot.store(gl.full([1], instance, gl.int32, ONE))


@gluon.jit
def told(slot):
    """The instance that was put there."""
    ONE: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    return gl.max(slot.load(ONE), 0)


# ---------------------------------------------------------------- instructions
@gluon.jit
def tensor_memory_fence(side: gl.constexpr):
    """Orders products and reads of tensor memory with barriers: those behind a wait ("after"), or in front of an
    arrival ("before"). Triton does not place it."""
    PTX: gl.constexpr = f"tcgen05.fence::{side}_thread_sync; mov.u32 $0, 0;"
    gl.inline_asm_elementwise(PTX, "=r,r", [0], gl.int32, False, 1)


@gluon.jit
def rank_of_cta():
    """Which CTA of a pair this is, 0 or 1. What depends on it the two do each for itself."""
    return gl.inline_asm_elementwise("mov.u32 $0, %cluster_ctarank;", "=r,r", [0], gl.int32, True, 1)


@gluon.jit
def named_barrier_sync(barrier: gl.constexpr, threads: gl.constexpr):
    """Wait on a barrier of the hardware, between partitions. Numbers below 8 are Triton's."""
    PTX: gl.constexpr = f"bar.sync {barrier}, {threads}; mov.u32 $0, 0;"
    gl.inline_asm_elementwise(PTX, "=r,r", [threads], gl.int32, False, 1)


@gluon.jit
def named_barrier_arrive(barrier: gl.constexpr, threads: gl.constexpr):
    """Arrive, without waiting, on a barrier of the hardware, between partitions. Numbers below 8 are Triton's."""
    PTX: gl.constexpr = f"bar.arrive {barrier}, {threads}; mov.u32 $0, 0;"
    gl.inline_asm_elementwise(PTX, "=r,r", [threads], gl.int32, False, 1)


@gluon.jit
def in_registers(x, layout: gl.constexpr):
    """The same values, in registers that are written here. A constant among them, which the compiler writes where it is
    needed, would come behind the fence of the product that reads it."""
    MOVE: gl.constexpr = "mov.b32 $0, $1;"
    return gl.convert_layout(gl.inline_asm_elementwise(MOVE, "=r,r", [x], x.dtype, False, 2), layout)


@gluon.jit
def unknown_indices(x):
    """The same indices, which the compiler does not know: of a product's result it then leaves out no register."""
    MOVE: gl.constexpr = "mov.b32 $0, $1;"
    return gl.inline_asm_elementwise(MOVE, "=r,r", [x], x.dtype, False, 1)


@gluon.jit
def column_halves(x, layout: gl.constexpr):
    """The left and the right half of a tile's columns, in the registers that they are in."""
    left, right = x.reshape([x.shape[0], 2, x.shape[1] // 2]).permute((0, 2, 1)).split()
    left = gl.convert_layout(left, layout, assert_trivial=True)
    return left, gl.convert_layout(right, layout, assert_trivial=True)


# ---------------------------------------------------------------- launches
class Launcher:
    """`kernel[grid](...)`, as the Triton kernel is called; how many warps and stages it has is decided.

    launch: a function of three sizes of a launch grid and the kernel's arguments. What it has defaults for are the
    constants that the kernel was made with: others are an error.
    """

    def __init__(self, launch):
        functools.update_wrapper(self, launch)
        code, self.launch = launch.__code__, launch
        self.names = code.co_varnames[1 : code.co_argcount]
        values = launch.__defaults__ or ()
        self.constants = dict(zip(self.names[len(self.names) - len(values) :], values, strict=True))

    def __getitem__(self, grid):
        """The kernel over a launch grid, which may be a function of the kernel's arguments."""
        return functools.partial(self._start, grid)

    def _start(self, grid, *given, num_warps=4, num_stages=1, **named):
        named = {**self.constants, **dict(zip(self.names, given, strict=False)), **named}
        for name, value in self.constants.items():
            if named[name] != value:
                raise ValueError(f"{self.__name__} was made for {name} = {value}, not {named[name]}")
        grid = (*(grid(named) if callable(grid) else grid), 1, 1)[:3]
        if grid[0] * grid[1] * grid[2]:
            self.launch(grid, **named)


def descriptor(given, block, layout):
    """The tensor of a descriptor, in other blocks, as they lie in shared memory."""
    return TensorDescriptor(given.base, list(given.shape), list(given.strides), block, layout.value)


def steps_within(tensor, stride):
    """How many elements that are `stride` apart a tensor has: the size of an axis that a kernel does not bound."""
    reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return max(1, min(2**31 - 1, -(-reach // stride)))  # descriptors count in i32


def counter():
    """A 0 in the memory of the GPU, which launches on the current stream share: each leaves it as it was."""
    driver = triton.runtime.driver.active
    device = driver.get_current_device()
    return _counter(device, driver.get_current_stream(device))


@functools.cache
def _counter(device, stream):
    import torch

    return torch.zeros(1, dtype=torch.int32, device=f"cuda:{device}")


@functools.cache
def multiprocessors():
    """Of the GPU that is current at the first launch: each runs one CTA."""
    driver = triton.runtime.driver.active
    return driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"]
