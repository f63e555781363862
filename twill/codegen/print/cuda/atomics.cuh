// Atomic operations that few kernels have, of the PTX ISA: "red". A kernel's text has this file if it calls something in it.
#pragma once

// Relaxed, at the scope of the GPU.
DEV void reduce_umax(u32* p, u32 v) { asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_umax(u64* p, u64 v) { asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
DEV void reduce_umin(u32* p, u32 v) { asm volatile("red.relaxed.gpu.global.min.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void reduce_umin(u64* p, u64 v) { asm volatile("red.relaxed.gpu.global.min.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
