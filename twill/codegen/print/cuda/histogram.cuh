// Counts in shared memory. A kernel's text has this file if it calls something in it.
#pragma once

// "red", .relaxed among the threads of a CTA: one more.
DEV void add_shared(u32 smem) { asm volatile("red.relaxed.cta.shared::cta.add.u32 [%0], 1;" :: "r"(smem) : "memory"); }
