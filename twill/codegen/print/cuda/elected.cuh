// Atomic operations whose old value or order counts, of the PTX ISA: "atom", "ld" and "st" at the scope of the GPU. A
// kernel's text has this file if it calls something in it.
#pragma once

#define TWILL_ATOM(ORDER, NAME, OP, TYPE, REG)                                                                          \
  DEV TYPE atom_##NAME##_##ORDER(TYPE* p, TYPE v) {                                                                     \
    TYPE old;                                                                                                           \
    asm volatile("atom." #ORDER ".gpu.global." OP " %0, [%1], %2;" : "=" REG(old) : "l"(p), REG(v) : "memory");         \
    return old;                                                                                                         \
  }
#define TWILL_COMPARE(ORDER, BITS, TYPE, REG)                                                                           \
  DEV TYPE atom_cas_##ORDER(TYPE* p, TYPE wanted, TYPE v) {                                                             \
    TYPE old;                                                                                                           \
    asm volatile("atom." #ORDER ".gpu.global.cas." BITS " %0, [%1], %2, %3;"                                            \
                 : "=" REG(old) : "l"(p), REG(wanted), REG(v) : "memory");                                              \
    return old;                                                                                                         \
  }
#define TWILL_ATOMS(ORDER)                                                                                              \
  TWILL_ATOM(ORDER, add, "add.u32", u32, "r") TWILL_ATOM(ORDER, add, "add.u64", u64, "l")                               \
  TWILL_ATOM(ORDER, add, "add.f32", float, "f") TWILL_ATOM(ORDER, add, "add.f64", double, "d")                          \
  TWILL_ATOM(ORDER, max, "max.s32", i32, "r") TWILL_ATOM(ORDER, max, "max.s64", i64, "l")                               \
  TWILL_ATOM(ORDER, min, "min.s32", i32, "r") TWILL_ATOM(ORDER, min, "min.s64", i64, "l")                               \
  TWILL_ATOM(ORDER, umax, "max.u32", u32, "r") TWILL_ATOM(ORDER, umax, "max.u64", u64, "l")                             \
  TWILL_ATOM(ORDER, umin, "min.u32", u32, "r") TWILL_ATOM(ORDER, umin, "min.u64", u64, "l")                             \
  TWILL_ATOM(ORDER, and, "and.b32", u32, "r") TWILL_ATOM(ORDER, and, "and.b64", u64, "l")                               \
  TWILL_ATOM(ORDER, or, "or.b32", u32, "r") TWILL_ATOM(ORDER, or, "or.b64", u64, "l")                                   \
  TWILL_ATOM(ORDER, xor, "xor.b32", u32, "r") TWILL_ATOM(ORDER, xor, "xor.b64", u64, "l")                               \
  TWILL_ATOM(ORDER, xchg, "exch.b32", u32, "r") TWILL_ATOM(ORDER, xchg, "exch.b64", u64, "l")                           \
  TWILL_COMPARE(ORDER, "b32", u32, "r") TWILL_COMPARE(ORDER, "b64", u64, "l")
TWILL_ATOMS(relaxed)
TWILL_ATOMS(acquire)
TWILL_ATOMS(release)
TWILL_ATOMS(acq_rel)
// "ld", "st", .relaxed: what the memory of the GPU has, not an L1 cache.
DEV u32 atom_load_relaxed(const u32* p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
DEV u64 atom_load_relaxed(const u64* p) { u64 v; asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory"); return v; }
DEV void atom_store_relaxed(u32* p, u32 v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
DEV void atom_store_relaxed(u64* p, u64 v) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory"); }
