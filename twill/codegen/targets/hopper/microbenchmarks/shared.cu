// Shared memory: throughput by 16 warps without bank conflicts, and the latency of dependent loads.
extern __shared__ __align__(1024) u8 buffer[];
constexpr int EACH = 8;  // accesses of 16 bytes of a thread in a round

DEV void cleared() {
  for (u32 i = threadIdx.x; i < 512 * EACH * 4; i += blockDim.x) ((u32*)buffer)[i] = 0;
  __syncthreads();
}

template <class Access> DEV void stream(u64* cycles, u8* memory, i32 count, Access access) {
  cleared();
  // A warp's 32 rows of 16 bytes lie one behind the other: right for vectors and for matrices alike.
  const u32 at = smem_u32(buffer) + threadIdx.x * 16;
  Vec4 v = {threadIdx.x, 1, 2, 3};
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) access(at + j * 8192, v);
  }
  __syncthreads();
  report(cycles, start);
  keep(memory, v.x ^ v.y ^ v.z ^ v.w);
}

extern "C" __global__ void __launch_bounds__(512) shared_load(u64* cycles, u8* memory, i32 count, i32) {
  stream(cycles, memory, count, [](u32 at, Vec4& v) {
    const Vec4 w = load_shared4(at);
    v.x ^= w.x, v.y ^= w.y, v.z ^= w.z, v.w ^= w.w;
  });
}
extern "C" __global__ void __launch_bounds__(512) shared_store(u64* cycles, u8* memory, i32 count, i32) {
  stream(cycles, memory, count, [](u32 at, Vec4& v) { store_shared4(at, v); });
}
extern "C" __global__ void __launch_bounds__(512) matrix_load(u64* cycles, u8* memory, i32 count, i32) {
  stream(cycles, memory, count, [](u32 at, Vec4& v) {
    Vec4 w;
    ldmatrix_x4(at, w.x, w.y, w.z, w.w);
    v.x ^= w.x, v.y ^= w.y, v.z ^= w.z, v.w ^= w.w;
  });
}
extern "C" __global__ void __launch_bounds__(512) matrix_store(u64* cycles, u8* memory, i32 count, i32) {
  stream(cycles, memory, count, [](u32 at, Vec4& v) { stmatrix_x4(at, v.x, v.y, v.z, v.w); });
}
// Every address comes from the load before.
extern "C" __global__ void shared_chase(u64* cycles, u8* memory, i32 count, i32) {
  cleared();
  const u32 base = smem_u32(buffer);
  u32 at = base;
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 32; ++j) at = base + load_shared(at);
  }
  report(cycles, start);
  keep(memory, at);
}
// What was stored is loaded by the neighbour, and stored again.
extern "C" __global__ void shared_roundtrip(u64* cycles, u8* memory, i32 count, i32) {
  cleared();
  const u32 at = smem_u32(buffer) + threadIdx.x * 4;
  u32 v = threadIdx.x;
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      store_shared(at, v);
      warp_sync();
      v = load_shared(at ^ 4);
      warp_sync();
    }
  }
  report(cycles, start);
  keep(memory, v);
}
