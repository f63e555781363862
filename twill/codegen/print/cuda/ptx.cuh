// Every PTX instruction that emitted kernels use, one a function; no includes, so NVRTC and nvcc both take it.
// Comments cite the PTX ISA by the title of the section (its numbers move from version to version).
// Addresses named smem, bar, dst are 32-bit shared-memory addresses; map is a tensor map in parameter space.
#pragma once
#define DEV static __device__ __forceinline__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
struct alignas(64) TensorMap { char bytes[128]; };   // a CUtensorMap, passed as a __grid_constant__ parameter
struct alignas(16) Vec4 { u32 x, y, z, w; };
struct alignas(8) Vec2 { u32 x, y; };

// ---------------------------------------------------------------- threads
// "cvta": generic pointer into shared memory -> 32-bit shared address.
DEV u32 smem_u32(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// "elect.sync": true in one lane of a full warp.
DEV bool elect_one() {
  u32 p;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(p));
  return p != 0;
}
// "shfl.sync", mode idx from lane 0: a value that is equal in all lanes, made provably uniform.
DEV u32 warp_uniform(u32 v) { return __shfl_sync(0xffffffffu, v, 0); }
// "shfl.sync", modes bfly, idx, up and down, on a full warp.
template <class T> DEV T shuffle_xor(T v, u32 lanes) { return __shfl_xor_sync(0xffffffffu, v, lanes); }
template <class T> DEV T shuffle_from(T v, u32 lane) { return __shfl_sync(0xffffffffu, v, lane); }
template <class T> DEV T shuffle_up(T v, u32 lanes) { return __shfl_up_sync(0xffffffffu, v, lanes); }
template <class T> DEV T shuffle_down(T v, u32 lanes) { return __shfl_down_sync(0xffffffffu, v, lanes); }
// "vote.sync", modes any and all, on a full warp.
DEV bool warp_any(bool p) { return __any_sync(0xffffffffu, p); }
DEV bool warp_all(bool p) { return __all_sync(0xffffffffu, p); }
// "bar.warp.sync": orders the memory accesses of a warp's lanes.
DEV void warp_sync() { __syncwarp(); }
// "bar": named barrier id (0 is __syncthreads), threads = all that arrive or wait, a multiple of 32.
DEV void bar_sync(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
DEV void bar_arrive(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
// "setmaxnreg": registers per thread of this warp group from here on; a multiple of 8 in 24..256.
template <int R> DEV void regs_grow() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(R)); }
template <int R> DEV void regs_shrink() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(R)); }
// "%cluster_ctarank": this CTA's number in its cluster.
DEV u32 cluster_rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
// "barrier.cluster": all threads of the cluster.
DEV void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
DEV void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
DEV void cluster_sync() { cluster_arrive(); cluster_wait(); }

// ---------------------------------------------------------------- mbarriers
// "mbarrier.init": count = arrivals that complete a phase.
DEV void mbar_init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory"); }
// "mbarrier.inval": the 8 bytes may be used for something else afterwards.
DEV void mbar_invalidate(u32 bar) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(bar) : "memory"); }
// "fence", .mbarrier_init: initialized barriers become visible to the cluster and the asynchronous proxy.
DEV void mbar_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// "mbarrier.arrive": one arrival, or `count` of them.
DEV void mbar_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory"); }
DEV void mbar_arrive_many(u32 bar, u32 count) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(count) : "memory"); }
// "mbarrier.arrive", .expect_tx: one arrival, and the phase also waits for `bytes`.
DEV void mbar_arrive_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
// "mbarrier.expect_tx": the phase also waits for `bytes`; no arrival.
DEV void mbar_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
// "mapa", "mbarrier.arrive": the barrier at the same offset in another CTA of the cluster.
// Not the .release.cluster form: that one costs a memory barrier over the whole GPU each time.
DEV void mbar_arrive_at(u32 bar, u32 cta) {
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [r];\n}" :: "r"(bar), "r"(cta) : "memory");
}
// "mbarrier.try_wait", .parity: has the phase of this parity completed? May suspend the thread for a while.
DEV bool mbar_try_wait(u32 bar, u32 parity) {
  u32 p;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(p) : "r"(bar), "r"(parity) : "memory");
  return p != 0;
}
// "mbarrier.test_wait", .parity: the same without suspending.
DEV bool mbar_test_wait(u32 bar, u32 parity) {
  u32 p;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(p) : "r"(bar), "r"(parity) : "memory");
  return p != 0;
}
// "mbarrier.try_wait", .parity, until it is so. One label only: NVRTC refuses the form with two.
DEV void mbar_wait(u32 bar, u32 parity) {
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT;\n}"
               :: "r"(bar), "r"(parity) : "memory");
}

