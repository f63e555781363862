// Global memory that lies in L2, by ordinary accesses and by cp.async. `tile`: bytes that a CTA works on, its own.
extern __shared__ __align__(1024) u8 buffer[];

// "ld.global.cg": cached in L2 alone. "ld.volatile": that too, and never taken out of a loop.
DEV u32 load_l2(const u8* p) { u32 v; asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
DEV Vec4 load_l2x4(const u8* p) {
  Vec4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
DEV void store_x4(u8* p, Vec4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
constexpr int EACH = 8;

// The memory holds zeros, so that each address is the first one again.
extern "C" __global__ void global_chase(u64* cycles, u8* memory, i32 count, i32) {
  u32 at = load_l2(memory);
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) at = load_l2(memory + at);
  }
  report(cycles, start);
  keep(memory, at + 1);
}
extern "C" __global__ void __launch_bounds__(512) global_load(u64* cycles, u8* memory, i32 count, i32 tile) {
  const u8* mine = memory + (u64)blockIdx.x * tile + threadIdx.x * 16;
  Vec4 sum = {0, 0, 0, 0};
  __syncthreads();
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    Vec4 v[EACH];
#pragma unroll
    for (int j = 0; j < EACH; ++j) v[j] = load_l2x4(mine + j * 8192);
#pragma unroll
    for (int j = 0; j < EACH; ++j) sum.x ^= v[j].x ^ v[j].y, sum.y ^= v[j].z ^ v[j].w;
  }
  __syncthreads();
  report(cycles, start);
  keep(memory, sum.x + sum.y + 1);
}
extern "C" __global__ void __launch_bounds__(512) global_store(u64* cycles, u8* memory, i32 count, i32 tile) {
  u8* mine = memory + (u64)blockIdx.x * tile + threadIdx.x * 16;
  const Vec4 zero = {0, 0, 0, 0};
  __syncthreads();
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) store_x4(mine + j * 8192, zero);
  }
  __syncthreads();
  report(cycles, start);
}
// A round is a tile of 512 threads x 8 x 16 bytes; the one before may be in flight.
extern "C" __global__ void __launch_bounds__(512) copy_stream(u64* cycles, u8* memory, i32 count, i32 tile) {
  const u8* mine = memory + (u64)blockIdx.x * tile + threadIdx.x * 16;
  const u32 to = smem_u32(buffer) + threadIdx.x * 16;
  __syncthreads();
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) copy_async<16>(to + (i & 1) * 65536 + j * 8192, mine + j * 8192);
    copy_async_commit();
    copy_async_wait<1>();
  }
  copy_async_wait<0>();
  __syncthreads();
  report(cycles, start);
}
extern "C" __global__ void copy_latency(u64* cycles, u8* memory, i32 count, i32) {
  const u32 to = smem_u32(buffer) + threadIdx.x * 16;
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
    copy_async<16>(to, memory + threadIdx.x * 16);
    copy_async_commit();
    copy_async_wait<0>();
  }
  report(cycles, start);
}
