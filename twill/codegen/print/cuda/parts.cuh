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

// ---------------------------------------------------------------- sums that all instances share
// Where a CTA has one instance and its parts are large, whoever finds all parts there takes slices of the sum and adds
// them up; the last to come has the whole. Nobody depends on another one's help: who waited too long goes.
// words: of a sum, all of them 0 between launches: parts that came, slices taken, slices done, instances that left.
constexpr u32 PATIENCE = 32;  // looks at the count, of about a microsecond, until an instance no longer waits for others
enum SumRole : u32 { GOES, HELPS, LAST };

DEV u32 sms_of_gpu() { u32 n; asm("mov.u32 %0, %%nsmid;" : "=r"(n)); return n; }
DEV u32 add_word(u32* p, u32 v) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
DEV void nap() { asm volatile("nanosleep.u32 40;" ::: "memory"); }

// By one thread, behind a barrier of all that stored this part: what its instance does.
DEV u32 arrive_part(u32* words, u32 parts) {
  fence_gpu();  // what all threads wrote, before the count
  u32 role = add_word(words, 1) == parts - 1 ? LAST : GOES;
  for (u32 looks = 0; role == GOES && looks < PATIENCE; ++looks) {
    if (add_word(words, 0) == parts) role = HELPS;
    else nap();
  }
  fence_gpu();
  return role;
}
// By one thread: a slice that nobody has, or one behind the last. Behind a barrier of all that stored a slice, that one is
// done.
DEV u32 take_slice(u32* words, bool done) {
  fence_gpu();
  if (done) add_word(words + 2, 1);
  const u32 slice = add_word(words + 1, 1);
  fence_gpu();
  return slice;
}
// By one thread of the last to come: until all slices are done.
DEV void await_slices(u32* words, u32 slices) {
  fence_gpu();
  while (add_word(words + 2, 0) != slices) nap();
  fence_gpu();
}
// By one thread, when its instance has no more to do with the sum: whoever goes last leaves zeros.
DEV void leave_sum(u32* words, u32 parts) {
  fence_gpu();
  if (atomic_count(words + 3, parts - 1) == parts - 1)
    for (u32 i = 0; i < 3; ++i) asm volatile("atom.relaxed.gpu.global.exch.b32 _, [%0], 0;" :: "l"(words + i) : "memory");
  fence_gpu();
}
// One slice of the sum of `parts` parts, added in their order into the place of the first.
template <u32 THREADS, u32 COUNT> DEV void sum_slice(float* sums, i32 thread, u32 slice, u32 parts) {
  constexpr u32 rows = COUNT / 4, ahead = 8;
#pragma unroll 1
  for (u32 i = slice * rows / parts; i < (slice + 1) * rows / parts; ++i) {
    Vec4* const first = (Vec4*)sums + i * THREADS + thread;
    Vec4 v[ahead];
    float d[4] = {-0.f, -0.f, -0.f, -0.f};  // which changes nothing that is added to it
#pragma unroll 1
    for (u32 n = 0; n < parts; n += ahead) {
#pragma unroll
      for (u32 a = 0; a < ahead; ++a) {
        const u32 nothing = 0x80000000u;
        v[a] = n + a < parts ? load_part(first + (u64)(n + a) * THREADS * rows) : Vec4{nothing, nothing, nothing, nothing};
      }
#pragma unroll
      for (u32 a = 0; a < ahead; ++a) {
        d[0] += __uint_as_float(v[a].x), d[1] += __uint_as_float(v[a].y);
        d[2] += __uint_as_float(v[a].z), d[3] += __uint_as_float(v[a].w);
      }
    }
    *first = Vec4{__float_as_uint(d[0]), __float_as_uint(d[1]), __float_as_uint(d[2]), __float_as_uint(d[3])};
  }
}
// d becomes the sum that slices were made of.
template <u32 THREADS, u32 COUNT> DEV void load_sum(const float* sums, i32 thread, float (&d)[COUNT]) {
#pragma unroll
  for (u32 i = 0; i < COUNT / 4; ++i) {
    const Vec4 v = load_part((const Vec4*)sums + i * THREADS + thread);
    d[4 * i] = __uint_as_float(v.x), d[4 * i + 1] = __uint_as_float(v.y);
    d[4 * i + 2] = __uint_as_float(v.z), d[4 * i + 3] = __uint_as_float(v.w);
  }
}
