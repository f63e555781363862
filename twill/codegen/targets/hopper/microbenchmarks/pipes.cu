// Throughput (_wide: 16 warps, 8 independent chains each) and latency (_chain: one warp, one chain) of the instructions
// behind elementwise operations. A step may be several instructions: its entry in twill/codegen/targets/hopper/probes.py says so.
template <class T, int CHAINS, int UNROLLED, class Step>
DEV void pipe(u64* cycles, u8* memory, i32 count, i32 seed, Step step) {
  T x[CHAINS];
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) x[c] = (T)(seed + 31 * (i32)threadIdx.x + c);
  const T a = (T)(seed | 0x3f800001), b = (T)(seed | 0x3f800003);
  __syncthreads();
  const u64 start = now();
#pragma unroll 1
  for (i32 i = 0; i < count; ++i) {
#pragma unroll
    for (int r = 0; r < UNROLLED; ++r)
#pragma unroll
      for (int c = 0; c < CHAINS; ++c) step(x[c], a, b);
  }
  __syncthreads();
  report(cycles, start);
  T sum = 0;
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) sum ^= x[c];
  keep(memory, (u32)sum);
}

#define PIPE(NAME, T, R, TEXT)                                                                                        \
  extern "C" __global__ void __launch_bounds__(512) NAME##_wide(u64* cycles, u8* memory, i32 count, i32 seed) {       \
    pipe<T, 8, 32>(cycles, memory, count, seed, [](T& x, T a, T b) { asm volatile(TEXT : "+" R(x) : R(a), R(b)); });  \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(512) NAME##_chain(u64* cycles, u8* memory, i32 count, i32 seed) {      \
    pipe<T, 1, 128>(cycles, memory, count, seed, [](T& x, T a, T b) { asm volatile(TEXT : "+" R(x) : R(a), R(b)); }); \
  }
#define PIPE32(NAME, TEXT) PIPE(NAME, u32, "r", TEXT)
#define PIPE64(NAME, TEXT) PIPE(NAME, u64, "l", TEXT)

PIPE32(fma_f32, "fma.rn.f32 %0, %0, %1, %2;")
PIPE32(add_f32, "add.f32 %0, %0, %1;")
PIPE32(mul_f32, "mul.f32 %0, %0, %1;")
PIPE32(max_f32, "max.f32 %0, %0, %1;")
PIPE32(select_f32, "{.reg .pred p; setp.gt.f32 p, %0, %1; selp.b32 %0, %0, %2, p;}")
PIPE32(shift_i32, "shf.l.wrap.b32 %0, %0, %1, 7;")
PIPE32(max_i32, "max.s32 %0, %0, %1; min.s32 %0, %0, %2;")
PIPE32(mad_i32, "mad.lo.s32 %0, %0, %1, %2;")
PIPE32(exp2_f32, "ex2.approx.ftz.f32 %0, %0;")
PIPE32(log2_fast_f32, "lg2.approx.ftz.f32 %0, %0;")
PIPE32(rsqrt_f32, "rsqrt.approx.ftz.f32 %0, %0;")
PIPE32(sqrt_f32, "sqrt.approx.ftz.f32 %0, %0;")
PIPE32(tanh_fast_f32, "tanh.approx.f32 %0, %0;")
PIPE32(floor_f32, "cvt.rmi.ftz.f32.f32 %0, %0;")
PIPE32(f32_to_i32, "cvt.rzi.s32.f32 %0, %0;")
PIPE32(i32_to_f32, "cvt.rn.f32.s32 %0, %0;")
PIPE32(pack_bf16, "cvt.rn.bf16x2.f32 %0, %0, %1;")
PIPE32(pack_f16, "cvt.rn.f16x2.f32 %0, %0, %1;")
PIPE32(pack_e4m3, "{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %0, %1; cvt.rn.satfinite.e4m3x2.f32 h, %0, %2; mov.b32 %0, {l, h};}")
PIPE32(fma_f16, "fma.rn.f16x2 %0, %0, %1, %2;")
PIPE32(fma_bf16, "fma.rn.bf16x2 %0, %0, %1, %2;")
PIPE32(max_f16, "max.f16x2 %0, %0, %1; min.f16x2 %0, %0, %2;")
PIPE32(shuffle, "shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;")
PIPE64(fma_f64, "fma.rn.f64 %0, %0, %1, %1;")  // with three sources their registers would decide
PIPE64(add_f64, "add.f64 %0, %0, %1;")
PIPE64(f64_to_f32, "{.reg .f32 f; .reg .b32 a; cvt.rn.f32.f64 f, %0; mov.b32 a, f; mov.b64 %0, {a, a};}")
