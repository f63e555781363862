// Partial sums of several program instances, in global memory. A kernel's text has this file if it calls something in it.
#pragma once

// "ld", .relaxed at the scope of the GPU: what another SM wrote, not what an L1 cache holds.
DEV Vec4 load_part(const Vec4* p) {
  Vec4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
// The registers of all threads of a warp group, at `part`: every four of them 16 bytes apart from thread to thread.
template <u32 THREADS, u32 COUNT> DEV void store_parts(float* part, i32 thread, const float (&d)[COUNT]) {
#pragma unroll
  for (u32 i = 0; i < COUNT / 4; ++i)
    ((Vec4*)part)[i * THREADS + thread] = Vec4{__float_as_uint(d[4 * i]), __float_as_uint(d[4 * i + 1]),
                                               __float_as_uint(d[4 * i + 2]), __float_as_uint(d[4 * i + 3])};
}
// d += what others stored from `sums` on: parts n, n + 1, ... in their order, but not `own` nor any from `parts` on. All
// are loaded before the first is added, so that they are waited for once.
template <u32 THREADS, u32 AHEAD, u32 COUNT>
DEV void add_parts(const float* sums, i32 thread, i32 n, i32 own, i32 parts, float (&d)[COUNT]) {
  const u32 nothing = 0x80000000u;  // -0, which changes nothing that it is added to
  Vec4 v[AHEAD][COUNT / 4];
#pragma unroll
  for (u32 a = 0; a < AHEAD; ++a) {
    const i32 m = n + (i32)a;
    const Vec4* from = (const Vec4*)(sums + (u64)m * THREADS * COUNT) + thread;
    const bool there = m < parts && m != own;
#pragma unroll
    for (u32 i = 0; i < COUNT / 4; ++i)
      v[a][i] = there ? load_part(from + i * THREADS) : Vec4{nothing, nothing, nothing, nothing};
  }
#pragma unroll
  for (u32 a = 0; a < AHEAD; ++a)
#pragma unroll
    for (u32 i = 0; i < COUNT / 4; ++i) {
      d[4 * i] += __uint_as_float(v[a][i].x), d[4 * i + 1] += __uint_as_float(v[a][i].y);
      d[4 * i + 2] += __uint_as_float(v[a][i].z), d[4 * i + 3] += __uint_as_float(v[a][i].w);
    }
}
// d, which is part number `own`, becomes the sum of `parts` of them, stored from `sums` on: the first two, and then one
// after the other. Two numbers have the same sum in either order, so that it is the same whoever adds.
template <u32 THREADS, u32 COUNT> DEV void sum_parts(const float* sums, i32 thread, i32 own, i32 parts, float (&d)[COUNT]) {
  if (own > 1) {
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i) d[i] = -0.f;  // which changes nothing that is added to it
    own = -1;
  }
  constexpr u32 ahead = COUNT <= 16 ? 8 : COUNT <= 32 ? 4 : COUNT <= 64 ? 2 : 1;  // parts, as registers allow
#pragma unroll 1
  for (i32 n = 0; n < parts; n += ahead) add_parts<THREADS, ahead>(sums, thread, n, own, parts, d);
}
