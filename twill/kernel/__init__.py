"""A Triton kernel and what it is specialized to: its file, its sidecar, its IR; no GPU."""
