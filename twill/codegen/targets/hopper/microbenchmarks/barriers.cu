// Two warp groups pass a turn to and fro, alone or with a value of 2 KiB a step through shared memory.
extern __shared__ __align__(1024) u8 buffer[];
__shared__ u64 turn[2];

// NAMED: bar.arrive and bar.sync; otherwise an mbarrier with one arrival a warp. QUADS: 16-byte vectors of each thread.
template <bool NAMED, int QUADS> DEV void crossing(u64* cycles, u8* memory, i32 count) {
  const u32 group = warp_uniform(threadIdx.x / 128), lane = threadIdx.x % 128;
  if (threadIdx.x == 0) {
    mbar_init(smem_u32(&turn[0]), 4);
    mbar_init(smem_u32(&turn[1]), 4);
  }
  constexpr int HELD = QUADS ? QUADS : 1;
  Vec4 value[HELD];
#pragma unroll
  for (int i = 0; i < HELD; ++i) value[i] = {lane, (u32)i, 0, 0};
  const u32 mine = smem_u32(buffer) + lane * 16, other = smem_u32(buffer) + (lane ^ 32) * 16;
  auto give = [&] {
#pragma unroll
    for (int i = 0; i < QUADS; ++i) store_shared4(mine + i * 2048, value[i]);
    if (QUADS) warp_sync();
    if (NAMED) bar_arrive(1 + group, 256);
    else if (lane % 32 == 0) mbar_arrive(smem_u32(&turn[group]));
  };
  auto take = [&](i32 i) {
    if (NAMED) bar_sync(2 - group, 256);
    else mbar_wait(smem_u32(&turn[1 - group]), i & 1);
#pragma unroll
    for (int j = 0; j < QUADS; ++j) value[j] = load_shared4(other + j * 2048);
  };
  __syncthreads();
  const u64 start = now();
  if (group == 0) {
#pragma unroll 1
    for (i32 i = 0; i < count; ++i) { give(); take(i); }
  } else {
#pragma unroll 1
    for (i32 i = 0; i < count; ++i) { take(i); give(); }
  }
  report(cycles, start);
  u32 sum = 0;
#pragma unroll
  for (int i = 0; i < HELD; ++i) sum ^= value[i].x ^ value[i].y;
  keep(memory, sum);
}
#define CROSSING(NAME, NAMED, QUADS)                                                                            \
  extern "C" __global__ void __launch_bounds__(256) NAME(u64* cycles, u8* memory, i32 count, i32) {             \
    crossing<NAMED, QUADS>(cycles, memory, count);                                                              \
  }
CROSSING(mbarrier_0, false, 0)
CROSSING(mbarrier_2, false, 1)
CROSSING(mbarrier_4, false, 2)
CROSSING(mbarrier_8, false, 4)
CROSSING(mbarrier_16, false, 8)
CROSSING(mbarrier_32, false, 16)
CROSSING(named_0, true, 0)
CROSSING(named_8, true, 4)
CROSSING(named_32, true, 16)

// One thread arrives and waits for its own arrival.
extern "C" __global__ void mbarrier_alone(u64* cycles, u8*, i32 count, i32) {
  const u32 bar = smem_u32(&turn[0]);
  if (threadIdx.x) return;
  mbar_init(bar, 1);
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    mbar_arrive(bar);
    mbar_wait(bar, i & 1);
  }
  report(cycles, start);
}
// One warp group's own threads meet.
extern "C" __global__ void named_alone(u64* cycles, u8*, i32 count, i32) {
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) bar_sync(1, 128);
  report(cycles, start);
}
