// wgmma: the tensor core's time of one instruction by shape, type and place of A, with two warp groups that keep it
// busy; and what a warp group sees of a few instructions: from the fence to the return of the wait, and while issuing.
extern __shared__ __align__(1024) u8 buffer[];
constexpr int QUEUED = 8;  // instructions of a group in `busy`

DEV void operands() {
  for (u32 i = threadIdx.x; i < 65536 / 4; i += blockDim.x) ((u32*)buffer)[i] = scrambled(i);
  fence_proxy_async();
  __syncthreads();
}
DEV u64 a_tile() { return descriptor_k_major<128>(smem_u32(buffer)); }
DEV u64 b_tile() { return descriptor_k_major<128>(smem_u32(buffer) + 16384); }
template <int N> DEV u32 sum_of(float (&d)[N]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += d[i];
  return __float_as_uint(sum);
}

template <int N, class Multiply> DEV void busy(u64* cycles, u8* memory, i32 count, Multiply multiply) {
  operands();
  float d[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[i] = 0;
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    pin(d);
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < QUEUED; ++j) multiply(d, j % 4);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  pin(d);
  __syncthreads();
  report(cycles, start);
  keep(memory, sum_of(d));
}
#define SHARED_A(K, TYPE, N)                                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 1) TYPE##_##N##_ss(u64* cycles, u8* memory, i32 count, i32) {        \
    busy<N>(cycles, memory, count, [](float (&d)[N / 2], int j) {                                                        \
      wgmma_m64n##N##k##K##_##TYPE##_ss(d, descriptor_advance(a_tile(), 32 * j), descriptor_advance(b_tile(), 32 * j), true); \
    });                                                                                                                  \
  }
#define REGISTER_A(K, TYPE, N)                                                                                           \
  extern "C" __global__ void __launch_bounds__(256, 1) TYPE##_##N##_rs(u64* cycles, u8* memory, i32 count, i32) {        \
    u32 a[4];                                                                                                            \
    for (u32 i = 0; i < 4; ++i) a[i] = scrambled(threadIdx.x * 4 + i);                                                   \
    busy<N>(cycles, memory, count, [&](float (&d)[N / 2], int j) {                                                       \
      wgmma_m64n##N##k##K##_##TYPE##_rs(d, a, descriptor_advance(b_tile(), 32 * j), true);                               \
    });                                                                                                                  \
  }
#define BOTH(K, TYPE, N) SHARED_A(K, TYPE, N) REGISTER_A(K, TYPE, N)
BOTH(16, bf16, 8) BOTH(16, bf16, 16) BOTH(16, bf16, 32) BOTH(16, bf16, 64) BOTH(16, bf16, 128) BOTH(16, bf16, 256)
BOTH(32, e4m3, 8) BOTH(32, e4m3, 16) BOTH(32, e4m3, 32) BOTH(32, e4m3, 64) BOTH(32, e4m3, 128) BOTH(32, e4m3, 256)
SHARED_A(16, f16, 128) SHARED_A(16, f16, 256) SHARED_A(8, tf32, 128) SHARED_A(8, tf32, 256)
SHARED_A(32, e5m2, 128) SHARED_A(32, e5m2, 256)

// COUNT instructions m64n128k16, alone: one warp group, nothing in flight before.
template <int COUNT, bool ISSUE> DEV void alone(u64* cycles, u8* memory, i32 count) {
  operands();
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i] = 0;
  u64 spent = 0;
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    pin(d);
    const u64 before = ISSUE ? now() : 0;
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < COUNT; ++j)
      wgmma_m64n128k16_bf16_ss(d, descriptor_advance(a_tile(), 32 * (j % 4)), descriptor_advance(b_tile(), 32 * (j % 4)), true);
    wgmma_commit();
    if (ISSUE) spent += now() - before;
    wgmma_wait<0>();
  }
  pin(d);
  if (!ISSUE) report(cycles, start);
  else if (threadIdx.x == 0) cycles[blockIdx.x] = spent;
  keep(memory, sum_of(d));
}
#define ALONE(COUNT)                                                                                                      \
  extern "C" __global__ void __launch_bounds__(128, 1) alone_##COUNT(u64* cycles, u8* memory, i32 count, i32) {           \
    alone<COUNT, false>(cycles, memory, count);                                                                           \
  }                                                                                                                       \
  extern "C" __global__ void __launch_bounds__(128, 1) issue_##COUNT(u64* cycles, u8* memory, i32 count, i32) {           \
    alone<COUNT, true>(cycles, memory, count);                                                                            \
  }
ALONE(1) ALONE(2) ALONE(4) ALONE(8)

// A wait for a group that holds nothing.
extern "C" __global__ void __launch_bounds__(128, 1) empty_wait(u64* cycles, u8*, i32 count, i32) {
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    wgmma_commit();
    wgmma_wait<0>();
  }
  report(cycles, start);
}
// Every SM's clock while all tensor cores work: cycles, then nanoseconds, of each CTA.
extern "C" __global__ void __launch_bounds__(256, 1) clock_at_work(u64* cycles, u8* memory, i32 count, i32) {
  const u64 begun = nanoseconds();
  busy<256>(cycles, memory, count, [](float (&d)[128], int j) {
    wgmma_m64n256k16_bf16_ss(d, descriptor_advance(a_tile(), 32 * j), descriptor_advance(b_tile(), 32 * j), true);
  });
  if (threadIdx.x == 0) cycles[gridDim.x + blockIdx.x] = nanoseconds() - begun;
}
