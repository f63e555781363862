// What a Hopper SM's instructions take beside wgmma of another warp group, in what turn two warp groups get the tensor
// cores, and what fences between proxies take. Cycles of the SM's own clock. Build and run: see README.md beside this file.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t; }
__device__ __forceinline__ uint32_t sa(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
__device__ __forceinline__ void n128(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
   "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
   "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
   "%62,%63}, %64, %65, 1, 1, 1, 0, 0;" : R16(0), R16(16), R16(32), R16(48) : "l"(a), "l"(b));
}
__device__ __forceinline__ void n128r(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
   "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
   "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
   "%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;" : R16(0), R16(16), R16(32), R16(48) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void n64(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
   "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;" : R16(0), R16(16) : "l"(a), "l"(b));
}
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT0() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
template <int KIND> __device__ void multiply(float (&d)[64], uint64_t a, uint64_t b, const uint32_t (&r)[4]) {
  if constexpr (KIND == 1) n128(d, a, b);
  if constexpr (KIND == 2) n128r(d, r, b);
  if constexpr (KIND == 3) n64(d, a, b);
}
enum Op { FFMA, FMUL, FADD, EX2, FMNMX, LOP, PACK, LDS, STS, IMAD, EXFMA, SEL };
template <int OP> __device__ __forceinline__ void step(uint32_t& x, uint32_t y, uint32_t z, uint32_t at) {
  if constexpr (OP == FFMA) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+r"(x) : "r"(y), "r"(z));
  if constexpr (OP == FMUL) asm volatile("mul.rn.f32 %0, %0, %1;" : "+r"(x) : "r"(y));
  if constexpr (OP == FADD) asm volatile("add.rn.f32 %0, %0, %1;" : "+r"(x) : "r"(y));
  if constexpr (OP == EX2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+r"(x));
  if constexpr (OP == FMNMX) asm volatile("max.f32 %0, %0, %1;" : "+r"(x) : "r"(y));
  if constexpr (OP == LOP) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x) : "r"(y), "r"(z));
  if constexpr (OP == PACK) asm volatile("cvt.rn.bf16x2.f32 %0, %0, %1;" : "+r"(x) : "r"(y));
  if constexpr (OP == LDS) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(at));
  if constexpr (OP == STS) asm volatile("st.volatile.shared.u32 [%1], %0;" ::"r"(x), "r"(at));
  if constexpr (OP == IMAD) asm volatile("mad.lo.s32 %0, %0, %1, %2;" : "+r"(x) : "r"(y), "r"(z));
  if constexpr (OP == SEL) asm volatile("{.reg .pred p; setp.gt.s32 p, %0, %1; selp.b32 %0, %0, %2, p;}" : "+r"(x) : "r"(y), "r"(z));
  if constexpr (OP == EXFMA) { asm volatile("fma.rn.f32 %0, %0, %1, %2; ex2.approx.ftz.f32 %0, %0;" : "+r"(x) : "r"(y), "r"(z)); }
}
template <int KIND, int OP, int CH> __global__ __launch_bounds__(384, 1) void beside(long long* out, float* sink, int rounds, uint32_t y, uint32_t z) {
  extern __shared__ __align__(1024) unsigned char buffer[];
  __shared__ volatile int stop, over;
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) ((unsigned*)buffer)[i] = 0;
  if (threadIdx.x == 0) stop = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  uint64_t base = (uint64_t(1) << 16) | (uint64_t(64) << 32) | (uint64_t(1) << 62);
  uint64_t a = base | (sa(buffer) >> 4), b = base | (sa(buffer + 16384) >> 4);
  int group = threadIdx.x / 128;
  if (group == 0) {
    if (KIND) {
      float d[64]; uint32_t r[4] = {y, y, y, y};
      for (int i = 0; i < 64; ++i) d[i] = 0;
      long long n = 0, t0 = now();
      for (;;) {
        if (threadIdx.x == 0) over = stop;
        asm volatile("bar.sync 2, 128;" ::: "memory");
        if (over) break;
        asm volatile("bar.sync 2, 128;" ::: "memory");
        FENCE();
#pragma unroll 1
        for (int o = 0; o < 4; ++o) {
#pragma unroll
          for (int i = 0; i < 16; ++i) multiply<KIND>(d, a, b, r);
        }
        COMMIT(); WAIT0(); ++n;
      }
      long long t1 = now();
      float s = 0; for (int i = 0; i < 64; ++i) s += d[i];
      if (s == 12345.f) sink[threadIdx.x] = s;
      if (threadIdx.x == 0) { out[2] = n; out[3] = t1 - t0; }
    }
  } else {
    uint32_t x[16];
    for (int i = 0; i < 16; ++i) x[i] = z + i;
    uint32_t at = sa(buffer + 32768 + threadIdx.x * 4);
    for (int r = 0; r < 20; ++r) step<FFMA>(x[0], y, z, at);
    long long t0 = now();
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
      for (int k = 0; k < 8; ++k)
#pragma unroll
        for (int i = 0; i < 16; ++i) step<OP>(x[i % CH], y, z, at);
    }
    long long t1 = now();
    uint32_t s = 0; for (int i = 0; i < 16; ++i) s += x[i];
    if (s == 12345u) sink[threadIdx.x] = s;
    asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x - 128));
    if (threadIdx.x == 128) { out[0] = t1 - t0; stop = 1; }
  }
}
__global__ __launch_bounds__(256, 1) void shares(long long* out, float* sink, int late) {
  extern __shared__ __align__(1024) unsigned char buffer[];
  __shared__ long long stamps[2][40];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) ((unsigned*)buffer)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  uint64_t base = (uint64_t(1) << 16) | (uint64_t(64) << 32) | (uint64_t(1) << 62);
  uint64_t a = base | (sa(buffer) >> 4), b = base | (sa(buffer + 16384) >> 4);
  int group = threadIdx.x / 128;
  float d[64]; for (int i = 0; i < 64; ++i) d[i] = 0;
  for (int round = 0; round < 3; ++round) {
    __syncthreads();
    long long t0 = now();
    while (now() < t0 + 200 + (group == 1 ? late : 0)) {}
    FENCE();
#pragma unroll
    for (int i = 0; i < 32; ++i) { n128(d, a, b); if (threadIdx.x % 128 == 0) stamps[group][i] = now() - t0; }
    COMMIT(); WAIT0();
    if (threadIdx.x % 128 == 0) stamps[group][32] = now() - t0;
  }
  __syncthreads();
  float s = 0; for (int i = 0; i < 64; ++i) s += d[i];
  if (s == 12345.f) sink[threadIdx.x] = s;
  if (threadIdx.x < 66) out[threadIdx.x] = stamps[threadIdx.x / 33][threadIdx.x % 33];
}
template <int WHAT> __global__ void fences(long long* out, uint32_t* sink, int rounds) {
  extern __shared__ __align__(1024) unsigned char buffer[];
  uint32_t at = sa(buffer + threadIdx.x * 16);
  uint32_t x = threadIdx.x, y = 0;
  __syncthreads();
  long long t0 = now();
  for (int r = 0; r < rounds; ++r) {
    if (WHAT & 1) { asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(y) : "r"(at)); x += y; }
    if (WHAT & 2) { asm volatile("st.shared.v4.u32 [%1], {%0, %0, %0, %0};" ::"r"(x), "r"(at)); }
    if (WHAT & 4) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (WHAT & 8) asm volatile("bar.sync 1, 128;" ::: "memory");
  }
  long long t1 = now();
  if (x == 0x12345678) sink[threadIdx.x] = x;
  if (threadIdx.x == 0) out[0] = t1 - t0;
}
const char* kinds[] = {"nothing", "m64n128k16 ss", "m64n128k16 rs", "m64n64k16 ss"};
template <int KIND, int OP, int CH> void one(const char* name, long long* out, unsigned char* memory) {
  cudaFuncSetAttribute(beside<KIND, OP, CH>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  for (int threads : {256, 384}) {
    beside<KIND, OP, CH><<<1, threads, 65536>>>(out, (float*)memory, 200, 0x3f800000, 0x3f000000);
    cudaDeviceSynchronize();
    printf("%-6s %2d chains %d warps a scheduler, beside %-14s: %.2f cycles each", name, CH, threads / 128 - 1, kinds[KIND], out[0] / 200. / 128);
    if (KIND) printf(", %.1f cycles of a product", out[3] / (double)out[2] / 64);
    printf("  %s\n", cudaGetErrorString(cudaGetLastError()));
  }
}
template <int OP, int CH = 16> void all(const char* name, long long* out, unsigned char* memory) {
  one<0, OP, CH>(name, out, memory); one<1, OP, CH>(name, out, memory); one<2, OP, CH>(name, out, memory); one<3, OP, CH>(name, out, memory);
}
template <int WHAT> void fence(const char* name, long long* out, unsigned char* memory) {
  for (int threads : {32, 128, 256}) {
    if ((WHAT & 8) && threads != 128) continue;
    fences<WHAT><<<1, threads, 32768>>>(out, (uint32_t*)memory, 1000);
    cudaDeviceSynchronize();
    printf("%-30s %3d threads: %.1f cycles %s\n", name, threads, out[0] / 1000., cudaGetErrorString(cudaGetLastError()));
  }
}
int main() {
  long long* out; unsigned char* memory;
  cudaMallocManaged(&out, 4096); cudaMalloc(&memory, 1 << 20);
  all<FFMA>("ffma", out, memory); all<FFMA, 2>("ffma", out, memory); all<FFMA, 1>("ffma", out, memory); all<FMUL, 2>("fmul", out, memory); all<FADD, 1>("fadd", out, memory); all<FMNMX, 1>("fmnmx", out, memory); all<LOP, 1>("lop3", out, memory); all<EX2, 1>("ex2", out, memory); all<FMUL>("fmul", out, memory); all<FADD>("fadd", out, memory); all<EX2>("ex2", out, memory);
  all<FMNMX>("fmnmx", out, memory); all<LOP>("lop3", out, memory); all<PACK>("pack", out, memory);
  all<LDS>("lds", out, memory); all<STS>("sts", out, memory); all<IMAD>("imad", out, memory); all<EXFMA>("fma+ex2", out, memory); all<SEL>("setp+sel", out, memory);
  cudaFuncSetAttribute(shares, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  for (int late : {0, 10}) {
    shares<<<1, 256, 65536>>>(out, (float*)memory, late); cudaDeviceSynchronize();
    for (int g = 0; g < 2; ++g) { printf("late %d group %d:", late, g); for (int i = 0; i < 33; ++i) printf(" %lld", out[33 * g + i]); printf("\n"); }
  }
  fence<1>("ld", out, memory); fence<2>("st", out, memory); fence<4>("fence", out, memory); fence<5>("ld fence", out, memory); fence<6>("st fence", out, memory);
  fence<7>("ld st fence", out, memory); fence<8>("bar", out, memory); fence<12>("fence bar", out, memory); fence<14>("st fence bar", out, memory);
  return 0;
}