// ---------------------------------------------------------------- proxies
// "fence", .proxy.async: this thread's earlier ordinary accesses before later asynchronous ones (TMA, wgmma).
DEV void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEV void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// "fence", acq_rel at the scopes of the GPU and of the CTA.
DEV void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
DEV void fence_cta() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }

// ---------------------------------------------------------------- cache policies
// "createpolicy": an L2 eviction priority for the _hint forms below.
DEV u64 l2_evict_first() { u64 p; asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p)); return p; }
DEV u64 l2_evict_last() { u64 p; asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p)); return p; }
DEV u64 l2_evict_normal() { u64 p; asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(p)); return p; }

// ---------------------------------------------------------------- TMA
// For ranks 1 to 5, x0 the coordinate of the innermost dimension (elements):
// "cp.async.bulk.tensor": tma_load(dst, map, bar, x0, ...)            global -> shared, bytes counted on bar
//                         tma_load_hint(dst, map, bar, policy, ...)   with an L2 policy
//                         tma_load_multicast(dst, map, bar, mask, ...)  to the same offsets in every CTA of mask
//                         tma_load_multicast_hint(dst, map, bar, mask, policy, ...)
//                         tma_store(map, src, ...), tma_store_hint(map, src, policy, ...)   in this thread's bulk group
// "cp.reduce.async.bulk.tensor": tma_reduce_{add,min,max,and,or,xor}(map, src, ...)  in the element type of the map
// "cp.async.bulk.prefetch.tensor": tma_prefetch(map, ...)             global -> L2
#define TWILL_UNPAREN(...) __VA_ARGS__
#define TWILL_TMA_REDUCE(RANK, OP, AT2, PARAMS, ARGS)                                                                 \
  DEV void tma_reduce_##OP(const TensorMap* map, u32 src, TWILL_UNPAREN PARAMS) {                                     \
    asm volatile("cp.reduce.async.bulk.tensor." #RANK "d.global.shared::cta." #OP ".tile.bulk_group [%0, " AT2 "], [%1];" \
                 :: "l"(map), "r"(src), TWILL_UNPAREN ARGS : "memory");                                               \
  }
#define TWILL_TMA(RANK, AT1, AT2, AT3, AT4, AT5, PARAMS, ARGS)                                                        \
  DEV void tma_load(u32 dst, const TensorMap* map, u32 bar, TWILL_UNPAREN PARAMS) {                                   \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.mbarrier::complete_tx::bytes"                \
                 " [%0], [%1, " AT3 "], [%2];"                                                                        \
                 :: "r"(dst), "l"(map), "r"(bar), TWILL_UNPAREN ARGS : "memory");                                     \
  }                                                                                                                   \
  DEV void tma_load_hint(u32 dst, const TensorMap* map, u32 bar, u64 policy, TWILL_UNPAREN PARAMS) {                  \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint" \
                 " [%0], [%1, " AT4 "], [%2], %3;"                                                                    \
                 :: "r"(dst), "l"(map), "r"(bar), "l"(policy), TWILL_UNPAREN ARGS : "memory");                        \
  }                                                                                                                   \
  DEV void tma_load_multicast(u32 dst, const TensorMap* map, u32 bar, u32 mask, TWILL_UNPAREN PARAMS) {               \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.mbarrier::complete_tx::bytes"                \
                 ".multicast::cluster [%0], [%1, " AT4 "], [%2], %3;"                                                 \
                 :: "r"(dst), "l"(map), "r"(bar), "h"((u16)mask), TWILL_UNPAREN ARGS : "memory");                     \
  }                                                                                                                   \
  DEV void tma_load_multicast_hint(u32 dst, const TensorMap* map, u32 bar, u32 mask, u64 policy, TWILL_UNPAREN PARAMS) { \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.mbarrier::complete_tx::bytes"                \
                 ".multicast::cluster.L2::cache_hint [%0], [%1, " AT5 "], [%2], %3, %4;"                              \
                 :: "r"(dst), "l"(map), "r"(bar), "h"((u16)mask), "l"(policy), TWILL_UNPAREN ARGS : "memory");        \
  }                                                                                                                   \
  DEV void tma_store(const TensorMap* map, u32 src, TWILL_UNPAREN PARAMS) {                                           \
    asm volatile("cp.async.bulk.tensor." #RANK "d.global.shared::cta.bulk_group [%0, " AT2 "], [%1];"                 \
                 :: "l"(map), "r"(src), TWILL_UNPAREN ARGS : "memory");                                               \
  }                                                                                                                   \
  DEV void tma_store_hint(const TensorMap* map, u32 src, u64 policy, TWILL_UNPAREN PARAMS) {                          \
    asm volatile("cp.async.bulk.tensor." #RANK "d.global.shared::cta.bulk_group.L2::cache_hint"                       \
                 " [%0, " AT3 "], [%1], %2;"                                                                          \
                 :: "l"(map), "r"(src), "l"(policy), TWILL_UNPAREN ARGS : "memory");                                  \
  }                                                                                                                   \
  DEV void tma_prefetch(const TensorMap* map, TWILL_UNPAREN PARAMS) {                                                 \
    asm volatile("cp.async.bulk.prefetch.tensor." #RANK "d.L2.global [%0, " AT1 "];"                                  \
                 :: "l"(map), TWILL_UNPAREN ARGS : "memory");                                                         \
  }                                                                                                                   \
  TWILL_TMA_REDUCE(RANK, add, AT2, PARAMS, ARGS)                                                                      \
  TWILL_TMA_REDUCE(RANK, min, AT2, PARAMS, ARGS)                                                                      \
  TWILL_TMA_REDUCE(RANK, max, AT2, PARAMS, ARGS)                                                                      \
  TWILL_TMA_REDUCE(RANK, and, AT2, PARAMS, ARGS)                                                                      \
  TWILL_TMA_REDUCE(RANK, or, AT2, PARAMS, ARGS)                                                                       \
  TWILL_TMA_REDUCE(RANK, xor, AT2, PARAMS, ARGS)
