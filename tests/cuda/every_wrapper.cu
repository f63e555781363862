// Calls every function of the headers, so that each is assembled at least once. It computes nothing.
extern "C" __global__ void __launch_bounds__(256, 1)
threads_and_barriers(u32* out, u32 n) {
  extern __shared__ __align__(1024) char smem[];
  u32 bar = smem_u32(smem), v = warp_uniform(threadIdx.x / 32);
  if (v < 4) regs_shrink<40>(); else regs_grow<168>();
  if (elect_one()) { mbar_init(bar, 1); mbar_init_fence(); }
  v += shuffle_xor(v, 1) + shuffle_from(v, 0) + shuffle_up(v, 1) + shuffle_down(v, 1);
  v += warp_any(v > n) + warp_all(v > n) + cluster_rank();
  warp_sync();
  bar_sync(1, 256);
  if (v > 3) bar_arrive(2, 256); else bar_sync(2, 256);
  cluster_arrive();
  cluster_wait();
  cluster_sync();
  mbar_arrive(bar);
  mbar_arrive_many(bar, 2);
  mbar_expect_tx(bar, 16);
  mbar_arrive_tx(bar, 16);
  mbar_arrive_at(bar, 0);
  if (mbar_try_wait(bar, 0) || mbar_test_wait(bar, 1)) mbar_wait(bar, 0);
  mbar_invalidate(bar);
  fence_proxy_async();
  fence_proxy_async_global();
  fence_gpu();
  fence_cta();
  out[threadIdx.x] = v;
}

#define EVERY_TMA(...)                                                                  \
  tma_prefetch(&map, __VA_ARGS__);                                                      \
  tma_load(dst, &map, bar, __VA_ARGS__);                                                \
  tma_load_hint(dst, &map, bar, policy, __VA_ARGS__);                                   \
  tma_load_multicast(dst, &map, bar, 1, __VA_ARGS__);                                   \
  tma_load_multicast_hint(dst, &map, bar, 1, policy, __VA_ARGS__);                      \
  tma_store(&map, dst, __VA_ARGS__);                                                    \
  tma_store_hint(&map, dst, policy, __VA_ARGS__);                                       \
  tma_reduce_add(&map, dst, __VA_ARGS__);                                               \
  tma_reduce_min(&map, dst, __VA_ARGS__);                                               \
  tma_reduce_max(&map, dst, __VA_ARGS__);                                               \
  tma_reduce_and(&map, dst, __VA_ARGS__);                                               \
  tma_reduce_or(&map, dst, __VA_ARGS__);                                                \
  tma_reduce_xor(&map, dst, __VA_ARGS__);
extern "C" __global__ void copies(const __grid_constant__ TensorMap map, char* global, i32 x) {
  extern __shared__ __align__(1024) char smem[];
  u32 dst = smem_u32(smem), bar = dst + 1024;
  u64 policy = l2_evict_first() ^ l2_evict_last() ^ l2_evict_normal();
  tma_prefetch_map(&map);
  EVERY_TMA(x)
  EVERY_TMA(x, x + 1)
  EVERY_TMA(x, x + 1, x + 2)
  EVERY_TMA(x, x + 1, x + 2, x + 3)
  EVERY_TMA(x, x + 1, x + 2, x + 3, x + 4)
  bulk_load(dst, global, 64, bar);
  bulk_store(global, dst, 64);
  bulk_commit();
  bulk_wait_read<1>();
  bulk_wait<0>();
  copy_async<16>(dst, global);
  copy_async<8>(dst, global, 4);
  copy_async<4>(dst, global);
  copy_async_arrive(bar);
  copy_async_commit();
  copy_async_wait<0>();
  store_shared(dst, load_shared(dst));
  store_shared2(dst, load_shared2(dst));
  store_shared4(dst, load_shared4(dst));
  store_shared_u16(dst, load_shared_u16(dst));
  store_shared_u8(dst, load_shared_u8(dst));
  u32* counter = (u32*)global;
  *counter = atomic_add(counter, 1u) + atomic_add((i32*)global, 1) + (u32)atomic_add((u64*)global, (u64)1);
  *counter += atomic_count(counter, 3u);
  *(float*)global = atomic_add((float*)global, 1.f) + (float)atomic_add((double*)global, 1.);
  reduce_add(counter, 1u);
  reduce_add((i32*)global, 1);
  reduce_add((u64*)global, (u64)1);
  reduce_add((float*)global, 1.f);
  reduce_add((double*)global, 1.);
  reduce_add_bf16x2(global, 1);
  reduce_add_f16x2(global, 1);
  reduce_add_bf16(global, 1);
  reduce_add_f16(global, 1);
  i32* narrow = (i32*)global;
  i64* wide = (i64*)global;
  reduce_max(narrow, 1), reduce_min(narrow, 1), reduce_and(narrow, 1), reduce_or(narrow, 1), reduce_xor(narrow, 1);
  reduce_max(wide, 1), reduce_min(wide, 1), reduce_and(wide, 1), reduce_or(wide, 1), reduce_xor(wide, 1);
}

