// Every rank of tensor copies: the box at the origin of each tile of `in` goes to `out`, and is added twice to `sum`.
#define COPY(RANK, ...)                                                                                        \
  extern "C" __global__ void copy##RANK(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out, \
                                        const __grid_constant__ TensorMap sum, i32 e0, i32 n0, i32 e1, i32 n1,  \
                                        u32 bytes) {                                                           \
    extern __shared__ __align__(1024) char smem[];                                                             \
    const u32 at = smem_u32(smem) + 128, bar = smem_u32(smem);                                                 \
    const i32 x0 = blockIdx.x % n0 * e0, x1 = blockIdx.x / n0 % n1 * e1, x2 = blockIdx.x / (n0 * n1), x3 = 1, x4 = 0; \
    (void)x1, (void)x2, (void)x3, (void)x4;                                                                    \
    if (threadIdx.x) return;                                                                                   \
    mbar_init(bar, 1);                                                                                         \
    mbar_init_fence();                                                                                         \
    tma_prefetch(&in, __VA_ARGS__);                                                                            \
    mbar_expect_tx(bar, bytes);                                                                                \
    mbar_arrive(bar);                                                                                          \
    if (blockIdx.x % 2) tma_load(at, &in, bar, __VA_ARGS__);                                                   \
    else tma_load_hint(at, &in, bar, l2_evict_normal(), __VA_ARGS__);                                          \
    while (!mbar_try_wait(bar, 0)) {}                                                                          \
    tma_store(&out, at, __VA_ARGS__);                                                                          \
    bulk_commit();                                                                                             \
    tma_reduce_add(&sum, at, __VA_ARGS__);                                                                     \
    tma_reduce_add(&sum, at, __VA_ARGS__);                                                                     \
    bulk_commit();                                                                                             \
    bulk_wait_read<0>();                                                                                       \
    bulk_wait<0>();                                                                                            \
  }
COPY(1, x0)
COPY(2, x0, x1)
COPY(3, x0, x1, x2)
COPY(4, x0, x1, x2, x3)
COPY(5, x0, x1, x2, x3, x4)

// Rows of 64 bf16 with cp.async into the 128-byte swizzle, beyond `rows` zero; out of shared memory by plain loads.
// One producer warp, one consumer warp, an mbarrier between them. Then the same bytes by a bulk copy there and back.
extern "C" __global__ void __launch_bounds__(64, 1) copy_rows(const char* in, char* out, char* again, i32 rows) {
  extern __shared__ __align__(1024) char smem[];
  const u32 at = smem_u32(smem), bar = at + 32 * 128, bulk = bar + 8, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) { mbar_init(bar, 32); mbar_init(bulk, 1); mbar_init_fence(); }
  __syncthreads();
  if (threadIdx.x < 32) {
#pragma unroll
    for (u32 c = 0; c < 8; ++c) copy_async<16>(at + lane * 128 + ((c ^ (lane & 7)) << 4), in + lane * 128 + c * 16, lane < rows ? 16 : 0);
    copy_async_arrive(bar);
    return;
  }
  mbar_wait(bar, 0);
#pragma unroll
  for (u32 c = 0; c < 8; ++c) {
    const Vec4 v = load_shared4(at + lane * 128 + ((c ^ (lane & 7)) << 4));
    *(Vec4*)(out + lane * 128 + c * 16) = v;
  }
  warp_sync();
  if (lane) return;
  fence_proxy_async();
  mbar_arrive_tx(bulk, 32 * 128);
  bulk_load(at, in, 32 * 128, bulk);
  while (!mbar_test_wait(bulk, 0)) {}
  bulk_store(again, at, 32 * 128);
  bulk_commit();
  bulk_wait<0>();
}

// Two CTAs of a cluster: each loads half of the rows into both. The slot is reused, so both must have read it before.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128, 1)
multicast(const __grid_constant__ TensorMap in, float* out, i32 tiles) {
  extern __shared__ __align__(1024) char smem[];
  const u32 at = smem_u32(smem), full = at + 2 * 4096, empty = full + 8, rank = cluster_rank();
  if (threadIdx.x == 0) { mbar_init(full, 1); mbar_init(empty, 2); mbar_init_fence(); }
  cluster_sync();
  for (i32 t = 0; t < tiles; ++t) {
    if (threadIdx.x == 0) {
      mbar_wait(empty, t & 1 ^ 1);
      mbar_arrive_tx(full, 2 * 4096);
      tma_load_multicast(at + rank * 4096, &in, full, 3, 0, t * 64 + rank * 32);
    }
    mbar_wait(full, t & 1);
    for (u32 i = threadIdx.x; i < 64 * 32; i += 128)
      out[(rank * tiles + t) * 64 * 32 + i] = __uint_as_float(load_shared(at + i * 4));
    __syncthreads();
    if (threadIdx.x < 2) mbar_arrive_at(empty, threadIdx.x);
  }
  cluster_sync();
}