TWILL_TMA(1, "{%1}", "{%2}", "{%3}", "{%4}", "{%5}", (i32 x0), ("r"(x0)))
TWILL_TMA(2, "{%1, %2}", "{%2, %3}", "{%3, %4}", "{%4, %5}", "{%5, %6}", (i32 x0, i32 x1), ("r"(x0), "r"(x1)))
TWILL_TMA(3, "{%1, %2, %3}", "{%2, %3, %4}", "{%3, %4, %5}", "{%4, %5, %6}", "{%5, %6, %7}",
          (i32 x0, i32 x1, i32 x2), ("r"(x0), "r"(x1), "r"(x2)))
TWILL_TMA(4, "{%1, %2, %3, %4}", "{%2, %3, %4, %5}", "{%3, %4, %5, %6}", "{%4, %5, %6, %7}", "{%5, %6, %7, %8}",
          (i32 x0, i32 x1, i32 x2, i32 x3), ("r"(x0), "r"(x1), "r"(x2), "r"(x3)))
TWILL_TMA(5, "{%1, %2, %3, %4, %5}", "{%2, %3, %4, %5, %6}", "{%3, %4, %5, %6, %7}", "{%4, %5, %6, %7, %8}",
          "{%5, %6, %7, %8, %9}", (i32 x0, i32 x1, i32 x2, i32 x3, i32 x4), ("r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)))
// "prefetch", .tensormap: the descriptor itself.
DEV void tma_prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
// "cp.async.bulk": contiguous bytes, a multiple of 16, both addresses 16-byte aligned.
DEV void bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
DEV void bulk_store(void* dst, u32 src, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(dst), "r"(src), "r"(bytes) : "memory");
}
// "cp.async.bulk.commit_group": what this thread stored since the last commit becomes one group.
DEV void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// "cp.async.bulk.wait_group": at most N groups of this thread unfinished; _read: they have read shared memory.
template <int N> DEV void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory"); }
template <int N> DEV void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory"); }

// ---------------------------------------------------------------- asynchronous copies of one thread
// "cp.async": SIZE (4, 8, 16) bytes global -> shared; the first `bytes` are read, the rest become zero.
template <int SIZE> DEV void copy_async(u32 dst, const void* src, u32 bytes = SIZE) {
  if constexpr (SIZE == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst), "l"(src), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(dst), "l"(src), "n"(SIZE), "r"(bytes) : "memory");
}
// "cp.async.commit_group", "cp.async.wait_group": at most N groups of this thread unfinished.
DEV void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void copy_async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
// "cp.async.mbarrier.arrive", .noinc: one of the barrier's arrivals, made when this thread's copies have landed.
DEV void copy_async_arrive(u32 bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(bar) : "memory"); }

