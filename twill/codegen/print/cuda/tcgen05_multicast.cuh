// CTAs of a cluster that share loads, and use the tensor core each for itself.
// Comments cite the PTX ISA by the title of the section.
#pragma once

// "tcgen05.commit": one arrival on bar when this thread's earlier products are over, in each CTA of the cluster that is in the mask.
DEV void tensor_commit_multicast(u32 bar, u32 ctas) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               :: "r"(bar), "h"((u16)ctas) : "memory");
}
