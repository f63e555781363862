// Bulk copies by tensor maps (TMA) of boxes of `rows` rows of 128 bytes. CTA b reads or writes the boxes
// first .. first + span - 1 with first = b / sharers * span, over and over; span and depth are powers of two.
extern __shared__ __align__(1024) u8 buffer[];
constexpr u32 ROW = 128, BARRIERS = 16;  // bytes; slots at most
__shared__ u64 full[BARRIERS];

struct Boxes {
  u32 rows, span, first;
  __device__ __forceinline__ i32 row(i32 i) const { return (i32)((first + ((u32)i & span - 1)) * rows); }
  __device__ __forceinline__ u32 slot(u32 s) const { return smem_u32(buffer) + s * rows * ROW; }
};
DEV Boxes boxes(i32 rows, i32 span, i32 sharers) { return {(u32)rows, (u32)span, blockIdx.x / (u32)sharers * (u32)span}; }
DEV void barriers() {
  for (u32 s = 0; s < BARRIERS; ++s) mbar_init(smem_u32(&full[s]), 1);
  mbar_init_fence();
  fence_proxy_async();
}

// Every warp keeps `depth` boxes in flight and loads a slot again as soon as it is full: with several warps it is not
// one thread's issuing that decides.
extern "C" __global__ void tensor_load(u64* cycles, u8*, i32 count, i32 rows, i32 span, i32 sharers, i32 depth,
                                       const __grid_constant__ TensorMap map) {
  if (threadIdx.x == 0) barriers();
  __syncthreads();
  const Boxes of = boxes(rows, span, sharers);
  const u32 bytes = rows * ROW, warps = blockDim.x / 32, warp = warp_uniform(threadIdx.x / 32), own = warp * depth;
  const u64 start = now();
  if (threadIdx.x % 32 == 0) {
    u32 slot = 0, parity = 0;
#pragma unroll 1
    for (i32 i = 0; i < count + depth; ++i) {
      const u32 bar = smem_u32(&full[own + slot]);
      if (i >= depth) mbar_wait(bar, parity ^ 1);
      if (i < count) {
        mbar_arrive_tx(bar, bytes);
        tma_load(of.slot(own + slot), &map, bar, 0, of.row(i * warps + warp));
      }
      if (++slot == (u32)depth) slot = 0, parity ^= 1;
    }
  }
  __syncthreads();
  report(cycles, start);
}
// The time of issuing alone: expect_tx and `copies` loads of one box each.
extern "C" __global__ void tensor_load_issue(u64* cycles, u8*, i32 count, i32 rows, i32 span, i32 sharers, i32 copies,
                                             const __grid_constant__ TensorMap map) {
  if (threadIdx.x) return;
  barriers();
  const Boxes of = boxes(rows, span, sharers);
  const u32 bytes = rows * ROW, bar = smem_u32(&full[0]);
  u64 spent = 0;
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    const u64 start = now();
    mbar_arrive_tx(bar, bytes * copies);
    for (i32 c = 0; c < copies; ++c) tma_load(of.slot(c), &map, bar, 0, of.row(c));
    spent += now() - start;
    mbar_wait(bar, i & 1);
  }
  cycles[blockIdx.x] = spent;
}

// kind 0: store, 1: add into float32. `depth` of 1, 2 or 4 boxes are in flight; a slot is free when it was read.
template <int KIND, int DEPTH> DEV void out(u64* cycles, i32 count, const Boxes of, const TensorMap* map) {
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    if (KIND == 0) tma_store(map, of.slot(i & (DEPTH - 1)), 0, of.row(i));
    else tma_reduce_add(map, of.slot(i & (DEPTH - 1)), 0, of.row(i));
    bulk_commit();
    bulk_wait_read<DEPTH - 1>();
  }
  bulk_wait<0>();
  report(cycles, start);
}
template <int KIND> DEV void out_of(u64* cycles, i32 count, i32 rows, i32 span, i32 sharers, i32 depth, const TensorMap* map) {
  // Zeros: what is added to stays what it is.
  for (u32 i = threadIdx.x; i < (u32)(rows * depth) * ROW / 4; i += blockDim.x) ((u32*)buffer)[i] = 0;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x) return;
  const Boxes of = boxes(rows, span, sharers);
  if (depth == 1) out<KIND, 1>(cycles, count, of, map);
  else out<KIND, 4>(cycles, count, of, map);
}
extern "C" __global__ void tensor_store(u64* cycles, u8*, i32 count, i32 rows, i32 span, i32 sharers, i32 depth,
                                        const __grid_constant__ TensorMap map) {
  out_of<0>(cycles, count, rows, span, sharers, depth, &map);
}
extern "C" __global__ void tensor_reduce(u64* cycles, u8*, i32 count, i32 rows, i32 span, i32 sharers, i32 depth,
                                         const __grid_constant__ TensorMap map) {
  out_of<1>(cycles, count, rows, span, sharers, depth, &map);
}
// The time of issuing a store: proxy fence, store, commit.
extern "C" __global__ void tensor_store_issue(u64* cycles, u8*, i32 count, i32 rows, i32 span, i32 sharers, i32,
                                              const __grid_constant__ TensorMap map) {
  if (threadIdx.x) return;
  const Boxes of = boxes(rows, span, sharers);
  u64 spent = 0;
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    const u64 start = now();
    fence_proxy_async();
    tma_store(&map, of.slot(0), 0, of.row(i));
    bulk_commit();
    spent += now() - start;
    bulk_wait_read<0>();
  }
  bulk_wait<0>();
  cycles[blockIdx.x] = spent;
}
// What two readings of the clock cost: to be taken from the times of issuing.
extern "C" __global__ void clock_pair(u64* cycles, u8*, i32 count, i32) {
  u64 spent = 0;
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    const u64 start = now();
    spent += now() - start;
  }
  if (threadIdx.x == 0) cycles[blockIdx.x] = spent;
}
