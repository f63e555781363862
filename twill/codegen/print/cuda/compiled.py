"""What instructions that the printer writes are called in PTX, in machine code, and in what ptxas says of them."""

from __future__ import annotations

import re

ARCHITECTURE = "sm_90a"  # that the headers are written for
SERIALIZED = "wgmma.mma_async instructions are serialized"  # C7510 to C7516, C7518, C7519
INJECTED_WAIT = "wgmma.wait_group is injected"  # C7517
IGNORED_BUDGET = "'setmaxnreg' ignored"  # C7508 and relatives
REMARKS = re.compile(r"Potential Performance Loss|wgmma|setmaxnreg", re.IGNORECASE)
MMA = re.compile(r"wgmma\.mma_async\b")
BUDGET = re.compile(r"setmaxnreg\b")
PTX_SHAPE = re.compile(r"wgmma\.mma_async\.[\w.]*?(m\d+n\d+k\d+)\b")
SASS_SHAPE = re.compile(r"(?:H|Q|I|B)GMMA\.(?:SP\.)?(\d+)x(\d+)x(\d+)\b")
