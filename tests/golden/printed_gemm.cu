// gemm small, for h100
constexpr u32 a_at = 0;  // a: 4 x 128 x 64 bf16, swizzle 128
constexpr u32 b_at = 65536;  // b: 4 x 64 x 128 bf16, swizzle 128
constexpr u32 c_0_at = 131072;  // c_0: 1 x 64 x 128 bf16, swizzle 128
constexpr u32 c_1_at = 147456;  // c_1: 1 x 64 x 128 bf16, swizzle 128
constexpr u32 a_b_full = 163840, a_b_empty = 163872;  // barriers of a_b: 4 slots, filled by TMA
extern "C" __global__ void __launch_bounds__(384, 1)
twill_gemm(const __grid_constant__ TensorMap map0,
    const __grid_constant__ TensorMap map1,
    const __grid_constant__ TensorMap map2,
    i32 K,
    u32 grid0,
    u32 grid1,
    u32 grid2) {
  // ---- setup
  extern __shared__ __align__(1024) char shared_memory[];
  const u32 smem = smem_u32(shared_memory);
  const u32 instances = grid0 * grid1 * grid2;
  const u32 warps_before = warp_uniform(threadIdx.x / 32);  // chooses the role
  if (threadIdx.x == 0) {
    tma_prefetch_map(&map0);
    tma_prefetch_map(&map1);
    tma_prefetch_map(&map2);
    for (u32 s = 0; s < 4; ++s) mbar_init(smem + a_b_full + s * 8, 1);
    for (u32 s = 0; s < 4; ++s) mbar_init(smem + a_b_empty + s * 8, 8);
    mbar_init_fence();
  }
  __syncthreads();

  // ---- role: load (128 threads, 40 registers)
  if (warps_before < 4) {
    regs_shrink<40>();
    if (warps_before == 0 && elect_one()) {
      Cursor<4> put;
#pragma unroll 1
      for (u32 instance = blockIdx.x; instance < instances; instance += gridDim.x) {
        const i32 program_id_0 = instance < grid0 ? instance : instance % grid0;
        const i32 program_id_1 = instance < grid0 ? 0 : instance / grid0 % grid1;
        // ---- loop k: 1 stages
        const i32 k_trip = (K / 64);
        if (k_trip > 0) {
          // -- k: steady state
#pragma unroll 1
          for (i32 step_0 = 0; step_0 < k_trip; ++step_0) {
            // line 31
            mbar_wait(smem + a_b_empty + put.slot * 8, put.parity ^ 1);
            mbar_arrive_tx(smem + a_b_full + put.slot * 8, 32768);
            // line 31: a
            tma_load(smem + a_at + put.slot * 16384, &map0, smem + a_b_full + put.slot * 8, (step_0 * 64), (program_id_0 * 128));
            // line 32: b
            tma_load(smem + b_at + put.slot * 16384, &map1, smem + a_b_full + put.slot * 8, ((program_id_1 * 128) + 0), (step_0 * 64));
            tma_load(smem + b_at + put.slot * 16384 + 8192, &map1, smem + a_b_full + put.slot * 8, ((program_id_1 * 128) + 64), (step_0 * 64));
            put.advance();
          }
        }
      }
    }
  }

  // ---- role: multiply 1 (128 threads, 232 registers)
  else if (warps_before < 8) {
    regs_grow<232>();
    const i32 thread = threadIdx.x - 128, lane = thread % 32;
    const i32 warp = warps_before - 4;
    const i32 lane_row = warp * 16 + lane / 4, lane_column = lane % 4 * 2;
    const bool leader = thread == 0;
    Cursor<4> get;
    Cursor<4> done;
#pragma unroll 1
    for (u32 instance = blockIdx.x; instance < instances; instance += gridDim.x) {
      const i32 program_id_0 = instance < grid0 ? instance : instance % grid0;
      float acc[64];  // f32, accumulator
      u32 c[32];  // bf16, accumulator
      // line 29
#pragma unroll
      for (i32 i = 0; i < 64; ++i) {
        acc[i] = 0.0f;
      }
      // ---- loop k: 2 stages, an iteration every 256 cycles
      const i32 k_trip = (K / 64);
      if (k_trip > 0) {
        // -- k: prologue 0
        {
          const i32 step_0 = 0;
          if (0 < (K / 64)) {
            // line 33
            mbar_wait(smem + a_b_full + get.slot * 8, get.parity);
            pin(acc);
            wgmma_fence();
            {
              const u64 desc_a = descriptor_k_major<128>(smem + a_at + get.slot * 16384);
              const u64 desc_b = descriptor_mn_major<128>(smem + b_at + get.slot * 16384, 8192);
#pragma unroll
              for (u32 ks = 0; ks < 4; ++ks) {
                wgmma_m64n128k16_bf16_ss<0, 1>(acc, descriptor_advance(desc_a, ks * 32), descriptor_advance(desc_b, ks * 2048), true);
              }
            }
            wgmma_commit();
            get.advance();
          }
        }
        // -- k: steady state
#pragma unroll 1
        for (i32 step_0 = 1; step_0 < k_trip; ++step_0) {
          mbar_wait(smem + a_b_full + get.slot * 8, get.parity);
          pin(acc);
          wgmma_fence();
          {
            const u64 desc_a = descriptor_k_major<128>(smem + a_at + get.slot * 16384);
            const u64 desc_b = descriptor_mn_major<128>(smem + b_at + get.slot * 16384, 8192);
#pragma unroll
            for (u32 ks = 0; ks < 4; ++ks) {
              wgmma_m64n128k16_bf16_ss<0, 1>(acc, descriptor_advance(desc_a, ks * 32), descriptor_advance(desc_b, ks * 2048), true);
            }
          }
          wgmma_commit();
          get.advance();
          wgmma_wait<1>();
          warp_sync();
          if (lane == 0) mbar_arrive(smem + a_b_empty + done.slot * 8);
          done.advance();
        }
        // -- k: epilogue 0
        {
          const i32 step_0 = max(k_trip, 1);
          wgmma_wait<0>();
          pin(acc);
          warp_sync();
          if (lane == 0) mbar_arrive(smem + a_b_empty + done.slot * 8);
          done.advance();
        }
      }
#pragma unroll
      for (i32 i = 0; i < 64; i += 2) {
        c[i / 2] = pack_bf16(acc[i], acc[(i + 1)]);
      }
      const i32 row = ((program_id_0 * 128) + 0);
      if (leader) bulk_wait_read<0>();
      bar_sync(1, 128);
      // line 36
      {
        const u32 tile = smem + c_0_at;
        const u32 at = swizzled<128, 128, 64>(tile, warp * 16 + lane % 16, lane / 16 * 16);
#pragma unroll
        for (i32 j = 0; j < 8; ++j) {
          stmatrix_x4(swizzled_step<128, 128, 64>(at, j * 32), c[4 * j], c[4 * j + 1], c[4 * j + 2], c[4 * j + 3]);
        }
      }
      fence_proxy_async();
      bar_sync(1, 128);
      if (leader) tma_store(&map2, smem + c_0_at, 0, row);
      if (leader) tma_store(&map2, smem + c_0_at + 8192, 64, row);
      if (leader) bulk_commit();
    }
    // ---- after the last instance
    if (leader) bulk_wait<0>();
  }

  // ---- role: multiply 2 (128 threads, 232 registers)
  else {
    regs_grow<232>();
    const i32 thread = threadIdx.x - 256, lane = thread % 32;
    const i32 warp = warps_before - 8;
    const i32 lane_row = warp * 16 + lane / 4, lane_column = lane % 4 * 2;
    const bool leader = thread == 0;
    Cursor<4> get;
    Cursor<4> done;
#pragma unroll 1
    for (u32 instance = blockIdx.x; instance < instances; instance += gridDim.x) {
      const i32 program_id_0 = instance < grid0 ? instance : instance % grid0;
      float acc[64];  // f32, accumulator
      u32 c[32];  // bf16, accumulator
      // line 29
#pragma unroll
      for (i32 i = 0; i < 64; ++i) {
        acc[i] = 0.0f;
      }
      // ---- loop k: 2 stages, an iteration every 256 cycles
      const i32 k_trip = (K / 64);
      if (k_trip > 0) {
        // -- k: prologue 0
        {
          const i32 step_0 = 0;
          if (0 < (K / 64)) {
            // line 33
            mbar_wait(smem + a_b_full + get.slot * 8, get.parity);
            pin(acc);
            wgmma_fence();
            {
              const u64 desc_a = descriptor_k_major<128>(smem + a_at + get.slot * 16384 + 8192);
              const u64 desc_b = descriptor_mn_major<128>(smem + b_at + get.slot * 16384, 8192);
#pragma unroll
              for (u32 ks = 0; ks < 4; ++ks) {
                wgmma_m64n128k16_bf16_ss<0, 1>(acc, descriptor_advance(desc_a, ks * 32), descriptor_advance(desc_b, ks * 2048), true);
              }
            }
            wgmma_commit();
            get.advance();
          }
        }
        // -- k: steady state
#pragma unroll 1
        for (i32 step_0 = 1; step_0 < k_trip; ++step_0) {
          mbar_wait(smem + a_b_full + get.slot * 8, get.parity);
          pin(acc);
          wgmma_fence();
          {
            const u64 desc_a = descriptor_k_major<128>(smem + a_at + get.slot * 16384 + 8192);
            const u64 desc_b = descriptor_mn_major<128>(smem + b_at + get.slot * 16384, 8192);
#pragma unroll
            for (u32 ks = 0; ks < 4; ++ks) {
              wgmma_m64n128k16_bf16_ss<0, 1>(acc, descriptor_advance(desc_a, ks * 32), descriptor_advance(desc_b, ks * 2048), true);
            }
          }
          wgmma_commit();
          get.advance();
          wgmma_wait<1>();
          warp_sync();
          if (lane == 0) mbar_arrive(smem + a_b_empty + done.slot * 8);
          done.advance();
        }
        // -- k: epilogue 0
        {
          const i32 step_0 = max(k_trip, 1);
          wgmma_wait<0>();
          pin(acc);
          warp_sync();
          if (lane == 0) mbar_arrive(smem + a_b_empty + done.slot * 8);
          done.advance();
        }
      }
#pragma unroll
      for (i32 i = 0; i < 64; i += 2) {
        c[i / 2] = pack_bf16(acc[i], acc[(i + 1)]);
      }
      const i32 row = ((program_id_0 * 128) + 64);
      if (leader) bulk_wait_read<0>();
      bar_sync(2, 128);
      // line 36
      {
        const u32 tile = smem + c_1_at;
        const u32 at = swizzled<128, 128, 64>(tile, warp * 16 + lane % 16, lane / 16 * 16);
#pragma unroll
        for (i32 j = 0; j < 8; ++j) {
          stmatrix_x4(swizzled_step<128, 128, 64>(at, j * 32), c[4 * j], c[4 * j + 1], c[4 * j + 2], c[4 * j + 3]);
        }
      }
      fence_proxy_async();
      bar_sync(2, 128);
      if (leader) tma_store(&map2, smem + c_1_at, 0, row);
      if (leader) tma_store(&map2, smem + c_1_at + 8192, 64, row);
      if (leader) bulk_commit();
    }
    // ---- after the last instance
    if (leader) bulk_wait<0>();
  }
}
