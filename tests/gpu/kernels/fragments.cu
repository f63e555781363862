// Matrices between registers and shared memory: four 8 x 8 of 16-bit numbers in, each way of loading and storing out.
extern "C" __global__ void matrices(const u32* in, u32* out) {
  __shared__ __align__(128) u32 tile[4 * 32], back[4 * 32];
  const u32 lane = threadIdx.x;
  u32 r[4];
  for (int i = 0; i < 4; ++i) tile[i * 32 + lane] = in[i * 32 + lane];
  warp_sync();
  const u32 row = smem_u32(tile) + lane * 16, to = smem_u32(back) + lane * 16;
  ldmatrix_x4(row, r[0], r[1], r[2], r[3]);                 // as they are, and back
  stmatrix_x4(to, r[0], r[1], r[2], r[3]);
  warp_sync();
  for (int i = 0; i < 4; ++i) out[i * 32 + lane] = back[i * 32 + lane];
  warp_sync();
  ldmatrix_x4_trans(row, r[0], r[1], r[2], r[3]);           // transposed once
  stmatrix_x2(to, r[0], r[1]);
  warp_sync();
  for (int i = 0; i < 2; ++i) out[128 + i * 32 + lane] = back[i * 32 + lane];
  warp_sync();
  stmatrix_x1(to, r[2]);
  warp_sync();
  out[192 + lane] = back[lane];
  warp_sync();
  stmatrix_x1_trans(to, r[3]);                              // and twice
  warp_sync();
  out[224 + lane] = back[lane];
}

extern "C" __global__ void functions(const float* x, float* y, u32* packed, i32 n) {
  const i32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i], w = x[(i + 1) % n];
  y[0 * n + i] = ex2(v);
  y[1 * n + i] = lg2(v);
  y[2 * n + i] = rcp(v);
  y[3 * n + i] = rsqrt_fast(v);
  y[4 * n + i] = sqrt_fast(v);
  y[5 * n + i] = sin_fast(v);
  y[6 * n + i] = cos_fast(v);
  y[7 * n + i] = tanh_fast(v);
  packed[0 * n + i] = pack_bf16(v, w);
  packed[1 * n + i] = pack_f16(v, w);
  packed[2 * n + i] = pack_e4m3x4(v, w, w, v);
  packed[3 * n + i] = saturate_e5m2(v, w) | saturate_e5m2(w, v) << 16;
  packed[4 * n + i] = e4m3_to_f16(pack_e4m3(v, w));
  packed[5 * n + i] = e5m2_to_f16(saturate_e5m2(v, w));
  packed[6 * n + i] = __float_as_uint(high_bf16(pack_bf16(v, w)) + low_bf16(pack_bf16(v, w)));
  packed[7 * n + i] = __float_as_uint(high_f16(pack_f16(v, w)) + low_f16(pack_f16(v, w)));
}

// Warps talk: sums over lanes, one elected lane a warp, two named barriers passed back and forth, atomics.
extern "C" __global__ void __launch_bounds__(128, 1) talk(u32* counts, float* sums, u32* bf16s, double* wide) {
  __shared__ u32 box;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float s = lane;
  for (u32 m = 16; m; m /= 2) s += shuffle_xor(s, m);
  if (elect_one()) atomic_add(counts, 1u), reduce_add(counts + 1, warp), reduce_add(sums, s);
  reduce_add_bf16x2(bf16s, 0x3f803f80u);
  atomic_add(wide, 0.5);
  if (warp == 1) {                                          // warp 1 fills the box, warp 0 reads it, eight times
    for (u32 i = 1; i <= 8; ++i) { bar_sync(1, 64); if (lane == 0) box = i; bar_sync(2, 64); }
  } else if (warp == 0) {
    for (u32 i = 0; i < 8; ++i) { bar_arrive(1, 64); bar_sync(2, 64); if (lane == 0) reduce_add(counts + 2, box); }
  }
  if (shuffle_from(lane, 7) != 7 || shuffle_up(lane, 1) != max(lane, 1u) - 1 || shuffle_down(lane, 1) != min(lane + 1, 31u)) counts[3] = 1;
  if (warp_any(lane == 40) || !warp_all(lane < 32)) counts[3] = 1;
}