extern "C" __global__ void fragments(u32* out, float x, float y) {
  extern __shared__ __align__(1024) char smem[];
  u32 at = smem_u32(smem) + threadIdx.x * 16, a, b, c, d, sum = 0;
  ldmatrix_x1(at, a), sum += a;
  ldmatrix_x2(at, a, b), sum += a ^ b;
  ldmatrix_x4(at, a, b, c, d), sum += a ^ b ^ c ^ d;
  ldmatrix_x1_trans(at, a), sum += a;
  ldmatrix_x2_trans(at, a, b), sum += a ^ b;
  ldmatrix_x4_trans(at, a, b, c, d), sum += a ^ b ^ c ^ d;
  stmatrix_x1(at, a), stmatrix_x2(at, a, b), stmatrix_x4(at, a, b, c, d);
  stmatrix_x1_trans(at, a), stmatrix_x2_trans(at, a, b), stmatrix_x4_trans(at, a, b, c, d);
  sum += pack_bf16(x, y) ^ pack_f16(x, y) ^ pack_e4m3(x, y) ^ pack_e5m2(x, y) ^ saturate_e5m2(x, y) ^ pack_e4m3x4(x, y, x, y) ^ pack_e5m2x4(x, y, x, y);
  sum += e4m3_to_f16(sum) ^ e5m2_to_f16(sum) ^ round_tf32(x) ^ byte_permute(a, b, 0x5410);
  exchange_bytes(a, b, a, b);
  sum += operand_e4m3(x, y, x, y) ^ operand_e5m2(x, y, x, y) ^ a ^ b;
  x = low_bf16(sum) + high_bf16(sum) + low_f16(sum) + high_f16(sum);
  x += ex2(x) + lg2(x) + rcp(x) + rsqrt_fast(x) + sqrt_fast(x) + sin_fast(x) + cos_fast(x) + tanh_fast(x);
  x += floor_fast(x) + ceil_fast(x) + to_s16(x) + to_u16(x) + to_s16(double(x)) + to_u16(double(x));
  x += div_rounded(x, y) + ex2_subnormal(x) + (float)(max_nan((double)x, (double)y) + min_nan((double)x, (double)y));
  x += div_full(x, y) + max_nan(x, y) + erfc_short(x) + erfc_bf16(x, y, 0.5f) + min_nan(x, y) + truncate_f16(x) + pick(x > y, x, y);
  out[threadIdx.x] = sum ^ __float_as_uint(x);
}

extern "C" __global__ void __launch_bounds__(128, 1) multiplies(float* out) {
  extern __shared__ __align__(1024) char smem[];
  u32 at = smem_u32(smem);
  float d[32] = {};
  u32 a[4] = {threadIdx.x, 1, 2, 3};
  u64 k128 = descriptor_k_major<128>(at), k64 = descriptor_k_major<64>(at), k32 = descriptor_k_major<32>(at);
  u64 m128 = descriptor_mn_major<128>(at, 8192), plain = smem_descriptor<0>(at, 128, 256);
  pin(d);
  pin(a);
  wgmma_fence();
  wgmma_m64n64k16_bf16_ss(d, k128, k64, false);
  wgmma_m64n64k16_bf16_ss<1, 1>(d, m128, descriptor_advance(m128, 2048), true);
  wgmma_m64n64k16_bf16_rs(d, a, k32, true);
  wgmma_m64n64k16_bf16_rs<1>(d, a, m128, true);
  wgmma_m64n64k16_f16_ss(d, plain, plain, true);
  wgmma_m64n64k8_tf32_ss(d, k128, k128, true);
  wgmma_m64n64k32_e4m3_ss(d, k128, k128, true);
  wgmma_m64n64k32_e4m3_e5m2_rs(d, a, k128, true);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
#pragma unroll
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = d[i];
}

extern "C" __global__ void tiles(u32* out, float x, i32 n) {
  extern __shared__ __align__(1024) char smem[];
  const u32 at = swizzled<128, 128, 64>(smem_u32(smem), threadIdx.x, 32) + swizzle_of<64>(n);
  write_shared(swizzled_step<128, 128, 64>(at, 64), read_shared<Vector<float, 4>>(at));
  write_shared(at, read_shared<Vector<float, 2>>(at)), write_shared(at, read_shared<float>(at));
  write_shared(at, read_shared<u16>(at)), write_shared(at, read_shared<i8>(at));
  Cursor<1> one;
  Cursor<2> two;
  Cursor<3> three;
  for (i32 i = 0; i < n; ++i) one.advance(), two.advance(), three.advance();
  u32 pairs[2] = {one.slot + two.slot + three.slot, one.parity + two.parity + three.parity};
  float d[64] = {};
  i32 counts[2] = {n, n};
  pin(part<32>(d, 32));
  pin(counts);
  x += get_bf16(pairs, n) + get_f16(pairs, n) + d[33] + counts[1];
  x = round_bf16(x) + round_f16(x) + round_e4m3(x) + round_e5m2(x) + truncate_bf16(x) + truncate_e5m2(x);
  x += from_bits_bf16(bits_bf16(x)) + from_bits_f16(bits_f16(x)) + from_bits_e4m3(bits_e4m3(x)) + from_bits_e5m2(bits_e5m2(x));
  x = x == infinity() ? not_a_number() : x;
  out[threadIdx.x] = __float_as_uint(x) + wrap_add(wrap_mul(n, n), wrap_sub(n, bound((i64)n - 1)));
}