// ---------------------------------------------------------------- shared and global memory
// "ld", "st": 4, 8 and 16 bytes of shared memory, addresses aligned to their size.
DEV u32 load_shared(u32 smem) { u32 v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(smem) : "memory"); return v; }
DEV Vec2 load_shared2(u32 smem) { Vec2 v; asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(smem) : "memory"); return v; }
DEV Vec4 load_shared4(u32 smem) {
  Vec4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(smem) : "memory");
  return v;
}
DEV void store_shared(u32 smem, u32 v) { asm volatile("st.shared.u32 [%0], %1;" :: "r"(smem), "r"(v) : "memory"); }
DEV void store_shared2(u32 smem, Vec2 v) { asm volatile("st.shared.v2.u32 [%0], {%1, %2};" :: "r"(smem), "r"(v.x), "r"(v.y) : "memory"); }
DEV void store_shared4(u32 smem, Vec4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(smem), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEV void store_shared_u16(u32 smem, u32 v) { asm volatile("st.shared.u16 [%0], %1;" :: "r"(smem), "h"((u16)v) : "memory"); }
DEV u32 load_shared_u16(u32 smem) { u16 v; asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(smem) : "memory"); return v; }
DEV void store_shared_u8(u32 smem, u32 v) { asm volatile("st.shared.u8 [%0], %1;" :: "r"(smem), "h"((u16)v) : "memory"); }
DEV u32 load_shared_u8(u32 smem) { u16 v; asm volatile("ld.shared.u8 %0, [%1];" : "=h"(v) : "r"(smem) : "memory"); return v; }
// "atom": the old value. "red": none. Relaxed, at the scope of the GPU.
#define TWILL_ATOMIC_ADD(TYPE, PTX, REG)                                                                              \
  DEV TYPE atomic_add(TYPE* p, TYPE v) {                                                                              \
    TYPE old;                                                                                                         \
    asm volatile("atom.relaxed.gpu.global.add." PTX " %0, [%1], %2;" : "=" REG(old) : "l"(p), REG(v) : "memory");     \
    return old;                                                                                                       \
  }                                                                                                                   \
  DEV void reduce_add(TYPE* p, TYPE v) { asm volatile("red.relaxed.gpu.global.add." PTX " [%0], %1;" :: "l"(p), REG(v) : "memory"); }
TWILL_ATOMIC_ADD(u32, "u32", "r")
TWILL_ATOMIC_ADD(i32, "s32", "r")
TWILL_ATOMIC_ADD(u64, "u64", "l")
TWILL_ATOMIC_ADD(float, "f32", "f")
TWILL_ATOMIC_ADD(double, "f64", "d")
// "atom", .inc: 0 after `last`, else one more.
DEV u32 atomic_count(u32* p, u32 last) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(last) : "memory");
  return old;
}
// "red", .noftz: two packed 16-bit floats at once.
DEV void reduce_add_bf16x2(void* p, u32 v) { asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_add_f16x2(void* p, u32 v) { asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
// "red" of single 16-bit floats (as bits), and of integers.
DEV void reduce_add_bf16(void* p, u32 v) { asm volatile("red.relaxed.gpu.global.add.noftz.bf16 [%0], %1;" :: "l"(p), "h"((u16)v) : "memory"); }
DEV void reduce_add_f16(void* p, u32 v) { asm volatile("red.relaxed.gpu.global.add.noftz.f16 [%0], %1;" :: "l"(p), "h"((u16)v) : "memory"); }
DEV void reduce_max(i32* p, i32 v) { asm volatile("red.relaxed.gpu.global.max.s32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_max(i64* p, i64 v) { asm volatile("red.relaxed.gpu.global.max.s64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
DEV void reduce_min(i32* p, i32 v) { asm volatile("red.relaxed.gpu.global.min.s32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_min(i64* p, i64 v) { asm volatile("red.relaxed.gpu.global.min.s64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
DEV void reduce_and(i32* p, i32 v) { asm volatile("red.relaxed.gpu.global.and.b32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_and(i64* p, i64 v) { asm volatile("red.relaxed.gpu.global.and.b64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
DEV void reduce_or(i32* p, i32 v) { asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_or(i64* p, i64 v) { asm volatile("red.relaxed.gpu.global.or.b64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
DEV void reduce_xor(i32* p, i32 v) { asm volatile("red.relaxed.gpu.global.xor.b32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_xor(i64* p, i64 v) { asm volatile("red.relaxed.gpu.global.xor.b64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
