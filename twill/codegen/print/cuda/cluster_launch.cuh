// Cluster launch control: a CTA takes over the place in the grid of one that has not started.
// Comments cite the PTX ISA by the title of the section.
#pragma once

// "clusterlaunchcontrol.try_cancel": 16 bytes into answer, counted on bar, by the asynchronous proxy. No request behind an answer
// that there is none left.
DEV void try_cancel(u32 answer, u32 bar) {
  mbar_arrive_tx(bar, 16);
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
               :: "r"(answer), "r"(bar) : "memory");
}
// "clusterlaunchcontrol.query_cancel": the place that was taken over; 2^32 - 1 if none was. The answer may then be overwritten.
DEV u32 cancelled(u32 answer) {
  u32 place;
  asm volatile("{\n.reg .b64 low, high;\n.reg .b128 said;\n.reg .pred is;\n"
               "ld.shared.v2.b64 {low, high}, [%1];\nmov.b128 said, {low, high};\n"
               "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 is, said;\n"
               "mov.b32 %0, 0xFFFFFFFF;\n"
               "@is clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, said;\n}"
               : "=r"(place) : "r"(answer) : "memory");
  fence_proxy_async();
  return place;
}
