// The SMs' clocks before and after a launch, by kernels in front of it and behind it in the same stream.

// One CTA on every SM (its shared memory leaves no room for two): readings[2 * SM] cycles, [2 * SM + 1] nanoseconds.
extern "C" __global__ void stamp(u64* readings, i32 sms) {
  u32 sm;
  u64 cycles, ns;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) :: "memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns) :: "memory");
  if (threadIdx.x == 0 && sm < (u32)sms) readings[2 * sm] = cycles, readings[2 * sm + 1] = ns;
}
// The SM that the last CTA of a launch of this shape is put on.
extern "C" __global__ void where(i32* sm) {
  u32 here;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *sm = (i32)here;
}
// Keeps the stream busy while the host queues what follows.
extern "C" __global__ void hold(i32 microseconds) {
  u64 begun, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun) :: "memory");
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
  while (now - begun < (u64)microseconds * 1000);
}
