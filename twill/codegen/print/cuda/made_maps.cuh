// Tensor maps that a kernel makes in global memory. A kernel's text has this file if it calls something in it.
#pragma once

// "cvta", "ld": 16 bytes of a kernel parameter, of which this is a generic pointer.
DEV Vec4 load_param4(const void* from) {
  Vec4 v;
  asm volatile("{\n.reg .u64 at;\ncvta.to.param.u64 at, %4;\nld.param.v4.u32 {%0, %1, %2, %3}, [at];\n}"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}
// "tensormap.replace": the tensor map at `smem`, in shared memory: where the tensor begins, elements along an axis
// (innermost first), bytes from one to the next along the axis behind that.
DEV void map_address(u32 smem, u64 address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(smem), "l"(address) : "memory");
}
template <int AXIS> DEV void map_size(u32 smem, u32 elements) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;"
               :: "r"(smem), "n"(AXIS), "r"(elements) : "memory");
}
template <int AXIS> DEV void map_stride(u32 smem, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;"
               :: "r"(smem), "n"(AXIS), "l"(bytes) : "memory");
}
// "fence", .proxy.tensormap: what this thread wrote of tensor maps, before copies through a map that acquire it.
DEV void map_release() { asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory"); }
DEV void map_acquire(const TensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
// A tensor map into shared memory, once, 16 bytes by each of 8 threads; and from there into global memory,
// seldom, by one thread, AT_ONCE pieces of 16 bytes in its registers.
DEV void map_from_template(u32 smem, const TensorMap* map, u32 piece) {
  store_shared4(smem + piece * sizeof(Vec4), load_param4((const Vec4*)map + piece));
}
template <int AT_ONCE> DEV void map_to_memory(TensorMap* map, u32 smem) {
#pragma unroll AT_ONCE
  for (u32 i = 0; i < sizeof(TensorMap) / sizeof(Vec4); ++i) ((Vec4*)map)[i] = load_shared4(smem + i * sizeof(Vec4));
}
// Of two maps side by side, the one that this one is not.
DEV TensorMap* other_map(const TensorMap* map, TensorMap* first) { return map == first ? first + 1 : first; }

// A position in a ring that knows how many slots it has passed.
template <u32 DEPTH> struct CountedCursor : Cursor<DEPTH> {
  u32 count = 0;
  __device__ __forceinline__ void advance() { Cursor<DEPTH>::advance(); ++count; }
  __device__ __forceinline__ void skip(i32 slots) { Cursor<DEPTH>::skip(slots); count += slots > 0 ? slots : 0; }
};
